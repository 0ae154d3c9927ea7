//! The records on the servers: how the holders of each kind of record are read, and what else a kind stores.

use std::collections::BTreeMap;
use std::fmt;

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
    /// HASH with `owner`, `since`, `client`, and `took` once the run has ended; its TTL is the lease, or how long the
    /// job counts as done.
    Run,
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
    /// The run of a job.
    Runs,
}

/// An owner on record, and how many milliseconds of its hold are left; -1 without an end.
pub(crate) type OnRecord = (Vec<u8>, i64);

/// A run on record, which goes on or keeps others out after its end.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) owner: Vec<u8>,
    /// When the run began, in milliseconds of the server's clock.
    pub(crate) since: u64,
    /// How long the run took, in milliseconds; `None` while it goes on.
    pub(crate) took: Option<u64>,
    /// Which program runs or ran the job.
    pub(crate) client: Vec<u8>,
    /// The milliseconds that are left of the record; -1 without an end.
    pub(crate) left: i64,
}

/// The records of a job that a call is about.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct JobState {
    pub(crate) run: Option<Run>,
    /// The run after which the key of the call is done.
    pub(crate) done: Option<Run>,
    /// The fields of the history.
    pub(crate) history: BTreeMap<Vec<u8>, Vec<u8>>,
}

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

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            owner,
            since,
            took,
            left,
            ..
        } = self;
        let owner = String::from_utf8_lossy(owner);
        write!(f, "{owner} since {since}, took {took:?}, left {left}")
    }
}

impl fmt::Debug for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, done, history } = self;
        write!(f, "run {run:?}, key {done:?}, {:?}", shown_fields(history))
    }
}

/// Returns the fields of a hash as text.
pub(crate) fn shown_fields(fields: &BTreeMap<Vec<u8>, Vec<u8>>) -> BTreeMap<String, String> {
    let text = |text: &Vec<u8>| String::from_utf8_lossy(text).into_owned();
    fields.iter().map(|(field, value)| (text(field), text(value))).collect()
}

impl Run {
    fn read(store: &mut Store, key: &[u8], now: ServerTime) -> Option<Self> {
        let mut fields = fields(store, key, now);
        let Reply::Int(left) = store.execute(&[b"PTTL", key], now) else {
            return None;
        };
        Some(Self {
            owner: fields.remove(b"owner".as_slice())?,
            since: number(&fields.remove(b"since".as_slice())?).unsigned_abs(),
            took: fields
                .remove(b"took".as_slice())
                .map(|took| number(&took).unsigned_abs()),
            client: fields.remove(b"client".as_slice()).unwrap_or_default(),
            left,
        })
    }

    /// Returns whether this is a run of this owner that goes on.
    pub(crate) fn is_of(&self, owner: &[u8]) -> bool {
        self.owner == owner && self.took.is_none()
    }
}

impl JobState {
    /// Reads the records of a job, and the one for the key `done`.
    pub(crate) fn read(store: &mut Store, name: &str, done: Option<&[u8]>, now: ServerTime) -> Self {
        Self {
            run: Run::read(store, Record::Run.key(name).as_bytes(), now),
            done: done.and_then(|key| Run::read(store, key, now)),
            history: fields(store, history(name).as_bytes(), now),
        }
    }

    /// Returns the text of a field of the history; empty if there is no such field.
    pub(crate) fn of_history(&self, field: &str) -> &[u8] {
        self.history.get(field.as_bytes()).map_or(&[], Vec::as_slice)
    }

    /// Returns a time or length in the history, in milliseconds.
    pub(crate) fn time_in_history(&self, field: &str) -> Option<u64> {
        let text = self.history.get(field.as_bytes())?;
        Some(number(text).unsigned_abs())
    }
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
            Self::Run => &[Self::Run],
        }
    }

    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Lock | Kind::Fair => Self::Hash,
            Kind::Mutex => Self::Text,
            Kind::Semaphore(_) => Self::Permits,
            Kind::Read => Self::Readers,
            Kind::Write => Self::Writer,
            Kind::Once => Self::Run,
            other => unreachable!("no record for {other:?}"),
        }
    }

    pub(crate) const fn group(self) -> Group {
        match self {
            Self::Hash | Self::Text => Group::Plain,
            Self::Readers | Self::Writer => Group::Sides,
            Self::Permits => Group::Permits,
            Self::Run => Group::Runs,
        }
    }

    pub(crate) fn key(self, name: &str) -> String {
        match self {
            Self::Hash | Self::Text => name.to_owned(),
            Self::Permits => own("semaphore", name),
            Self::Readers => own("rw-readers", name),
            Self::Writer => own("rw", name),
            Self::Run => own("once", name),
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
            Self::Run => {
                let run = Run::read(store, key.as_bytes(), now).filter(|run| run.took.is_none());
                run.map(|run| (run.owner, run.left)).into_iter().collect()
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

/// Returns the key of the history of a job.
pub(crate) fn history(name: &str) -> String {
    own("job", name)
}

/// Returns the keys of a job that exist apart from its run: the history, and a key for each key that is done.
pub(crate) fn job_keys(store: &mut Store, name: &str, now: ServerTime) -> Vec<Vec<u8>> {
    let mut keys = texts(store.execute(&["KEYS", &own("done-*", name)], now));
    keys.push(history(name).into_bytes());
    keys
}

/// Returns the fields of a hash.
fn fields(store: &mut Store, key: &[u8], now: ServerTime) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let all = match store.execute(&[b"HGETALL", key], now) {
        Reply::Error(_) => Vec::new(),
        all => texts(all),
    };
    let pairs = all.chunks_exact(2);
    pairs.map(|pair| (pair[0].clone(), pair[1].clone())).collect()
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
