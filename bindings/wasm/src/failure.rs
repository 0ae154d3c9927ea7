//! Errors and holders as plain data. JavaScript makes an error object of the kind's class from an error.

use std::time::Duration;

use steadlock::host::{ClientInfo, Error, Holder, Operation};
use steadlock_javascript::{reason_of, spelled};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::object::{object, text};

/// Returns an error as a `NativeFailure` of `packages/web/src/binding.ts`.
#[inline(never)]
pub(crate) fn failure(error: &Error) -> JsValue {
    object(&[
        ("kind", error.kind().name().into()),
        ("message", spelled(&error.to_string()).as_ref().into()),
        ("cause", text(error.cause().map(spelled).as_deref())),
        ("operation", error.operation().to_string().into()),
        ("lockName", text(error.lock_name())),
        ("holder", error.holder().map_or(JsValue::UNDEFINED, holder)),
        ("reason", text(reason_of(error))),
        (
            "sinceMs",
            number(error.skip().and_then(|skip| skip.since).map(|since| since as f64)),
        ),
        (
            "tookMs",
            number(error.skip().and_then(|skip| skip.took).map(milliseconds)),
        ),
        ("node", text(error.node())),
        ("retryable", error.is_retryable().into()),
        ("skipped", error.is_skipped().into()),
    ])
}

/// Returns the holder of a lock as a `NativeHolder`.
#[inline(never)]
pub(crate) fn holder(holder: &Holder) -> JsValue {
    object(&[
        ("owner", holder.owner.as_str().into()),
        ("remainingMs", number(holder.remaining.map(milliseconds))),
        ("client", holder.client.as_deref().map_or(JsValue::UNDEFINED, client)),
    ])
}

fn client(info: &ClientInfo) -> JsValue {
    object(&[
        ("host", info.host.as_str().into()),
        ("pid", info.pid.into()),
        ("program", info.program.as_str().into()),
        ("language", info.language.as_str().into()),
        ("version", info.version.as_str().into()),
        ("since", (info.since as f64).into()),
        ("label", info.label.as_str().into()),
    ])
}

fn number(number: Option<f64>) -> JsValue {
    number.map_or(JsValue::UNDEFINED, JsValue::from)
}

/// Returns a duration in milliseconds, with microseconds as the fraction.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

/// Returns the error for a caller whose lease was lost for `reason`. `is_forgotten` means that the lease needs no
/// release. `at_release` means that the caller is releasing the lease.
#[wasm_bindgen(js_name = lostError)]
pub fn lost_error(name: &str, reason: &str, is_forgotten: bool, at_release: bool) -> JsValue {
    let operation = if at_release {
        Operation::Release
    } else {
        Operation::Hold
    };
    failure(&steadlock::host::lost_error(name, reason, is_forgotten, operation))
}

/// Returns a lock's name as messages show it, without the userinfo of a URL.
#[wasm_bindgen]
pub fn shown(name: &str) -> String {
    steadlock::host::shown(name).into_owned()
}
