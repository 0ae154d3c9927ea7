//! One lock's keys on one server, and the calls that its kind's table makes of them.

use std::sync::Arc;
use std::time::Duration;

use super::kind::Kind;
use super::permits::Permits;
use super::replies::{self, Answer};
use super::semaphore;
use super::spec::{Arg, Channel, Form, Key, Waiters};
use crate::digits::Digits;
use crate::ids::NodeId;
use crate::name::{LockName, Word};
use crate::owner::{ClientId, OwnerId};
use crate::reply::Reply;
use crate::script::Script;

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
            keys: vec![written(super::fair::QUEUE, &self.name)],
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
        replies::parse_answer(self.kind.spec().told, reply)
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
