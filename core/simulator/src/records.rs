//! The records on the servers: how the holders of each kind of record are read, and what else a kind stores.

use std::collections::BTreeMap;

use steadlock_protocol::{Kind, Token};
use steadlock_store::{Reply, ServerTime, Store};

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Record {
    /// HASH {owner → 1}; its TTL is the lease.
    Hash,
    /// STRING owner; its TTL is the lease.
    Text,
    /// ZSET {owner/i → time of its end}, and the limit.
    Permits,
    /// ZSET {owner → time of its end}.
    Readers,
    /// HASH with `writer` and `writer_until`.
    Writer,
}

/// Records of a name that affect each other. Records of different groups share only the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// The records whose key is the name itself.
    Plain,
    /// Both sides of a read-write lock.
    Sides,
    /// The permits of a semaphore.
    Permits,
}

/// An owner on record, and how many milliseconds of its hold are left; -1 without an end.
pub(crate) type OnRecord = (Vec<u8>, i64);

/// The state of a fair lock on its server.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairState {
    /// The holder, and the milliseconds that are left.
    pub(crate) holder: Option<OnRecord>,
    /// The waiters, in the server's order.
    pub(crate) queue: Vec<Vec<u8>>,
    /// The time at which the server last learned that each waiter is alive, on the server's clock.
    pub(crate) seen: BTreeMap<Vec<u8>, u64>,
    /// The last fencing token.
    pub(crate) token: Option<Token>,
}

impl Record {
    /// Returns the records whose holders exclude every newcomer to this one.
    pub(crate) const fn excludes(self) -> &'static [Self] {
        match self {
            Self::Hash => &[Self::Hash],
            Self::Text => &[Self::Text],
            // Permits may be free.
            Self::Permits => &[],
            Self::Readers => &[Self::Writer],
            Self::Writer => &[Self::Writer, Self::Readers],
        }
    }

    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Lock | Kind::Fair => Self::Hash,
            Kind::Mutex => Self::Text,
            Kind::Semaphore(_) => Self::Permits,
            Kind::Read => Self::Readers,
            Kind::Write => Self::Writer,
            other => unreachable!("no record for {other:?}"),
        }
    }

    pub(crate) const fn group(self) -> Group {
        match self {
            Self::Hash | Self::Text => Group::Plain,
            Self::Readers | Self::Writer => Group::Sides,
            Self::Permits => Group::Permits,
        }
    }

    pub(crate) fn key(self, name: &str) -> String {
        match self {
            Self::Hash | Self::Text => name.to_owned(),
            Self::Permits => own("semaphore", name),
            Self::Readers => own("rw-readers", name),
            Self::Writer => own("rw", name),
        }
    }

    /// Returns the keys by which calls about the record are recognised.
    pub(crate) fn keys(self, name: &str) -> Vec<String> {
        match self {
            Self::Readers | Self::Writer => vec![Self::Readers.key(name), Self::Writer.key(name)],
            _ => vec![self.key(name)],
        }
    }

    /// Returns whether the key exists only while the lock is held.
    pub(crate) const fn is_bare(self) -> bool {
        matches!(self, Self::Hash | Self::Text)
    }

    /// Returns the owners on record whose holds have not ended.
    pub(crate) fn holders(self, store: &mut Store, name: &str, now: ServerTime) -> Vec<OnRecord> {
        let key = self.key(name);
        let millis = i64::try_from(now.as_micros() / 1_000).unwrap_or(i64::MAX);
        match self {
            Self::Hash | Self::Text => {
                let read = if self == Self::Hash { "HKEYS" } else { "GET" };
                // The key can hold a record of another kind.
                let owners = match store.execute(&[read, &key], now) {
                    Reply::Error(_) => return Vec::new(),
                    owners => texts(owners),
                };
                let Reply::Int(left) = store.execute(&["PTTL", &key], now) else {
                    return Vec::new();
                };
                owners.into_iter().map(|owner| (owner, left)).collect()
            }
            Self::Permits | Self::Readers => {
                let scored = texts(store.execute(&["ZRANGE", &key, "0", "-1", "WITHSCORES"], now));
                let mut owners: Vec<OnRecord> = Vec::new();
                for pair in scored.chunks_exact(2) {
                    let (member, left) = (&pair[0], number(&pair[1]) - millis);
                    if left <= 0 || (self == Self::Permits && member == b"limit") {
                        continue;
                    }
                    let id = member.split(|byte| *byte == b'/').next().unwrap_or(member).to_vec();
                    match owners.iter_mut().find(|(owner, _)| *owner == id) {
                        Some((_, least)) => *least = left.min(*least),
                        None => owners.push((id, left)),
                    }
                }
                owners
            }
            Self::Writer => {
                let writer = texts(store.execute(&["HGET", &key, "writer"], now)).pop();
                let until = texts(store.execute(&["HGET", &key, "writer_until"], now)).pop();
                let left = number(&until.unwrap_or_default()) - millis;
                writer
                    .filter(|_| left > 0)
                    .map(|owner| (owner, left))
                    .into_iter()
                    .collect()
            }
        }
    }

    /// Returns how many permits of a semaphore these owners hold.
    pub(crate) fn permits_of(store: &mut Store, name: &str, now: ServerTime, owners: &[&[u8]]) -> u32 {
        let key = Self::Permits.key(name);
        let now_or_later = format!("({}", now.as_micros() / 1_000);
        let members = texts(store.execute(&["ZRANGEBYSCORE", &key, &now_or_later, "+inf"], now));
        let is_theirs =
            |member: &&Vec<u8>| owners.contains(&member.split(|byte| *byte == b'/').next().unwrap_or(member));
        u32::try_from(members.iter().filter(is_theirs).count()).unwrap_or(u32::MAX)
    }

    /// Returns whether an owner has its first permit, which stands for all of its permits.
    pub(crate) fn has_first_permit(store: &mut Store, name: &str, now: ServerTime, owner: &[u8]) -> bool {
        let first = [owner, b"/1"].concat();
        let key = Self::Permits.key(name);
        let score = texts(store.execute(&[b"ZSCORE", key.as_bytes(), &first], now)).pop();
        let millis = i64::try_from(now.as_micros() / 1_000).unwrap_or(i64::MAX);
        score.is_some_and(|score| number(&score) > millis)
    }

    /// Returns the limit in the record of a semaphore: that of its holders, or a newer one that an operator set.
    pub(crate) fn limit(store: &mut Store, name: &str, now: ServerTime) -> Option<u32> {
        let limit = texts(store.execute(&["ZSCORE", &Self::Permits.key(name), "limit"], now)).pop()?;
        u32::try_from(number(&limit)).ok()
    }

    /// Returns how many permits of a semaphore are held.
    pub(crate) fn permits(store: &mut Store, name: &str, now: ServerTime) -> u32 {
        let millis = now.as_micros() / 1_000;
        let key = Self::Permits.key(name);
        match store.execute(&["ZCOUNT", &key, &format!("({millis}"), "+inf"], now) {
            Reply::Int(count) => u32::try_from(count).unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns the owners that wait on a server.
    pub(crate) fn waiters(self, store: &mut Store, name: &str, now: ServerTime) -> Vec<Vec<u8>> {
        match self {
            Self::Writer => {
                let mut read = |field| texts(store.execute(&["HGET", &self.key(name), field], now)).pop();
                let (mark, until) = (read("mark"), read("mark_until"));
                // A waiting writer leaves a mark with an end of its own. An expired mark has no effect, even if its
                // fields exist.
                let millis = i64::try_from(now.as_micros() / 1_000).unwrap_or(i64::MAX);
                mark.filter(|_| until.is_some_and(|until| number(&until) > millis))
                    .into_iter()
                    .collect()
            }
            Self::Hash => {
                let queue = texts(store.execute(&["ZRANGE", &own("fair", name), "0", "-1"], now));
                [queue, texts(store.execute(&["HKEYS", &own("alive", name)], now))].concat()
            }
            _ => Vec::new(),
        }
    }
}

pub(crate) fn fair_state(store: &mut Store, name: &str, now: ServerTime) -> FairState {
    let seen = texts(store.execute(&["HGETALL", &own("alive", name)], now));
    let seen = seen.chunks_exact(2).map(|pair| {
        let since = pair[1].split(|byte| *byte == b' ').next().unwrap_or_default();
        (pair[0].clone(), number(since).unsigned_abs())
    });
    let token = texts(store.execute(&["GET", &own("token", name)], now)).pop();
    FairState {
        seen: seen.collect(),
        holder: Record::Hash.holders(store, name, now).pop(),
        queue: texts(store.execute(&["ZRANGE", &own("fair", name), "0", "-1"], now)),
        token: token.and_then(|token| Token::parse(&token)),
    }
}

/// Returns one of Steadlock's own keys for a name.
fn own(word: &str, name: &str) -> String {
    format!("steadlock:{{{name}}}:{word}")
}

/// Returns a number that a server stores as text, or zero if it is not a number.
fn number(text: &[u8]) -> i64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse::<f64>().map_or(0, |number| number as i64)
}

/// Returns the strings of a reply.
pub(crate) fn texts(reply: Reply) -> Vec<Vec<u8>> {
    match reply {
        Reply::Nil | Reply::NilArray => Vec::new(),
        Reply::Bytes(text) => vec![text],
        Reply::Double(score) => vec![score.to_string().into_bytes()],
        Reply::Array(items) | Reply::Set(items) => items.into_iter().flat_map(texts).collect(),
        Reply::Map(pairs) | Reply::Pairs(pairs) => pairs
            .into_iter()
            .flat_map(|(key, value)| [texts(key), texts(value)].concat())
            .collect(),
        other => unreachable!("not a string: {other:?}"),
    }
}
