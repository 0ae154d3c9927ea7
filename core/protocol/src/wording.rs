//! The texts of errors that servers and connections cause, with advice.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Cause, Error, ErrorKind, Operation};
use crate::kinds::{Keys, Kind};
use crate::name::Word;
use crate::reply::{CallError, Refusal};
use crate::shown::shown;

impl CallError {
    /// Returns the error of an operation that is not about a single lock: `Unavailable` if the cause can pass by
    /// itself, otherwise `Misconfigured`.
    #[must_use]
    pub fn to_error(&self, operation: Operation) -> Error {
        let kind = match self {
            Self::Server { code, .. } if Refusal::of(code) != Refusal::Temporary => ErrorKind::Misconfigured,
            Self::Server { .. } | Self::Disconnected(_) => ErrorKind::Unavailable,
        };
        Error::caused(kind, operation, cause_of(self))
    }
}

/// Formats a duration for a message, without needless digits: `1.666s`, `340ms`, `15µs`. The value is rounded down, so
/// that a time that is too short never looks long enough.
#[must_use]
pub fn brief(duration: Duration) -> impl fmt::Display {
    struct Brief(Duration);

    impl fmt::Display for Brief {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }

    let fraction = if duration < Duration::from_millis(1) {
        duration.subsec_nanos() % 1_000
    } else {
        duration.subsec_nanos() % 1_000_000
    };
    Brief(duration.saturating_sub(Duration::from_nanos(u64::from(fraction))))
}

/// Explains what a server's error means for a lock.
pub(crate) fn explain(keys: &Keys, code: &str, message: &str) -> Cause {
    match code {
        "WRONGTYPE" => no_lock(keys.all(), ""),
        "STEADLOCK_FORM" => no_lock(keys.records(), message),
        "STEADLOCK_KIND" => other_kind(keys),
        "STEADLOCK_TOKEN" => {
            let key = keys.name.own(Word::TOKEN);
            let key = String::from_utf8_lossy(&key);
            Cause::new(message).with_advice(format!("delete the key {key} after checking who wrote it"))
        }
        "STEADLOCK_LIMIT" => Cause::new(message).with_advice("ask with that one, or change it by set_limit"),
        _ => refused(code, message),
    }
}

/// Explains that the name is held as a lock of another kind.
fn other_kind(keys: &Keys) -> Cause {
    let held = match keys.kind {
        Kind::Mutex => "its key is held as a lock or a fair_lock",
        Kind::Lock | Kind::Fair | Kind::Read | Kind::Write | Kind::Semaphore(_) | Kind::Once | Kind::Leader => {
            "its key is held as a mutex"
        }
    };
    Cause::new(held).with_advice("use one kind of lock for each name")
}

/// Explains that one of these keys holds a value that is not a lock; `found` describes the value, if it is known.
fn no_lock(keys: impl Iterator<Item = Arc<[u8]>>, found: &str) -> Cause {
    let keys: Vec<String> = keys
        .map(|key| format!("{:?}", shown(&String::from_utf8_lossy(&key))))
        .collect();
    let one_of = if keys.len() > 1 { "one of the keys" } else { "the key" };
    let colon = if found.is_empty() { "" } else { ": " };
    let keys = keys.join(", ");
    Cause::new(format!(
        "{one_of} {keys} holds something that is not a lock of this kind{colon}{found}"
    ))
    .with_advice("choose another name")
}

/// Explains why a call failed, with advice.
pub(crate) fn cause_of(failure: &CallError) -> Cause {
    match failure {
        CallError::Server { code, message } => refused(code, message),
        CallError::Disconnected(cause) => cut_off(cause),
    }
}

/// Explains that the connection of a call closed. The advice is that of the cause, or to try again.
pub(crate) fn cut_off(cause: &Cause) -> Cause {
    let cause = cut(cause);
    match cause.advice() {
        Some(_) => cause,
        None => cause.with_advice("try again"),
    }
}

/// Explains that the connection of a call closed for this cause.
pub(crate) fn cut(cause: &Cause) -> Cause {
    let cause = cause.clone();
    cause.reworded(|text| format!("the connection closed before the answer came ({text})"))
}

/// Explains a server's error, with advice if there is any.
fn refused(code: &str, message: &str) -> Cause {
    let cause = Cause::new(format!("the server refused: {code} {}", message.trim_end_matches('.')));
    match code {
        "NOPERM" => cause.with_advice("SECURITY.md has the rights that locks need"),
        "OOM" => cause.with_advice("make room on it, or raise its maxmemory"),
        "READONLY" | "MASTERDOWN" => cause.with_advice("it is a replica: connect to the primary"),
        "LOADING" | "BUSY" => cause.with_advice("try again when it serves"),
        "NOREPLICAS" => cause.with_advice("its replicas are missing, and it is set to want some for each write"),
        "MISCONF" => cause.with_advice("its log says why it cannot save"),
        _ => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_without_digits_that_say_nothing() {
        for (nanos, shown) in [
            (0, "0ns"),
            (15_999, "15µs"),
            (340_000_000, "340ms"),
            (199_999_999, "199ms"),
            (1_666_666_666, "1.666s"),
            (2_000_415_200, "2s"),
            (86_400_000_000_000, "86400s"),
        ] {
            assert_eq!(brief(Duration::from_nanos(nanos)).to_string(), shown);
        }
    }
}
