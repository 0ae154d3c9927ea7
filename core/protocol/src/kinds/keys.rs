//! The keys of one lock on one server, the calls that its kind's table defines, and the meaning of the replies.
//! [`LockKey`] is for tools: it tells which lock a key on a server belongs to.
//!
//! ```text
//! an attempt or a question
//!   {1}, {1, token}                  granted; for a question: the lock is free. A token may be empty
//!   {0, left, holder}                held; the TTL of the record in ms, negative if there is none
//!   {0, left, holder, now}           the same, with a queue on the server (`HeldReply::Queued`)
//!   {0, left, holder, held, limit}   the same, with permits (`HeldReply::Permits`)
//!   {0, left, holder, since, took, now, client}   the same, with a run (`HeldReply::Run`)
//! a renewal, a release, or the operation of an operator
//!   {1}, {1, listeners}              the record was the owner's, or for an operator any owner's
//!   {1, listeners, grant}            the same, and a waiter of this client was granted the lock
//!   {0}                              there is no record
//!   {2}                              the record belongs to another owner
//! the length of a fair lock's queue
//!   {1, length}                      parsed as `Record::Mine`
//! a poll                             parsed in `machines/fair_queue.rs`
//! ```

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::Digits;

use super::{Arg, Channel, Form, HeldReply, Key, Kind, Permits, Waiters, fair, leader, once, read_write, semaphore};
use crate::client_info::ClientInfo;
use crate::error::Holder;
use crate::foreign::shown_owner;
use crate::ids::NodeId;
use crate::leadership::{Candidate, Leadership, TermSeen};
use crate::name::{LockName, Word};
use crate::owner::{ClientId, OwnerId};
use crate::reply::Reply;
use crate::run::{EndedRun, Ending, LastRun, RunOutcome, RunState, RunTerms};
use crate::script::Script;
use crate::token::Token;

/// A script with its arguments.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) script: Script,
    pub(crate) keys: Vec<Arc<[u8]>>,
    pub(crate) args: Vec<Arc<[u8]>>,
}

/// The data of an attempt.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) owner: &'a OwnerId,
    /// The TTL of the record.
    pub(crate) ttl: Duration,
    /// Whether the server draws a fencing token.
    pub(crate) fencing: bool,
    /// Whether the owner waits if it is refused.
    pub(crate) waits: bool,
    /// The owner of the write hold inside which the caller reads.
    pub(crate) inside: Option<&'a OwnerId>,
    /// Which program this client is, as text; `None` if it says nothing about itself.
    pub(crate) client: Option<&'a Arc<[u8]>>,
}

/// A waiter as the server's queue stores it.
#[derive(Clone, Debug)]
pub(crate) struct QueueEntry {
    pub(crate) owner: OwnerId,
    /// Whether the waiter wants a fencing token.
    pub(crate) fencing: bool,
}

/// The keys of one lock on one server.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) node: NodeId,
    pub(crate) kind: Kind,
    pub(crate) name: LockName,
    /// The first key of the kind's table: the key of the holder's record; for a read lock, the key of the writer's
    /// record.
    pub(crate) record: Arc<[u8]>,
    /// The terms of the run; `None` for other kinds, and for the default terms.
    run: Option<Arc<RunTerms>>,
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
            run: None,
        }
    }

    /// Sets the terms of a run.
    pub(crate) fn with_run(mut self, run: Option<Arc<RunTerms>>) -> Self {
        self.run = run;
        self
    }

    /// Returns all keys of the lock; `record` is the first.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<[u8]>> {
        let keys = self.kind.spec().keys.iter();
        keys.map(|key| written(*key, &self.name))
    }

    /// Returns the keys in which the holders are stored. In each table they come before the token's key.
    pub(crate) fn records(&self) -> impl Iterator<Item = Arc<[u8]>> {
        let keys = self.kind.spec().keys.iter();
        keys.take_while(|key| **key != Key::Own(Word::TOKEN))
            .map(|key| written(*key, &self.name))
    }

    /// Returns the channel on which releases are published; `None` if nobody waits for them.
    pub(crate) fn channel(&self) -> Option<Arc<[u8]>> {
        self.kind.spec().channel.map(|channel| match channel {
            Channel::Redisson => self.name.redisson_channel(),
            Channel::Own(word) => self.name.own(word),
        })
    }

    /// Returns the channel on which the server publishes grants of the fair lock to waiters of `client`.
    pub(crate) fn grants(&self, client: ClientId) -> Option<Arc<[u8]>> {
        match self.kind.spec().waiters {
            Waiters::Server { grants, .. } => Some(self.name.grants(grants, client)),
            Waiters::Client | Waiters::None => None,
        }
    }

    /// Returns the call for an attempt.
    pub(crate) fn acquire(&self, attempt: &Attempt<'_>) -> Invocation {
        let values = Values {
            owner: Some(attempt.owner),
            ttl: Some(attempt.ttl),
            fencing: attempt.fencing,
            waits: attempt.waits,
            around: attempt.inside,
            client: attempt.client,
            ..self.values()
        };
        self.call(&self.kind.spec().acquire, &values)
    }

    /// Returns the call that extends the hold of `owner` to `ttl` from now.
    pub(crate) fn renew(&self, owner: &OwnerId, ttl: Duration) -> Invocation {
        let values = Values {
            owner: Some(owner),
            ttl: Some(ttl),
            ..self.values()
        };
        self.call(&self.kind.spec().renew, &values)
    }

    /// Returns the call that removes the hold or the mark of `owner`. The call wakes the waiters, or grants a fair lock
    /// to the next waiter. `end` says how a run ended; it means nothing for other kinds.
    pub(crate) fn release(&self, owner: &OwnerId, end: &Ending) -> Invocation {
        let values = Values {
            owner: Some(owner),
            end: Some(end),
            ..self.values()
        };
        self.call(&self.kind.spec().release, &values)
    }

    /// Returns the call that asks who holds the lock.
    pub(crate) fn inspect(&self) -> Invocation {
        self.call(&self.kind.spec().inspect, &self.values())
    }

    /// Returns the call that removes the record, no matter who holds the lock. The call wakes the waiters, or grants a
    /// fair lock to the next waiter.
    pub(crate) fn force(&self) -> Invocation {
        self.call(&self.kind.spec().force, &self.values())
    }

    /// Returns the call that asks for the number of waiters in the server's queue.
    pub(crate) fn queue_length(&self) -> Invocation {
        Invocation {
            script: Script::FairLength,
            keys: vec![written(fair::QUEUE, &self.name)],
            args: Vec::new(),
        }
    }

    /// Returns the call that asks who leads.
    pub(crate) fn leadership(&self) -> Invocation {
        self.call(&leader::LEADERSHIP, &self.values())
    }

    /// Returns the call that asks for the last runs of a job.
    pub(crate) fn last_run(&self) -> Invocation {
        self.call(&once::LAST_RUN, &self.values())
    }

    /// Returns the call that changes the limit of a semaphore whose permits are held.
    pub(crate) fn set_limit(&self, limit: u32) -> Invocation {
        let values = Values {
            limit: Some(limit),
            ..self.values()
        };
        self.call(&semaphore::SET_LIMIT, &values)
    }

    /// Returns the call that keeps waiters in the server's queue alive. `None` for a kind whose waiters queue in the
    /// client.
    pub(crate) fn poll(&self, waiters: &[QueueEntry]) -> Option<Invocation> {
        let Waiters::Server { poll, .. } = self.kind.spec().waiters else {
            return None;
        };
        let mut invocation = self.call(&Form { args: &[], ..poll }, &self.values());
        for waiter in waiters {
            let values = Values {
                owner: Some(&waiter.owner),
                fencing: waiter.fencing,
                ..self.values()
            };
            invocation.args.extend(self.args(poll.args, &values));
        }
        Some(invocation)
    }

    /// Parses the reply to an attempt or a question; `None` if the reply has another form.
    pub(crate) fn parse_answer(&self, reply: &Reply) -> Option<Answer> {
        parse_answer(self.kind.spec().held_reply, reply)
    }

    fn call(&self, form: &Form, values: &Values<'_>) -> Invocation {
        let keys = form.keys.iter().filter_map(|key| self.key(*key, values.fencing));
        Invocation {
            script: form.script,
            keys: keys.collect(),
            args: self.args(form.args, values).collect(),
        }
    }

    /// Returns a key for a call. Only the first key is stored: a client may hold many locks, and most renewals need no
    /// other key.
    fn key(&self, key: Key, is_token_drawn: bool) -> Option<Arc<[u8]>> {
        let key = match key {
            Key::TokenIfDrawn if !is_token_drawn => return None,
            Key::TokenIfDrawn => Key::Own(Word::TOKEN),
            Key::DoneIfKeyed => {
                let done = self.run.as_ref().and_then(|run| run.run_key());
                return done.map(|key| key.done(&self.name));
            }
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
            Arg::Channel => self.channel(),
            Arg::Client => Some(values.client.map_or_else(|| Arc::from(&b""[..]), Arc::clone)),
            Arg::Successor => {
                let successor = values.end.and_then(|ending| ending.successor.as_deref());
                Some(successor.unwrap_or_default().as_bytes().into())
            }
            Arg::End => values.end.map(|ending| ending.end.as_str().as_bytes().into()),
            Arg::AtLeast => values.end.map(|end| self.kept(end).0),
            Arg::Keep => values.end.map(|end| self.kept(end).1),
            Arg::Text(text) => Some(text.as_bytes().into()),
        })
    }

    /// Returns for how long a run that ends like this keeps others out, after its start and for its key, in ms.
    fn kept(&self, end: &Ending) -> (Arc<[u8]>, Arc<[u8]>) {
        let kept = self.run.as_ref().and_then(|run| run.kept(end));
        let (at_least, keep) = kept.unwrap_or_default();
        (millis(at_least), millis(keep))
    }

    /// Returns the values that any call can use: the permits of the kind.
    fn values(&self) -> Values<'_> {
        let permits = self.kind.permits();
        Values {
            wanted: permits.map(Permits::wanted),
            limit: permits.map(Permits::limit),
            ..Values::default()
        }
    }
}

/// The values from which the arguments of a call are made. An argument whose value is not set is left out. Tests in
/// `layout` check that each call has the keys and arguments that the head of its script lists.
#[derive(Debug, Default)]
struct Values<'a> {
    owner: Option<&'a OwnerId>,
    ttl: Option<Duration>,
    fencing: bool,
    waits: bool,
    around: Option<&'a OwnerId>,
    wanted: Option<u32>,
    limit: Option<u32>,
    client: Option<&'a Arc<[u8]>>,
    end: Option<&'a Ending>,
}

/// Returns a key of the lock with this name.
fn written(key: Key, name: &LockName) -> Arc<[u8]> {
    match key {
        Key::Name => name.key(),
        Key::Own(word) => name.own(word),
        Key::TokenIfDrawn | Key::DoneIfKeyed => name.own(Word::TOKEN),
    }
}

/// Returns a TTL in ms as decimal text.
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

/// The meaning of a key of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKey {
    /// The name itself: a HASH {owner → 1} for `lock` and `fair_lock`, a STRING with the owner for `mutex`. The TTL is
    /// the lease.
    Named,
    /// The waiters of a fair lock: ZSET {owner → arrival, in µs of the server's clock}.
    Queue,
    /// When the server last saw each waiter of a fair lock: HASH {owner → µs, and whether it wants a token}.
    Alive,
    /// The writer, and the mark of a waiting writer: HASH with the fields that `lua/parts/read_write.lua` lists.
    ReadWrite,
    /// The readers: ZSET {owner → deadline in ms of the server's clock}.
    Readers,
    /// The permits of a semaphore: ZSET {owner/i → deadline in ms of the server's clock, limit → n}.
    Permits,
    /// The run of a job, while it goes on or counts as done: HASH with the fields that `lua/parts/run.lua` lists.
    Run,
    /// The leader: HASH {owner → 1}; its TTL is the lease.
    Leader,
    /// The candidates: ZSET {owner → arrival, in µs of the server's clock}.
    Candidates,
    /// When the server last saw each candidate: HASH {owner → µs, and 1}.
    CandidatesAlive,
    /// The last term: STRING with the owner, the number and the start.
    Term,
    /// The last runs of a job: HASH with the fields that `lua/parts/run.lua` lists.
    History,
    /// The last fencing token of the name: STRING.
    Token,
}

impl LockKey {
    /// All values.
    pub const ALL: [Self; 13] = [
        Self::Named,
        Self::Queue,
        Self::Alive,
        Self::ReadWrite,
        Self::Readers,
        Self::Permits,
        Self::Run,
        Self::History,
        Self::Leader,
        Self::Candidates,
        Self::CandidatesAlive,
        Self::Term,
        Self::Token,
    ];

    /// Returns this key of the lock with this name.
    #[must_use]
    pub fn of(self, name: &LockName) -> Arc<[u8]> {
        self.word().map_or_else(|| name.key(), |word| name.own(word))
    }

    /// Parses a key by its form alone; `None` if no lock has such a key. Another program may have written the key.
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
        // The name decides which of the two forms a key has.
        (*found.of(&name) == *key).then_some((found, name))
    }

    /// Returns the key of the holder's record for the kind of this name; for a read lock, the key of the writer's
    /// record. `None` if there is no such kind.
    #[must_use]
    pub fn of_record(kind: &str) -> Option<Self> {
        let kind = Kind::parse(kind, 1, 1).ok()?;
        let record = kind.spec().keys.first()?;
        Self::ALL.into_iter().find(|key| key.key() == *record)
    }

    const fn key(self) -> Key {
        match self {
            Self::Named => Key::Name,
            Self::Queue => fair::QUEUE,
            Self::Alive => fair::ALIVE,
            Self::ReadWrite => read_write::STATE,
            Self::Readers => read_write::READERS,
            Self::Permits => semaphore::PERMITS,
            Self::Run => once::RUN,
            Self::History => once::HISTORY,
            Self::Leader => leader::RECORD,
            Self::Candidates => leader::QUEUE,
            Self::CandidatesAlive => leader::ALIVE,
            Self::Term => leader::TERM,
            Self::Token => Key::Own(Word::TOKEN),
        }
    }

    const fn word(self) -> Option<Word> {
        match self.key() {
            Key::Own(word) => Some(word),
            Key::Name | Key::TokenIfDrawn | Key::DoneIfKeyed => None,
        }
    }
}

/// The server's answer to an attempt or a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The asking owner holds the lock; for a question, the lock is free.
    Granted(Option<Token>),
    /// Another owner holds the lock, or comes first; for a question, an owner holds the lock. `ttl` is `None` for a
    /// record without a TTL.
    Held {
        owner: String,
        ttl: Option<Duration>,
        /// The permits of a semaphore: how many are held, and how many there are. Only in the answer to a question.
        permits: Option<(u32, u32)>,
        /// The server's clock when the call ran, in µs; only for an attempt at a fair lock.
        queued: Option<u64>,
        /// The run; only for a job.
        run: Option<RunSeen>,
    },
}

/// A run that keeps others out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunSeen {
    /// When the run began, in milliseconds since 1970 by the server's clock.
    pub(crate) since: u64,
    /// How long the run took; `None` while it goes on.
    pub(crate) took: Option<Duration>,
    /// How long ago the run began, by the server's clock.
    pub(crate) age: Duration,
    /// Which program runs or ran the job, if that program says so.
    pub(crate) client: Option<Arc<ClientInfo>>,
}

/// The server's answer to a renewal or a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The record was the owner's, or for an operator any owner's, and was changed or removed. For a release,
    /// `listeners` is the number of connections that received the message.
    Mine { listeners: u32 },
    /// There is no record.
    Absent,
    /// The record belongs to another owner.
    Others,
}

/// Parses the reply to an attempt or a question; `None` if the kind has no such reply.
pub(super) fn parse_answer(held_reply: HeldReply, reply: &Reply) -> Option<Answer> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] if token.is_empty() => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] => Some(Answer::Granted(Some(Token::parse(token)?))),
        [Reply::Int(0), Reply::Int(left), Reply::Bytes(holder), more @ ..] => {
            let (mut queued, mut permits, mut run) = (None, None, None);
            match (held_reply, more) {
                (HeldReply::Holder | HeldReply::Queued | HeldReply::Permits, []) => {}
                (HeldReply::Queued, [Reply::Bytes(now)]) => queued = Some(parse_number(now)?),
                (HeldReply::Permits, [Reply::Int(held), Reply::Int(limit)]) => {
                    permits = Some((u32::try_from(*held).ok()?, u32::try_from(*limit).ok()?));
                }
                (HeldReply::Run, facts) => run = Some(parse_run(facts)?),
                _ => return None,
            }
            Some(Answer::Held {
                owner: shown_owner(holder),
                ttl: u64::try_from(*left).ok().map(Duration::from_millis),
                permits,
                queued,
                run,
            })
        }
        _ => None,
    }
}

/// Parses what the reply to an attempt or a question says about a run; `None` if it has another form.
fn parse_run(facts: &[Reply]) -> Option<RunSeen> {
    let [
        Reply::Bytes(since),
        Reply::Bytes(took),
        Reply::Bytes(now),
        Reply::Bytes(client),
    ] = facts
    else {
        return None;
    };
    let (since, now) = (parse_number(since)?, parse_number(now)?);
    let took = match took.is_empty() {
        true => None,
        false => Some(Duration::from_millis(parse_number(took)?)),
    };
    Some(RunSeen {
        since,
        took,
        age: Duration::from_millis(now.saturating_sub(since)),
        client: ClientInfo::parse(client).map(Arc::new),
    })
}

/// Parses the reply to the question who leads; `None` if the reply has another form.
pub(crate) fn parse_leadership(reply: &Reply) -> Option<Leadership> {
    let Reply::Array(parts) = reply else { return None };
    let [
        Reply::Int(1),
        Reply::Int(left),
        Reply::Bytes(owner),
        Reply::Bytes(number),
        Reply::Bytes(since),
        candidates @ ..,
    ] = parts.as_slice()
    else {
        return None;
    };
    let term = match owner.is_empty() {
        true => None,
        false => Some(TermSeen {
            number: Token::parse(number)?.get(),
            since: parse_number(since)?,
            holder: Holder {
                owner: shown_owner(owner),
                remaining: u64::try_from(*left).ok().map(Duration::from_millis),
                client: None,
            },
        }),
    };
    let candidates = candidates.iter().map(|candidate| match candidate {
        Reply::Bytes(owner) => Some(Candidate {
            owner: shown_owner(owner),
            client: None,
        }),
        _ => None,
    });
    let candidates = candidates.collect::<Option<_>>()?;
    Some(Leadership { term, candidates })
}

/// Parses the reply to the question for the last runs of a job: `Some(None)` if the server has no history, `None` if
/// the reply has another form.
pub(crate) fn parse_last_run(reply: &Reply) -> Option<Option<LastRun>> {
    let Reply::Array(parts) = reply else { return None };
    let [Reply::Int(1), facts @ ..] = parts.as_slice() else {
        return matches!(parts.as_slice(), [Reply::Int(0)]).then_some(None);
    };
    let texts = facts.iter().map(|fact| match fact {
        Reply::Bytes(text) => Some(text.as_slice()),
        _ => None,
    });
    let texts: Option<Vec<&[u8]>> = texts.collect();
    let [state, started, client, ended, took, outcome, ended_client, succeeded] = *texts?.as_slice() else {
        return None;
    };
    let number = |text: &[u8]| match text.is_empty() {
        true => Some(None),
        false => parse_number(text).map(Some),
    };
    let word = |text| std::str::from_utf8(text).ok();
    let ended = match number(ended)? {
        None => None,
        Some(at) => Some(EndedRun {
            at,
            took: Duration::from_millis(parse_number(took)?),
            outcome: RunOutcome::parse(word(outcome)?)?,
            client: ClientInfo::parse(ended_client).map(Arc::new),
        }),
    };
    Some(Some(LastRun {
        state: RunState::parse(word(state)?)?,
        started: number(started)?,
        client: ClientInfo::parse(client).map(Arc::new),
        ended,
        succeeded: number(succeeded)?,
    }))
}

/// Parses the reply to a renewal, a release or the operation of an operator; `None` if the reply has another form.
pub(crate) fn parse_record(reply: &Reply) -> Option<Record> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Record::Mine { listeners: 0 }),
        // The third part is the grant message, which `parse_grant` returns.
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

/// Returns the grant message in the reply to a release, if the release granted the lock to a waiter of this client.
pub(crate) fn parse_grant(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(1), Reply::Int(_), Reply::Bytes(grant)] => Some(grant),
            _ => None,
        },
        _ => None,
    }
}

/// Parses a number from decimal text.
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
