//! The kinds of lock. A kind is one constant table: its exclusion, its keys, its scripts, and the meaning of their
//! replies. All kinds share the same machines.
//!
//! ```text
//! lock, mutex, fair, read_write, semaphore, once, leader   one table for each kind, or side
//! Kind, Spec, Permits                                      here: the kinds, the columns of their tables, a semaphore's numbers
//! keys                                                     the calls that a table makes for one lock, and their replies
//! ```

mod fair;
mod keys;
#[cfg(test)]
mod layout;
mod leader;
mod lock;
mod mutex;
mod once;
mod read_write;
mod semaphore;

pub use self::keys::LockKey;
pub(crate) use self::keys::{
    Answer, Attempt, Invocation, Keys, QueueEntry, Record, RunSeen, parse_grant, parse_last_run, parse_leadership,
    parse_number, parse_record,
};

use crate::error::{Error, ErrorKind, Operation};
use crate::lease::LeaseDuration;
use crate::name::Word;
use crate::script::Script;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $(($numbers:ident))? => $spec:path;)*) => {
        /// A kind of lock.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind $(($numbers))?,)*
        }

        impl Kind {
            /// The names of all kinds, in the same order as the list of kinds in each language's package. The JVM sends
            /// a kind as its index in this list.
            pub const NAMES: [&'static str; [$($spec.name),*].len()] = [$($spec.name),*];

            /// Returns the table of the kind. Code outside this module uses this table and does not match on a kind.
            /// The exceptions are the texts of errors, RedLock, and the operations of a single kind (`queue_length`,
            /// `set_limit`).
            pub(crate) const fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$kind { .. } => &$spec,)*
                }
            }

            /// Returns the kind with this name; `wanted` and `limit` are those of a semaphore.
            ///
            /// # Errors
            /// `InvalidArgument` for an unknown name, and the errors of [`Permits::new`].
            pub fn parse(name: &str, wanted: u32, limit: u32) -> Result<Self, Error> {
                $(
                    if name == $spec.name {
                        return Ok(Self::$kind $(($numbers::new(wanted, limit)?))?);
                    }
                )*
                Err(Error::new(
                    ErrorKind::InvalidArgument,
                    Operation::Acquire,
                    format!("there is no lock of the kind {name:?}; give one of {:?}", Self::NAMES),
                ))
            }
        }
    };
}

kinds! {
    /// The reentrant lock. Excludes Redisson's `getLock` of the same name.
    Lock => lock::SPEC;
    /// The simple lock, in the layout of most other libraries. Not reentrant.
    Mutex => mutex::SPEC;
    /// The reentrant lock whose waiters acquire it in the order of their arrival, in all processes. Excludes `Lock`.
    Fair => fair::SPEC;
    /// The side of a read-write lock that many owners can hold.
    Read => read_write::READ;
    /// The side of a read-write lock that one owner holds alone.
    Write => read_write::WRITE;
    /// Permits of a semaphore. Not reentrant.
    Semaphore(Permits) => semaphore::SPEC;
    /// A run of a job, at most one at a time. A request is granted the run or skipped; it never waits.
    Once => once::SPEC;
    /// The leader of a group of processes, elected in the order of their arrival. Not reentrant.
    Leader => leader::SPEC;
}

impl Kind {
    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether the lock has at most one holder at a time.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        matches!(self.spec().holders, Holders::One)
    }

    /// Whether a holder can re-enter the lock.
    #[must_use]
    pub const fn is_reentrant(self) -> bool {
        matches!(self.spec().again, Again::Enters)
    }

    /// Returns why a request for a lock of this kind can neither re-enter the lease that `within` names nor be granted
    /// inside it.
    pub(crate) const fn refusal_within(self) -> &'static str {
        if self.is_exclusive() {
            "the lease given as `within` holds this lock, which is not reentrant; release it first"
        } else {
            "this kind of lock is not reentrant; leave `within` out"
        }
    }

    /// Returns why a holder may not wait for its own lock without a bound: no other caller could end the wait. `None`
    /// if the holder can re-enter the lock, or if the lock can have several holders.
    pub(crate) const fn refusal_of_endless(self) -> Option<&'static str> {
        match self.spec().again {
            Again::Waits(why) if self.is_exclusive() => Some(why),
            Again::Waits(_) | Again::Enters => None,
        }
    }

    /// Whether a hold of this kind excludes every request of the other kind for the same name. A hold of permits does
    /// not, because there may be enough permits left.
    pub(crate) fn keeps_out(self, other: Self) -> bool {
        self.permits().is_none() && other.spec().excludes.contains(&self.gate())
    }

    /// Whether a request never waits: the answer to its only attempt decides.
    pub(crate) const fn never_waits(self) -> bool {
        matches!(self.spec().waiters, Waiters::None)
    }

    /// Returns the length of a lease whose request names none; `None` for that of the client.
    pub(crate) const fn lease(self) -> Option<LeaseDuration> {
        self.spec().lease
    }

    /// Whether each hold has a token, even if the caller wants none: it is the number of a leader's term.
    pub(crate) const fn always_has_token(self) -> bool {
        matches!(self, Self::Leader)
    }

    /// Whether the waiters queue on the server.
    pub(crate) const fn queues_on_server(self) -> bool {
        matches!(self.spec().waiters, Waiters::Server { .. })
    }

    /// Whether a refused waiter leaves a mark on the server, and removes the mark when it gives up.
    pub(crate) const fn leaves_mark(self) -> bool {
        self.spec().leaves_mark
    }

    /// Returns the gate at which the local waiters queue; see [`Gate`].
    pub(crate) const fn gate(self) -> Gate {
        self.spec().gate
    }

    /// Returns the permits that are wanted, if the kind counts permits.
    pub(crate) const fn permits(self) -> Option<Permits> {
        // The match only reads the value of this variant. All rules of kinds are in their tables.
        let Self::Semaphore(permits) = self else { return None };
        Some(permits)
    }

    /// Returns one of each kind. The semaphore wants two of three permits.
    #[cfg(test)]
    fn each() -> Vec<Self> {
        let of = |name: &&str| Self::parse(name, 2, 3).unwrap();
        Self::NAMES.iter().map(of).collect()
    }
}

/// The table of a kind of lock. Each kind's file has one.
#[derive(Debug)]
pub(crate) struct Spec {
    /// The name of the kind, as in every language's table of kinds.
    pub(crate) name: &'static str,
    /// The gate at which local waiters queue.
    pub(crate) gate: Gate,
    /// The gates of the locks that exclude this kind, and that this kind excludes. Permits exclude other permits only
    /// if too few are left.
    pub(crate) excludes: &'static [Gate],
    /// How many owners can hold the lock at a time.
    pub(crate) holders: Holders,
    /// The treatment of a caller that already holds the lock.
    pub(crate) again: Again,
    /// The gate of the other side, and what happens to a caller that holds a lock of that gate; `None` if the lock has
    /// no sides.
    pub(crate) inside: Option<(Gate, Inside)>,
    /// The place where waiters queue.
    pub(crate) waiters: Waiters,
    /// Whether a refused waiter leaves a mark on the server: its place in a fair lock's queue, or the mark of a waiting
    /// writer. The waiter removes the mark when it gives up.
    pub(crate) leaves_mark: bool,
    /// Whether the lock can be a RedLock, which a majority of several servers grants.
    pub(crate) by_majority: bool,
    /// The length of a lease whose request names none; `None` for that of the client.
    pub(crate) lease: Option<LeaseDuration>,

    /// All keys of the lock. The first is the key of the holder's record; for a read lock it is the key of the writer's
    /// record.
    pub(crate) keys: &'static [Key],
    /// The channel on which releases are published; `None` if nobody waits for them.
    pub(crate) channel: Option<Channel>,
    /// The call of an attempt.
    pub(crate) acquire: Form,
    /// The call that extends a hold.
    pub(crate) renew: Form,
    /// The call that removes a hold, or a waiter's mark. The call wakes the waiters, or grants a fair lock to the next
    /// waiter.
    pub(crate) release: Form,
    /// The call that asks who holds the lock.
    pub(crate) inspect: Form,
    /// The call that removes the record, no matter who holds the lock. The call wakes the waiters, or grants a fair
    /// lock to the next waiter.
    pub(crate) force: Form,
    /// The additional parts that the reply to `acquire` or `inspect` about a held lock can have. All other replies have
    /// the same form for all kinds.
    pub(crate) held_reply: HeldReply,
}

/// The facts about a held lock that a kind's scripts report in addition to the owner and the remaining time of the
/// lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldReply {
    /// No more facts.
    Holder,
    /// The server's clock when the call ran.
    Queued,
    /// How many permits are held, and the limit.
    Permits,
    /// When the run began, how long it took if it has ended, the server's clock, and which program runs or ran it.
    Run,
}

impl Spec {
    /// Returns the gates where a caller can have a hold around a new one: its own gate first, then the other side's.
    pub(crate) fn gates_around(&self) -> impl Iterator<Item = Gate> + use<> {
        std::iter::once(self.gate).chain(self.inside.map(|(gate, _)| gate))
    }

    /// Returns what happens to a caller with a hold at this gate, if this is the gate of the other side.
    pub(crate) fn inside(&self, held: Gate) -> Option<Inside> {
        self.inside.filter(|(gate, _)| *gate == held).map(|(_, inside)| inside)
    }
}

/// A name that the kinds of one local queue share, and by which `Spec::excludes` names them. The waiters of all locks
/// with the same record and the same gate are in one local queue. If the kinds are reentrant, a holder of one of these
/// locks re-enters its hold by any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gate(&'static str);

impl Gate {
    const fn new(name: &'static str) -> Self {
        Self(name)
    }
}

/// How many owners can hold a lock at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    One,
    Many,
    /// As many owners as there are permits for.
    Permits,
}

/// The treatment of a caller that already holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The caller re-enters its hold, without a call to the server unless the lease must last longer.
    Enters,
    /// The caller waits like any other. If only the caller itself could end that wait, the wait is refused at once with
    /// this message.
    Waits(&'static str),
}

/// The treatment of a caller that holds the other side of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// The caller can be granted the lock in addition to that hold.
    LetIn,
    /// The caller would wait for itself, and is refused at once with this message.
    Refused(&'static str),
}

/// The place where waiters queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiters {
    /// In the client, where only the first waiter asks the server.
    Client,
    /// On the server. A client keeps its waiters alive there with this call, whose arguments are repeated for each
    /// waiter.
    Server {
        poll: Form,
        /// The first word of the channels on which the server announces grants; the id of a client follows.
        grants: &'static str,
    },
    /// Nowhere: a request is a single attempt, which no other caller of its client delays.
    None,
}

/// One call: a script, with its KEYS and ARGV in the order in which the head of the script names them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) script: Script,
    pub(crate) keys: &'static [Key],
    pub(crate) args: &'static [Arg],
}

/// A key of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The name of the lock itself, as in other libraries.
    Name,
    /// A key of Steadlock's own.
    Own(Word),
    /// The key of the fencing token; left out if no token is drawn.
    TokenIfDrawn,
    /// The record of the run's key; left out if the run has no key.
    DoneIfKeyed,
}

/// A channel of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The channel of Redisson's `getLock`.
    Redisson,
    /// A channel of Steadlock's own.
    Own(Word),
}

/// An argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arg {
    /// The TTL of the record, in ms.
    Ttl,
    /// The owner id.
    Owner,
    /// `1` if the server must draw a fencing token, otherwise `0`.
    Fencing,
    /// `1` if the owner waits when it is refused, otherwise `0`.
    Waits,
    /// The owner id of the write hold inside which the caller reads; empty if there is none.
    Around,
    /// The number of permits that are wanted.
    Wanted,
    /// The number of permits that there are.
    Limit,
    /// The channel on which releases are published.
    Channel,
    /// Which program the client is; empty if it says nothing about itself.
    Client,
    /// How a run ended.
    End,
    /// For how long after its start a run that ended keeps others out, in ms; 0 if it does not.
    AtLeast,
    /// The owner id of the candidate that leads next; empty for the first one.
    Successor,
    /// For how long the server remembers that the key of a run is done, in ms; 0 if it does not.
    Keep,
    /// This text.
    Text(&'static str),
}

/// The number of permits that a caller wants, and the number that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permits {
    wanted: u32,
    limit: u32,
}

impl Permits {
    /// The largest limit.
    pub const MAX_LIMIT: u32 = 1_000_000;
    /// The maximum number of permits that one call acquires.
    pub const MAX_WANTED: u32 = 1_000;

    /// Makes a request for `wanted` permits of `limit`.
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

    /// Returns how many permits are wanted.
    #[must_use]
    pub const fn wanted(self) -> u32 {
        self.wanted
    }

    /// Returns how many permits there are.
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name() {
        for (kind, name) in Kind::each().into_iter().zip(Kind::NAMES) {
            assert_eq!(kind.name(), name);
        }
        let unknown = Kind::parse("spin", 1, 1).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::InvalidArgument, "{unknown}");
    }

    #[test]
    fn kinds_keep_one_another_out() {
        let keeps_out = |one: Kind, other: Kind| one.spec().excludes.contains(&other.gate());
        for one in Kind::each() {
            for other in Kind::each() {
                assert_eq!(keeps_out(one, other), keeps_out(other, one), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_kind_excludes_its_own_gate_unless_it_has_many_holders() {
        for kind in Kind::each() {
            let spec = kind.spec();
            let has_many = spec.holders == Holders::Many;
            assert_eq!(spec.excludes.contains(&spec.gate), !has_many, "{kind:?}");
            assert_eq!(kind.permits().is_some(), spec.holders == Holders::Permits, "{kind:?}");
        }
    }
}
