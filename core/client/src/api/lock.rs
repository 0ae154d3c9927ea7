//! A lock object: its kind, its name, and how to acquire it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Error, Holder, LockState, OnUnavailable, Operation, shown};

use super::convert::{millis, unexpected};
use super::lease::Lease;
#[cfg(feature = "tracing")]
use super::spans::WaitSpan;
use crate::host::{self, Acquire, Completion, Host, Kind, LockRef, Op, Pending, Run};

/// A lock. A lock object is immutable and cheap: all state is in the client and on the server, and two objects of one
/// kind and name are the same lock.
///
/// A `Lock` has no implicit owner: two acquisitions exclude each other, even in one task, unless the lock is a read
/// side or permits of a semaphore. To acquire a reentrant lock again while it is held, name the lease with
/// [`Lock::within`].
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::time::Duration;
/// # let client = steadlock::Client::connect("memory://").await?;
///
/// let lock = client.lock("report").wait(Duration::from_secs(5));
/// let lease = lock.acquire().await?;
/// assert!(lock.clone().wait(Duration::ZERO).try_acquire().await?.is_none());
///
/// let inner = lock.within(&lease).acquire().await?;
/// inner.release().await?;
/// assert!(lease.is_valid());
/// lease.release().await?;
/// # client.close().await;
/// # Ok(()) }) }
/// ```
#[derive(Clone)]
#[must_use = "a lock object alone locks nothing; call acquire()"]
pub struct Lock {
    host: Host,
    name: Arc<str>,
    lock: LockRef,
    wait: Option<Duration>,
    lease: Option<Duration>,
    renew: bool,
    max_hold: Option<Duration>,
    within: Option<Arc<host::Lease>>,
    fencing: bool,
    on_unavailable: Option<OnUnavailable>,
    /// The terms of a run, for a job.
    run: Run,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &shown(&self.name))
            .field("wait", &self.wait)
            .field("lease", &self.lease)
            .field("renew", &self.renew)
            .field("max_hold", &self.max_hold)
            .finish_non_exhaustive()
    }
}

impl Lock {
    pub(crate) fn new(host: Host, kind: Kind, name: &str) -> Self {
        Self::of(host, name, LockRef::One(kind, name.into()))
    }

    pub(crate) fn with_ref(&self, lock: LockRef) -> Self {
        Self { lock, ..self.clone() }
    }

    /// Makes a composite lock of several locks.
    pub(crate) fn composite<'a>(host: Host, locks: impl IntoIterator<Item = &'a Self>) -> Self {
        let locks: Vec<&Self> = locks.into_iter().collect();
        let names: Vec<&str> = locks.iter().map(|lock| lock.name()).collect();
        let lock = LockRef::All(locks.iter().map(|lock| lock.lock.clone()).collect());
        Self::of(host, &names.join(", "), lock)
    }

    pub(crate) fn of(host: Host, name: &str, lock: LockRef) -> Self {
        Self {
            host,
            name: name.into(),
            lock,
            wait: None,
            lease: None,
            renew: false,
            max_hold: None,
            within: None,
            fencing: true,
            on_unavailable: None,
            run: Run::default(),
        }
    }

    /// Returns the lock's name without the client's key prefix. The name of a composite lock has the names of all its
    /// members, joined by `, `.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets how long `acquire` and `try_acquire` wait at most; zero makes one attempt. Default: `acquire` waits as long
    /// as the server answers, `try_acquire` makes one attempt.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets a lease length of 100 ms to 24 h. The lease is fixed: it is not renewed unless [`Lock::renewed`] is called
    /// too. Default: the client's lease, renewed by the watchdog.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Has the watchdog renew the lease until it is released or lost, at a third of the length that [`Lock::lease`]
    /// sets. The length must then be 300 ms to 24 h. After a crash of this process, others wait no longer than that
    /// length. Without [`Lock::lease`] this call changes nothing, because the client's lease is renewed anyway.
    ///
    /// ```
    /// # fn main() -> Result<(), steadlock::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use std::time::Duration;
    /// # let client = steadlock::Client::connect("memory://").await?;
    /// let lease = client.lock("leader").lease(Duration::from_secs(5)).renewed().acquire().await?;
    /// assert!(lease.remaining() <= Duration::from_secs(5));
    /// # lease.release().await?;
    /// # client.close().await;
    /// # Ok(()) }) }
    /// ```
    pub fn renewed(mut self) -> Self {
        self.renew = true;
        self
    }

    /// Sets how long the lock can be held, counted from the first grant: at least 100 ms. After that time the lease is
    /// lost with the reason `MaxHold`. Default: no bound.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Draws no fencing token, which saves one key on the server. All users of a name must make the same choice,
    /// because a resource cannot refuse a late write that has no token.
    pub fn without_fencing(mut self) -> Self {
        self.fencing = false;
        self
    }

    /// Sets how an acquisition ends while the server is unavailable; see
    /// [`Builder::on_unavailable`](crate::Builder::on_unavailable). The client must have a circuit breaker. Default:
    /// the client's setting.
    pub fn on_unavailable(mut self, on_unavailable: OnUnavailable) -> Self {
        self.on_unavailable = Some(on_unavailable);
        self
    }

    /// Returns a lock object whose acquisitions re-enter the hold of `lease`, which must be a held lease of this lock.
    /// Re-entry makes no server call, unless the new lease has to last longer. The record is removed when the last
    /// lease of the hold is released. Locks that are not reentrant refuse `within` as `InvalidArgument`.
    ///
    /// A read side also accepts a held lease of its write side. The caller then acquires the read side by a server
    /// call, and holds both sides.
    pub fn within(&self, lease: &Lease) -> Self {
        let mut lock = self.clone();
        lock.within = Some(Arc::clone(lease.state()));
        lock
    }

    /// Acquires the lock. The client serves its own waiters for a lock in order of arrival.
    ///
    /// # Errors
    /// - `LockTimeout`: timed out; by the last answer another owner holds the lock, or another caller is served first.
    ///   The error names the holder and the rest of its lease, if they are known.
    /// - `Unavailable`: the server, or a majority of the primaries, did not answer within the wait or, if the wait has
    ///   no bound, for the length of the client's lease. While the circuit breaker is open, the error comes at once;
    ///   with [`OnUnavailable::Skip`], [`Error::is_skipped`] is then true.
    /// - `InvalidArgument`: the name is invalid, the lease or `max_hold` is out of its range, the lock refuses
    ///   `within`, or `within` is not a held lease of this lock.
    /// - `LockLost`: the lease given to `within` is lost.
    /// - `Misconfigured`: the key holds something that is not a lock of this kind, or the server's user lacks a
    ///   permission.
    /// - `Closed`, `Forked`.
    ///
    /// Dropping the future cancels the request: a lock that is granted meanwhile is released.
    pub async fn acquire(&self) -> Result<Lease, Error> {
        let granted = self.request(self.wait).wait().await?;
        granted.map_err(|timeout| *timeout)
    }

    /// Acquires the lock if it is free, or becomes free within [`Lock::wait`]. Returns `None` if another owner holds
    /// it, or if the acquisition is skipped ([`OnUnavailable::Skip`]).
    ///
    /// # Errors
    /// As [`Lock::acquire`], without `LockTimeout`. A single attempt ends after the command timeout at the latest.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        let wait = self.wait.unwrap_or_default();
        Ok(self.request(Some(wait)).wait().await?.ok())
    }

    /// Asks the server whether the lock is held.
    ///
    /// # Errors
    /// `Unavailable`, `Misconfigured`, `InvalidArgument` (an invalid name, or a composite lock), `Closed`, `Forked` (a
    /// private `memory://` in a forked child).
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.holder().await?.is_some())
    }

    /// Asks the server for the holder; `None` if the lock is free.
    ///
    /// # Errors
    /// As [`Lock::is_locked`].
    pub async fn holder(&self) -> Result<Option<Holder>, Error> {
        holder_of(self.host.start(self.inspect_op()).await?)
    }

    pub(crate) const fn run_mut(&mut self) -> &mut Run {
        &mut self.run
    }

    pub(crate) const fn host(&self) -> &Host {
        &self.host
    }

    /// Requests the lock. Every acquisition of this API begins here.
    pub(crate) fn request(&self, wait: Option<Duration>) -> PendingAcquire<'_> {
        PendingAcquire {
            host: &self.host,
            #[cfg(feature = "tracing")]
            span: WaitSpan::begin(self.lock.kind(), &self.name),
            pending: self.host.start(self.acquire_op(wait)),
        }
    }

    pub(crate) const fn wait_limit(&self) -> Option<Duration> {
        self.wait
    }

    pub(crate) fn inspect_op(&self) -> Op {
        Op::Inspect {
            lock: self.lock.clone(),
        }
    }

    /// Returns the operation that removes the holder's record.
    pub(crate) fn force_release_op(&self) -> Op {
        Op::ForceRelease {
            lock: self.lock.clone(),
        }
    }

    fn acquire_op(&self, wait: Option<Duration>) -> Op {
        Op::Acquire(Acquire {
            lock: self.lock.clone(),
            within: self.within.as_ref().map(|lease| lease.id()),
            wait_ms: wait.map(millis),
            lease_ms: self.lease.map(millis),
            renew: self.renew,
            max_hold_ms: self.max_hold.map(millis),
            no_fencing: !self.fencing,
            on_unavailable: self.on_unavailable,
            run: self.run.clone(),
            ..Acquire::default()
        })
    }
}

/// An acquisition that was requested. Dropping it cancels the request. Every acquisition of this API passes through
/// here, for each kind of lock, awaited or blocking.
pub(crate) struct PendingAcquire<'a> {
    host: &'a Host,
    pending: Pending,
    #[cfg(feature = "tracing")]
    span: WaitSpan<'a>,
}

/// The lease, or an error. The inner error is that of an acquisition that timed out or was skipped, for which
/// `try_acquire` returns `None`.
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

pub(crate) fn forced_result(completion: Completion) -> Result<bool, Error> {
    match completion {
        Completion::Forced(was_held) => Ok(was_held),
        other => Err(unexpected(Operation::Release, &other)),
    }
}

pub(crate) fn holder_of(completion: Completion) -> Result<Option<Holder>, Error> {
    match completion {
        Completion::State(LockState { holder, .. }) => Ok(holder),
        other => Err(unexpected(Operation::Inspect, &other)),
    }
}
