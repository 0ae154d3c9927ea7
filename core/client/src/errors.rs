//! Errors that several modules make.

use steadlock_protocol::{Error, ErrorKind, Operation};

/// Returns the error of an operation on a closed client.
pub(crate) fn closed() -> Error {
    Error::closed(Operation::Acquire)
}

/// Returns the error for a mistake that is found before a client exists: an option out of range, or a malformed URL.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Connect, message)
}
