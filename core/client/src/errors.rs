//! Errors that are made in several rooms.

use steadlock_protocol::{Error, ErrorKind, Operation};

/// What the operations of a closed client get.
pub(crate) fn closed() -> Error {
    Error::closed(Operation::Acquire)
}

/// What is refused before there is a client: an option out of its range, or a URL that is none.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Connect, message)
}
