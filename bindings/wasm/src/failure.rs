//! The core's error, and a lock's holder, as plain data; JavaScript makes the class of an error's kind from it.

use steadlock::host::{ClientInfo, Error, Holder, Operation};
use steadlock_javascript::spelled;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::object::{object, text};

/// One error: `NativeFailure` of `packages/javascript`.
#[inline(never)]
pub(crate) fn failure(error: &Error) -> JsValue {
    object(&[
        ("kind", error.kind().name().into()),
        ("message", spelled(&error.to_string()).as_ref().into()),
        ("cause", text(error.cause().map(spelled).as_deref())),
        ("operation", error.operation().to_string().into()),
        ("lockName", text(error.lock_name())),
        ("holder", error.holder().map_or(JsValue::UNDEFINED, holder)),
        ("reason", text(error.reason().map(|reason| reason.as_str()))),
        ("node", text(error.node())),
        ("retryable", error.is_retryable().into()),
        ("skipped", error.is_skipped().into()),
    ])
}

/// Who holds a lock: `NativeHolder`.
#[inline(never)]
pub(crate) fn holder(holder: &Holder) -> JsValue {
    let remaining = holder.remaining.map(|remaining| remaining.as_micros() as f64 / 1e3);
    object(&[
        ("owner", holder.owner.as_str().into()),
        ("remainingMs", remaining.map_or(JsValue::UNDEFINED, JsValue::from)),
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

/// The error for a caller whose lease was lost for this reason, and perhaps forgotten: at its release, or before that.
#[wasm_bindgen(js_name = lostError)]
pub fn lost_error(name: &str, reason: &str, is_forgotten: bool, at_release: bool) -> JsValue {
    let operation = if at_release {
        Operation::Release
    } else {
        Operation::Hold
    };
    failure(&steadlock::host::lost_error(name, reason, is_forgotten, operation))
}

/// A lock's name as messages show it.
#[wasm_bindgen]
pub fn shown(name: &str) -> String {
    steadlock::host::shown(name).into_owned()
}
