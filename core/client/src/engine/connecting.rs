//! The result of a client's first connection, and the callers that wait for it.
//!
//! ```text
//!   Pending ── connected ──────────────────────────────────► Done
//!   Pending ── cannot be connected, or the client is closed ─► Failed
//!   Done ───── the engine fails ────────────────────────────► Failed
//! ```

use steadlock_protocol::Error;

use crate::port::{Completion, Sink};

pub(super) enum Connecting {
    /// The callers that wait for the result.
    Pending(Vec<Sink>),
    Done,
    Failed(Error),
}

impl Connecting {
    pub(super) const fn is_pending(&self) -> bool {
        matches!(self, Self::Pending(_))
    }

    /// Records the result. Returns the callers that wait for it. A failure is final.
    pub(super) fn complete(&mut self, result: &Result<(), Error>) -> Vec<Sink> {
        let after = match (result, &*self) {
            (_, Self::Failed(_)) => return Vec::new(),
            (Ok(()), _) => Self::Done,
            (Err(error), _) => Self::Failed(error.clone()),
        };
        match std::mem::replace(self, after) {
            Self::Pending(sinks) => sinks,
            Self::Done | Self::Failed(_) => Vec::new(),
        }
    }

    /// Adds a caller that wants the result. Returns the answer to this caller if the result is known.
    pub(super) fn add_caller(&mut self, sink: Sink) -> Option<(Sink, Result<Completion, Error>)> {
        match self {
            Self::Pending(sinks) => {
                sinks.push(sink);
                None
            }
            Self::Done => Some((sink, Ok(Completion::Connected))),
            Self::Failed(error) => Some((sink, Err(error.clone()))),
        }
    }

    /// Returns the error of a first connection that failed, of a closed client, or of a failed engine.
    pub(super) const fn failure(&self) -> Option<&Error> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Pending(_) | Self::Done => None,
        }
    }
}
