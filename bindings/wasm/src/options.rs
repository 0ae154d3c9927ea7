//! The options of a client in the form of JavaScript, which has checked their types.
//!
//! Each option is read by its name. The core's table of options (`Options::set`) does the same for all options at once,
//! but costs a browser three kilobytes more.

use js_sys::Array;
use steadlock::host::{Level, OnUnavailable, Options};
use wasm_bindgen::JsValue;

use crate::object::field;

/// Returns the options of `open`. An option that is not given has the core's default. An option that is missing in this
/// function is ignored.
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
        retry_interval_ms: range(&field(given, "retryIntervalMs")),
        key_prefix: text("keyPrefix"),
        lazy: flag("lazy"),
        on_unavailable: policy(text("onUnavailable")),
        breaker_failures: number("breakerFailures"),
        breaker_pause_ms: number("breakerPauseMs"),
        client_info: flag("clientInfo"),
        client_label: text("clientLabel"),
        program: text("program"),
        language: text("language"),
        // A listener can be added at any time.
        log: Some(Level::Info),
        metrics: flag("metrics"),
        metrics_groups: number("metricsGroups"),
        metrics_queues: texts(&field(given, "metricsQueues")),
        ..Options::default()
    }
}

/// Returns the policy for a word of the vocabulary.
pub(crate) fn policy(word: Option<String>) -> Option<OnUnavailable> {
    OnUnavailable::parse(&word?)
}

fn range(value: &JsValue) -> Option<(f64, f64)> {
    let bounds = array(value)?;
    Some((bounds.get(0).as_f64()?, bounds.get(1).as_f64()?))
}

fn texts(value: &JsValue) -> Option<Vec<String>> {
    Some(array(value)?.iter().filter_map(|item| item.as_string()).collect())
}

fn array(value: &JsValue) -> Option<Array> {
    Array::is_array(value).then(|| Array::from(value))
}
