//! A pending acquisition. Every acquisition of this API passes through here, for each kind of lock, awaited or
//! blocking.

use std::time::Duration;

use steadlock_protocol::{Error, Operation};

use super::convert::unexpected;
use super::lease::Lease;
#[cfg(feature = "tracing")]
use super::spans::Wait;
use crate::host::{Completion, Host, Pending};

/// An acquisition that was requested. Dropping it cancels the request.
pub(crate) struct PendingAcquire<'a> {
    pub(super) host: &'a Host,
    pub(super) pending: Pending,
    #[cfg(feature = "tracing")]
    pub(super) span: Wait<'a>,
}

/// The lease, or the timeout as a value, because some calls return `None` for it.
pub(crate) type AcquireResult = Result<Result<Lease, Box<Error>>, Error>;

impl PendingAcquire<'_> {
    pub(crate) async fn wait(mut self) -> AcquireResult {
        let result = (&mut self.pending).await;
        self.finish(result)
    }

    /// Blocks the calling thread for the result.
    pub(crate) fn wait_blocking(mut self) -> AcquireResult {
        let result = block_on(&mut self.pending);
        self.finish(result)
    }

    fn finish(self, result: Result<Completion, Error>) -> AcquireResult {
        #[cfg(feature = "tracing")]
        self.span.end(&result);
        match result? {
            Completion::Granted(lease) => Ok(Ok(Lease::new(self.host.clone(), lease))),
            Completion::NotGranted(timeout) => Ok(Err(Box::new(timeout))),
            other => Err(unexpected(Operation::Acquire, &other)),
        }
    }
}

/// Blocks until the result arrives.
pub(crate) fn block_on(pending: &mut Pending) -> Result<Completion, Error> {
    loop {
        if let Some(result) = pending.wait(Duration::MAX) {
            return result;
        }
    }
}
