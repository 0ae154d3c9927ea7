//! What a server answers, and what it means.

use crate::error::Cause;
use crate::foreign::{around, around_last, shown_words};

/// A reply as the transport read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<Self>),
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The server answered with an error.
    Server {
        /// The first word, such as `WRONGTYPE` or `OOM`.
        code: String,
        /// The rest.
        message: String,
    },
    /// The connection closed, or the call could not be sent; the cause in words.
    Disconnected(Cause),
}

impl CallError {
    /// A server's error, from its first word and the rest, as one that ran the same
    /// script on another version would give it.
    ///
    /// Redis 6.2 puts an error that ends a script behind `ERR` and the places where it
    /// came up, so that the first word says nothing; later versions put the place at
    /// the end. No code says that a place follows: only the text does.
    ///
    /// Scripts repeat in it what other programs wrote: here it becomes fit to read.
    #[must_use]
    pub fn server(code: &str, message: &str) -> Self {
        let (code, message) = (shown_words(code.as_bytes()), shown_words(message.as_bytes()));
        let (code, message) = (code.as_str(), message.trim_end());
        let bare = match message.strip_prefix("Error running script (call to ") {
            Some(rest) if code == "ERR" => around(rest, "): ").map_or(rest, |(_, cause)| cause).to_owned(),
            // Redis 6.2, if the script caught the error and returned it.
            _ if code == PLACE => format!("{code} {message}"),
            _ => {
                return Self::Server {
                    code: code.into(),
                    message: without_place_at_end(message).into(),
                };
            }
        };
        let cause = without_places(&bare);
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
    /// Whether the server says that the key of a record holds something that is no record of this kind.
    pub(crate) fn is_of_no_lock(&self) -> bool {
        matches!(self, Self::Server { code, .. } if matches!(code.as_str(), "WRONGTYPE" | "STEADLOCK_FORM" | "STEADLOCK_KIND"))
    }
}

/// How a server names a script that it was given, before the line.
const PLACE: &str = "@user_script:";

/// `@user_script:31: @user_script: 31: -OOM command …` from its code on.
fn without_places(mut text: &str) -> &str {
    while let Some(rest) = text.strip_prefix(PLACE) {
        let line_gone = rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        text = line_gone.trim_start_matches(':').trim_start();
    }
    text.strip_prefix('-').unwrap_or(text)
}

/// `command … script: 0843…, on @user_script:31.` without the place; Valkey 9 leaves out the hash.
fn without_place_at_end(text: &str) -> &str {
    match around_last(text, " script: ") {
        Some((cause, place)) if around(place, PLACE).is_some() => cause,
        _ => text,
    }
}

/// Whether a word may be an error's code.
fn is_code(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// What a server's error says about the call it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Refused for good before anything was written.
    BeforeWrite,
    /// The server cannot serve for now; asking again may help.
    Temporary,
    /// Asking again does not help, and something may have been written.
    Permanent,
}

impl Refusal {
    /// Sorts an error by its first word.
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
            (PLACE, &*format!("12: -READONLY {replica}"), ("READONLY", replica)),
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
            // No script.
            ("READONLY", replica, ("READONLY", replica)),
        ] {
            let (code_read, message_read) = parsed(code, message);
            assert_eq!((&*code_read, &*message_read), expected, "{code} {message}");
        }
    }

    #[test]
    fn an_error_without_a_code_stays_one() {
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
            (PLACE, "", ""),
        ] {
            assert_eq!(parsed(code, message), ("ERR".into(), expected.into()), "{message:?}");
        }
    }

    #[test]
    fn a_word_of_ours_is_a_code() {
        let token = "the stored fencing token is not a decimal below 2^53";
        assert_eq!(
            parsed("STEADLOCK_TOKEN", token),
            ("STEADLOCK_TOKEN".into(), token.into())
        );
    }
}
