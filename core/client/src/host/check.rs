//! Checks the operations of a host, and refuses everything that can be refused without the engine.
//!
//! A binding names a lock by one text, its *address*, which the package makes once for each lock object:
//!
//! ```text
//! address   = kind NUL name                         lock, mutex, fair_lock, read_lock, write_lock
//!           | "semaphore" NUL wanted NUL limit NUL name
//!           | "multi" NUL { length NUL address }     length of the address in bytes of UTF-8
//! ```
//!
//! Names cannot contain NUL, so no name can be mistaken for part of an address.

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Context, Error, ErrorKind, Kind, LeaseDuration, LeaseId, LeaseTerms, LockName, Operation, Subject,
    brief, shown,
};

use super::{Acquire, Op};
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
            Op::Release { lease } => CheckedOp::Release(self.check_lease(lease, Operation::Release)?),
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
        let mut requested = RequestedTimes {
            wait: bound("the wait", acquire.wait_ms)?,
            lease: bound("the lease", acquire.lease_ms)?,
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
            Subject::One(kind, name) => CheckedOp::Acquire(request((kind, name))),
            Subject::All(locks) => CheckedOp::AcquireAll(locks.into_iter().map(request).collect()),
        })
    }

    fn terms(&self, requested: &RequestedTimes) -> Result<LeaseTerms, Error> {
        match (requested.lease, requested.renew) {
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
struct RequestedTimes {
    wait: Option<Duration>,
    /// `None` for the client's lease.
    lease: Option<Duration>,
    renew: bool,
    max_hold: Option<Duration>,
}

impl RequestedTimes {
    /// The shortest remaining time. A wait of half of it leaves 100 ms for the hold, the shortest lease.
    const SHORTEST: Duration = Duration::from_millis(200);

    /// Bounds the request by the time that the caller has left: half of it for the wait, and the rest for the hold.
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

/// A lock: a single or a composite one.
#[derive(Clone, PartialEq, Eq)]
pub enum LockRef {
    /// A single lock.
    One(Kind, String),
    /// A composite lock of these members.
    All(Vec<(Kind, String)>),
    /// An address that has not been parsed yet.
    Address(String),
}

/// The separator between the parts of an address.
const NUL: char = '\0';
/// The beginning of a composite lock's address.
const COMPOSITE: &str = "multi";

impl Default for LockRef {
    fn default() -> Self {
        Self::One(Kind::Lock, String::new())
    }
}

/// Shows names as messages do.
impl std::fmt::Debug for LockRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockRef({:?})", shown(&self.address()))
    }
}

impl From<String> for LockRef {
    fn from(address: String) -> Self {
        Self::Address(address)
    }
}

impl LockRef {
    /// Parses the lock. `to_full_name` turns a caller's name into the full name.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed address, for a semaphore's numbers out of their range, and for invalid names.
    pub(crate) fn parse(self, to_full_name: impl Fn(&str) -> Result<LockName, Error>) -> Result<Subject, Error> {
        match self {
            Self::One(kind, name) => Ok(Subject::One(kind, to_full_name(&name)?)),
            Self::All(locks) => {
                let all = locks.into_iter().map(|(kind, name)| Ok((kind, to_full_name(&name)?)));
                all.collect::<Result<_, Error>>().map(Subject::All)
            }
            Self::Address(address) => match address.split_once(NUL) {
                Some((COMPOSITE, members)) => parse_members(members, to_full_name).map(Subject::All),
                _ => {
                    let (kind, name) = parse_one(&address)?;
                    Ok(Subject::One(kind, to_full_name(name)?))
                }
            },
        }
    }

    /// Makes a composite lock of these locks.
    pub(crate) fn composite<'a>(locks: impl IntoIterator<Item = &'a Self>) -> Self {
        let members = locks.into_iter().map(|lock| {
            let address = lock.address();
            format!("{}{NUL}{address}", address.len())
        });
        Self::Address(format!("{COMPOSITE}{NUL}{}", members.collect::<String>()))
    }

    /// Makes a lock of a semaphore's permits. The numbers are checked when it is used.
    #[cfg(feature = "native")]
    pub(crate) fn semaphore(wanted: u32, limit: u32, name: &str) -> Self {
        Self::Address(format!("semaphore{NUL}{wanted}{NUL}{limit}{NUL}{name}"))
    }

    /// Returns the name of the lock's kind; `multi_lock` for a composite lock.
    #[cfg(all(feature = "tracing", feature = "native"))]
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::One(kind, _) => kind.name(),
            Self::All(_) => "multi_lock",
            Self::Address(address) => match address.split_once(NUL) {
                Some((COMPOSITE, _)) => "multi_lock",
                kind => kind.map_or("", |(kind, _)| kind),
            },
        }
    }

    /// Returns the lock's address.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::One(kind, name) => address_of(*kind, name),
            Self::All(locks) => {
                let members: Vec<Self> = locks
                    .iter()
                    .map(|(kind, name)| Self::One(*kind, name.clone()))
                    .collect();
                Self::composite(&members).address()
            }
            Self::Address(address) => address.clone(),
        }
    }
}

fn address_of(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Semaphore(permits) => {
            let (wanted, limit) = (permits.wanted(), permits.limit());
            format!("{}{NUL}{wanted}{NUL}{limit}{NUL}{name}", kind.name())
        }
        _ => format!("{}{NUL}{name}", kind.name()),
    }
}

fn parse_one(address: &str) -> Result<(Kind, &str), Error> {
    let (kind, rest) = address.split_once(NUL).ok_or_else(malformed)?;
    if kind != "semaphore" {
        return Ok((Kind::parse(kind, 0, 0)?, rest));
    }
    let mut parts = rest.splitn(3, NUL);
    let mut next = || parts.next().ok_or_else(malformed);
    let (wanted, limit, name) = (number(next()?)?, number(next()?)?, next()?);
    let kind = Kind::parse(kind, wanted, limit).map_err(|error| error.with_lock(name))?;
    Ok((kind, name))
}

fn parse_members(
    mut members: &str,
    to_full_name: impl Fn(&str) -> Result<LockName, Error>,
) -> Result<Vec<(Kind, LockName)>, Error> {
    let mut locks = Vec::new();
    while !members.is_empty() {
        let (length, rest) = members.split_once(NUL).ok_or_else(malformed)?;
        let length: usize = length.parse().map_err(|_| malformed())?;
        let (member, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        let (kind, name) = parse_one(member)?;
        locks.push((kind, to_full_name(name)?));
        members = rest;
    }
    Ok(locks)
}

/// Parses a count. A number beyond `u32` becomes the largest one, which the check of the range then refuses.
fn number(text: &str) -> Result<u32, Error> {
    let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if is_count => Ok(u32::MAX),
        Err(_) => Err(Error::new(
            ErrorKind::InvalidArgument,
            Operation::Acquire,
            // The message does not quote the text: it can be anything, even a URL with a password in a number's place.
            "a semaphore counts in whole numbers; give 1 or more",
        )),
    }
}

fn malformed() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Operation::Acquire,
        "this is no lock's address; make locks by the client's methods",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadlock_protocol::Permits;

    /// Full names for tests. Shows a NUL in a name as text; elsewhere such a name is refused.
    fn to_full_name(name: &str) -> Result<LockName, Error> {
        LockName::parse(&name.replace(NUL, "/NUL/"))
    }

    fn parse(address: &str) -> Result<Subject, Error> {
        LockRef::from(address.to_owned()).parse(to_full_name)
    }

    fn one((kind, name): (Kind, String)) -> (Kind, LockName) {
        (kind, to_full_name(&name).unwrap())
    }

    #[test]
    fn an_address_names_what_it_was_made_of() {
        let semaphore = Kind::Semaphore(Permits::new(2, 5).unwrap());
        let locks = [
            (Kind::Lock, "a"),
            (Kind::Mutex, "ä:{x}"),
            (Kind::Fair, "a"),
            (Kind::Read, "a"),
            (Kind::Write, "a"),
            (semaphore, "a"),
        ]
        .map(|(kind, name)| (kind, name.to_owned()));
        for (kind, name) in locks.clone() {
            let address = LockRef::One(kind, name.clone()).address();
            let expected = Subject::from(one((kind, name)));
            assert_eq!(parse(&address).unwrap(), expected, "{address:?}");
        }
        let all = LockRef::All(locks.to_vec()).address();
        assert_eq!(parse(&all).unwrap(), Subject::All(locks.map(one).to_vec()));
    }

    #[test]
    fn a_name_is_never_read_as_something_else() {
        let deceptive = "x\u{0}9\u{0}mutex\u{0}b";
        let address = LockRef::All(vec![(Kind::Lock, deceptive.into())]).address();
        let expected = one((Kind::Lock, deceptive.into()));
        assert_eq!(parse(&address).unwrap(), Subject::All(vec![expected.clone()]));
        let address = LockRef::One(Kind::Lock, deceptive.into()).address();
        assert_eq!(parse(&address).unwrap(), Subject::from(expected));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for address in [
            "",
            "a",
            "spin\0a",
            "semaphore\0a",
            "semaphore\x001\x000\0a",
            "semaphore\x00-1\x005\0a",
            "semaphore\x006\x005\0a",
            "semaphore\x0099999999999\x0099999999999\0a",
            "multi\x009\0lock\0a",
            "multi\0x\0lock\0a",
        ] {
            assert_eq!(
                parse(address).unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{address:?}"
            );
        }
    }
}
