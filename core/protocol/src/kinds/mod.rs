//! The kinds of lock. A kind is its keys, its scripts and what their replies
//! mean; the machine that uses them is one for all.

mod fair;
#[cfg(test)]
mod layout;
mod lock;
mod mutex;
mod read_write;
mod semaphore;

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Operation};
use crate::ids::NodeId;
use crate::name::{LockName, Word};
use crate::owner::{ClientId, OwnerId};
use crate::reply::Reply;
use crate::script::Script;
use crate::token::Token;

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The reentrant lock. Excludes Redisson's `getLock` of the same name.
    Lock,
    /// The simple lock, in the layout of most other libraries. Not reentrant.
    Mutex,
    /// The reentrant lock whose waiters are served in order of arrival, whatever
    /// their process. Excludes `Lock`.
    Fair,
    /// The side of a read-write lock that many may hold.
    Read,
    /// The side of a read-write lock that one holds alone.
    Write,
    /// Permits of a semaphore. Not reentrant.
    Semaphore(Permits),
}

/// How many permits of a semaphore are wanted, of how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permits {
    wanted: u32,
    limit: u32,
}

impl Permits {
    /// The largest limit.
    pub const MAX_LIMIT: u32 = 1_000_000;
    /// The most permits that one call takes.
    pub const MAX_WANTED: u32 = 1_000;

    /// `wanted` permits of `limit`.
    ///
    /// # Errors
    /// `InvalidArgument` unless 1 ≤ wanted ≤ 1,000 and wanted ≤ limit ≤ 1,000,000.
    pub fn new(wanted: u32, limit: u32) -> Result<Self, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        if limit == 0 || limit > Self::MAX_LIMIT {
            return refuse(format!("a semaphore's limit is {limit}; give 1 to 1,000,000"));
        }
        if wanted == 0 || wanted > Self::MAX_WANTED || wanted > limit {
            return refuse(format!(
                "{wanted} permits of {limit} are wanted; give 1 to 1,000, and no more than the limit"
            ));
        }
        Ok(Self { wanted, limit })
    }

    /// How many are wanted.
    #[must_use]
    pub const fn wanted(self) -> u32 {
        self.wanted
    }

    /// How many there are.
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }
}

impl Kind {
    /// The names of all kinds, as every language's table of kinds has them.
    pub const NAMES: [&'static str; 6] = ["lock", "mutex", "fair_lock", "read_lock", "write_lock", "semaphore"];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Mutex => "mutex",
            Self::Fair => "fair_lock",
            Self::Read => "read_lock",
            Self::Write => "write_lock",
            Self::Semaphore(_) => "semaphore",
        }
    }

    /// The kind of this name; `wanted` and `limit` are a semaphore's.
    ///
    /// # Errors
    /// `InvalidArgument` for another name, and as [`Permits::new`].
    pub fn parse(name: &str, wanted: u32, limit: u32) -> Result<Self, Error> {
        Ok(match name {
            "lock" => Self::Lock,
            "mutex" => Self::Mutex,
            "fair_lock" => Self::Fair,
            "read_lock" => Self::Read,
            "write_lock" => Self::Write,
            "semaphore" => Self::Semaphore(Permits::new(wanted, limit)?),
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    Operation::Acquire,
                    format!("there is no lock of the kind {name:?}; give one of {:?}", Self::NAMES),
                ));
            }
        })
    }

    /// Whether it is held once at a time.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        !matches!(self, Self::Read | Self::Semaphore(_))
    }

    /// Whether its holder is let in again.
    #[must_use]
    pub const fn is_reentrant(self) -> bool {
        !matches!(self, Self::Mutex | Self::Semaphore(_))
    }

    /// Whether its waiters queue on the server.
    pub(crate) const fn queues_on_server(self) -> bool {
        matches!(self, Self::Fair)
    }

    /// Whether a waiter that was refused left its mark on the server, which it
    /// takes away when it goes.
    pub(crate) const fn leaves_mark(self) -> bool {
        matches!(self, Self::Fair | Self::Write)
    }

    /// Kinds with the same gate and record share a local queue and, if they are
    /// reentrant, their holders.
    pub(crate) const fn gate(self) -> Gate {
        match self {
            Self::Lock | Self::Fair => Gate::Lock,
            Self::Mutex => Gate::Mutex,
            Self::Read => Gate::Read,
            Self::Write => Gate::Write,
            Self::Semaphore(_) => Gate::Semaphore,
        }
    }
}

/// What local waiters queue at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Gate {
    Lock,
    Mutex,
    Read,
    Write,
    Semaphore,
}

/// A script with its arguments.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) script: Script,
    pub(crate) keys: Vec<Arc<[u8]>>,
    pub(crate) args: Vec<Arc<[u8]>>,
}

/// What an attempt asks for.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) owner: &'a OwnerId,
    /// The TTL that the record gets.
    pub(crate) ttl: Duration,
    /// Whether a fencing token is drawn.
    pub(crate) fencing: bool,
    /// Whether the owner waits when it is refused.
    pub(crate) waits: bool,
    /// The write hold that a read is taken inside.
    pub(crate) inside: Option<&'a OwnerId>,
}

/// The server's answer to an attempt or a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The asking owner holds the lock (or, for a question, it is free).
    Granted(Option<Token>),
    /// Somebody holds it; `ttl` is `None` for a record without TTL.
    Held {
        owner: String,
        ttl: Option<Duration>,
        /// A semaphore's permits: how many are held, of how many.
        permits: Option<(u32, u32)>,
        /// When the server put the owner into its queue, in µs of its own clock.
        queued: Option<u64>,
    },
}

/// The server's answer to a renewal or a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// It was the owner's, and it was renewed or removed. A release says how
    /// many connections heard of it.
    Mine { listeners: u32 },
    /// There is none.
    Absent,
    /// It is another owner's.
    Others,
}

/// One lock's keys on one server.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) node: NodeId,
    pub(crate) kind: Kind,
    pub(crate) name: LockName,
    /// Where the holder's record is.
    pub(crate) record: Arc<[u8]>,
    /// Where releases are published.
    pub(crate) channel: Arc<[u8]>,
    /// Where the fencing token is kept; `None` if the kind has none.
    token: Option<Arc<[u8]>>,
    /// The kind's other keys.
    more: Vec<Arc<[u8]>>,
}

impl Keys {
    pub(crate) fn new(kind: Kind, name: &LockName, node: NodeId) -> Self {
        let (record, channel, token, more) = match kind {
            Kind::Lock => lock::keys(name),
            Kind::Mutex => mutex::keys(name),
            Kind::Fair => fair::keys(name),
            Kind::Read | Kind::Write => read_write::keys(name, kind),
            Kind::Semaphore(_) => semaphore::keys(name),
        };
        Self {
            node,
            kind,
            name: name.clone(),
            record,
            channel,
            token,
            more,
        }
    }

    /// Where the server tells `client` that one of its waiters was granted the fair lock.
    pub(crate) fn grants(&self, client: ClientId) -> Arc<[u8]> {
        self.name.grants(client)
    }

    /// The attempt to get a hold.
    pub(crate) fn acquire(&self, attempt: &Attempt<'_>) -> Invocation {
        match self.kind {
            Kind::Lock => self.acquire_alone(Script::LockAcquire, attempt),
            Kind::Mutex => self.acquire_alone(Script::MutexAcquire, attempt),
            Kind::Fair => fair::acquire(self, attempt),
            Kind::Read | Kind::Write => read_write::acquire(self, attempt),
            Kind::Semaphore(permits) => semaphore::acquire(self, permits, attempt),
        }
    }

    /// The attempt on a record that has one owner.
    fn acquire_alone(&self, script: Script, attempt: &Attempt<'_>) -> Invocation {
        let mut keys = vec![Arc::clone(&self.record)];
        if attempt.fencing {
            keys.extend(self.token.clone());
        }
        Invocation {
            script,
            keys,
            args: vec![millis(attempt.ttl), attempt.owner.wire()],
        }
    }

    /// Makes the hold of `owner` last `ttl` from now.
    pub(crate) fn renew(&self, owner: &OwnerId, ttl: Duration) -> Invocation {
        let (script, key, permits) = match self.kind {
            Kind::Lock | Kind::Fair => (Script::LockRenew, &self.record, None),
            Kind::Mutex => (Script::MutexRenew, &self.record, None),
            Kind::Read => (Script::ReadRenew, read_write::readers(self), None),
            Kind::Write => (Script::WriteRenew, &self.record, None),
            Kind::Semaphore(permits) => (Script::SemaphoreRenew, &self.record, Some(permits)),
        };
        let mut args = vec![millis(ttl), owner.wire()];
        args.extend(permits.map(|permits| decimal(permits.wanted)));
        Invocation {
            script,
            keys: vec![Arc::clone(key)],
            args,
        }
    }

    /// Removes the hold of `owner`, or its mark, and wakes those who wait.
    pub(crate) fn release(&self, owner: &OwnerId) -> Invocation {
        let mut args = vec![owner.wire()];
        let (script, keys) = match self.kind {
            Kind::Lock => (Script::LockRelease, vec![&self.record]),
            Kind::Mutex => (Script::MutexRelease, vec![&self.record]),
            Kind::Fair => (Script::FairRelease, fair::all(self)),
            Kind::Read => (Script::ReadRelease, vec![&self.record, read_write::readers(self)]),
            Kind::Write => (Script::WriteRelease, vec![&self.record]),
            Kind::Semaphore(permits) => {
                args.push(decimal(permits.wanted));
                (Script::SemaphoreRelease, vec![&self.record])
            }
        };
        args.push(Arc::clone(&self.channel));
        Invocation {
            script,
            keys: keys.into_iter().map(Arc::clone).collect(),
            args,
        }
    }

    /// Asks who holds the lock.
    pub(crate) fn inspect(&self) -> Invocation {
        let (script, keys, args) = match self.kind {
            Kind::Lock | Kind::Fair => (Script::LockInspect, vec![&self.record], Vec::new()),
            Kind::Mutex => (Script::MutexInspect, vec![&self.record], Vec::new()),
            Kind::Read | Kind::Write => (
                Script::ReadWriteInspect,
                vec![read_write::holders(self)],
                vec![read_write::side(self.kind)],
            ),
            Kind::Semaphore(_) => (Script::SemaphoreInspect, vec![&self.record], Vec::new()),
        };
        Invocation {
            script,
            keys: keys.into_iter().map(Arc::clone).collect(),
            args,
        }
    }

    /// Removes the record, whoever holds it, and wakes those who wait.
    pub(crate) fn force(&self) -> Invocation {
        let (script, keys, mut args) = match self.kind {
            Kind::Lock => (Script::LockForce, vec![&self.record], Vec::new()),
            Kind::Mutex => (Script::MutexForce, vec![&self.record], Vec::new()),
            Kind::Fair => (Script::FairForce, fair::all(self), Vec::new()),
            Kind::Read | Kind::Write => (
                Script::ReadWriteForce,
                vec![read_write::holders(self)],
                vec![read_write::side(self.kind)],
            ),
            Kind::Semaphore(_) => (Script::SemaphoreForce, vec![&self.record], Vec::new()),
        };
        args.push(Arc::clone(&self.channel));
        Invocation {
            script,
            keys: keys.into_iter().map(Arc::clone).collect(),
            args,
        }
    }

    /// Changes the limit on which held permits of the semaphore agreed.
    pub(crate) fn set_limit(&self, limit: u32) -> Invocation {
        Invocation {
            script: Script::SemaphoreLimit,
            keys: vec![Arc::clone(&self.record)],
            args: vec![decimal(limit), Arc::clone(&self.channel)],
        }
    }

    /// Says that waiters of the fair lock live: each owner, and whether it wants
    /// a token.
    pub(crate) fn poll(&self, waiters: &[(OwnerId, bool)]) -> Invocation {
        fair::poll(self, waiters)
    }
}

/// The keys of a kind: its record, its channel, its token and the others.
type Parts = (Arc<[u8]>, Arc<[u8]>, Option<Arc<[u8]>>, Vec<Arc<[u8]>>);

/// The key of a name's fencing token.
fn token(name: &LockName) -> Arc<[u8]> {
    name.own(Word::Token)
}

/// Reads the reply to an attempt or a question; `None` if it is no such reply.
pub(crate) fn parse_answer(reply: &Reply) -> Option<Answer> {
    let Reply::Array(parts) = reply else { return None };
    let held = |ttl: i64, owner: &[u8], permits, queued| Answer::Held {
        owner: String::from_utf8_lossy(owner).into_owned(),
        ttl: u64::try_from(ttl).ok().map(Duration::from_millis),
        permits,
        queued,
    };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] if token.is_empty() => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] => Some(Answer::Granted(Some(Token::parse(token)?))),
        [Reply::Int(0), Reply::Int(ttl), Reply::Bytes(owner)] => Some(held(*ttl, owner, None, None)),
        [Reply::Int(0), Reply::Int(ttl), Reply::Bytes(owner), Reply::Bytes(now)] => {
            Some(held(*ttl, owner, None, Some(parse_number(now)?)))
        }
        [
            Reply::Int(0),
            Reply::Int(ttl),
            Reply::Bytes(owner),
            Reply::Int(taken),
            Reply::Int(limit),
        ] => {
            let count = |number: i64| u32::try_from(number).ok();
            Some(held(*ttl, owner, Some((count(*taken)?, count(*limit)?)), None))
        }
        _ => None,
    }
}

/// Reads the reply to a renewal, a release or what an operator does; `None` if it is no such reply.
pub(crate) fn parse_record(reply: &Reply) -> Option<Record> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Record::Mine { listeners: 0 }),
        // The third is news for `parse_news`.
        [Reply::Int(1), Reply::Int(listeners)] | [Reply::Int(1), Reply::Int(listeners), Reply::Bytes(_)] => {
            Some(Record::Mine {
                listeners: u32::try_from(*listeners).unwrap_or(0),
            })
        }
        [Reply::Int(0)] => Some(Record::Absent),
        [Reply::Int(2)] => Some(Record::Others),
        _ => None,
    }
}

/// What the reply to a release says of a waiter of the same client that was granted the lock by it.
pub(crate) fn parse_news(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(1), Reply::Int(_), Reply::Bytes(news)] => Some(news),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a number that the wire has as decimal text.
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A TTL as decimal milliseconds.
fn millis(ttl: Duration) -> Arc<[u8]> {
    ttl.as_millis().to_string().into_bytes().into()
}

fn decimal(number: u32) -> Arc<[u8]> {
    number.to_string().into_bytes().into()
}

fn flag(is_set: bool) -> Arc<[u8]> {
    let text: &[u8] = if is_set { b"1" } else { b"0" };
    text.into()
}
