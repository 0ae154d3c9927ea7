//! How a client's first connection went, and who is to be told.
//!
//! ```text
//!   Tried ── a connection ──► Done
//!     │                        │
//!     └── none to be had ──► Failed ◄── the client is closed ── from all
//! ```

use steadlock_protocol::Error;

use crate::port::{Completion, Sink};

pub(super) enum Connecting {
    /// Who is to be told.
    Tried(Vec<Sink>),
    Done,
    Failed(Error),
}

impl Connecting {
    /// It is known how it went. Gives who is to be told.
    pub(super) fn settle(&mut self, result: &Result<(), Error>) -> Vec<Sink> {
        let after = match result {
            Ok(()) => Self::Done,
            Err(error) => Self::Failed(error.clone()),
        };
        match std::mem::replace(self, after) {
            Self::Tried(sinks) => sinks,
            Self::Done | Self::Failed(_) => Vec::new(),
        }
    }

    /// Somebody wants to know. Gives the answer if there is one yet.
    pub(super) fn ask(&mut self, sink: Sink) -> Option<(Sink, Result<Completion, Error>)> {
        match self {
            Self::Tried(sinks) => {
                sinks.push(sink);
                None
            }
            Self::Done => Some((sink, Ok(Completion::Connected))),
            Self::Failed(error) => Some((sink, Err(error.clone()))),
        }
    }

    /// What it failed with.
    pub(super) const fn failure(&self) -> Option<&Error> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Tried(_) | Self::Done => None,
        }
    }
}
