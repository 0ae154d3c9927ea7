//! Plain objects of JavaScript. Nothing here and of what calls it is inlined: once for all is smaller.

use js_sys::{Object, Reflect};
use wasm_bindgen::JsValue;

/// An object of these fields; those that are `undefined` are left out.
#[inline(never)]
pub(crate) fn object(fields: &[(&str, JsValue)]) -> JsValue {
    let object = Object::new();
    for (name, value) in fields {
        if !value.is_undefined() {
            // Never fails on a fresh object.
            let _ = Reflect::set(&object, &(*name).into(), value);
        }
    }
    object.into()
}

/// A field of an object; `undefined` if it has none.
#[inline(never)]
pub(crate) fn field(object: &JsValue, name: &str) -> JsValue {
    Reflect::get(object, &name.into()).unwrap_or(JsValue::UNDEFINED)
}

/// A text, or nothing.
pub(crate) fn text(value: Option<&str>) -> JsValue {
    value.map_or(JsValue::UNDEFINED, JsValue::from)
}
