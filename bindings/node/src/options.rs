//! The options of a client, as JavaScript gives them. JavaScript has checked their types.

use napi::bindgen_prelude::Object;
use napi::{Error, Status};
use steadlock::host::{Level, OnUnavailable, OptionKind, OptionValue, Options};
use steadlock_javascript::camel_case;

/// Reads the options of `open`. An option that is left out has the core's default.
pub(crate) fn options(native: &Object<'_>) -> napi::Result<Options> {
    let mut options = Options {
        // A listener can be added at any time.
        log: Some(Level::Info),
        ..Options::default()
    };
    for name in Object::keys(native)? {
        let known = Options::ALL.iter().find(|(core, _)| camel_case(core) == name);
        let (core, kind) = *known.ok_or_else(|| unexpected(&name))?;
        let value = value(native, &name, kind)?.ok_or_else(|| unexpected(&name))?;
        options.set(core, value).map_err(|_| unexpected(&name))?;
    }
    Ok(options)
}

fn value(native: &Object<'_>, name: &str, kind: OptionKind) -> napi::Result<Option<OptionValue>> {
    Ok(match kind {
        OptionKind::Flag => native.get(name)?.map(OptionValue::Flag),
        OptionKind::Number => native.get(name)?.map(OptionValue::Number),
        OptionKind::Text | OptionKind::OnUnavailable => native.get(name)?.map(OptionValue::Text),
        OptionKind::Texts => native.get(name)?.map(OptionValue::Texts),
        OptionKind::Range => match native.get::<Vec<f64>>(name)?.as_deref() {
            Some([low, high]) => Some(OptionValue::Range(*low, *high)),
            _ => None,
        },
        OptionKind::Table => native.get(name)?.map(OptionValue::Table),
    })
}

fn unexpected(name: &str) -> Error {
    Error::new(
        Status::InvalidArg,
        format!("the option {name} is none of the vocabulary's"),
    )
}

/// Returns the policy for outages that a word names. JavaScript has checked the word against the vocabulary, and
/// reports a wrong word to its caller.
pub(crate) fn on_unavailable(word: Option<String>) -> napi::Result<Option<OnUnavailable>> {
    let parse = |word: String| {
        let unknown = || Error::new(Status::InvalidArg, "onUnavailable is no word of the vocabulary");
        OnUnavailable::parse(&word).ok_or_else(unknown)
    };
    word.map(parse).transpose()
}
