//! Everything that the simulator must know about each kind of lock: which holds exclude each other, and how calls and
//! replies of the kind look. `records` says where the records of each kind are.
//!
//! A new kind of lock needs an entry in [`FAMILIES`], and an arm in each `match` on kinds in this crate. The compiler
//! does not find a missing arm where the `match` has an arm `_`.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Call, Kind, OnFailure, Permits, Reply, RunKey, RunTerms, Script, Token};

use crate::random::Random;
use crate::records::{Group, Record};
use crate::time::{MS, Micros, SECOND};

/// The locks that callers of one history contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// The reentrant lock.
    Lock,
    /// The mutex.
    Mutex,
    /// Permits of a semaphore.
    Semaphore,
    /// Readers and writers.
    ReadWrite,
    /// The fair lock, in some histories together with the plain lock.
    Fair,
    /// Runs of jobs, in some histories beside a lock of another kind with the same name.
    Once,
    /// The mutex, held by a majority of several servers.
    RedLock,
    /// Locks of any kinds: some callers acquire several of them as a composite lock, others only one.
    Several,
    /// Locks of several kinds with the same name. Kinds whose records are in different groups (`Group`) are
    /// independent, except that their tokens form one sequence.
    OneName,
}

/// The families that histories choose from.
pub(crate) const FAMILIES: &[Family] = &[
    Family::Lock,
    Family::Mutex,
    Family::Semaphore,
    Family::ReadWrite,
    Family::Fair,
    Family::Once,
    Family::RedLock,
    Family::Several,
    Family::OneName,
];

impl std::str::FromStr for Family {
    type Err = String;

    fn from_str(title: &str) -> Result<Self, String> {
        let found = FAMILIES.iter().find(|family| family.title() == title);
        let titles = || FAMILIES.iter().map(|family| family.title()).collect::<Vec<_>>();
        found
            .copied()
            .ok_or_else(|| format!("the families are: {}", titles().join(", ")))
    }
}

/// One caller that wants one side of a read-write lock, while many callers keep requesting the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) one: Kind,
    pub(crate) others: Kind,
}

impl Crowd {
    /// The time for which a waiting writer keeps new readers out, and for which it then lets them in again.
    pub(crate) const PHASE: Micros = 2 * SECOND;
    /// The length from which a hold is long: a wait for its end does not count as starvation.
    pub(crate) const LONG: Micros = SECOND;
    /// The time without faults in which starvation of one side is certain to be found.
    pub(crate) const UNDISTURBED: Micros = 2 * Self::PHASE + Self::LONG + 3 * SECOND;
}

impl Family {
    /// Returns the name of the family in printed tables.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Mutex => "mutex",
            Self::Semaphore => "semaphore",
            Self::ReadWrite => "read-write lock",
            Self::Fair => "fair lock",
            Self::Once => "once",
            Self::RedLock => "redlock",
            Self::Several => "several together",
            Self::OneName => "kinds of one name",
        }
    }

    /// Draws, for each name of a history, the kinds that callers choose from.
    pub(crate) fn names(self, random: &mut Random) -> Vec<Vec<Kind>> {
        let count = match self {
            Self::Several => random.between(2, 3),
            _ => 1 + u64::from(random.chance(250)),
        };
        (0..count).map(|_| self.kinds(random)).collect()
    }

    /// Draws whether many callers of one side of a read-write lock keep one caller of the other side waiting.
    pub(crate) fn crowd(self, random: &mut Random) -> Option<Crowd> {
        if self != Self::ReadWrite || !random.chance(150) {
            return None;
        }
        let (one, others) = random.pick(&[(Kind::Write, Kind::Read), (Kind::Read, Kind::Write)]);
        Some(Crowd { one, others })
    }

    /// Returns how often a caller requests several names together, in a thousand.
    pub(crate) const fn composite_odds(self) -> u64 {
        match self {
            Self::Several => 600,
            _ => 0,
        }
    }

    fn kinds(self, random: &mut Random) -> Vec<Kind> {
        match self {
            Self::Lock => vec![Kind::Lock],
            Self::Mutex | Self::RedLock => vec![Kind::Mutex],
            Self::Semaphore => semaphore(random),
            // Two of three requests are for reading, so that several readers hold the lock at the same time.
            Self::ReadWrite => vec![Kind::Read, Kind::Read, Kind::Write],
            Self::Fair if random.chance(400) => vec![Kind::Fair, Kind::Fair, Kind::Lock],
            Self::Fair => vec![Kind::Fair],
            Self::Once if random.chance(200) => {
                let beside = random.pick(&[Kind::Lock, Kind::Mutex, Kind::Write]);
                vec![Kind::Once, Kind::Once, Kind::Once, beside]
            }
            Self::Once => vec![Kind::Once],
            Self::Several => random
                .pick(&[Self::Lock, Self::Mutex, Self::Semaphore, Self::ReadWrite, Self::Fair])
                .kinds(random),
            Self::OneName => {
                let plain: &[&[Kind]] = &[
                    &[Kind::Lock],
                    &[Kind::Fair],
                    &[Kind::Mutex],
                    // These kinds share a key, but do not accept each other's records.
                    &[Kind::Lock, Kind::Mutex],
                    &[Kind::Fair, Kind::Lock, Kind::Mutex],
                ];
                let mut kinds = random.pick(plain).to_vec();
                match random.between(0, 5) {
                    0..=2 => kinds.push(Kind::Write),
                    3 => kinds.extend([Kind::Write, Kind::Write, Kind::Read]),
                    4 => kinds.extend(semaphore(random)),
                    _ => kinds.extend(
                        semaphore(random)
                            .into_iter()
                            .chain([Kind::Write, Kind::Write, Kind::Read]),
                    ),
                }
                kinds
            }
        }
    }

    /// Returns the time for which a lock can stay free although a caller waits for it, beyond a poll and some round
    /// trips.
    pub(crate) fn longest_detour(self, names: &[Vec<Kind>]) -> Micros {
        match self {
            // If no client reaches a majority, each tries again after a random pause.
            Self::RedLock => 3_000 * MS,
            // A waiting writer keeps new readers out, and then readers that waited come first.
            _ if names.iter().flatten().any(|kind| *kind == Kind::Read) => 2_200 * MS,
            _ => 0,
        }
    }

    /// Draws the number of servers.
    pub(crate) fn nodes(self, random: &mut Random) -> usize {
        match self {
            Self::RedLock => random.pick(&[3, 5]),
            _ => 1,
        }
    }
}

/// Draws kinds with few permits. In some histories some callers name a wrong limit, or one that becomes right when an
/// operator changes the limit.
fn semaphore(random: &mut Random) -> Vec<Kind> {
    let limit = u32::try_from(random.between(1, 4)).unwrap_or(1);
    let mut kinds: Vec<Permits> = Vec::new();
    for _ in 0..3 {
        for wanted in 1..=limit.min(3) {
            kinds.extend(Permits::new(wanted, limit));
        }
    }
    if random.chance(300) {
        let other = random.pick(&[limit + 1, limit + 2, limit.saturating_sub(1).max(1)]);
        kinds.extend(Permits::new(1, other));
        kinds.extend(
            Permits::new(other.min(2), other)
                .into_iter()
                .filter(|_| random.chance(500)),
        );
    }
    kinds.into_iter().map(Kind::Semaphore).collect()
}

/// The keys of runs. Without escaping, some of them would be equal on the server.
const KEYS: &[&str] = &["a", "a:1", "a%3A1", "{a}"];
/// The longest time for which a key is kept, in milliseconds.
pub(crate) const LONGEST_KEEP: u64 = 3_600_000;

/// The terms of a run: all that a caller asks for beside its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    /// In milliseconds.
    pub(crate) at_least: u64,
    pub(crate) key: Option<&'static str>,
    /// In milliseconds.
    pub(crate) keep: u64,
    /// Whether a run that failed keeps later requests out like one that succeeded.
    pub(crate) keeps_failures: bool,
}

impl Terms {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let longest = random.pick(&[0, 0, 0, 100, 400, 400, 2_000, 8_000]);
        let keep = match random.between(0, 9) {
            0..=4 => random.between(1, 500),
            5..=7 => random.between(500, 5_000),
            8 => 20_000,
            _ => LONGEST_KEEP,
        };
        Self {
            at_least: random.between(0, longest),
            key: random.chance(600).then(|| random.pick(KEYS)),
            keep,
            keeps_failures: random.chance(300),
        }
    }

    /// Returns the terms as a session takes them.
    pub(crate) fn request(self) -> Option<Arc<RunTerms>> {
        let failures = match self.keeps_failures {
            true => OnFailure::Keep,
            false => OnFailure::Retry,
        };
        let terms = RunTerms::default()
            .at_least(Duration::from_millis(self.at_least))
            .ok()?;
        let terms = terms.keep(Duration::from_millis(self.keep)).ok()?.on_failure(failures);
        let key = self.key.and_then(|key| RunKey::parse(key).ok());
        Some(Arc::new(match key {
            Some(key) => terms.key(key),
            None => terms,
        }))
    }
}

/// Returns whether locks of these kinds with the same name affect each other.
pub(crate) fn are_related(one: Kind, other: Kind) -> bool {
    Record::of(one).group() == Record::of(other).group()
}

/// Returns whether a caller may request `kind` of a name inside its hold as `held`.
pub(crate) fn goes_inside(kind: Kind, held: Kind) -> bool {
    let (record, outer) = (Record::of(kind), Record::of(held));
    record == outer || (record.group() == Group::Sides && outer.group() == Group::Sides)
}

/// Returns whether `newcomer` may hold a name beside `others`.
pub(crate) fn admits(newcomer: Kind, others: &[Kind]) -> bool {
    let others: Vec<Kind> = others
        .iter()
        .filter(|other| are_related(newcomer, **other))
        .copied()
        .collect();
    match newcomer {
        Kind::Lock | Kind::Fair | Kind::Mutex | Kind::Write | Kind::Once => others.is_empty(),
        Kind::Read => others.iter().all(|other| *other == Kind::Read),
        // A holder that was granted permits under another limit keeps them. `Operators` checks which limit applies at
        // each grant.
        Kind::Semaphore(permits) => {
            let mut all = vec![permits];
            all.extend(others.iter().filter_map(|other| match other {
                Kind::Semaphore(other) => Some(*other),
                _ => None,
            }));
            let limit = all.iter().map(|permits| permits.limit()).max().unwrap_or(0);
            all.iter().map(|permits| permits.wanted()).sum::<u32>() <= limit
        }
        other => unreachable!("no rule for {other:?}"),
    }
}

/// Returns whether a request for `kind` inside a hold as `held` is refused at once.
pub(crate) fn is_refused_inside(kind: Kind, held: Kind) -> bool {
    match (held, kind) {
        // An upgrade from read to write would wait for itself.
        (Kind::Read, Kind::Write) => true,
        _ => Record::of(kind) == Record::of(held) && !kind.is_reentrant(),
    }
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Acquire,
    Renew,
    Release,
    /// Shows the server that waiters are alive.
    Poll,
    Inspect,
    /// Removes the record for an operator, no matter which owner holds the lock.
    Force,
    /// Changes the number of permits for an operator.
    Limit,
    /// Asks for the last runs of a job.
    History,
}

/// Returns the purpose of a script, and the record that it is about.
pub(crate) fn role(script: Script) -> (Role, Record) {
    match script {
        Script::LockAcquire | Script::FairAcquire => (Role::Acquire, Record::Hash),
        Script::LockRenew => (Role::Renew, Record::Hash),
        Script::LockRelease | Script::FairRelease => (Role::Release, Record::Hash),
        Script::FairPoll => (Role::Poll, Record::Hash),
        // Scripts for client identities concern no lock.
        Script::LockInspect | Script::ClientIdentify | Script::ClientInspect => (Role::Inspect, Record::Hash),
        Script::FairLength => (Role::Inspect, Record::Hash),
        Script::MutexAcquire => (Role::Acquire, Record::Text),
        Script::MutexRenew => (Role::Renew, Record::Text),
        Script::MutexRelease => (Role::Release, Record::Text),
        Script::MutexInspect => (Role::Inspect, Record::Text),
        Script::SemaphoreAcquire => (Role::Acquire, Record::Permits),
        Script::SemaphoreRenew => (Role::Renew, Record::Permits),
        Script::SemaphoreRelease => (Role::Release, Record::Permits),
        Script::SemaphoreInspect => (Role::Inspect, Record::Permits),
        Script::ReadAcquire => (Role::Acquire, Record::Readers),
        Script::ReadRenew => (Role::Renew, Record::Readers),
        Script::ReadRelease => (Role::Release, Record::Readers),
        Script::WriteAcquire => (Role::Acquire, Record::Writer),
        Script::WriteRenew => (Role::Renew, Record::Writer),
        Script::WriteRelease => (Role::Release, Record::Writer),
        Script::ReadWriteInspect => (Role::Inspect, Record::Writer),
        Script::LockForce | Script::FairForce => (Role::Force, Record::Hash),
        Script::MutexForce => (Role::Force, Record::Text),
        Script::SemaphoreForce => (Role::Force, Record::Permits),
        Script::ReadWriteForce => (Role::Force, Record::Writer),
        Script::SemaphoreLimit => (Role::Limit, Record::Permits),
        Script::OnceAcquire => (Role::Acquire, Record::Run),
        Script::OnceRenew => (Role::Renew, Record::Run),
        Script::OnceRelease => (Role::Release, Record::Run),
        Script::OnceInspect => (Role::Inspect, Record::Run),
        Script::OnceForce => (Role::Force, Record::Run),
        Script::OnceHistory => (Role::History, Record::Run),
        other => unreachable!("no role for {other:?}"),
    }
}

/// Returns the record that a call is about.
pub(crate) fn record(call: &Call) -> Record {
    let is_of_side = matches!(call.script, Script::ReadWriteInspect | Script::ReadWriteForce);
    match call.args.first() {
        Some(side) if is_of_side && &**side == b"read" => Record::Readers,
        _ => role(call.script).1,
    }
}

/// Returns the owner that a call is made for.
pub(crate) fn owner(call: &Call) -> Option<&[u8]> {
    let position = match role(call.script).0 {
        Role::Acquire | Role::Renew => 1,
        Role::Release => 0,
        Role::Poll | Role::Inspect | Role::Force | Role::Limit | Role::History => return None,
    };
    call.args.get(position).map(|owner| &**owner)
}

/// Returns whether a request for a lock of this kind never waits, not even for other callers of its client.
pub(crate) const fn never_waits(kind: Kind) -> bool {
    matches!(kind, Kind::Once)
}

/// Returns whether the script can change the server's queue of a fair lock.
pub(crate) const fn is_fair(script: Script) -> bool {
    matches!(
        script,
        Script::FairAcquire | Script::FairPoll | Script::FairRelease | Script::FairForce
    )
}

/// Returns the owners for which a call is made. A poll lists several.
pub(crate) fn callers(call: &Call) -> Vec<Vec<u8>> {
    match call.script {
        Script::FairPoll => call.args.iter().step_by(2).map(|owner| owner.to_vec()).collect(),
        _ => owner(call).map(<[u8]>::to_vec).into_iter().collect(),
    }
}

/// Returns the owner of the write hold inside which a call requests a read.
pub(crate) fn writer_around(call: &Call) -> Option<&[u8]> {
    let is_read = call.script == Script::ReadAcquire;
    let writer = call.args.get(3).filter(|_| is_read)?;
    (!writer.is_empty()).then_some(writer)
}

/// Returns the permits that an attempt requests.
pub(crate) fn permits(call: &Call) -> Option<Permits> {
    let is_it = call.script == Script::SemaphoreAcquire;
    let number = |place: usize| std::str::from_utf8(call.args.get(place)?).ok()?.parse().ok();
    Permits::new(number(2)?, number(3)?).ok().filter(|_| is_it)
}

/// Returns the limit that an operator sets.
pub(crate) fn limit(call: &Call) -> Option<u32> {
    let limit = call.args.first().filter(|_| call.script == Script::SemaphoreLimit)?;
    std::str::from_utf8(limit).ok()?.parse().ok()
}

/// Returns the owner that a server names as the holder of a lock.
pub(crate) fn holder(reply: &Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(0), _, Reply::Bytes(owner), ..] => Some(owner.to_vec()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether a reply reports success: something was granted, renewed, released or changed.
pub(crate) fn is_yes(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(parts) if parts.first() == Some(&Reply::Int(1)))
}

/// Returns the token of a granted attempt; `None` if it was refused or has no token.
pub(crate) fn granted_token(reply: &Reply) -> Option<Token> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(1), Reply::Bytes(token)] => Token::parse(token),
            _ => None,
        },
        _ => None,
    }
}
