//! Errors about arguments that cannot be parsed. No message repeats such an argument, because it can contain a password
//! that was put in the wrong place.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Removes the user's input from an error, except the name of an option.
pub(crate) fn without_user_input(mut error: Error) -> Error {
    let hidden = || ContextValue::String("(not shown)".into());
    if error.get(ContextKind::InvalidValue).is_some() {
        error.insert(ContextKind::InvalidValue, hidden());
    }
    if error.get(ContextKind::InvalidSubcommand).is_some() {
        error.insert(ContextKind::InvalidSubcommand, hidden());
    }
    // In other errors `InvalidArg` is the name of an option, not the user's input.
    if error.kind() == ErrorKind::UnknownArgument {
        let named = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(written)) => option_name(written).map(|name| ContextValue::String(name.into())),
            _ => None,
        };
        error.insert(ContextKind::InvalidArg, named.unwrap_or_else(hidden));
    }
    // The suggestion of how to pass a value would repeat the input.
    error.remove(ContextKind::Suggested);
    error
}

/// Returns the `--option` of `--option` or `--option=value`; `None` for any other text.
fn option_name(written: &str) -> Option<&str> {
    let name = written.split('=').next().unwrap_or_default();
    let is_word = name
        .strip_prefix("--")?
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || letter == '-');
    is_word.then_some(name)
}
