//! The words and numbers that rows are made of, as JavaScript gets them.

use js_sys::Array;
use steadlock_javascript::{WIDTH, Words};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::object::object;

/// The words and numbers that rows are made of, told to JavaScript once.
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
