//! Errors on their way through Lua: refused commands, and errors of library functions.

use mlua::{Lua, Value};

use super::budget::BudgetExceeded;
use crate::reply::StoreError;

/// The name of scripts in error messages.
pub(super) const CHUNK_NAME: &str = "@user_script";

/// Returns the error for a client if a script failed in a way that the sandbox did not handle.
pub(super) fn client_error(sha1: &str, error: &mlua::Error) -> StoreError {
    if error.downcast_ref::<BudgetExceeded>().is_some() {
        return StoreError::too_slow();
    }
    if let Some(CommandError(error)) = error.downcast_ref() {
        return error.clone();
    }
    match error {
        mlua::Error::MemoryError(_) => StoreError::err("not enough memory"),
        other => StoreError::err(format!("Error running script {sha1}: {other}")),
    }
}

/// Returns the form in which a script sees an error: the text, and whether the script gets a table with the text.
pub(super) fn visible_form(error: &Value) -> (String, bool) {
    let Value::Error(error) = error else {
        return (error.type_name().to_owned(), false);
    };
    match error.downcast_ref::<CommandError>() {
        Some(error) => (error.to_string(), true),
        None if error.downcast_ref::<BudgetExceeded>().is_some() => (StoreError::too_slow().to_string(), true),
        None if matches!(**error, mlua::Error::MemoryError(_)) => ("not enough memory".into(), false),
        None => match error.downcast_ref::<ScriptError>() {
            Some(error) => (error.to_string(), false),
            None => (error.to_string().lines().next().unwrap_or_default().to_owned(), false),
        },
    }
}

/// Wraps a refusal in an error that a script can catch.
pub(super) fn raise(error: StoreError) -> mlua::Error {
    mlua::Error::external(CommandError(error))
}

/// A refusal on its way through Lua.
#[derive(Debug)]
struct CommandError(StoreError);

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CommandError {}

/// An error like those of Lua's own functions: with the line of the script.
#[derive(Debug)]
pub(super) struct ScriptError(String);

impl ScriptError {
    pub(super) fn here(lua: &Lua, what: &str) -> mlua::Error {
        let position = script_line(lua).map_or_else(String::new, |line| format!("user_script:{line}: "));
        mlua::Error::external(Self(format!("{position}{what}")))
    }
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

/// Returns the script's current line: that of its innermost function on the stack.
pub(super) fn script_line(lua: &Lua) -> Option<usize> {
    for level in 0..MAX_FRAMES {
        let line = lua.inspect_stack(level, |frame| {
            (frame.source().source.as_deref() == Some(CHUNK_NAME))
                .then(|| frame.current_line())
                .flatten()
        })?;
        if line.is_some() {
            return line;
        }
    }
    None
}

/// The number of stack frames that are searched for a function of the script.
const MAX_FRAMES: usize = 50;
