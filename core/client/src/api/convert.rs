//! Conversions between Rust's types and those of a host.

use std::time::Duration;

use steadlock_protocol::{Error, ErrorKind, Operation};

use crate::host::Completion;

/// Returns a duration as hosts express it, in milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// Returns the error for a completion that belongs to another operation.
pub(crate) fn unexpected(operation: Operation, completion: &Completion) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        operation,
        format!("the engine answered something else: {completion:?}; please report this"),
    )
}
