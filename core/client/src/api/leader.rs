//! Leaders of a group of processes.

use std::time::Duration;

use steadlock_protocol::{
    Candidate, Error, ErrorKind, Leadership, LeaseDuration, LostReason, Operation, ReleaseOutcome,
};

use super::convert::unexpected;
use super::lease::Lease;
use super::lock::{AcquireResult, Lock};
use crate::blocking_pool;
use crate::host::{Completion, Host, Kind, LockRef, Op, campaign_pause};

/// The leadership of a group of processes: at most one of them leads at a time.
///
/// A process that wants to lead *campaigns*, and is served in order of arrival. A *term* is a renewed lease, 10 s long by
/// default; its number rises from term to term, and is the fencing token. A leader is known by its client id, never by
/// its host, so two processes of one host are two candidates. When a leader resigns, or closes its client, the next
/// candidate leads within two round trips; when a leader dies, the next one leads as soon as the term ends.
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let client = steadlock::Client::connect("memory://").await?;
/// let mailer = client.leader("mailer");
/// let term = mailer.campaign().await?;
/// println!("leading in term {}", term.number());
/// assert_eq!(mailer.current().await?.number(), term.number());
/// term.resign().await?;
/// assert!(mailer.current().await?.term.is_none());
/// # client.close().await;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a leader object alone leads nothing; call campaign() or lead()"]
pub struct Leader {
    lock: Lock,
}

impl Leader {
    pub(crate) fn new(host: Host, name: &str) -> Self {
        Self {
            lock: Lock::new(host, Kind::Leader, name),
        }
    }

    /// Returns the name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Sets the length of a term, which is renewed while its leader lives: 300 ms to 24 h. After a crash of the leader,
    /// nobody leads for at most that long. Default: 10 s.
    pub fn term(mut self, term: Duration) -> Self {
        self.lock = self.lock.lease(term).renewed();
        self
    }

    /// Sets how long [`Leader::campaign`] waits at most; zero makes one attempt. Default: as long as the server answers.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.lock = self.lock.wait(wait);
        self
    }

    /// Waits to lead, in order of arrival.
    ///
    /// # Errors
    /// As [`Lock::acquire`]: `LockTimeout` names the leader.
    ///
    /// Dropping the future ends the campaign: a term that is granted meanwhile is resigned.
    pub async fn campaign(&self) -> Result<Term, Error> {
        elected(self.lock.request(self.lock.wait_limit()).wait().await)
    }

    /// Leads until `body` completes: campaigns, runs `body` in each term, and campaigns again after a term is lost. When
    /// a term is lost, `body` is dropped at its next await. Between two campaigns there is a pause of 100 ms that grows
    /// to 5 s while terms are lost, or cannot be had, one after another. When `body` completes, the term is resigned, and
    /// its value is returned.
    ///
    /// ```
    /// # fn main() -> Result<(), steadlock::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let client = steadlock::Client::connect("memory://").await?;
    /// let number = client.leader("mailer").lead(async |term| term.number()).await?;
    /// assert!(number > 0);
    /// # client.close().await;
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// As [`Leader::campaign`], but without `Unavailable`, `LockTimeout` and `LockLost`, after which it campaigns again.
    ///
    /// Dropping the future drops `body` and resigns.
    pub async fn lead<T>(&self, mut body: impl AsyncFnMut(&Term) -> T) -> Result<T, Error> {
        let mut failures = 0;
        loop {
            match self.campaign().await {
                Ok(term) => {
                    let since = std::time::Instant::now();
                    if let Ok(value) = in_term(&term, body(&term)).await {
                        // The value counts, even if the term was lost at its end.
                        term.resign().await?;
                        return Ok(value);
                    }
                    if since.elapsed() > LeaseDuration::TERM.get() {
                        failures = 0;
                    }
                }
                Err(error) if !is_passing(&error) => return Err(error),
                Err(_) => {}
            }
            pause(campaign_pause(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Asks the server who leads, and who would lead next.
    ///
    /// # Errors
    /// As [`Lock::is_locked`]; `InvalidArgument` also for a client with several primaries.
    pub async fn current(&self) -> Result<Leadership, Error> {
        leadership_of(self.lock.host().start(self.leadership_op(None)).await?)
    }

    /// Returns an observer, which learns of the present leader and of each change.
    pub fn observe(&self) -> Observer {
        Observer {
            leader: self.clone(),
            seen: None,
        }
    }

    /// Returns the lock that a leader holds, for [`Lock::holder`] and
    /// [`Client::force_release`](crate::Client::force_release).
    pub fn as_lock(&self) -> Lock {
        self.lock.clone()
    }

    pub(crate) const fn lock(&self) -> &Lock {
        &self.lock
    }

    pub(crate) fn leadership_op(&self, seen: Option<u64>) -> Op {
        Op::Leadership {
            lock: LockRef::One(Kind::Leader, self.lock.name().to_owned()),
            seen,
        }
    }
}

/// Runs a future until it completes or the term is lost.
async fn in_term<T>(term: &Term, body: impl Future<Output = T>) -> Result<T, LostReason> {
    let (mut lost, mut body) = (std::pin::pin!(term.lost()), std::pin::pin!(body));
    std::future::poll_fn(|context| match body.as_mut().poll(context) {
        std::task::Poll::Ready(value) => std::task::Poll::Ready(Ok(value)),
        std::task::Poll::Pending => lost.as_mut().poll(context).map(Err),
    })
    .await
}

/// Waits on any async runtime, by a thread of the client's pool.
async fn pause(time: Duration) {
    // Without a thread there is no pause, and the next campaign comes at once.
    let _ = blocking_pool::run(move || std::thread::sleep(time)).await;
}

/// Whether a new campaign may succeed although this one failed.
pub(crate) fn is_passing(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::LockLost
}

pub(crate) fn elected(result: AcquireResult) -> Result<Term, Error> {
    let lease = result?.map_err(|timeout| *timeout)?;
    Ok(Term { lease })
}

pub(crate) fn leadership_of(completion: Completion) -> Result<Leadership, Error> {
    match completion {
        Completion::State(state) => Ok(state.leadership.map(|leadership| *leadership).unwrap_or_default()),
        other => Err(unexpected(Operation::Inspect, &other)),
    }
}

/// An observer of a leader. It learns of changes by a message, and by a poll every 500 to 750 ms in case a message is
/// lost. However many changes it misses, it learns of the last one.
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let client = steadlock::Client::connect("memory://").await?;
/// let mailer = client.leader("mailer");
/// let mut observer = mailer.observe();
/// assert!(observer.next().await?.term.is_none(), "the first call returns the present state");
/// let term = mailer.campaign().await?;
/// assert_eq!(observer.next().await?.number(), term.number());
/// # term.resign().await?;
/// # client.close().await;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an observer alone learns nothing; call next()"]
pub struct Observer {
    leader: Leader,
    seen: Option<u64>,
}

impl Observer {
    /// Returns the present state at the first call, and later waits for another term than the last one that it returned,
    /// or for the end of that term. Never returns the same term twice.
    ///
    /// # Errors
    /// As [`Leader::current`]. `Unavailable` comes only from the first call: later ones wait as long as it takes.
    ///
    /// Dropping the future changes nothing: the next call returns what this one would have.
    pub async fn next(&mut self) -> Result<Leadership, Error> {
        let leader = &self.leader;
        let leadership = leadership_of(leader.lock.host().start(leader.leadership_op(self.seen)).await?)?;
        self.seen = Some(leadership.number());
        Ok(leadership)
    }

    pub(crate) fn next_op(&self) -> Op {
        self.leader.leadership_op(self.seen)
    }

    pub(crate) const fn host(&self) -> &Host {
        self.leader.lock.host()
    }

    pub(crate) fn saw(&mut self, leadership: &Leadership) {
        self.seen = Some(leadership.number());
    }
}

/// A term of this process: it leads until it resigns, or the term is lost. Its methods are those of its [`Lease`].
/// Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "dropping a term resigns"]
pub struct Term {
    lease: Lease,
}

impl Term {
    /// Returns the number of the term, which is its fencing token: it rises from term to term.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.lease.token().unwrap_or_default()
    }

    /// Resigns: the first candidate leads.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub async fn resign(self) -> Result<ReleaseOutcome, Error> {
        self.resign_in_favour(None).await
    }

    /// Resigns in favour of a candidate of [`Leader::current`]. If it does not wait any more, the first candidate leads.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub async fn resign_to(self, candidate: &Candidate) -> Result<ReleaseOutcome, Error> {
        self.resign_in_favour(Some(candidate)).await
    }

    async fn resign_in_favour(mut self, candidate: Option<&Candidate>) -> Result<ReleaseOutcome, Error> {
        let op = self.lease.start_resign(candidate);
        let completion = self.lease.host().start(op).await?;
        self.lease.release_result(completion)
    }

    pub(crate) fn into_lease(self) -> Lease {
        self.lease
    }
}

impl std::ops::Deref for Term {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}
