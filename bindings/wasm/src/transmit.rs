//! What is to be sent, and what was seen, as JavaScript has them. Keys, arguments, channels and messages are UTF-8.

use js_sys::{Array, Uint8Array};
use steadlock::host::{Call, CallError, Reply, SHARDED, Script, Transmit, shown_words};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use crate::object::object;

/// Something to send: `NativeTransmit` of `packages/web`.
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

/// The texts of all scripts, by the numbers that calls name, and their SHA-1.
#[wasm_bindgen]
pub fn scripts() -> Array {
    let both = |script: &Script| object(&[("text", script.text().into()), ("sha1", script.sha1().into())]);
    Script::ALL.iter().map(both).collect()
}

/// A server's answer; `None` for what no server says.
pub(crate) fn reply(value: &JsValue) -> Option<Reply> {
    within(value, DEEPEST)
}

/// No script's answer is a list in so many lists, but one that is part of itself is.
const DEEPEST: u32 = 32;

#[inline(never)]
fn within(value: &JsValue, depth: u32) -> Option<Reply> {
    if value.is_null() || value.is_undefined() {
        return Some(Reply::Nil);
    }
    if let Some(text) = value.as_string() {
        return Some(Reply::Bytes(text.into_bytes()));
    }
    if let Some(number) = value.as_f64() {
        let is_whole = number.fract() == 0.0 && number.abs() <= MOST;
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
            .map(|item| within(&item, depth))
            .collect::<Option<_>>();
        return items.map(Reply::Array);
    }
    None
}

/// The largest number that JavaScript counts to one by one.
const MOST: f64 = 9_007_199_254_740_991.0;

/// Why a call has no reply: a server's own words, or what became of the call.
pub(crate) fn call_error(is_servers: bool, text: &str) -> CallError {
    if !is_servers {
        return CallError::Disconnected(shown_words(text.as_bytes()).into());
    }
    let (code, message) = text.split_once(' ').unwrap_or((text, ""));
    CallError::server(code, message)
}

fn text(bytes: &[u8]) -> JsValue {
    String::from_utf8_lossy(bytes).as_ref().into()
}
