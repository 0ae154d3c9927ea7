//! A lock object: its kind, its name, and how to take it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Error, Holder, LockState, OnUnavailable, Operation, shown};

use super::asked::Asked;
use super::convert::{millis, unexpected};
use super::lease::Lease;
#[cfg(feature = "tracing")]
use super::spans::Wait;
use crate::host::{self, Acquire, Completion, Host, Kind, LockRef, Op};

/// A lock. It is immutable and cheap: all state is in the client and on the
/// server, and two objects of one name are the same lock.
///
/// It has no implicit owner: two calls exclude each other, also from one task.
/// To acquire it again while it is held, name the lease by [`Lock::within`].
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

    /// Several locks as one.
    pub(crate) fn all<'a>(host: Host, locks: impl IntoIterator<Item = &'a Self>) -> Self {
        let locks: Vec<&Self> = locks.into_iter().collect();
        let names: Vec<&str> = locks.iter().map(|lock| lock.name()).collect();
        let lock = LockRef::several(locks.iter().map(|lock| &lock.lock));
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
        }
    }

    /// Its name, without the client's key prefix; of several locks as one, all names.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long `acquire` and `try_acquire` wait at most; zero makes one
    /// attempt. Default: `acquire` waits as long as the server answers,
    /// `try_acquire` makes one attempt.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// A fixed lease, 100 ms to 24 h, that nothing renews, unless [`Lock::renewed`] is
    /// said too. Default: the client's lease, renewed by the watchdog.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The watchdog renews the length that [`Lock::lease`] gives, 300 ms to 24 h, at a
    /// third of it until the release. So others wait no longer than that for a process
    /// that died. Without a length it says nothing new.
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

    /// The longest it may be held, counted from the first grant; then it is lost
    /// with the reason `MaxHold`. At least 100 ms. Default: no bound.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Draw no fencing token: one key less on the server. Do so for all users of
    /// a name or for none.
    pub fn without_fencing(mut self) -> Self {
        self.fencing = false;
        self
    }

    /// What becomes of an acquisition while the server is unavailable; see
    /// [`Builder::on_unavailable`](crate::Builder::on_unavailable), whose client must have a
    /// circuit breaker. Default: what the client has.
    pub fn on_unavailable(mut self, on_unavailable: OnUnavailable) -> Self {
        self.on_unavailable = Some(on_unavailable);
        self
    }

    /// Acquire it again inside `lease`, which must be a held lease of this lock.
    /// That makes no server call; the record is removed with the last lease released.
    pub fn within(&self, lease: &Lease) -> Self {
        let mut lock = self.clone();
        lock.within = Some(Arc::clone(lease.state()));
        lock
    }

    /// Acquires the lock. Waiters of one client are served first come, first served.
    ///
    /// # Errors
    /// - `LockTimeout`: timed out; another owner holds the lock. The error
    ///   says which, and for how long.
    /// - `Unavailable`: the server did not answer; without a bound on the wait,
    ///   for one lease of the client. At once while the circuit breaker is open; then
    ///   [`Error::is_skipped`] if what the lock guards was not to run without it.
    /// - `InvalidArgument`: the name, the lease or `max_hold` is out of its range,
    ///   or `within` is not a held lease of this lock.
    /// - `LockLost`: the lease given to `within` is lost.
    /// - `Misconfigured`: the key holds something that is no lock, or the
    ///   server's user lacks a permission.
    /// - `Closed`, `Forked`.
    ///
    /// Dropping the future cancels: a lock granted meanwhile is released.
    pub async fn acquire(&self) -> Result<Lease, Error> {
        let granted = self.ask(self.wait).awaited().await?;
        granted.map_err(|timeout| *timeout)
    }

    /// Acquires the lock if that is possible at once, or within [`Lock::wait`];
    /// `None` if another owner holds it, or if it is skipped ([`OnUnavailable::Skip`]).
    ///
    /// # Errors
    /// As [`Lock::acquire`], without `LockTimeout`. A single attempt is bounded by the
    /// command timeout.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        let wait = self.wait.unwrap_or_default();
        Ok(self.ask(Some(wait)).awaited().await?.ok())
    }

    /// Asks the server whether anybody holds it.
    ///
    /// # Errors
    /// `Unavailable`, `Misconfigured`, `InvalidArgument` (the name), `Closed`.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.holder().await?.is_some())
    }

    /// Asks the server who holds it; `None` if it is free.
    ///
    /// # Errors
    /// As [`Lock::is_locked`].
    pub async fn holder(&self) -> Result<Option<Holder>, Error> {
        state(self.host.start(self.inspect()).await?)
    }

    pub(crate) const fn host(&self) -> &Host {
        &self.host
    }

    /// Asks for it. Everything that acquires does so here.
    pub(crate) fn ask(&self, wait: Option<Duration>) -> Asked<'_> {
        Asked {
            host: &self.host,
            #[cfg(feature = "tracing")]
            span: Wait::begin(self.lock.kind(), &self.name),
            pending: self.host.start(self.op(wait)),
        }
    }

    pub(crate) const fn patience(&self) -> Option<Duration> {
        self.wait
    }

    pub(crate) fn inspect(&self) -> Op {
        Op::Inspect {
            lock: self.lock.clone(),
        }
    }

    /// Takes it from its holder.
    pub(crate) fn force(&self) -> Op {
        Op::ForceRelease {
            lock: self.lock.clone(),
        }
    }

    fn op(&self, wait: Option<Duration>) -> Op {
        Op::Acquire(Acquire {
            lock: self.lock.clone(),
            within: self.within.as_ref().map(|lease| lease.id()),
            wait_ms: wait.map(millis),
            lease_ms: self.lease.map(millis),
            renew: self.renew,
            max_hold_ms: self.max_hold.map(millis),
            no_fencing: !self.fencing,
            on_unavailable: self.on_unavailable,
            ..Acquire::default()
        })
    }
}

pub(crate) fn forced(completion: Completion) -> Result<bool, Error> {
    match completion {
        Completion::Forced(was_held) => Ok(was_held),
        other => Err(unexpected(Operation::Release, &other)),
    }
}

pub(crate) fn state(completion: Completion) -> Result<Option<Holder>, Error> {
    match completion {
        Completion::State(LockState { holder, .. }) => Ok(holder),
        other => Err(unexpected(Operation::Inspect, &other)),
    }
}
