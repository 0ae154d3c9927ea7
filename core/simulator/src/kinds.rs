//! What the simulator has to know of each kind of lock: who may hold it beside
//! whom, and what its calls and replies look like. A new kind of lock joins here,
//! by a line in [`FAMILIES`] and an arm in each function; where its records are is
//! in `records`.

use steadlock_protocol::{Call, Kind, Permits, Reply, Script, Token};

use crate::random::Random;
use crate::records::{Group, Record};
use crate::time::{MS, Micros, SECOND};

/// Locks of one name that exclude one another, for a history to contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// The reentrant lock.
    Lock,
    /// The simple lock.
    Mutex,
    /// Permits of a semaphore.
    Semaphore,
    /// Readers and writers.
    ReadWrite,
    /// The lock that is served in order, in some histories beside the plain one.
    Fair,
    /// The simple lock, held by a majority of several servers.
    RedLock,
    /// Locks of any kinds: some callers take several of them together, others one.
    Several,
    /// Locks of several kinds that have one name: most have nothing to do with one another
    /// but that their tokens are one sequence.
    OneName,
}

/// What the histories choose from.
pub(crate) const FAMILIES: &[Family] = &[
    Family::Lock,
    Family::Mutex,
    Family::Semaphore,
    Family::ReadWrite,
    Family::Fair,
    Family::RedLock,
    Family::Several,
    Family::OneName,
];

/// One that wants one side of a lock, and many that want the other all the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) one: Kind,
    pub(crate) others: Kind,
}

impl Crowd {
    /// For so long a waiting writer keeps readers out, and for so long it then lets them in.
    pub(crate) const PHASE: Micros = 2 * SECOND;
    /// Who holds for longer keeps others waiting with good reason.
    pub(crate) const LONG: Micros = SECOND;
    /// For how long all must be calm for it to be seen that one side starves.
    pub(crate) const CALM: Micros = 2 * Self::PHASE + Self::LONG + 3 * SECOND;
}

impl Family {
    /// How the table calls it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Mutex => "mutex",
            Self::Semaphore => "semaphore",
            Self::ReadWrite => "read-write lock",
            Self::Fair => "fair lock",
            Self::RedLock => "redlock",
            Self::Several => "several together",
            Self::OneName => "kinds of one name",
        }
    }

    /// Draws the kinds that callers choose from, for each name of a history.
    pub(crate) fn names(self, random: &mut Random) -> Vec<Vec<Kind>> {
        let count = match self {
            Self::Several => random.between(2, 3),
            _ => 1 + u64::from(random.chance(250)),
        };
        (0..count).map(|_| self.kinds(random)).collect()
    }

    /// In some histories of readers and writers, many of one side are to keep one of the
    /// other waiting.
    pub(crate) fn crowd(self, random: &mut Random) -> Option<Crowd> {
        if self != Self::ReadWrite || !random.chance(150) {
            return None;
        }
        let (one, others) = random.pick(&[(Kind::Write, Kind::Read), (Kind::Read, Kind::Write)]);
        Some(Crowd { one, others })
    }

    /// How often a caller wants several of its names together, in a thousand.
    pub(crate) const fn takes_together(self) -> u64 {
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
            // More readers than writers, so that they meet.
            Self::ReadWrite => vec![Kind::Read, Kind::Read, Kind::Write],
            Self::Fair if random.chance(400) => vec![Kind::Fair, Kind::Fair, Kind::Lock],
            Self::Fair => vec![Kind::Fair],
            Self::Several => random
                .pick(&[Self::Lock, Self::Mutex, Self::Semaphore, Self::ReadWrite, Self::Fair])
                .kinds(random),
            Self::OneName => {
                let plain: &[&[Kind]] = &[
                    &[Kind::Lock],
                    &[Kind::Fair],
                    &[Kind::Mutex],
                    // Their records have one key, and are no record to one another.
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

    /// For how much longer than a poll and some round trips a lock may stay free that
    /// somebody waits for.
    pub(crate) fn longest_detour(self, names: &[Vec<Kind>]) -> Micros {
        match self {
            // Candidates that split the vote try again after random pauses.
            Self::RedLock => 3_000 * MS,
            // A waiting writer keeps new readers out; then readers that waited go first.
            _ if names.iter().flatten().any(|kind| *kind == Kind::Read) => 2_200 * MS,
            _ => 0,
        }
    }

    /// How many servers it lives on.
    pub(crate) fn nodes(self, random: &mut Random) -> usize {
        match self {
            Self::RedLock => random.pick(&[3, 5]),
            _ => 1,
        }
    }
}

/// Some of few permits; now and then somebody is wrong about how many there are, or right
/// once an operator has changed that.
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

/// Whether locks of one name have to do with one another.
pub(crate) fn are_related(one: Kind, other: Kind) -> bool {
    Record::of(one).group() == Record::of(other).group()
}

/// Whether a caller that has a name as `held` asks for it as `kind`, too.
pub(crate) fn goes_inside(kind: Kind, held: Kind) -> bool {
    let (record, outer) = (Record::of(kind), Record::of(held));
    record == outer || (record.group() == Group::Sides && outer.group() == Group::Sides)
}

/// Whether `newcomer` may hold beside `others`, all of one name.
pub(crate) fn admits(newcomer: Kind, others: &[Kind]) -> bool {
    let others: Vec<Kind> = others
        .iter()
        .filter(|other| are_related(newcomer, **other))
        .copied()
        .collect();
    match newcomer {
        Kind::Lock | Kind::Fair | Kind::Mutex | Kind::Write => others.is_empty(),
        Kind::Read => others.iter().all(|other| *other == Kind::Read),
        // Who was let in under another limit keeps its permits. Which limit counted when is
        // looked at on the server.
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

/// Whether wanting `kind` inside a hold as `held` is refused at once.
pub(crate) fn is_refused_inside(kind: Kind, held: Kind) -> bool {
    match (held, kind) {
        // An upgrade would wait for itself.
        (Kind::Read, Kind::Write) => true,
        _ => Record::of(kind) == Record::of(held) && !kind.is_reentrant(),
    }
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Acquire,
    Renew,
    Release,
    /// Waiters say that they live.
    Poll,
    Inspect,
    /// An operator removes the record, no matter who holds the lock.
    Force,
    /// An operator changes how many permits there are.
    Limit,
}

/// What a script is for, and which record it is about.
pub(crate) fn role(script: Script) -> (Role, Record) {
    match script {
        Script::LockAcquire | Script::FairAcquire => (Role::Acquire, Record::Hash),
        Script::LockRenew => (Role::Renew, Record::Hash),
        Script::LockRelease | Script::FairRelease => (Role::Release, Record::Hash),
        Script::FairPoll => (Role::Poll, Record::Hash),
        // Those of clients are of no lock at all.
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
        other => unreachable!("no role for {other:?}"),
    }
}

/// The record that a call is about.
pub(crate) fn record(call: &Call) -> Record {
    let is_of_side = matches!(call.script, Script::ReadWriteInspect | Script::ReadWriteForce);
    match call.args.first() {
        Some(side) if is_of_side && &**side == b"read" => Record::Readers,
        _ => role(call.script).1,
    }
}

/// The owner that a call is made for.
pub(crate) fn owner(call: &Call) -> Option<&[u8]> {
    let position = match role(call.script).0 {
        Role::Acquire | Role::Renew => 1,
        Role::Release => 0,
        Role::Poll | Role::Inspect | Role::Force | Role::Limit => return None,
    };
    call.args.get(position).map(|owner| &**owner)
}

/// Whether the waiters of a call's lock queue on the server.
pub(crate) const fn is_fair(script: Script) -> bool {
    matches!(
        script,
        Script::FairAcquire | Script::FairPoll | Script::FairRelease | Script::FairForce
    )
}

/// The owners that a call is made for, or on behalf of.
pub(crate) fn callers(call: &Call) -> Vec<Vec<u8>> {
    match call.script {
        Script::FairPoll => call.args.iter().step_by(2).map(|owner| owner.to_vec()).collect(),
        _ => owner(call).map(<[u8]>::to_vec).into_iter().collect(),
    }
}

/// The write hold that a call asks to read inside of.
pub(crate) fn writer_around(call: &Call) -> Option<&[u8]> {
    let is_read = call.script == Script::ReadAcquire;
    let writer = call.args.get(3).filter(|_| is_read)?;
    (!writer.is_empty()).then_some(writer)
}

/// The permits that an attempt asks for.
pub(crate) fn permits(call: &Call) -> Option<Permits> {
    let is_it = call.script == Script::SemaphoreAcquire;
    let number = |place: usize| std::str::from_utf8(call.args.get(place)?).ok()?.parse().ok();
    Permits::new(number(2)?, number(3)?).ok().filter(|_| is_it)
}

/// The limit that an operator sets.
pub(crate) fn limit(call: &Call) -> Option<u32> {
    let limit = call.args.first().filter(|_| call.script == Script::SemaphoreLimit)?;
    std::str::from_utf8(limit).ok()?.parse().ok()
}

/// The owner that a server names when it is asked who holds a lock.
pub(crate) fn holder(reply: &Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(0), _, Reply::Bytes(owner), ..] => Some(owner.to_vec()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a call had its way: granted, renewed, released.
pub(crate) fn is_yes(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(parts) if parts.first() == Some(&Reply::Int(1)))
}

/// The token of a granted attempt; `None` if it was refused or has none.
pub(crate) fn granted_token(reply: &Reply) -> Option<Token> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(1), Reply::Bytes(token)] => Token::parse(token),
            _ => None,
        },
        _ => None,
    }
}
