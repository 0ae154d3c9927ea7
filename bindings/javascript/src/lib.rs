//! The common part of the bindings for Node and for WebAssembly: a client, as JavaScript sees it, and its events as
//! rows of numbers. Each binding converts objects itself.

#![forbid(unsafe_code)]

mod client;
mod rows;
mod spelling;

use steadlock::host::{Error, ErrorKind, LostReason};

pub use client::Client;
pub use rows::{WIDTH, Words, reason_index};
pub use spelling::{camel_case, spelled};

/// Returns why a lease was lost, or why a job was not run.
#[must_use]
pub fn reason_of(error: &Error) -> Option<&'static str> {
    let skip = error.skip().filter(|_| error.kind() == ErrorKind::Skipped);
    skip.map(|skip| skip.reason.as_str())
        .or_else(|| error.reason().map(LostReason::as_str))
}
