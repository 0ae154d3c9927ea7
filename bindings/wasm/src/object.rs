//! Plain JavaScript objects. `inline(never)` on these functions and their callers makes the module smaller.

use js_sys::{Object, Reflect};
use wasm_bindgen::JsValue;

/// Makes an object of these fields. Fields that are `undefined` are left out.
#[inline(never)]
pub(crate) fn object(fields: &[(&str, JsValue)]) -> JsValue {
    let object = Object::new();
    for (name, value) in fields {
        if !value.is_undefined() {
            // Never fails on a new object.
            let _ = Reflect::set(&object, &(*name).into(), value);
        }
    }
    object.into()
}

/// Returns a field of an object; `undefined` if the object does not have it.
#[inline(never)]
pub(crate) fn field(object: &JsValue, name: &str) -> JsValue {
    Reflect::get(object, &name.into()).unwrap_or(JsValue::UNDEFINED)
}

/// Returns a text, or `undefined`.
pub(crate) fn text(value: Option<&str>) -> JsValue {
    value.map_or(JsValue::UNDEFINED, JsValue::from)
}
