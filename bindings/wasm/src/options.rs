//! The options of a client, as JavaScript gives them. JavaScript has checked their types.

use js_sys::Array;
use steadlock::host::{Level, OnUnavailable, OptionSource, Options};
use steadlock_javascript::camel_case;
use wasm_bindgen::JsValue;

use crate::object::field;

/// Returns the options of `open`. An option that is not given has the core's default.
#[inline(never)]
pub(crate) fn options(given: &JsValue) -> Options {
    Options {
        // A listener can be added at any time.
        log: Some(Level::Info),
        ..Options::read(&Given(given))
    }
}

/// An object with options, by their names in JavaScript.
struct Given<'a>(&'a JsValue);

impl Given<'_> {
    #[inline(never)]
    fn value(&self, name: &str) -> JsValue {
        field(self.0, &camel_case(name))
    }
}

impl OptionSource for Given<'_> {
    #[inline(never)]
    fn flag(&self, name: &str) -> Option<bool> {
        self.value(name).as_bool()
    }

    #[inline(never)]
    fn number(&self, name: &str) -> Option<f64> {
        self.value(name).as_f64()
    }

    #[inline(never)]
    fn text(&self, name: &str) -> Option<String> {
        self.value(name).as_string()
    }

    #[inline(never)]
    fn texts(&self, name: &str) -> Option<Vec<String>> {
        Some(
            array(&self.value(name))?
                .iter()
                .filter_map(|item| item.as_string())
                .collect(),
        )
    }

    #[inline(never)]
    fn range(&self, name: &str) -> Option<(f64, f64)> {
        let bounds = array(&self.value(name))?;
        Some((bounds.get(0).as_f64()?, bounds.get(1).as_f64()?))
    }
}

/// Returns the policy for a word of the vocabulary.
pub(crate) fn policy(word: Option<String>) -> Option<OnUnavailable> {
    OnUnavailable::parse(&word?)
}

fn array(value: &JsValue) -> Option<Array> {
    Array::is_array(value).then(|| Array::from(value))
}
