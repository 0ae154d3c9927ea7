//! Checks the operations of a host, and refuses everything that can be refused without the engine.

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Context, Error, ErrorKind, Kind, LeaseDuration, LeaseId, LeaseTerms, Operation, Subject, brief,
};

use super::address::LockRef;
use super::operation::{Acquire, Op};
use crate::port::{Checked, generation_of, session_id};
use crate::settings::{Settings, duration};

/// The checks for one client in one process.
pub(super) struct Check<'a> {
    pub(super) settings: &'a Settings,
    pub(super) generation: u64,
}

impl Check<'_> {
    pub(super) fn operation(&self, op: Op) -> Result<Checked, Error> {
        if self.generation > 0 && self.settings.is_private() && !matches!(op, Op::Close) {
            return Err(forked(self.settings, Operation::Acquire));
        }
        let operation = op.operation();
        self.checked(op).map_err(|error| error.with_operation(operation))
    }

    fn checked(&self, op: Op) -> Result<Checked, Error> {
        Ok(match op {
            Op::Acquire(acquire) => self.check_acquire(acquire)?,
            Op::Release { lease } => Checked::Release(self.check_lease(lease, Operation::Release)?),
            Op::ReleaseInnermost { lock, context } => {
                Checked::ReleaseInnermost(self.check_lock(lock)?, Context::from_u64(context))
            }
            Op::Extend { lease, by_ms } => Checked::Extend(
                self.check_lease(lease, Operation::Extend)?,
                by_ms
                    .map(|ms| LeaseDuration::fixed(duration("the extension", ms, Operation::Extend)?))
                    .transpose()?,
            ),
            Op::Inspect { lock } => match self.check_lock(lock)? {
                Subject::One(kind, name) => Checked::Inspect(kind, name),
                Subject::All(_) => return Err(several(Operation::Inspect)),
            },
            Op::ForceRelease { lock } => match self.check_lock(lock)? {
                Subject::One(kind, name) => Checked::ForceRelease(kind, name),
                Subject::All(_) => return Err(several(Operation::Release)),
            },
            Op::SetLimit { lock } => self.check_limit(lock)?,
            Op::Held { lock, context } => Checked::Held(self.check_lock(lock)?, Context::from_u64(context)),
            Op::Close => Checked::Close,
        })
    }

    fn check_limit(&self, lock: LockRef) -> Result<Checked, Error> {
        match self.check_lock(lock)? {
            Subject::One(Kind::Semaphore(permits), name) => Ok(Checked::SetLimit(permits, name)),
            _ => Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::SetLimit,
                "only a semaphore has a limit",
            )),
        }
    }

    fn check_lock(&self, lock: LockRef) -> Result<Subject, Error> {
        lock.parse(|name| self.settings.lock_name(name))
    }

    fn check_acquire(&self, acquire: Acquire) -> Result<Checked, Error> {
        let lock = self.check_lock(acquire.lock)?;
        let first = match &lock {
            Subject::One(_, name) => Some(name),
            Subject::All(locks) => locks.first().map(|(_, name)| name),
        };
        let first = first
            .map_or("", |name| self.settings.without_prefix(name.as_str()))
            .to_owned();
        let named = |error: Error| error.with_lock(first.as_str());
        let bound = |what, ms: Option<f64>| -> Result<Option<Duration>, Error> {
            ms.map(|ms| duration(what, ms, Operation::Acquire))
                .transpose()
                .map_err(named)
        };
        let max_hold = bound("max_hold", acquire.max_hold_ms)?;
        if max_hold.is_some_and(|max_hold| max_hold < LeaseDuration::MIN.get()) {
            return Err(named(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Acquire,
                "max_hold is below 100 ms, the shortest lease; give more",
            )));
        }
        let context = acquire.context.map(Context::from_u64);
        let blocked: Vec<Context> = acquire.blocked.into_iter().map(Context::from_u64).collect();
        let within = acquire
            .within
            .map(|lease| self.check_lease(lease, Operation::Acquire))
            .transpose()
            .map_err(named)?;
        let mut wanted = Wanted {
            wait: bound("the wait", acquire.wait_ms)?,
            lease: bound("the lease", acquire.lease_ms)?,
            renew: acquire.renew || (acquire.lease_ms.is_none() && self.settings.renew),
            max_hold,
        };
        if let Some(remaining) = bound("the remaining time", acquire.remaining_ms)? {
            wanted.end_within(remaining, self.settings.lease.get()).map_err(named)?;
        }
        let lease = self.terms(&wanted).map_err(named)?;
        let Wanted { wait, max_hold, .. } = wanted;
        let on_unavailable = self.settings.on_unavailable(acquire.on_unavailable).map_err(named)?;
        let request = |(kind, name)| AcquireRequest {
            kind,
            name,
            context,
            within,
            wait,
            lease,
            max_hold,
            fencing: !acquire.no_fencing,
            on_unavailable,
            blocked: blocked.clone(),
        };
        Ok(match lock {
            Subject::One(kind, name) => Checked::Acquire(request((kind, name))),
            Subject::All(locks) => Checked::AcquireAll(locks.into_iter().map(request).collect()),
        })
    }

    fn terms(&self, wanted: &Wanted) -> Result<LeaseTerms, Error> {
        match (wanted.lease, wanted.renew) {
            (None, true) if self.settings.renew => Ok(LeaseTerms::CLIENT),
            (None, true) => LeaseTerms::renewed(self.settings.lease.get()),
            (None, false) => LeaseTerms::fixed(self.settings.lease.get()),
            (Some(length), true) => LeaseTerms::renewed(length),
            (Some(length), false) => LeaseTerms::fixed(length),
        }
    }

    fn check_lease(&self, lease: u64, operation: Operation) -> Result<LeaseId, Error> {
        if generation_of(lease) != self.generation {
            return Err(forked(self.settings, operation));
        }
        Ok(LeaseId::from_u64(session_id(lease)))
    }
}

/// The wait and the hold that a caller requests.
struct Wanted {
    wait: Option<Duration>,
    /// `None` for the client's lease.
    lease: Option<Duration>,
    renew: bool,
    max_hold: Option<Duration>,
}

impl Wanted {
    /// The shortest remaining time. A wait of half of it leaves 100 ms for the hold, the shortest lease.
    const SHORTEST: Duration = Duration::from_millis(200);

    /// Bounds the request by the time that the caller has left: half of it for the wait, and the rest for the hold.
    fn end_within(&mut self, remaining: Duration, client: Duration) -> Result<(), Error> {
        if remaining < Self::SHORTEST {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Acquire,
                format!(
                    "{} remain to the caller, too little for a lock; call with 200 ms or more",
                    brief(remaining)
                ),
            ));
        }
        let wait = self.wait.map_or(remaining / 2, |wait| wait.min(remaining / 2));
        let hold = remaining.saturating_sub(wait);
        self.wait = Some(wait);
        self.max_hold = Some(self.max_hold.map_or(hold, |max| max.min(hold)));
        if self.lease.unwrap_or(client) > hold {
            self.lease = Some(hold);
            self.renew &= hold >= LeaseDuration::MIN_WATCHED.get();
        }
        Ok(())
    }
}

/// Returns the error of a call that belongs to another process.
pub(super) fn forked(settings: &Settings, operation: Operation) -> Error {
    let message = if settings.is_private() {
        "this process is a fork, and a private memory:// client stays with its parent; make a client of its own here"
    } else {
        "this process is a fork, and the lease or call is its parent's; acquire the lock again here"
    };
    Error::new(ErrorKind::Forked, operation, message)
}

/// Returns the error for a composite lock where a single one is required.
fn several(operation: Operation) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        operation,
        "several locks are no lock of their own; ask for each of them",
    )
}
