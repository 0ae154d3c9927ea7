//! What is said about arguments that are not understood. They may hold a password,
//! in the wrong place or with a slip of the keyboard, so none is repeated.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The same error without what the user wrote.
pub(crate) fn discreet(mut error: Error) -> Error {
    let hidden = || ContextValue::String("(not shown)".into());
    if error.get(ContextKind::InvalidValue).is_some() {
        error.insert(ContextKind::InvalidValue, hidden());
    }
    if error.get(ContextKind::InvalidSubcommand).is_some() {
        error.insert(ContextKind::InvalidSubcommand, hidden());
    }
    // Of arguments that are known this is the name.
    if error.kind() == ErrorKind::UnknownArgument {
        let named = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(written)) => option_name(written).map(|name| ContextValue::String(name.into())),
            _ => None,
        };
        error.insert(ContextKind::InvalidArg, named.unwrap_or_else(hidden));
    }
    // How to pass what was written as a value, with what was written.
    error.remove(ContextKind::Suggested);
    error
}

/// The `--option` of `--option=value`, if that is what it is.
fn option_name(written: &str) -> Option<&str> {
    let name = written.split('=').next().unwrap_or_default();
    let is_word = name
        .strip_prefix("--")?
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || letter == '-');
    is_word.then_some(name)
}
