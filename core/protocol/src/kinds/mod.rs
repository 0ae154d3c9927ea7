//! The kinds of lock. A kind is its keys, its scripts and what their replies
//! mean; the machine that uses them is one for all.

mod lock;

use std::sync::Arc;
use std::time::Duration;

use crate::name::LockName;
use crate::owner::OwnerId;
use crate::reply::Reply;
use crate::script::Script;
use crate::token::Token;

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The reentrant lock.
    Lock,
}

/// A script with its arguments.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) script: Script,
    pub(crate) keys: Vec<Arc<[u8]>>,
    pub(crate) args: Vec<Arc<[u8]>>,
}

/// The server's answer to an attempt or a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The asking owner holds the lock (or, for a question, it is free).
    Granted(Option<Token>),
    /// Somebody holds it; `ttl` is `None` for a record without TTL.
    Held { owner: String, ttl: Option<Duration> },
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

/// One lock's keys on the server.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) kind: Kind,
    pub(crate) name: LockName,
    /// Where the holder's record is. Locks with the same record share a queue.
    pub(crate) record: Arc<[u8]>,
    /// Where releases are published.
    pub(crate) channel: Arc<[u8]>,
    /// Where the fencing token is kept.
    token: Arc<[u8]>,
}

impl Keys {
    pub(crate) fn new(kind: Kind, name: &LockName) -> Self {
        match kind {
            Kind::Lock => lock::keys(name),
        }
    }

    /// The attempt of `owner` to get a record that lasts `ttl`.
    pub(crate) fn acquire(&self, owner: &OwnerId, ttl: Duration, fencing: bool) -> Invocation {
        match self.kind {
            Kind::Lock => lock::acquire(self, owner, ttl, fencing),
        }
    }

    /// Makes the record of `owner` last `ttl` from now.
    pub(crate) fn renew(&self, owner: &OwnerId, ttl: Duration) -> Invocation {
        match self.kind {
            Kind::Lock => lock::renew(self, owner, ttl),
        }
    }

    /// Removes the record of `owner` and wakes those who wait.
    pub(crate) fn release(&self, owner: &OwnerId) -> Invocation {
        match self.kind {
            Kind::Lock => lock::release(self, owner),
        }
    }

    /// Asks who holds the lock.
    pub(crate) fn inspect(&self) -> Invocation {
        match self.kind {
            Kind::Lock => lock::inspect(self),
        }
    }
}

/// Reads the reply to an attempt or a question; `None` if it is no such reply.
pub(crate) fn parse_answer(reply: &Reply) -> Option<Answer> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] if token.is_empty() => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] => Some(Answer::Granted(Some(Token::parse(token)?))),
        [Reply::Int(0), Reply::Int(ttl), Reply::Bytes(owner)] => Some(Answer::Held {
            owner: String::from_utf8_lossy(owner).into_owned(),
            ttl: u64::try_from(*ttl).ok().map(Duration::from_millis),
        }),
        _ => None,
    }
}

/// Reads the reply to a renewal or a release; `None` if it is no such reply.
pub(crate) fn parse_record(reply: &Reply) -> Option<Record> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Record::Mine { listeners: 0 }),
        [Reply::Int(1), Reply::Int(listeners)] => Some(Record::Mine {
            listeners: u32::try_from(*listeners).unwrap_or(0),
        }),
        [Reply::Int(0)] => Some(Record::Absent),
        [Reply::Int(2)] => Some(Record::Others),
        _ => None,
    }
}

/// A TTL as decimal milliseconds.
fn millis(ttl: Duration) -> Arc<[u8]> {
    ttl.as_millis().to_string().into_bytes().into()
}
