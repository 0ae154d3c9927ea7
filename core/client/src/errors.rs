//! Errors that host and engine both give.

use leasehold_protocol::{Error, ErrorKind, Operation};

/// What the operations of a closed client get.
pub(crate) fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        Operation::Acquire,
        "the client is closed; connect a new one",
    )
}

/// The same error, of another operation and in other words.
pub(crate) fn retold(error: &Error, operation: Operation, message: &str) -> Error {
    let retold = Error::new(error.kind(), operation, message)
        .with_holder(error.holder().cloned())
        .with_reason(error.reason());
    match error.lock_name() {
        Some(lock) => retold.with_lock(lock),
        None => retold,
    }
}
