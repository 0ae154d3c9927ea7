//! The items to send and the replies of servers, in the form of JavaScript. Keys, arguments, channels and messages are
//! UTF-8.

use js_sys::{Array, Uint8Array};
use steadlock::host::{Call, CallError, Reply, SHARDED, Script, Transmit, shown_words};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use crate::object::object;

/// Returns an item to send, as a `Transmit` of `packages/web/src/servers.ts`.
#[inline(never)]
pub(crate) fn transmit(item: &Transmit, sharded: &[u16]) -> JsValue {
    match item {
        Transmit::Call(call) => self::call(call, sharded.contains(&call.node.0)),
        Transmit::Subscribe { node, channel } => object(&[
            ("what", "subscribe".into()),
            ("node", node.0.into()),
            ("channel", text(channel)),
        ]),
        Transmit::Unsubscribe { node, channel } => object(&[
            ("what", "unsubscribe".into()),
            ("node", node.0.into()),
            ("channel", text(channel)),
        ]),
    }
}

fn call(call: &Call, is_sharded: bool) -> JsValue {
    let args: Array = call.args.iter().map(|argument| text(argument)).collect();
    if is_sharded && call.script.publishes() {
        args.push(&text(SHARDED));
    }
    let script = Script::ALL.iter().position(|script| *script == call.script);
    object(&[
        ("what", "call".into()),
        ("node", call.node.0.into()),
        ("id", (call.id.get() as f64).into()),
        ("script", (script.unwrap_or_default() as u32).into()),
        ("keys", call.keys.iter().map(|key| text(key)).collect::<Array>().into()),
        ("args", args.into()),
    ])
}

/// Returns the texts of all scripts and their SHA-1. The position is the number that a call names.
#[wasm_bindgen]
pub fn scripts() -> Array {
    let row = |script: &Script| object(&[("text", script.text().into()), ("sha1", script.sha1().into())]);
    Script::ALL.iter().map(row).collect()
}

/// Converts a reply of a server; `None` if it has a form that no server sends.
pub(crate) fn reply(value: &JsValue) -> Option<Reply> {
    reply_within(value, MAX_DEPTH)
}

/// The deepest nesting of lists in a reply. Replies of scripts are much flatter; the limit ends the walk over an array
/// that contains itself.
const MAX_DEPTH: u32 = 32;

#[inline(never)]
fn reply_within(value: &JsValue, depth: u32) -> Option<Reply> {
    if value.is_null() || value.is_undefined() {
        return Some(Reply::Nil);
    }
    if let Some(text) = value.as_string() {
        return Some(Reply::Bytes(text.into_bytes()));
    }
    if let Some(number) = value.as_f64() {
        let is_whole = number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER;
        return is_whole.then_some(Reply::Int(number as i64));
    }
    if let Some(bytes) = value.dyn_ref::<Uint8Array>() {
        return Some(Reply::Bytes(bytes.to_vec()));
    }
    if value.is_bigint() {
        return i64::try_from(value.clone()).ok().map(Reply::Int);
    }
    if Array::is_array(value) {
        let depth = depth.checked_sub(1)?;
        let items = Array::from(value)
            .iter()
            .map(|item| reply_within(&item, depth))
            .collect::<Option<_>>();
        return items.map(Reply::Array);
    }
    None
}

/// The largest integer that JavaScript's numbers represent exactly together with all smaller ones: 2^53 − 1.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Returns the error for a call whose outcome is not known, for this reason.
pub(crate) fn unknown_outcome(reason: &str) -> CallError {
    CallError::Disconnected(shown_words(reason.as_bytes()).into())
}

/// Returns the error for a call that the server refused with this text.
pub(crate) fn refusal(text: &str) -> CallError {
    let (code, message) = text.split_once(' ').unwrap_or((text, ""));
    CallError::server(code, message)
}

fn text(bytes: &[u8]) -> JsValue {
    String::from_utf8_lossy(bytes).as_ref().into()
}
