//! An acquisition under way. Every one of this API comes through here, of any kind of lock, awaited or blocking.

use std::time::Duration;

use steadlock_protocol::{Error, Operation};

use super::convert::unexpected;
use super::lease::Lease;
#[cfg(feature = "tracing")]
use super::spans::Wait;
use crate::host::{Completion, Host, Pending};

/// A lock was asked for. Dropping it cancels.
pub(crate) struct Asked<'a> {
    pub(super) host: &'a Host,
    pub(super) pending: Pending,
    #[cfg(feature = "tracing")]
    pub(super) span: Wait<'a>,
}

/// The lease, or the timeout for callers that want one.
pub(crate) type Answer = Result<Result<Lease, Box<Error>>, Error>;

impl Asked<'_> {
    pub(crate) async fn awaited(mut self) -> Answer {
        let result = (&mut self.pending).await;
        self.answered(result)
    }

    /// The same for a thread that blocks.
    pub(crate) fn blocking(mut self) -> Answer {
        let result = waited(&mut self.pending);
        self.answered(result)
    }

    fn answered(self, result: Result<Completion, Error>) -> Answer {
        #[cfg(feature = "tracing")]
        self.span.end(&result);
        match result? {
            Completion::Granted(lease) => Ok(Ok(Lease::new(self.host.clone(), lease))),
            Completion::NotGranted(timeout) => Ok(Err(Box::new(timeout))),
            other => Err(unexpected(Operation::Acquire, &other)),
        }
    }
}

/// Blocks until the result is there.
pub(crate) fn waited(pending: &mut Pending) -> Result<Completion, Error> {
    loop {
        if let Some(result) = pending.wait(Duration::MAX) {
            return result;
        }
    }
}
