//! The replies of servers, and their meanings.

use crate::error::Cause;
use crate::foreign::{around, around_last, shown_words};

/// A reply, as the transport has parsed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<Self>),
}

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The server answered with an error.
    Server {
        /// The first word of the error, such as `WRONGTYPE` or `OOM`.
        code: String,
        /// The rest of the error.
        message: String,
    },
    /// The connection closed, or the call could not be sent, for this cause.
    Disconnected(Cause),
}

impl CallError {
    /// Makes a server's error from its first word and the rest. The result is the same for all versions of the server.
    ///
    /// If a script ends with an error, Redis 6.2 puts `ERR` and positions in the script before the error, so that the
    /// first word says nothing. Later versions put a position at the end. The code does not show whether there is a
    /// position; only the text does.
    ///
    /// Scripts can quote values that other programs wrote, so the text is also made safe to read.
    #[must_use]
    pub fn server(code: &str, message: &str) -> Self {
        let (code, message) = (shown_words(code.as_bytes()), shown_words(message.as_bytes()));
        let (code, message) = (code.as_str(), message.trim_end());
        let bare = match message.strip_prefix("Error running script (call to ") {
            Some(rest) if code == "ERR" => around(rest, "): ").map_or(rest, |(_, cause)| cause).to_owned(),
            // Redis 6.2, if the script caught the error and returned it.
            _ if code == SCRIPT => format!("{code} {message}"),
            _ => {
                return Self::Server {
                    code: code.into(),
                    message: without_position_at_end(message).into(),
                };
            }
        };
        let cause = without_positions(&bare);
        let (code, message) = match cause.split_once(' ') {
            Some((word, rest)) if is_code(word) => (word, rest),
            _ if is_code(cause) => (cause, ""),
            _ => ("ERR", cause),
        };
        Self::Server {
            code: code.into(),
            message: message.into(),
        }
    }
}

impl CallError {
    /// Whether the server says that the key of a record contains something other than a record of this kind.
    pub(crate) fn is_of_no_lock(&self) -> bool {
        matches!(self, Self::Server { code, .. } if matches!(code.as_str(), "WRONGTYPE" | "STEADLOCK_FORM" | "STEADLOCK_KIND"))
    }
}

/// The name that a server gives to a script, before the line number.
const SCRIPT: &str = "@user_script:";

/// Removes positions from the start: `@user_script:31: @user_script: 31: -OOM command …` becomes `OOM command …`.
fn without_positions(mut text: &str) -> &str {
    while let Some(rest) = text.strip_prefix(SCRIPT) {
        let line_gone = rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        text = line_gone.trim_start_matches(':').trim_start();
    }
    text.strip_prefix('-').unwrap_or(text)
}

/// Removes a position from the end: `command … script: 0843…, on @user_script:31.` becomes `command …`. Valkey 9 leaves
/// out the hash.
fn without_position_at_end(text: &str) -> &str {
    match around_last(text, " script: ") {
        Some((cause, position)) if around(position, SCRIPT).is_some() => cause,
        _ => text,
    }
}

/// Whether a word can be the code of an error.
fn is_code(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// The meaning of a server's error for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The server refused the call for good, before it wrote anything.
    BeforeWrite,
    /// The server cannot serve for now; another attempt may succeed.
    Temporary,
    /// Another attempt does not help, and something may have been written.
    Permanent,
}

impl Refusal {
    /// Classifies an error by its first word.
    pub(crate) fn of(code: &str) -> Self {
        match code {
            "WRONGTYPE" | "STEADLOCK_FORM" | "STEADLOCK_KIND" | "STEADLOCK_TOKEN" | "STEADLOCK_ARGUMENT"
            | "STEADLOCK_LIMIT" | "NOAUTH" | "WRONGPASS" => Self::BeforeWrite,
            "LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN" | "NOREPLICAS" | "READONLY" | "MISCONF"
            | "OOM" | "NOSCRIPT" | "UNBLOCKED" | "MOVED" | "ASK" => Self::Temporary,
            _ => Self::Permanent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0843d8b51cb50b23a4baccba0536966115c80dfd";

    fn parsed(code: &str, message: &str) -> (String, String) {
        match CallError::server(code, &message.replace("HASH", HASH)) {
            CallError::Server { code, message } => (code, message),
            other @ CallError::Disconnected(_) => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_error_is_the_same_from_every_version() {
        let full = "command not allowed when used memory > 'maxmemory'.";
        let wrong = "Operation against a key holding the wrong kind of value";
        let replica = "You can't write against a read only replica.";
        for (code, message, expected) in [
            // Redis 6.2: from `redis.call`, and from a `redis.pcall` whose error the script returns.
            (
                "ERR",
                &*format!("Error running script (call to f_HASH): @user_script:2: @user_script: 2: -OOM {full} "),
                ("OOM", full),
            ),
            (
                "ERR",
                &*format!("Error running script (call to f_HASH): @user_script:2: WRONGTYPE {wrong}"),
                ("WRONGTYPE", wrong),
            ),
            (SCRIPT, &*format!("12: -READONLY {replica}"), ("READONLY", replica)),
            // Redis 7.0 and 8.2, and Valkey 9.1.
            (
                "OOM",
                &*format!("{full} script: HASH, on @user_script:2."),
                ("OOM", full),
            ),
            (
                "WRONGTYPE",
                &*format!("{wrong} script: on @user_script:2."),
                ("WRONGTYPE", wrong),
            ),
            // This error has nothing to do with a script.
            ("READONLY", replica, ("READONLY", replica)),
        ] {
            let (code_read, message_read) = parsed(code, message);
            assert_eq!((&*code_read, &*message_read), expected, "{code} {message}");
        }
    }

    #[test]
    fn an_error_without_a_code_gets_the_code_err() {
        for (code, message, expected) in [
            (
                "ERR",
                "Error running script (call to f_HASH): @user_script:1: user_script:1: attempt to call a nil value",
                "user_script:1: attempt to call a nil value",
            ),
            (
                "ERR",
                "user_script:1: oh script: HASH, on @user_script:1.",
                "user_script:1: oh",
            ),
            ("ERR", "Error running script (call to", "Error running script (call to"),
            ("ERR", "Error running script (call to ", "Error running script (call to"),
            ("ERR", "it said: script: none", "it said: script: none"),
            ("ERR", "", ""),
            (SCRIPT, "", ""),
        ] {
            assert_eq!(parsed(code, message), ("ERR".into(), expected.into()), "{message:?}");
        }
    }

    #[test]
    fn the_codes_of_steadlock_are_codes() {
        let token = "the stored fencing token is not a decimal below 2^53";
        assert_eq!(
            parsed("STEADLOCK_TOKEN", token),
            ("STEADLOCK_TOKEN".into(), token.into())
        );
    }
}
