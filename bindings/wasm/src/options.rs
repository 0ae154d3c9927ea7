//! The options of a client in the form of JavaScript, which has checked their types.

use js_sys::Array;
use steadlock::host::{Level, OnUnavailable, Options};
use wasm_bindgen::JsValue;

use crate::object::field;

/// Returns the options that `open` got. An option that is left out has the core's default.
#[inline(never)]
pub(crate) fn options(given: &JsValue) -> Options {
    let text = |name| field(given, name).as_string();
    let number = |name| field(given, name).as_f64();
    let flag = |name| field(given, name).as_bool();
    Options {
        url: text("url"),
        primaries: texts(&field(given, "primaries")),
        lease_ms: number("leaseMs"),
        renew: flag("renew"),
        command_timeout_ms: number("commandTimeoutMs"),
        connect_timeout_ms: number("connectTimeoutMs"),
        retry_interval_ms: number("retryIntervalMinMs").zip(number("retryIntervalMaxMs")),
        key_prefix: text("keyPrefix"),
        lazy: flag("lazy").unwrap_or(false),
        on_unavailable: policy(text("onUnavailable")),
        breaker_failures: number("breakerFailures").map(|failures| failures as u32),
        breaker_pause_ms: number("breakerPauseMs"),
        client_info: flag("clientInfo"),
        client_label: text("clientLabel"),
        program: text("program"),
        language: text("language"),
        // The program can add a listener at any time.
        log: Some(Level::Info),
        metrics: flag("metrics").unwrap_or(false),
        metrics_groups: number("metricsGroups"),
        metrics_queues: texts(&field(given, "metricsQueues")),
        ..Options::default()
    }
}

/// Returns the policy of a word of the vocabulary.
pub(crate) fn policy(word: Option<String>) -> Option<OnUnavailable> {
    OnUnavailable::parse(&word?)
}

fn texts(value: &JsValue) -> Option<Vec<String>> {
    let list = Array::is_array(value).then(|| Array::from(value))?;
    Some(list.iter().filter_map(|item| item.as_string()).collect())
}
