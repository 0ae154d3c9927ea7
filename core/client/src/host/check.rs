//! Checks the operations of a host, and refuses everything that can be refused without the engine.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Context, Ending, Error, ErrorKind, Kind, LeaseDuration, LeaseId, LeaseTerms, LockName, OnFailure,
    Operation, RunEnd, RunKey, RunTerms, Subject, brief, shown,
};

use super::{Acquire, Op, Run};
use crate::port::{CheckedOp, generation_of, session_id};
use crate::settings::{Settings, duration};

/// The checks for one client in one process.
pub(super) struct Check<'a> {
    pub(super) settings: &'a Settings,
    pub(super) generation: u64,
}

impl Check<'_> {
    pub(super) fn operation(&self, op: Op) -> Result<CheckedOp, Error> {
        if self.generation > 0 && self.settings.is_private() && !matches!(op, Op::Close) {
            return Err(forked(self.settings, Operation::Acquire));
        }
        let operation = op.operation();
        self.checked(op).map_err(|error| error.with_operation(operation))
    }

    fn checked(&self, op: Op) -> Result<CheckedOp, Error> {
        Ok(match op {
            Op::Acquire(acquire) => self.check_acquire(acquire)?,
            Op::Release { lease } => {
                // The caller does not say that the job did its work.
                CheckedOp::Release(self.check_lease(lease, Operation::Release)?, RunEnd::Failed.into())
            }
            Op::EndRun {
                lease,
                end,
                at_least_ms,
            } => {
                let at_least =
                    at_least_ms.map(|ms| RunTerms::check_at_least(duration("`at_least`", ms, Operation::Release)?));
                let at_least = at_least.transpose()?;
                let ending = Ending {
                    end,
                    at_least,
                    successor: None,
                };
                CheckedOp::Release(self.check_lease(lease, Operation::Release)?, ending)
            }
            Op::ReleaseInnermost { lock, context } => CheckedOp::ReleaseInnermost {
                lock: self.check_lock(lock)?,
                context: Context::from_u64(context),
            },
            Op::Extend { lease, by_ms } => CheckedOp::Extend {
                lease: self.check_lease(lease, Operation::Extend)?,
                by: by_ms
                    .map(|ms| LeaseDuration::fixed(duration("the extension", ms, Operation::Extend)?))
                    .transpose()?,
            },
            Op::Inspect { lock } => match self.check_lock(lock)? {
                Subject::One(kind, name) => CheckedOp::Inspect { kind, name },
                Subject::All(_) => return Err(composite_refused(Operation::Inspect)),
            },
            Op::ForceRelease { lock } => match self.check_lock(lock)? {
                Subject::One(kind, name) => CheckedOp::ForceRelease { kind, name },
                Subject::All(_) => return Err(composite_refused(Operation::Release)),
            },
            Op::Resign { lease, to } => {
                let ending = Ending {
                    successor: to.map(Into::into),
                    ..RunEnd::Succeeded.into()
                };
                CheckedOp::Release(self.check_lease(lease, Operation::Release)?, ending)
            }
            Op::Leadership { lock, seen } => match self.check_lock(lock)? {
                Subject::One(Kind::Leader, name) => CheckedOp::Leadership { name, seen },
                _ => return Err(refused("only a leader is observed")),
            },
            Op::LastRun { lock } => match self.check_lock(lock)? {
                Subject::One(Kind::Once, name) => CheckedOp::LastRun { name },
                _ => return Err(refused("only a job has runs")),
            },
            Op::SetLimit { lock } => self.check_limit(lock)?,
            Op::Held { lock, context } => CheckedOp::Held {
                lock: self.check_lock(lock)?,
                context: Context::from_u64(context),
            },
            Op::Close => CheckedOp::Close,
        })
    }

    fn check_limit(&self, lock: LockRef) -> Result<CheckedOp, Error> {
        match self.check_lock(lock)? {
            Subject::One(Kind::Semaphore(permits), name) => Ok(CheckedOp::SetLimit { permits, name }),
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

    fn check_acquire(&self, acquire: Acquire) -> Result<CheckedOp, Error> {
        let lock = self.check_lock(acquire.lock)?;
        let is_job = matches!(lock, Subject::One(Kind::Once, _));
        let first_name = match &lock {
            Subject::One(_, name) => Some(name),
            Subject::All(locks) => locks.first().map(|(_, name)| name),
        };
        let first_name = first_name
            .map_or("", |name| self.settings.without_prefix(name.as_str()))
            .to_owned();
        let named = |error: Error| error.with_lock(first_name.as_str());
        let bound = |what, ms: Option<f64>| -> Result<Option<Duration>, Error> {
            ms.map(|ms| duration(what, ms, Operation::Acquire))
                .transpose()
                .map_err(named)
        };
        let max_hold = bound("max_hold", acquire.max_hold_ms)?;
        check_max_hold(max_hold).map_err(named)?;
        let context = acquire.context.map(Context::from_u64);
        let blocked: Vec<Context> = acquire.blocked.into_iter().map(Context::from_u64).collect();
        let within = acquire
            .within
            .map(|lease| self.check_lease(lease, Operation::Acquire))
            .transpose()
            .map_err(named)?;
        let mut requested = RequestedTimes {
            wait: bound("the wait", acquire.wait_ms)?,
            lease: bound("the lease", acquire.lease_ms)?,
            is_always_renewed: matches!(lock, Subject::One(Kind::Once | Kind::Leader, _)),
            renew: acquire.renew || (acquire.lease_ms.is_none() && self.settings.renew),
            max_hold,
        };
        if let Some(remaining) = bound("the remaining time", acquire.remaining_ms)? {
            requested
                .bound_by(remaining, self.settings.lease.get())
                .map_err(named)?;
        }
        let lease = self.terms(&requested).map_err(named)?;
        let RequestedTimes { wait, max_hold, .. } = requested;
        let on_unavailable = self.settings.on_unavailable(acquire.on_unavailable).map_err(named)?;
        let run = match is_job {
            true => Some(Arc::new(run_terms(acquire.run).map_err(named)?)),
            false => None,
        };
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
            run: run.clone(),
        };
        Ok(match lock {
            Subject::One(kind, name) => CheckedOp::Acquire(request((kind, name))),
            Subject::All(locks) => CheckedOp::AcquireAll(locks.into_iter().map(request).collect()),
        })
    }

    fn terms(&self, requested: &RequestedTimes) -> Result<LeaseTerms, Error> {
        match (requested.lease, requested.renew) {
            // A run and a term are renewed, even if the client's other leases are not.
            (None, _) if requested.is_always_renewed => Ok(LeaseTerms::CLIENT),
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

/// Refuses a longest time of holding that is shorter than any lease.
fn check_max_hold(max_hold: Option<Duration>) -> Result<(), Error> {
    match max_hold {
        Some(max_hold) if max_hold < LeaseDuration::MIN.get() => Err(Error::new(
            ErrorKind::InvalidArgument,
            Operation::Acquire,
            "max_hold is below 100 ms, the shortest lease; give more",
        )),
        _ => Ok(()),
    }
}

/// Checks the terms of a run.
fn run_terms(run: Run) -> Result<RunTerms, Error> {
    let mut terms = RunTerms::default();
    if let Some(ms) = run.at_least_ms {
        terms = terms.at_least(duration("`at_least`", ms, Operation::Acquire)?)?;
    }
    if let Some(key) = run.key {
        terms = terms.key(RunKey::parse(&key)?);
    }
    if let Some(ms) = run.keep_ms {
        terms = terms.keep(duration("`keep`", ms, Operation::Acquire)?)?;
    }
    match run.on_failure {
        Some(word) => Ok(terms.on_failure(OnFailure::parse(&word)?)),
        None => Ok(terms),
    }
}

/// The wait and the hold that a caller requests.
struct RequestedTimes {
    /// `None` for no bound, as in `max_hold`.
    wait: Option<Duration>,
    /// `None` for the client's lease.
    lease: Option<Duration>,
    renew: bool,
    /// Whether a lease without a length of its own is renewed whatever the client's setting says.
    is_always_renewed: bool,
    max_hold: Option<Duration>,
}

impl RequestedTimes {
    /// The shortest remaining time that is accepted. Half of it is left for the hold: 100 ms, the shortest lease.
    const SHORTEST: Duration = Duration::from_millis(200);

    /// Bounds the request by the time that the caller has left: at most half of it for the wait, and the rest for the
    /// hold.
    fn bound_by(&mut self, remaining: Duration, client_lease: Duration) -> Result<(), Error> {
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
        if self.lease.unwrap_or(client_lease) > hold {
            self.lease = Some(hold);
            self.renew &= hold >= LeaseDuration::MIN_AUTO_RENEWED.get();
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
fn composite_refused(operation: Operation) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        operation,
        "several locks are no lock of their own; ask for each of them",
    )
}

/// A lock: a single or a composite one. Its name and its numbers are checked when an operation uses the lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum LockRef {
    /// The lock of this kind and name.
    One(Kind, String),
    /// Permits of the semaphore of this name.
    Permits {
        /// The number of permits to acquire.
        wanted: Count,
        /// The number of all permits.
        limit: Count,
        /// The name.
        name: String,
    },
    /// The composite lock of these members.
    All(Vec<Self>),
}

/// A number of permits as a host gave it; `None` unless it is whole and at least 0. A number beyond the range of `u32`
/// becomes `u32::MAX`, which the check of the range refuses.
pub type Count = Option<u32>;

impl Default for LockRef {
    fn default() -> Self {
        Self::One(Kind::Lock, String::new())
    }
}

/// Shows names as messages do.
impl std::fmt::Debug for LockRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(kind, name) => write!(f, "LockRef({kind:?} {:?})", shown(name)),
            Self::Permits { wanted, limit, name } => {
                write!(f, "LockRef({wanted:?} of {limit:?} of {:?})", shown(name))
            }
            Self::All(members) => f.debug_list().entries(members).finish(),
        }
    }
}

impl LockRef {
    /// The name of a composite lock's kind.
    pub const COMPOSITE: &str = "multi_lock";

    /// Makes a lock of a kind, by the name of the kind. `numbers` returns the wanted permits and the limit of a
    /// semaphore; for other kinds it is not called.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown kind.
    pub fn of(kind: &str, name: String, numbers: impl FnOnce() -> (f64, f64)) -> Result<Self, Error> {
        if kind == SEMAPHORE {
            let (wanted, limit) = numbers();
            let (wanted, limit) = (count(wanted), count(limit));
            return Ok(Self::Permits { wanted, limit, name });
        }
        Ok(Self::One(Kind::parse(kind, 0, 0)?, name))
    }

    /// Makes a lock of a semaphore's permits.
    #[cfg(feature = "native")]
    pub(crate) fn permits(wanted: u32, limit: u32, name: &str) -> Self {
        Self::Permits {
            wanted: Some(wanted),
            limit: Some(limit),
            name: name.into(),
        }
    }

    /// Checks the lock. `to_full_name` turns a caller's name into the full name.
    ///
    /// # Errors
    /// `InvalidArgument` for a semaphore's numbers out of their range, for invalid names, and for a composite lock in a
    /// composite lock.
    pub(crate) fn parse(self, to_full_name: impl Fn(&str) -> Result<LockName, Error>) -> Result<Subject, Error> {
        match self {
            Self::All(members) => {
                let members = members.into_iter().map(|member| member.parse_one(&to_full_name));
                members.collect::<Result<_, Error>>().map(Subject::All)
            }
            one => {
                let (kind, name) = one.parse_one(&to_full_name)?;
                Ok(Subject::One(kind, name))
            }
        }
    }

    fn parse_one(self, to_full_name: impl Fn(&str) -> Result<LockName, Error>) -> Result<(Kind, LockName), Error> {
        match self {
            Self::One(kind, name) => Ok((kind, to_full_name(&name)?)),
            Self::Permits { wanted, limit, name } => {
                let (Some(wanted), Some(limit)) = (wanted, limit) else {
                    return Err(refused("a semaphore counts in whole numbers; give 1 or more"));
                };
                let kind = Kind::parse(SEMAPHORE, wanted, limit).map_err(|error| error.with_lock(&*name))?;
                Ok((kind, to_full_name(&name)?))
            }
            Self::All(_) => Err(refused(
                "a composite lock is no member of another one; give its members instead",
            )),
        }
    }

    /// Returns the name of the lock's kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::One(kind, _) => kind.name(),
            Self::Permits { .. } => SEMAPHORE,
            Self::All(_) => Self::COMPOSITE,
        }
    }
}

/// The name of the kind that counts permits.
const SEMAPHORE: &str = "semaphore";

fn count(number: f64) -> Count {
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u32)
}

fn refused(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadlock_protocol::Permits;

    fn checked(lock: LockRef) -> Result<Subject, Error> {
        lock.parse(LockName::parse)
    }

    fn name(text: &str) -> LockName {
        LockName::parse(text).unwrap()
    }

    #[test]
    fn a_lock_is_made_by_the_name_of_its_kind() {
        for kind in Kind::NAMES {
            let lock = LockRef::of(kind, "a".into(), || (2.0, 5.0)).unwrap();
            assert_eq!(lock.kind(), kind);
            let expected = Kind::parse(kind, 2, 5).unwrap();
            assert_eq!(checked(lock).unwrap(), Subject::One(expected, name("a")));
        }
        let unknown = LockRef::of("spin", "a".into(), || (1.0, 1.0)).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn numbers_of_permits_are_checked_at_use() {
        let of = |wanted, limit| checked(LockRef::of("semaphore", "a".into(), || (wanted, limit)).unwrap());
        let permits = Permits::new(2, 5).unwrap();
        assert_eq!(of(2.0, 5.0).unwrap(), Subject::One(Kind::Semaphore(permits), name("a")));
        for (number, says) in [
            (f64::NAN, "counts in whole numbers"),
            (f64::INFINITY, "counts in whole numbers"),
            (-1.0, "counts in whole numbers"),
            (1.5, "counts in whole numbers"),
            (0.0, "give 1 to 1,000,000"),
            (1e300, "give 1 to 1,000,000"),
        ] {
            let error = of(1.0, number).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(says), "{number}: {error}");
        }
        assert!(of(6.0, 5.0).unwrap_err().to_string().contains("no more than the limit"));
    }

    #[test]
    fn a_composite_lock_has_single_locks_only() {
        let (a, b) = (LockRef::One(Kind::Lock, "a".into()), LockRef::permits(1, 5, "b"));
        let all = LockRef::All(vec![a, b]);
        let permits = Kind::Semaphore(Permits::new(1, 5).unwrap());
        let expected = vec![(Kind::Lock, name("a")), (permits, name("b"))];
        assert_eq!(checked(all.clone()).unwrap(), Subject::All(expected));
        assert_eq!(
            checked(LockRef::All(vec![all])).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }

    #[test]
    fn no_log_shows_a_url_in_a_name() {
        let lock = LockRef::All(vec![LockRef::One(Kind::Lock, "redis://:hunter2@host".into())]);
        assert!(!format!("{lock:?}").contains("hunter2"), "{lock:?}");
    }
}
