//! The keys of one lock on one server, the calls that the table of its kind makes of them, and the meaning of the
//! replies. [`LockKey`] is for tools: it tells which lock a key on a server belongs to.
//!
//! ```text
//! an attempt or a question
//!   {1}, {1, token}                  granted; of a question: it is free. A token may be empty
//!   {0, left, holder}                held, for `left` ms by a record with a TTL
//!   {0, left, holder, now}           the same, of a queue on the server (`HeldReply::Queued`)
//!   {0, left, holder, held, limit}   the same, of permits (`HeldReply::Permits`)
//! a renewal, a release, or what an operator does
//!   {1}, {1, listeners}              it was the owner's
//!   {1, listeners, grant}             the same, and the lock was granted to a waiter of this client
//!   {0}                              there is no record
//!   {2}                              it is another owner's
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::{Arg, Channel, Form, HeldReply, Key, Kind, Permits, Waiters, fair, read_write, semaphore};
use crate::digits::Digits;
use crate::foreign::shown_owner;
use crate::ids::NodeId;
use crate::name::{LockName, Word};
use crate::owner::{ClientId, OwnerId};
use crate::reply::Reply;
use crate::script::Script;
use crate::token::Token;

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

/// One lock's keys on one server.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) node: NodeId,
    pub(crate) kind: Kind,
    pub(crate) name: LockName,
    /// Where the holder's record is.
    pub(crate) record: Arc<[u8]>,
}

impl Keys {
    pub(crate) fn new(kind: Kind, name: &LockName, node: NodeId) -> Self {
        Self {
            node,
            kind,
            name: name.clone(),
            record: kind
                .spec()
                .keys
                .first()
                .map_or_else(|| name.key(), |key| written(*key, name)),
        }
    }

    /// All its keys, first the one of the record.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<[u8]>> {
        let keys = self.kind.spec().keys.iter();
        keys.map(|key| written(*key, &self.name))
    }

    /// Those that say who holds it. Each table has them before the token's.
    pub(crate) fn records(&self) -> impl Iterator<Item = Arc<[u8]>> {
        let keys = self.kind.spec().keys.iter();
        keys.take_while(|key| **key != Key::Own(Word::TOKEN))
            .map(|key| written(*key, &self.name))
    }

    /// Where releases are published.
    pub(crate) fn channel(&self) -> Arc<[u8]> {
        match self.kind.spec().channel {
            Channel::Redisson => self.name.redisson_channel(),
            Channel::Own(word) => self.name.own(word),
        }
    }

    /// Where the server tells `client` that one of its waiters was granted the fair lock.
    pub(crate) fn grants(&self, client: ClientId) -> Arc<[u8]> {
        self.name.grants(client)
    }

    /// The attempt to get a hold.
    pub(crate) fn acquire(&self, attempt: &Attempt<'_>) -> Invocation {
        let values = Values {
            owner: Some(attempt.owner),
            ttl: Some(attempt.ttl),
            fencing: attempt.fencing,
            waits: attempt.waits,
            around: attempt.inside,
            ..self.values()
        };
        self.call(&self.kind.spec().acquire, &values)
    }

    /// Makes the hold of `owner` last `ttl` from now.
    pub(crate) fn renew(&self, owner: &OwnerId, ttl: Duration) -> Invocation {
        let values = Values {
            owner: Some(owner),
            ttl: Some(ttl),
            ..self.values()
        };
        self.call(&self.kind.spec().renew, &values)
    }

    /// Removes the hold of `owner`, or its mark, and wakes the waiters.
    pub(crate) fn release(&self, owner: &OwnerId) -> Invocation {
        let values = Values {
            owner: Some(owner),
            ..self.values()
        };
        self.call(&self.kind.spec().release, &values)
    }

    /// Asks who holds the lock.
    pub(crate) fn inspect(&self) -> Invocation {
        self.call(&self.kind.spec().inspect, &self.values())
    }

    /// Removes the record, no matter which owner holds it, and wakes the waiters.
    pub(crate) fn force(&self) -> Invocation {
        self.call(&self.kind.spec().force, &self.values())
    }

    /// Asks how many wait in the server's queue.
    pub(crate) fn queue_length(&self) -> Invocation {
        Invocation {
            script: Script::FairLength,
            keys: vec![written(fair::QUEUE, &self.name)],
            args: Vec::new(),
        }
    }

    /// Changes the limit on which held permits of the semaphore agreed.
    pub(crate) fn set_limit(&self, limit: u32) -> Invocation {
        let values = Values {
            limit: Some(limit),
            ..self.values()
        };
        self.call(&semaphore::SET_LIMIT, &values)
    }

    /// Says that waiters in the server's queue live: each owner, and whether it wants
    /// a token. `None` of a kind whose waiters queue in the client.
    pub(crate) fn poll(&self, waiters: &[(OwnerId, bool)]) -> Option<Invocation> {
        let Waiters::Server { poll } = self.kind.spec().waiters else {
            return None;
        };
        let mut invocation = self.call(&Form { args: &[], ..poll }, &self.values());
        for (owner, fencing) in waiters {
            let values = Values {
                owner: Some(owner),
                fencing: *fencing,
                ..self.values()
            };
            invocation.args.extend(self.args(poll.args, &values));
        }
        Some(invocation)
    }

    /// Reads the reply to an attempt or a question; `None` if it is no such reply.
    pub(crate) fn parse_answer(&self, reply: &Reply) -> Option<Answer> {
        parse_answer(self.kind.spec().told, reply)
    }

    fn call(&self, form: &Form, values: &Values<'_>) -> Invocation {
        let keys = form.keys.iter().filter_map(|key| self.key(*key, values.fencing));
        Invocation {
            script: form.script,
            keys: keys.collect(),
            args: self.args(form.args, values).collect(),
        }
    }

    /// Made when it is needed: a renewal names the record alone, and a client may hold many locks.
    fn key(&self, key: Key, is_token_drawn: bool) -> Option<Arc<[u8]>> {
        let key = match key {
            Key::TokenIfDrawn if !is_token_drawn => return None,
            Key::TokenIfDrawn => Key::Own(Word::TOKEN),
            Key::Name | Key::Own(_) => key,
        };
        let position = self.kind.spec().keys.iter().position(|known| *known == key)?;
        Some(match position {
            0 => Arc::clone(&self.record),
            _ => written(key, &self.name),
        })
    }

    fn args(&self, args: &[Arg], values: &Values<'_>) -> impl Iterator<Item = Arc<[u8]>> {
        args.iter().filter_map(|arg| match arg {
            Arg::Ttl => values.ttl.map(millis),
            Arg::Owner => values.owner.map(OwnerId::wire),
            Arg::Fencing => Some(flag(values.fencing)),
            Arg::Waits => Some(flag(values.waits)),
            Arg::Around => Some(values.around.map_or_else(|| Arc::from(&b""[..]), OwnerId::wire)),
            Arg::Wanted => values.wanted.map(decimal),
            Arg::Limit => values.limit.map(decimal),
            Arg::Channel => Some(self.channel()),
            Arg::Text(text) => Some(text.as_bytes().into()),
        })
    }

    /// What every call may name.
    fn values(&self) -> Values<'_> {
        let permits = self.kind.permits();
        Values {
            wanted: permits.map(Permits::wanted),
            limit: permits.map(Permits::limit),
            ..Values::default()
        }
    }
}

/// What the arguments of a call are made of. A call names only what it is given; that every row
/// fits its script is checked in `layout`.
#[derive(Debug, Default)]
struct Values<'a> {
    owner: Option<&'a OwnerId>,
    ttl: Option<Duration>,
    fencing: bool,
    waits: bool,
    around: Option<&'a OwnerId>,
    wanted: Option<u32>,
    limit: Option<u32>,
}

/// A key of the lock of this name.
fn written(key: Key, name: &LockName) -> Arc<[u8]> {
    match key {
        Key::Name => name.key(),
        Key::Own(word) => name.own(word),
        Key::TokenIfDrawn => name.own(Word::TOKEN),
    }
}

/// A TTL as decimal milliseconds.
fn millis(ttl: Duration) -> Arc<[u8]> {
    Digits::of(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
        .as_bytes()
        .into()
}

fn decimal(number: u32) -> Arc<[u8]> {
    Digits::of(number.into()).as_bytes().into()
}

fn flag(is_set: bool) -> Arc<[u8]> {
    let text: &[u8] = if is_set { b"1" } else { b"0" };
    text.into()
}

/// What a key of a lock holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKey {
    /// The name itself: of `lock` and `fair_lock` a HASH {owner → 1}, of `mutex` a STRING, the owner. The TTL is the
    /// lease.
    Named,
    /// The waiters of a fair lock: ZSET {owner → when it came, in µs of the server's clock}.
    Queue,
    /// When each of them was last heard of: HASH {owner → µs, and whether it wants a token}.
    Alive,
    /// Who writes: HASH with `writer`, `writer_until`, and, if a writer waits, `mark`, `mark_until`; times are ms of
    /// the server's clock.
    ReadWrite,
    /// Who reads: ZSET {owner → deadline in ms of the server's clock}.
    Readers,
    /// Permits of a semaphore: ZSET {owner/i → deadline in ms of the server's clock, limit → n}.
    Permits,
    /// The last fencing token of the name: STRING.
    Token,
}

impl LockKey {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Named,
        Self::Queue,
        Self::Alive,
        Self::ReadWrite,
        Self::Readers,
        Self::Permits,
        Self::Token,
    ];

    /// This key of the lock of this name.
    #[must_use]
    pub fn of(self, name: &LockName) -> Arc<[u8]> {
        self.word().map_or_else(|| name.key(), |word| name.own(word))
    }

    /// What a key is by its form alone; `None` if no lock has such a key. Anybody may have written it.
    #[must_use]
    pub fn read(key: &[u8]) -> Option<(Self, LockName)> {
        let text = std::str::from_utf8(key).ok()?;
        if let Ok(name) = LockName::parse(text) {
            return Some((Self::Named, name));
        }
        let (name, word) = match text.strip_prefix("steadlock:{") {
            Some(rest) => rest.rsplit_once("}:")?,
            None => text.strip_prefix("steadlock::")?.rsplit_once(':')?,
        };
        let name = LockName::parse(name).ok()?;
        let is_word = |of: &Self| of.word().is_some_and(|own| own.as_str() == word);
        let found = Self::ALL.into_iter().find(is_word)?;
        // Which of the two forms it is follows from the name.
        (*found.of(&name) == *key).then_some((found, name))
    }

    const fn word(self) -> Option<Word> {
        let key = match self {
            Self::Named => Key::Name,
            Self::Queue => fair::QUEUE,
            Self::Alive => fair::ALIVE,
            Self::ReadWrite => read_write::STATE,
            Self::Readers => read_write::READERS,
            Self::Permits => semaphore::PERMITS,
            Self::Token => Key::Own(Word::TOKEN),
        };
        match key {
            Key::Own(word) => Some(word),
            Key::Name | Key::TokenIfDrawn => None,
        }
    }
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

/// Reads the reply to an attempt or a question; `None` if it is no such reply of the kind.
pub(super) fn parse_answer(told: HeldReply, reply: &Reply) -> Option<Answer> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] if token.is_empty() => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] => Some(Answer::Granted(Some(Token::parse(token)?))),
        [Reply::Int(0), Reply::Int(left), Reply::Bytes(holder), more @ ..] => {
            let (queued, permits) = match (told, more) {
                (_, []) => (None, None),
                (HeldReply::Queued, [Reply::Bytes(now)]) => (Some(parse_number(now)?), None),
                (HeldReply::Permits, [Reply::Int(held), Reply::Int(limit)]) => {
                    (None, Some((u32::try_from(*held).ok()?, u32::try_from(*limit).ok()?)))
                }
                _ => return None,
            };
            Some(Answer::Held {
                owner: shown_owner(holder),
                ttl: u64::try_from(*left).ok().map(Duration::from_millis),
                permits,
                queued,
            })
        }
        _ => None,
    }
}

/// Reads the reply to a renewal, a release or what an operator does; `None` if it is no such reply.
pub(crate) fn parse_record(reply: &Reply) -> Option<Record> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Record::Mine { listeners: 0 }),
        // The third is grant for `parse_grant`.
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
pub(crate) fn parse_grant(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(1), Reply::Int(_), Reply::Bytes(grant)] => Some(grant),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a number that the wire has as decimal text.
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
