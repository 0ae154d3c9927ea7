//! Jobs that run once in a fleet.

use std::fmt;
use std::time::{Duration, SystemTime};

use steadlock_protocol::{
    Error, Holder, LastRun, OnFailure, OnUnavailable, Operation, ReleaseOutcome, RunEnd, SkipReason,
};

use super::convert::{millis, unexpected};
use super::lease::Lease;
use super::lock::{AcquireResult, Lock};
use crate::host::{Completion, Host, Kind, LockRef, Op};

/// A job, of which at most one run goes on at a time in the whole fleet.
///
/// A request never waits: it is granted a run, or it is skipped because another run goes on or the job is done. A run
/// is a renewed lease, so nobody has to guess how long the job takes. If its process dies, the job is free when the
/// lease ends (30 s by default) and may run again: no lock can promise that a job runs *exactly* once. Send
/// [`Lease::token`] along with what the job writes, or give each run a [`Once::key`], and a repetition is harmless.
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use steadlock::RunResult;
/// # let client = steadlock::Client::connect("memory://").await?;
///
/// let report = client.once("report").at_least(Duration::from_secs(60));
/// let ran = report.run(async |run| format!("written with token {}", run.token().unwrap())).await?;
/// assert!(matches!(ran, RunResult::Ran(text) if text.starts_with("written")));
///
/// // Another instance comes 0.2 s later.
/// match report.run(async |_| ()).await? {
///     RunResult::Ran(()) => unreachable!("the job is done for this minute"),
///     RunResult::Skipped(skipped) => println!("{skipped}"),
/// }
/// # client.close().await;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a job alone runs nothing; call run()"]
pub struct Once {
    lock: Lock,
}

impl Once {
    pub(crate) fn new(host: Host, name: &str) -> Self {
        Self {
            lock: Lock::new(host, Kind::Once, name),
        }
    }

    /// Returns the job's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Sets for how long after its start a run that ended well keeps others out: at most 24 h. Give a little more than
    /// the clocks of the instances can differ, and less than the time between two runs. The server's clock counts.
    /// Default: no time, so that the job can run again as soon as it has ended.
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.lock.run_mut().at_least_ms = Some(millis(at_least));
        self
    }

    /// Sets the key of the run, such as the planned time or the number of an order: 1 to 512 bytes, without NUL. A run
    /// of this key that ended well is not repeated while the server remembers it. Runs of other keys are not affected,
    /// but at most one run of the job goes on at a time whatever its key. Default: no key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.lock.run_mut().key = Some(key.into());
        self
    }

    /// Sets how long the server remembers that the key is done: 1 ms to 30 days, default 24 h.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.lock.run_mut().keep_ms = Some(millis(keep));
        self
    }

    /// Sets what a failed run means for later requests. Default: [`OnFailure::Retry`].
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.lock.run_mut().on_failure = Some(on_failure.as_str().to_owned());
        self
    }

    /// Sets the length of the lease, which is renewed while the job runs: 300 ms to 24 h. After a crash the job is free
    /// when the lease ends. Default: the client's lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease).renewed();
        self
    }

    /// Sets how long the job may run: at least 100 ms. After that time the run is lost with the reason `MaxHold`.
    /// Default: no bound.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.lock = self.lock.max_hold(max_hold);
        self
    }

    /// See [`Lock::without_fencing`].
    pub fn without_fencing(mut self) -> Self {
        self.lock = self.lock.without_fencing();
        self
    }

    /// Sets how a request ends while the server is unavailable: [`OnUnavailable::Fail`] or [`OnUnavailable::Skip`]. A
    /// job never runs without the server, so [`OnUnavailable::Local`] fails too. The client must have a circuit
    /// breaker. Default: the client's setting.
    pub fn on_unavailable(mut self, on_unavailable: OnUnavailable) -> Self {
        self.lock = self.lock.on_unavailable(on_unavailable);
        self
    }

    /// Runs the job if no other run goes on and the job is not done. The run ends well when `job` completes; see
    /// [`Once::try_run`] for a job that can fail.
    ///
    /// # Errors
    /// - `LockLost`: the lease was lost. If the job had not completed, it was dropped at its next await.
    /// - `Unavailable`: the server did not answer in time. The job did not run.
    /// - `InvalidArgument`: the name or the key is invalid, or a number is out of its range.
    /// - `Misconfigured`: the key holds something that is not a run of a job, or the server's user lacks a permission.
    /// - `Closed`, `Forked`.
    ///
    /// Dropping the future drops the job, whose run then ends as failed.
    pub async fn run<T>(&self, job: impl AsyncFnOnce(&Lease) -> T) -> Result<RunResult<T>, Error> {
        let succeed = async |lease: &Lease| Ok::<T, std::convert::Infallible>(job(lease).await);
        Ok(match self.try_run(succeed).await? {
            RunResult::Ran(Ok(value)) => RunResult::Ran(value),
            RunResult::Skipped(skipped) => RunResult::Skipped(skipped),
        })
    }

    /// Runs the job as [`Once::run`] does. If `job` returns an error, the run ends as failed, and the error is returned
    /// inside of [`RunResult::Ran`].
    ///
    /// # Errors
    /// As [`Once::run`].
    pub async fn try_run<T, E>(
        &self,
        job: impl AsyncFnOnce(&Lease) -> Result<T, E>,
    ) -> Result<RunResult<Result<T, E>>, Error> {
        let run = match self.start().await? {
            Started::Run(run) => run,
            Started::Skipped(skipped) => return Ok(RunResult::Skipped(skipped)),
        };
        let result = {
            let mut lost = std::pin::pin!(run.lost());
            let mut job = std::pin::pin!(job(&run));
            let either = std::future::poll_fn(|context| {
                if let std::task::Poll::Ready(result) = job.as_mut().poll(context) {
                    return std::task::Poll::Ready(Some(result));
                }
                lost.as_mut().poll(context).map(|_| None)
            });
            either.await
        };
        let end = match &result {
            Some(Ok(_)) => RunEnd::Succeeded,
            Some(Err(_)) | None => RunEnd::Failed,
        };
        let (name, outcome) = (run.name().to_owned(), run.end(end).await?);
        match result.filter(|_| outcome.lost_reason().is_none()) {
            Some(result) => Ok(RunResult::Ran(result)),
            None => Err(Error::lost(Operation::Release, outcome.lost_reason()).with_lock(name)),
        }
    }

    /// Begins a run that the caller ends. Prefer [`Once::run`], which ends it in every case.
    ///
    /// # Errors
    /// As [`Once::run`], without `LockLost`.
    ///
    /// Dropping the future cancels the request: a run that is granted meanwhile is released.
    pub async fn start(&self) -> Result<Started, Error> {
        started(self.lock.request(None).wait().await)
    }

    /// Asks the server for the last runs of the job; `None` if none began in the last 30 days.
    ///
    /// # Errors
    /// As [`Lock::is_locked`]; `InvalidArgument` also for a client with several primaries.
    pub async fn last_run(&self) -> Result<Option<LastRun>, Error> {
        last_run_of(self.lock.host().start(self.last_run_op()).await?)
    }

    /// Returns the lock that a run holds, for [`Lock::holder`] and [`Client::force_release`](crate::Client::force_release).
    /// A forced release also makes a job that is done free to run again.
    pub fn as_lock(&self) -> Lock {
        self.lock.clone()
    }

    pub(crate) const fn lock(&self) -> &Lock {
        &self.lock
    }

    pub(crate) fn last_run_op(&self) -> Op {
        Op::LastRun {
            lock: LockRef::One(Kind::Once, self.lock.name().to_owned()),
        }
    }
}

pub(crate) fn started(result: AcquireResult) -> Result<Started, Error> {
    match result? {
        Ok(lease) => Ok(Started::Run(Run { lease })),
        Err(error) => Ok(Started::Skipped(Skipped { error })),
    }
}

pub(crate) fn last_run_of(completion: Completion) -> Result<Option<LastRun>, Error> {
    match completion {
        Completion::State(state) => Ok(state.last_run.map(|last_run| *last_run)),
        other => Err(unexpected(Operation::Inspect, &other)),
    }
}

/// The result of a request to run a job.
#[derive(Debug)]
pub enum RunResult<T> {
    /// The job ran; this is what it returned.
    Ran(T),
    /// The job did not run.
    Skipped(Skipped),
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

/// Why a job did not run. Its text is a sentence for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    error: Box<Error>,
}

impl Skipped {
    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> SkipReason {
        self.error.skip().map_or(SkipReason::Unavailable, |skip| skip.reason)
    }

    /// Returns which program runs or ran the job, and how long this keeps others out if nothing renews it; `None` if
    /// the server was not asked.
    #[must_use]
    pub fn by(&self) -> Option<&Holder> {
        self.error.holder()
    }

    /// Returns when the other run began, by the server's clock; `None` if the server was not asked.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        let since = self.error.skip()?.since?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(since))
    }

    /// Returns how long the other run took; `None` while it goes on.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.error.skip()?.took
    }

    /// Returns the same as an error, of the kind `Skipped`.
    #[must_use]
    pub fn into_error(self) -> Error {
        *self.error
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// A run of a job. Its methods are those of its [`Lease`]. Dropping it ends the run as failed.
#[derive(Debug)]
#[must_use = "dropping a run ends it as failed"]
pub struct Run {
    lease: Lease,
}

impl Run {
    /// Ends the run well: the job did its work.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub async fn succeed(self) -> Result<ReleaseOutcome, Error> {
        self.end(RunEnd::Succeeded).await
    }

    /// Ends the run as failed.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub async fn fail(self) -> Result<ReleaseOutcome, Error> {
        self.end(RunEnd::Failed).await
    }

    async fn end(mut self, end: RunEnd) -> Result<ReleaseOutcome, Error> {
        let op = self.lease.start_end(end);
        let completion = self.lease.host().start(op).await?;
        self.lease.release_result(completion)
    }

    pub(crate) fn into_lease(self) -> Lease {
        self.lease
    }
}

impl std::ops::Deref for Run {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}
