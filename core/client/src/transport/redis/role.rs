//! Whether a server is a primary, by its greeting and by its errors.
//!
//! A server can be demoted in place, by `REPLICAOF`, `FAILOVER` or a managed switchover, and keeps its connections. The
//! client then gives up every connection to it. New connections and their greetings decide which server is used next.

use steadlock_protocol::{CallError, Reply};
use steadlock_resp::replies::{ServerError, text};

use super::failure::Failure;

/// The greeting of a server: its reply to `HELLO`.
#[derive(Debug, Default)]
pub(super) struct Greeting<'a> {
    pub(super) version: Option<&'a str>,
    pub(super) mode: Option<&'a str>,
    role: Option<&'a str>,
}

/// The first two numbers of a server's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// The command whose reply is the greeting. A user needs no right to send it.
pub(super) const QUESTION: &[u8] = b"HELLO";

impl<'a> Greeting<'a> {
    pub(super) fn read(hello: &'a Reply) -> Self {
        let mut greeting = Self::default();
        let Reply::Array(items) = hello else {
            return greeting;
        };
        for pair in items.chunks_exact(2) {
            match text(&pair[0]) {
                Some("version") => greeting.version = text(&pair[1]),
                Some("mode") => greeting.mode = text(&pair[1]),
                Some("role") => greeting.role = text(&pair[1]),
                _ => {}
            }
        }
        greeting
    }

    pub(super) fn version_numbers(&self) -> Option<Version> {
        let mut numbers = self.version?.split('.').map(|part| part.parse().unwrap_or(0));
        Some(Version {
            major: numbers.next().unwrap_or(0),
            minor: numbers.next().unwrap_or(0),
        })
    }

    pub(super) fn is_replica(&self) -> bool {
        matches!(self.role, Some("slave" | "replica"))
    }
}

/// Checks whether an answer shows that the server is no longer a primary.
pub(super) fn check_primary(answer: &Result<Reply, ServerError>) -> Result<(), Failure> {
    match answer {
        Err(error) => not_primary_code(error).map_or(Ok(()), |code| Err(Failure::demoted(code))),
        Ok(hello) if Greeting::read(hello).is_replica() => Err(Failure::demoted("its role is that of a replica")),
        Ok(_) => Ok(()),
    }
}

/// Returns the code of an error that shows that the server is not a primary.
pub(super) fn not_primary_code(error: &ServerError) -> Option<&'static str> {
    const CODES: [&str; 2] = ["READONLY", "MASTERDOWN"];
    // Redis 6.2 gives the error of a command in a script no code of its own; the code is then in the text.
    match error.to_call_error() {
        CallError::Server { code, .. } => CODES.into_iter().find(|known| *known == code),
        CallError::Disconnected(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> ServerError {
        let (code, message) = line.split_once(' ').unwrap();
        ServerError {
            code: code.into(),
            message: message.into(),
        }
    }

    #[test]
    fn the_errors_of_a_replica_are_recognized_for_each_server_version() {
        for line in [
            "READONLY You can't write against a read only replica.",
            "READONLY You can't write against a read only replica. script: 6e81, on @user_script:4.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "ERR Error running script (call to f_6e81): @user_script:12: @user_script: 12: \
             -READONLY You can't write against a read only replica.",
            "@user_script: 53: -READONLY You can't write against a read only replica.",
        ] {
            assert!(not_primary_code(&error(line)).is_some(), "{line}");
        }
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "ERR Error running script (call to f_6e81): @user_script:12: @user_script: 12: \
             -OOM command not allowed when used memory > 'maxmemory'.",
            "ERR unknown command 'X', with args beginning with: ': -READONLY '",
        ] {
            assert!(not_primary_code(&error(line)).is_none(), "{line}");
        }
    }
}
