//! The API of [`crate::Client`], with calls that block the thread.
//!
//! ```
//! use std::time::Duration;
//! use steadlock::blocking::Client;
//!
//! # fn main() -> Result<(), steadlock::Error> {
//! let client = Client::connect("memory://")?;
//! let lease = client.lock("stock:42").wait(Duration::from_secs(5)).acquire()?;
//! // Nobody else holds "stock:42" now.
//! lease.release()?;
//! client.close();
//! # Ok(())
//! # }
//! ```
//!
//! Do not make these calls in an async task: they would block its thread. An [`Observer`](crate::observe::Observer)
//! cannot make them either, because it runs on the thread that drives an engine: a call that would have to wait there
//! fails as `InvalidArgument`. [`Client::close`] and [`Lease::wait_lost`] return at once there.

use std::time::Duration;

use steadlock_protocol::{
    Candidate, Error, Holder, LastRun, Leadership, LostReason, OnFailure, OnUnavailable, Operation, ReleaseOutcome,
    RunEnd,
};

use super::client::Builder;
use super::lock::block_on;
use super::once::{self, RunResult, Skipped};
use super::{kinds, leader, lease, lock};
use crate::engine::is_driving;
use crate::host::{Completion, Host, Kind, Op, campaign_pause};
use crate::park::park_on;

/// A client of the servers that keep the locks; see [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    host: Host,
}

impl Builder {
    /// Connects as [`Builder::connect`] does, but blocks the calling thread.
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub fn connect_blocking(self) -> Result<Client, Error> {
        let is_lazy = self.is_lazy();
        let host = self.open()?;
        if !is_lazy {
            host.wait_connected()?;
        }
        Ok(Client { host })
    }
}

impl Client {
    /// Connects with the default options.
    ///
    /// # Errors
    /// As [`crate::Client::connect`].
    pub fn connect(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder().url(url).connect_blocking()
    }

    /// Connects to several independent primaries; see [`crate::Client::redlock`].
    ///
    /// # Errors
    /// As [`crate::Client::redlock`].
    pub fn redlock(urls: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, Error> {
        Self::builder().primaries(urls).connect_blocking()
    }

    /// Returns a builder of a client; each option has a default. End with [`Builder::connect_blocking`].
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the lock of this name; see [`crate::Client::lock`].
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock(lock::Lock::new(self.host.clone(), Kind::Lock, name.as_ref()))
    }

    /// Returns the mutex of this name. A mutex has the layout of most other lock libraries and excludes their locks of
    /// the same key, so a team can migrate one service at a time. Not reentrant.
    pub fn mutex(&self, name: impl AsRef<str>) -> Lock {
        Lock(lock::Lock::new(self.host.clone(), Kind::Mutex, name.as_ref()))
    }

    /// Returns the fair lock of this name. It is reentrant and serves waiters in order of arrival, across all
    /// processes. It and a `lock` of the same name exclude each other, but the waiters of the `lock` can overtake.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock(lock::Lock::new(self.host.clone(), Kind::Fair, name.as_ref()))
    }

    /// Returns the read-write lock of this name.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        ReadWriteLock {
            read: Lock(lock::Lock::new(self.host.clone(), Kind::Read, name.as_ref())),
            write: Lock(lock::Lock::new(self.host.clone(), Kind::Write, name.as_ref())),
        }
    }

    /// Returns the semaphore of this name with `limit` permits. The limit is 1 to 1,000,000, and is checked when the
    /// semaphore is used.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore(kinds::Semaphore::new(self.host.clone(), name.as_ref(), limit))
    }

    /// Returns the job of this name, of which at most one run goes on at a time in the whole fleet; see
    /// [`crate::Client::once`].
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        Once(once::Once::new(self.host.clone(), name.as_ref()))
    }

    /// Returns the leadership of this name: at most one process leads at a time, and the others wait in order; see
    /// [`crate::Client::leader`].
    pub fn leader(&self, name: impl AsRef<str>) -> Leader {
        Leader(leader::Leader::new(self.host.clone(), name.as_ref()))
    }

    /// Returns the composite lock of `locks`, its members: a grant is for all of them. A composite lock acquires its
    /// members in the order of their keys, so that two composite locks never wait for each other in a circle. Kinds can
    /// be mixed. The lease has no token of its own.
    ///
    /// The settings of the composite lock apply; the settings of its members do not.
    pub fn multi_lock<'a>(&self, locks: impl IntoIterator<Item = &'a Lock>) -> Lock {
        Lock(lock::Lock::composite(
            self.host.clone(),
            locks.into_iter().map(|lock| &lock.0),
        ))
    }

    /// Removes the record of a lock's holder, and returns whether there was one; for a semaphore or a read side,
    /// removes the records of all holders. For operators: a holder goes on until its next renewal finds the loss, or
    /// with a fixed lease until its deadline.
    ///
    /// # Errors
    /// As [`Lock::is_locked`]. After `Unavailable`, check whether the lock is still held: the record may be removed
    /// although no answer came.
    pub fn force_release(&self, lock: &Lock) -> Result<bool, Error> {
        lock::forced_result(run(&self.host, lock.0.force_release_op())?)
    }

    /// Changes the limit of the semaphore of this name: 1 to 1,000,000. For operators. Held permits stay held; while
    /// more are held than the new limit allows, none is granted. After the change, callers that name the old limit get
    /// `Misconfigured`, until no permit is held any more.
    ///
    /// Returns whether the limit was changed: while no permit is held there is no limit to change, and the next
    /// caller's limit applies.
    ///
    /// # Errors
    /// As [`Lock::is_locked`]; `InvalidArgument` also for a limit out of its range, and for a client with several
    /// primaries. After `Unavailable`, call again: the call is idempotent.
    pub fn set_limit(&self, name: impl AsRef<str>, limit: u32) -> Result<bool, Error> {
        lock::forced_result(run(&self.host, kinds::set_limit(name.as_ref(), limit))?)
    }

    /// Returns the client's counts in Prometheus' text format; see [`crate::Client::metrics`].
    ///
    /// # Errors
    /// `InvalidArgument` if the client was made without [`Builder::metrics`].
    pub fn metrics(&self) -> Result<String, Error> {
        self.host.metrics()
    }

    /// Whether [`Client::close`] was called on this client or on a clone of it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.host.is_closed()
    }

    /// Closes the client within 500 ms; see [`crate::Client::close`].
    pub fn close(&self) {
        self.host.close_blocking();
    }
}

/// A lock; see [`crate::Lock`]. A `Lock` has no implicit owner: a thread that holds the lock and acquires it again
/// waits for itself, unless it names its lease by [`Lock::within`]. A read side can have several holders, so there the
/// thread does not wait.
#[derive(Clone, Debug)]
#[must_use = "a lock object alone locks nothing; call acquire()"]
pub struct Lock(lock::Lock);

impl Lock {
    /// Returns the lock's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// See [`crate::Lock::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// See [`crate::Lock::renewed`].
    pub fn renewed(self) -> Self {
        Self(self.0.renewed())
    }

    /// See [`crate::Lock::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// See [`crate::Lock::without_fencing`].
    pub fn without_fencing(self) -> Self {
        Self(self.0.without_fencing())
    }

    /// See [`crate::Lock::on_unavailable`].
    pub fn on_unavailable(self, on_unavailable: OnUnavailable) -> Self {
        Self(self.0.on_unavailable(on_unavailable))
    }

    /// See [`crate::Lock::within`].
    pub fn within(&self, lease: &Lease) -> Self {
        Self(self.0.within(&lease.0))
    }

    /// Acquires the lock.
    ///
    /// # Errors
    /// As [`crate::Lock::acquire`].
    pub fn acquire(&self) -> Result<Lease, Error> {
        let granted = self.0.request(self.0.wait_limit()).wait_blocking()?;
        granted.map(Lease).map_err(|timeout| *timeout)
    }

    /// Acquires the lock if it is free, or becomes free within [`Lock::wait`].
    ///
    /// # Errors
    /// As [`crate::Lock::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Lease>, Error> {
        let wait = self.0.wait_limit().unwrap_or_default();
        Ok(self.0.request(Some(wait)).wait_blocking()?.ok().map(Lease))
    }

    /// Asks the server whether the lock is held.
    ///
    /// # Errors
    /// As [`crate::Lock::is_locked`].
    pub fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.holder()?.is_some())
    }

    /// Asks the server for the holder; `None` if the lock is free.
    ///
    /// # Errors
    /// As [`crate::Lock::is_locked`].
    pub fn holder(&self) -> Result<Option<Holder>, Error> {
        lock::holder_of(run(self.0.host(), self.0.inspect_op())?)
    }
}

/// A read-write lock; see [`crate::ReadWriteLock`].
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    /// The side that many owners can hold. Its leases have no token.
    pub read: Lock,
    /// The side that one owner holds alone.
    pub write: Lock,
}

impl ReadWriteLock {
    /// Returns the lock's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.write.name()
    }
}

/// A semaphore; see [`crate::Semaphore`].
#[derive(Clone, Debug)]
#[must_use = "a semaphore alone holds nothing; call acquire()"]
pub struct Semaphore(kinds::Semaphore);

impl Semaphore {
    /// Returns the semaphore's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the limit that this object names: the number of all permits.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.0.limit()
    }

    /// See [`crate::Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// See [`crate::Lock::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// See [`crate::Lock::renewed`].
    pub fn renewed(self) -> Self {
        Self(self.0.renewed())
    }

    /// See [`crate::Lock::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// Acquires `permits` permits, all or none, by one lease.
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire`].
    pub fn acquire(&self, permits: u32) -> Result<Lease, Error> {
        self.permits(permits).acquire()
    }

    /// Acquires `permits` permits if they are free, or become free within [`Semaphore::wait`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self, permits: u32) -> Result<Option<Lease>, Error> {
        self.permits(permits).try_acquire()
    }

    /// Asks the server for the number of free permits.
    ///
    /// # Errors
    /// As [`crate::Semaphore::available`].
    pub fn available(&self) -> Result<u32, Error> {
        self.0.count(run(self.0.lock().host(), self.0.lock().inspect_op())?)
    }

    /// Returns the permits as a lock, for example as a member of a [`Client::multi_lock`].
    pub fn permits(&self, permits: u32) -> Lock {
        Lock(self.0.permits(permits))
    }
}

/// A job, of which at most one run goes on at a time in the whole fleet; see [`crate::Once`].
///
/// ```
/// use std::time::Duration;
/// use steadlock::RunResult;
/// # fn main() -> Result<(), steadlock::Error> {
/// # let client = steadlock::blocking::Client::connect("memory://")?;
///
/// let report = client.once("report").at_least(Duration::from_secs(60));
/// assert!(matches!(report.run(|_| 7)?, RunResult::Ran(7)));
/// assert!(matches!(report.run(|_| 8)?, RunResult::Skipped(_)));
/// # client.close();
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a job alone runs nothing; call run()"]
pub struct Once(once::Once);

impl Once {
    /// Returns the job's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::Once::at_least`].
    pub fn at_least(self, at_least: Duration) -> Self {
        Self(self.0.at_least(at_least))
    }

    /// See [`crate::Once::key`].
    pub fn key(self, key: impl Into<String>) -> Self {
        Self(self.0.key(key))
    }

    /// See [`crate::Once::keep`].
    pub fn keep(self, keep: Duration) -> Self {
        Self(self.0.keep(keep))
    }

    /// See [`crate::Once::on_failure`].
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Self(self.0.on_failure(on_failure))
    }

    /// See [`crate::Once::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// See [`crate::Once::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// See [`crate::Lock::without_fencing`].
    pub fn without_fencing(self) -> Self {
        Self(self.0.without_fencing())
    }

    /// See [`crate::Once::on_unavailable`].
    pub fn on_unavailable(self, on_unavailable: OnUnavailable) -> Self {
        Self(self.0.on_unavailable(on_unavailable))
    }

    /// Runs the job if no other run goes on and the job is not done. The run ends well when `job` returns, and as failed
    /// when it panics. A job that goes on for long asks [`Lease::is_valid`] whether it still holds its lease: nothing
    /// can stop a thread.
    ///
    /// # Errors
    /// As [`crate::Once::run`]. `LockLost` comes after the job has returned.
    pub fn run<T>(&self, job: impl FnOnce(&Lease) -> T) -> Result<RunResult<T>, Error> {
        let succeed = |lease: &Lease| Ok::<T, std::convert::Infallible>(job(lease));
        Ok(match self.try_run(succeed)? {
            RunResult::Ran(Ok(value)) => RunResult::Ran(value),
            RunResult::Skipped(skipped) => RunResult::Skipped(skipped),
        })
    }

    /// Runs the job as [`Once::run`] does. If `job` returns an error, the run ends as failed, and the error is returned
    /// inside of [`RunResult::Ran`].
    ///
    /// # Errors
    /// As [`Once::run`].
    pub fn try_run<T, E>(&self, job: impl FnOnce(&Lease) -> Result<T, E>) -> Result<RunResult<Result<T, E>>, Error> {
        let run = match self.start()? {
            Started::Run(run) => run,
            Started::Skipped(skipped) => return Ok(RunResult::Skipped(skipped)),
        };
        let result = job(&run);
        let end = if result.is_ok() {
            RunEnd::Succeeded
        } else {
            RunEnd::Failed
        };
        let (name, outcome) = (run.name().to_owned(), run.end(end)?);
        match outcome.lost_reason() {
            None => Ok(RunResult::Ran(result)),
            reason => Err(Error::lost(Operation::Release, reason).with_lock(name)),
        }
    }

    /// Begins a run that the caller ends. Prefer [`Once::run`], which ends it in every case.
    ///
    /// # Errors
    /// As [`crate::Once::start`].
    pub fn start(&self) -> Result<Started, Error> {
        let started = once::started(self.0.lock().request(None).wait_blocking())?;
        Ok(match started {
            once::Started::Run(run) => Started::Run(Run(Lease(run.into_lease()))),
            once::Started::Skipped(skipped) => Started::Skipped(skipped),
        })
    }

    /// Asks the server for the last runs of the job; `None` if none began in the last 30 days.
    ///
    /// # Errors
    /// As [`crate::Once::last_run`].
    pub fn last_run(&self) -> Result<Option<LastRun>, Error> {
        once::last_run_of(run(self.0.lock().host(), self.0.last_run_op())?)
    }
}

/// A run that has begun, or why none has.
#[derive(Debug)]
#[must_use = "dropping a run ends it as failed"]
pub enum Started {
    /// The caller runs the job now.
    Run(Run),
    /// The job must not run.
    Skipped(Skipped),
}

/// A run of a job. Its methods are those of its [`Lease`]. Dropping it ends the run as failed.
#[derive(Debug)]
#[must_use = "dropping a run ends it as failed"]
pub struct Run(Lease);

impl Run {
    /// Ends the run well: the job did its work.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub fn succeed(self) -> Result<ReleaseOutcome, Error> {
        self.end(RunEnd::Succeeded)
    }

    /// Ends the run as failed.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub fn fail(self) -> Result<ReleaseOutcome, Error> {
        self.end(RunEnd::Failed)
    }

    fn end(mut self, end: RunEnd) -> Result<ReleaseOutcome, Error> {
        let op = self.0.0.start_end(end);
        let completion = run(self.0.0.host(), op)?;
        self.0.0.release_result(completion)
    }
}

impl std::ops::Deref for Run {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

/// The leadership of a group of processes; see [`crate::Leader`].
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # let client = steadlock::blocking::Client::connect("memory://")?;
/// let mailer = client.leader("mailer");
/// let term = mailer.campaign()?;
/// assert_eq!(mailer.current()?.number(), term.number());
/// term.resign()?;
/// # client.close();
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a leader object alone leads nothing; call campaign() or lead()"]
pub struct Leader(leader::Leader);

impl Leader {
    /// Returns the name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::Leader::term`].
    pub fn term(self, term: Duration) -> Self {
        Self(self.0.term(term))
    }

    /// See [`crate::Leader::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// Waits to lead, in order of arrival.
    ///
    /// # Errors
    /// As [`crate::Leader::campaign`].
    pub fn campaign(&self) -> Result<Term, Error> {
        let lock = self.0.lock();
        let term = leader::elected(lock.request(lock.wait_limit()).wait_blocking())?;
        Ok(Term(Lease(term.into_lease())))
    }

    /// Leads until `body` returns a value: campaigns, runs `body` in each term, and campaigns again if `body` returns
    /// `None`, or if the term was lost before it returned. Nothing can stop a thread, so `body` returns when
    /// [`Lease::is_valid`] is false. Pauses between two campaigns as [`crate::Leader::lead`] does.
    ///
    /// # Errors
    /// As [`crate::Leader::lead`].
    pub fn lead<T>(&self, mut body: impl FnMut(&Term) -> Option<T>) -> Result<T, Error> {
        let mut failures = 0;
        loop {
            match self.campaign() {
                Ok(term) => {
                    let value = body(&term);
                    let is_lost = term.resign()?.lost_reason().is_some();
                    match value {
                        Some(value) => return Ok(value),
                        None if !is_lost => failures = 0,
                        None => {}
                    }
                }
                Err(error) if !leader::is_passing(&error) => return Err(error),
                Err(_) => {}
            }
            std::thread::sleep(campaign_pause(failures));
            failures = failures.saturating_add(1);
        }
    }

    /// Asks the server who leads, and who would lead next.
    ///
    /// # Errors
    /// As [`crate::Leader::current`].
    pub fn current(&self) -> Result<Leadership, Error> {
        leader::leadership_of(run(self.0.lock().host(), self.0.leadership_op(None))?)
    }

    /// Returns an observer, which learns of the present leader and of each change.
    pub fn observe(&self) -> Observer {
        Observer(self.0.observe())
    }
}

/// An observer of a leader; see [`crate::Observer`].
#[derive(Clone, Debug)]
#[must_use = "an observer alone learns nothing; call next()"]
pub struct Observer(leader::Observer);

impl Observer {
    /// Returns the present state at the first call, and later blocks until it has changed, at most for `timeout`.
    /// Returns `None` if nothing has changed by then.
    ///
    /// # Errors
    /// As [`crate::Observer::next`].
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Leadership>, Error> {
        let mut pending = self.0.host().start(self.0.next_op());
        let Some(result) = pending.wait(timeout) else {
            return Ok(None);
        };
        let leadership = leader::leadership_of(result?)?;
        self.0.saw(&leadership);
        Ok(Some(leadership))
    }
}

/// A term of this process; see [`crate::Term`]. Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "dropping a term resigns"]
pub struct Term(Lease);

impl Term {
    /// Returns the number of the term, which is its fencing token: it rises from term to term.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.token().unwrap_or_default()
    }

    /// Resigns: the first candidate leads.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub fn resign(self) -> Result<ReleaseOutcome, Error> {
        self.resign_in_favour(None)
    }

    /// Resigns in favour of a candidate; see [`crate::Term::resign_to`].
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub fn resign_to(self, candidate: &Candidate) -> Result<ReleaseOutcome, Error> {
        self.resign_in_favour(Some(candidate))
    }

    fn resign_in_favour(mut self, candidate: Option<&Candidate>) -> Result<ReleaseOutcome, Error> {
        let op = self.0.0.start_resign(candidate);
        let completion = run(self.0.0.host(), op)?;
        self.0.0.release_result(completion)
    }
}

impl std::ops::Deref for Term {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

/// A held lock; see [`crate::Lease`]. Dropping the lease releases the lock in the background.
#[derive(Debug)]
#[must_use = "dropping a lease releases the lock"]
pub struct Lease(lease::Lease);

impl Lease {
    /// Returns the lock's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::Lease::token`].
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.0.token()
    }

    /// See [`crate::Lease::is_degraded`].
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.0.is_degraded()
    }

    /// See [`crate::Lease::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// See [`crate::Lease::is_valid`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// Returns the reason for the loss; `None` if the lease was not lost.
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.lost_reason()
    }

    /// Blocks until the lease is lost, at most for `timeout`. Returns `None` if the lease was not lost by then. On the
    /// thread that drives an engine, as in an observer, this call returns at once.
    #[must_use]
    pub fn wait_lost(&self, timeout: Duration) -> Option<LostReason> {
        if is_driving() {
            return self.lost_reason();
        }
        let mut lost = std::pin::pin!(self.0.state().wait_lost());
        park_on(timeout, |waker| {
            lost.as_mut().poll(&mut std::task::Context::from_waker(waker))
        })
    }

    /// Extends the lease.
    ///
    /// # Errors
    /// As [`crate::Lease::extend`].
    pub fn extend(&self, by: Option<Duration>) -> Result<(), Error> {
        self.0.extend_result(run(self.0.host(), self.0.extend_op(by)))
    }

    /// Releases the lease, and with the last lease of a hold the lock.
    ///
    /// # Errors
    /// As [`crate::Lease::release`].
    pub fn release(mut self) -> Result<ReleaseOutcome, Error> {
        let op = self.0.start_release();
        let completion = run(self.0.host(), op)?;
        self.0.release_result(completion)
    }
}

fn run(host: &Host, op: Op) -> Result<Completion, Error> {
    block_on(&mut host.start(op))
}
