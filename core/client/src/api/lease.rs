//! A held lock.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Error, LostReason, Operation, ReleaseOutcome};

use super::convert::{millis, unexpected};
use crate::host::{self, Completion, Host, Op};

/// A held lock, until it is released, lost or dropped.
///
/// Dropping it releases the lock in the background; [`Lease::release`] does so
/// and says how it went.
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

    /// The lock's name, without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// The fencing token: it rises with every grant of the name on one server.
    /// Below 2⁵³; `None` if the lock was taken without one.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.state.token()
    }

    /// Whether it excludes others of this client alone, since its server was unavailable
    /// ([`OnUnavailable::Local`](crate::OnUnavailable::Local)); then it has no token. Of several locks
    /// as one, whether any of them does.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.state.is_degraded()
    }

    /// How long it may be relied on if nothing renews it; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.state.remaining()
    }

    /// Whether it may be relied on at this moment. Reads the clock, so that it
    /// is right at once after the process was stopped or the machine slept.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state.is_valid()
    }

    /// Why it was lost; `None` if it was not.
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.state.lost_reason()
    }

    /// Completes when the lease is lost. Never after it was released; the future
    /// does not borrow the lease and may go to another task.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let state = Arc::clone(&self.state);
        async move { state.wait_lost().await }
    }

    /// Makes the lease last `by` from now, never shorter than it does; `None` for
    /// its own length.
    ///
    /// # Errors
    /// - `LockLost`: it is lost already, or the server has no record of it.
    /// - `Unavailable`: the server did not answer in time; the lease lasts as
    ///   long as it did.
    /// - `InvalidArgument`: below 100 ms or above 24 h.
    /// - `Closed`, `Forked`.
    ///
    /// Dropping the future does not take the extension back.
    pub async fn extend(&self, by: Option<Duration>) -> Result<(), Error> {
        self.extended(self.host.start(self.extension(by)).await)
    }

    /// Gives the lock back. Returns when the server has answered, or `Unknown`
    /// after the command timeout; the engine then goes on trying until the record
    /// has expired. Never removes another holder's record.
    ///
    /// # Errors
    /// `Forked`, `Unavailable`, `Misconfigured`. After the client was closed it says what the close made of it.
    ///
    /// Dropping the future does not take the release back.
    pub async fn release(mut self) -> Result<ReleaseOutcome, Error> {
        let op = self.start_release();
        let completion = self.host.start(op).await?;
        self.released(completion)
    }

    pub(crate) fn extended(&self, result: Result<Completion, Error>) -> Result<(), Error> {
        match result? {
            Completion::Extended => Ok(()),
            other => Err(unexpected(Operation::Extend, &other)),
        }
    }

    pub(crate) fn released(&self, completion: Completion) -> Result<ReleaseOutcome, Error> {
        match completion {
            Completion::Released(released) => Ok(released.outcome),
            other => Err(unexpected(Operation::Release, &other)),
        }
    }

    pub(crate) fn extension(&self, by: Option<Duration>) -> Op {
        Op::Extend {
            lease: self.id(),
            by_ms: by.map(millis),
        }
    }

    pub(crate) fn start_release(&mut self) -> Op {
        self.is_released = true;
        Op::Release { lease: self.id() }
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
        // A fork's copy is not the holder, and what was forgotten is nobody's.
        if !self.is_released && !self.state.is_inherited() && !self.state.is_forgotten() {
            self.host.release_unattended(self.id());
        }
    }
}
