//! The vocabulary of the rows in the form for JavaScript.

use js_sys::Array;
use steadlock_javascript::{WIDTH, Words};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::object::object;

/// Returns the words of which rows are made, and the width of a row. JavaScript reads them once.
#[wasm_bindgen]
pub fn vocabulary() -> JsValue {
    let words = Words::all();
    object(&[
        ("width", (WIDTH as u32).into()),
        ("codes", list(&words.codes)),
        ("outcomes", list(&words.outcomes)),
        ("reasons", list(&words.reasons)),
        ("kinds", list(&words.kinds)),
        ("lockKinds", list(&words.lock_kinds)),
        ("policies", list(&words.policies)),
        ("optionNames", list(&words.option_names)),
        ("optionKinds", list(&words.option_kinds)),
    ])
}

fn list(words: &[impl AsRef<str>]) -> JsValue {
    words
        .iter()
        .map(|word| JsValue::from(word.as_ref()))
        .collect::<Array>()
        .into()
}
