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
