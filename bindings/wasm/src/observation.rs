//! Observed events in the form for JavaScript.

use js_sys::{Object, Reflect};
use steadlock::host::{Field, Line};
use steadlock_javascript::spelled;
use wasm_bindgen::JsValue;

use crate::object::object;

/// Returns an event for the program's listeners: one sentence, and its facts as named fields.
#[inline(never)]
pub(crate) fn observation(line: &Line) -> JsValue {
    let fields = Object::new();
    for (name, field) in line.fields() {
        let value = match field {
            Field::Text(text) => JsValue::from(text),
            Field::Number(number) => JsValue::from(number as f64),
        };
        // Never fails on a new object.
        let _ = Reflect::set(&fields, &name.into(), &value);
    }
    object(&[
        ("level", line.level().as_str().into()),
        ("message", spelled(&line.to_string()).as_ref().into()),
        ("fields", fields.into()),
    ])
}
