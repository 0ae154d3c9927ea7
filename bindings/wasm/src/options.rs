//! The options of a client in the form of JavaScript, which has checked their types.

use std::collections::HashMap;

use js_sys::{Array, Object};
use steadlock::host::{Error, Level, OnUnavailable, OptionKind, OptionValue, Options};
use steadlock_javascript::option;
use wasm_bindgen::{JsCast, JsValue};

use crate::object::field;

/// The options that `open` was given; what is left out has the core's default.
pub(crate) fn options(given: &JsValue) -> Result<Options, Error> {
    let mut options = Options {
        // A listener may come at any time.
        log: Some(Level::Info),
        ..Options::default()
    };
    for name in names(given) {
        let Some((core, kind)) = option(&name) else { continue };
        if let Some(value) = value(&field(given, &name), kind) {
            options.set(core, value)?;
        }
    }
    Ok(options)
}

#[inline(never)]
fn value(given: &JsValue, kind: OptionKind) -> Option<OptionValue> {
    Some(match kind {
        OptionKind::Flag => OptionValue::Flag(given.as_bool()?),
        OptionKind::Number => OptionValue::Number(given.as_f64()?),
        OptionKind::Text | OptionKind::OnUnavailable => OptionValue::Text(given.as_string()?),
        OptionKind::Texts => OptionValue::Texts(array(given)?.iter().filter_map(|item| item.as_string()).collect()),
        OptionKind::Range => {
            let bounds = array(given)?;
            OptionValue::Range(bounds.get(0).as_f64()?, bounds.get(1).as_f64()?)
        }
        OptionKind::Table => {
            let text = |name: String| Some((field(given, &name).as_string()?, name));
            let pairs = names(given).filter_map(text).map(|(value, name)| (name, value));
            OptionValue::Table(pairs.collect::<HashMap<_, _>>())
        }
    })
}

/// Returns the policy of a word of the vocabulary.
pub(crate) fn policy(word: Option<String>) -> Option<OnUnavailable> {
    OnUnavailable::parse(&word?)
}

fn names(object: &JsValue) -> impl Iterator<Item = String> {
    let names = object.dyn_ref::<Object>().map(Object::keys).unwrap_or_default();
    names.into_iter().filter_map(|name| name.as_string())
}

fn array(value: &JsValue) -> Option<Array> {
    Array::is_array(value).then(|| Array::from(value))
}
