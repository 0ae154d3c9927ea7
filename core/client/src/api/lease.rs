//! A lease: a held lock.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Candidate, Error, LostReason, Operation, ReleaseOutcome, RunEnd};

use super::convert::{millis, unexpected};
use crate::host::{self, Completion, Host, Op};

/// A held lock, until it is released, lost or dropped.
///
/// Dropping the lease releases the lock in the background; [`Lease::release`] also returns the outcome. A hold that was
/// re-entered ([`Lock::within`](crate::Lock::within)) has several leases, and the lock is released with the last of
/// them.
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let client = steadlock::Client::connect("memory://").await?;
/// use steadlock::ReleaseOutcome;
///
/// let lease = client.lock("ledger").acquire().await?;
/// let token = lease.token().expect("tokens are on by default");
/// // Send `token` along with what is written, so that a stale writer is refused.
/// assert!(lease.is_valid() && token > 0);
/// assert_eq!(lease.release().await?, ReleaseOutcome::Released);
/// # client.close().await;
/// # Ok(()) }) }
/// ```
#[derive(Debug)]
#[must_use = "dropping a lease releases the lock"]
pub struct Lease {
    host: Host,
    state: Arc<host::Lease>,
    is_released: bool,
}

impl Lease {
    pub(crate) const fn new(host: Host, state: Arc<host::Lease>) -> Self {
        Self {
            host,
            state,
            is_released: false,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.state.id()
    }

    /// Returns the lock's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// Returns the fencing token, which is higher than the tokens of all earlier grants of the name
    /// (`docs/guarantees.md` has the exceptions). A re-entry has the token of its hold. The token is below 2⁵³. Returns
    /// `None` if none was drawn, as for a read side, a semaphore, a composite lock and a RedLock.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.state.token()
    }

    /// Whether the lease excludes only other callers of this client, because the client granted it while its server was
    /// unavailable ([`OnUnavailable::Local`](crate::OnUnavailable::Local)); then it has no token. For a composite lock,
    /// whether this is so for any member.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.state.is_degraded()
    }

    /// Returns how much longer the holder can rely on the lease if it is not renewed; zero after a loss.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.state.remaining()
    }

    /// Whether the holder can rely on the lease now. Reads the clock, so the answer is right as soon as a stopped
    /// process or a sleeping machine continues. Makes no server call, so a removal of the record since the last call
    /// goes unnoticed.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state.is_valid()
    }

    /// Returns the reason for the loss; `None` if the lease was not lost.
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.state.lost_reason()
    }

    /// Completes when the lease is lost, and never if it is released first. The future does not borrow the lease and
    /// can be moved to another task.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let state = Arc::clone(&self.state);
        async move { state.wait_lost().await }
    }

    /// Extends the lease to `by` from now, and never shortens it; `None` means the lease's own length.
    ///
    /// # Errors
    /// - `LockLost`: the lease is lost already, or the server has no record of it, or has the record of another owner.
    /// - `Unavailable`: the server did not answer in time; the lease keeps its former deadline.
    /// - `InvalidArgument`: `by` is below 100 ms or above 24 h.
    /// - `Misconfigured`: the server refuses the extension, for example for a missing permission.
    /// - `Closed`, `Forked`.
    ///
    /// Dropping the future does not undo the extension.
    pub async fn extend(&self, by: Option<Duration>) -> Result<(), Error> {
        self.extend_result(self.host.start(self.extend_op(by)).await)
    }

    /// Releases the lease, and with the last lease of a hold the lock. Returns when the server has answered, or returns
    /// `Unknown` after the command timeout; the client then retries in the background until the record has expired.
    /// Never removes the record of another owner.
    ///
    /// # Errors
    /// `Forked`; `Misconfigured` if the server refuses the release, for example for a missing permission; `Unavailable`
    /// if the client has failed. After the client was closed there is no error: the call returns the outcome that the
    /// close had for this lease.
    ///
    /// Dropping the future does not stop the release.
    pub async fn release(mut self) -> Result<ReleaseOutcome, Error> {
        let op = self.start_release();
        let completion = self.host.start(op).await?;
        self.release_result(completion)
    }

    pub(crate) fn extend_result(&self, result: Result<Completion, Error>) -> Result<(), Error> {
        match result? {
            Completion::Extended => Ok(()),
            other => Err(unexpected(Operation::Extend, &other)),
        }
    }

    pub(crate) fn release_result(&self, completion: Completion) -> Result<ReleaseOutcome, Error> {
        match completion {
            Completion::Released(released) => Ok(released.outcome),
            other => Err(unexpected(Operation::Release, &other)),
        }
    }

    pub(crate) fn extend_op(&self, by: Option<Duration>) -> Op {
        Op::Extend {
            lease: self.id(),
            by_ms: by.map(millis),
        }
    }

    pub(crate) fn start_release(&mut self) -> Op {
        self.start_end(RunEnd::Succeeded)
    }

    /// Returns the operation that releases the lease, and says how its run ended.
    pub(crate) fn start_end(&mut self, end: RunEnd) -> Op {
        self.is_released = true;
        Op::EndRun {
            lease: self.id(),
            end,
            at_least_ms: None,
        }
    }

    /// Returns the operation that ends a term, perhaps in favour of a candidate.
    pub(crate) fn start_resign(&mut self, candidate: Option<&Candidate>) -> Op {
        self.is_released = true;
        Op::Resign {
            lease: self.id(),
            to: candidate.map(|candidate| candidate.owner.clone()),
        }
    }

    pub(crate) const fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) const fn state(&self) -> &Arc<host::Lease> {
        &self.state
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A lease that a forked child inherited belongs to the parent, and a forgotten lease is unknown to the engine.
        if !self.is_released && !self.state.is_inherited() && !self.state.is_forgotten() {
            self.host.release_in_background(self.id());
        }
    }
}
