//! The kinds of lock. A kind is one constant table: how it excludes, its keys, its
//! scripts and what their replies mean. The machine that uses it is one for all.
//!
//! ```text
//! lock, mutex, fair, read_write, semaphore   one table for each kind, or side
//! Kind, Spec, Permits                        here: the kinds, the columns of their tables, a semaphore's numbers
//! keys                                       the calls that a table makes for one lock, and their replies
//! ```

mod fair;
mod keys;
#[cfg(test)]
mod layout;
mod lock;
mod mutex;
mod read_write;
mod semaphore;

pub use self::keys::LockKey;
pub(crate) use self::keys::{Answer, Attempt, Invocation, Keys, Record, parse_grant, parse_number, parse_record};

use crate::error::{Error, ErrorKind, Operation};
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
            /// The names of all kinds, as every language's table of kinds has them.
            pub const NAMES: [&'static str; [$($spec.name),*].len()] = [$($spec.name),*];

            /// What the kind is. Nothing else tells kinds apart.
            pub(crate) const fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$kind { .. } => &$spec,)*
                }
            }

            /// The kind of this name; `wanted` and `limit` are a semaphore's.
            ///
            /// # Errors
            /// `InvalidArgument` for another name, and as [`Permits::new`].
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
    /// The reentrant lock whose waiters are served in order of arrival, whatever
    /// their process. Excludes `Lock`.
    Fair => fair::SPEC;
    /// The side of a read-write lock that many may hold.
    Read => read_write::READ;
    /// The side of a read-write lock that one holds alone.
    Write => read_write::WRITE;
    /// Permits of a semaphore. Not reentrant.
    Semaphore(Permits) => semaphore::SPEC;
}

impl Kind {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether it is held once at a time.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        matches!(self.spec().holders, Holders::One)
    }

    /// Whether its holder is let in again.
    #[must_use]
    pub const fn is_reentrant(self) -> bool {
        matches!(self.spec().again, Again::Enters)
    }

    /// Why a caller is refused that names the lease of such a lock to acquire it again, if it is not reentrant.
    pub(crate) const fn refusal_within(self) -> &'static str {
        if self.is_exclusive() {
            "the lease given as `within` holds this lock, which is not reentrant; release it first"
        } else {
            "this kind of lock is not reentrant; leave `within` out"
        }
    }

    /// Why a wait without a bound of its own holder is refused: nobody else could end it. `None` if the holder is let in
    /// again, or several hold it.
    pub(crate) const fn refusal_of_endless(self) -> Option<&'static str> {
        match self.spec().again {
            Again::Waits(why) if self.is_exclusive() => Some(why),
            Again::Waits(_) | Again::Enters => None,
        }
    }

    /// Whether a hold of this keeps out whatever wants the other, of the same name. Of permits some may be left.
    pub(crate) fn keeps_out(self, other: Self) -> bool {
        self.permits().is_none() && other.spec().excludes.contains(&self.gate())
    }

    /// Whether its waiters queue on the server.
    pub(crate) const fn queues_on_server(self) -> bool {
        matches!(self.spec().waiters, Waiters::Server { .. })
    }

    /// Whether a waiter that was refused left its mark on the server, which it
    /// removes when it gives up.
    pub(crate) const fn leaves_mark(self) -> bool {
        self.spec().leaves_mark
    }

    /// What its local waiters queue at.
    pub(crate) const fn gate(self) -> Gate {
        self.spec().gate
    }

    /// The permits that are wanted, of a kind that counts them.
    pub(crate) const fn permits(self) -> Option<Permits> {
        // A value of this variant, and not a rule of the kind: those are in its table.
        let Self::Semaphore(permits) = self else { return None };
        Some(permits)
    }

    /// One of each, of two permits of three.
    #[cfg(test)]
    fn each() -> Vec<Self> {
        let of = |name: &&str| Self::parse(name, 2, 3).unwrap();
        Self::NAMES.iter().map(of).collect()
    }
}

/// What a kind of lock is. Each kind's file has one.
#[derive(Debug)]
pub(crate) struct Spec {
    /// Its name, as every language's table of kinds has it.
    pub(crate) name: &'static str,
    /// What its local waiters queue at.
    pub(crate) gate: Gate,
    /// The gates whose holders keep it out, and which its own holders keep out. A kind with permits
    /// is kept out only when too few are left.
    pub(crate) excludes: &'static [Gate],
    /// How many hold it at a time.
    pub(crate) holders: Holders,
    /// What becomes of a caller that holds it already.
    pub(crate) again: Again,
    /// What becomes of a caller that holds the other side, if the lock has two: that side's gate.
    pub(crate) inside: Option<(Gate, Inside)>,
    /// Where its waiters queue.
    pub(crate) waiters: Waiters,
    /// Whether a waiter that was refused left its mark on the server, which it removes when it
    /// gives up.
    pub(crate) leaves_mark: bool,
    /// Whether a majority of several servers can hold it (RedLock).
    pub(crate) by_majority: bool,

    /// All its keys, first the one of the holder's record.
    pub(crate) keys: &'static [Key],
    /// Where releases are published.
    pub(crate) channel: Channel,
    /// The attempt to get a hold.
    pub(crate) acquire: Form,
    /// Makes a hold last longer.
    pub(crate) renew: Form,
    /// Removes a hold, or a waiter's mark, and wakes the waiters.
    pub(crate) release: Form,
    /// Asks who holds it.
    pub(crate) inspect: Form,
    /// Removes the record, no matter which owner holds it, and wakes the waiters.
    pub(crate) force: Form,
    /// What the answer to `acquire` and `inspect` tells of a lock that is held. All other replies
    /// have one form for all kinds.
    pub(crate) told: HeldReply,
}

/// The facts about a held lock that a kind's scripts report beside the owner and the rest of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldReply {
    /// No more facts.
    Holder,
    /// When the server saw the waiter in its queue.
    Queued,
    /// How many permits are held, and the limit.
    Permits,
}

impl Spec {
    /// Where a caller may have a hold around a new one: its own gate first, then that of the other
    /// side.
    pub(crate) fn gates_around(&self) -> impl Iterator<Item = Gate> + use<> {
        std::iter::once(self.gate).chain(self.inside.map(|(gate, _)| gate))
    }

    /// What becomes of a caller with a hold at this gate, if that is the other side.
    pub(crate) fn inside(&self, held: Gate) -> Option<Inside> {
        self.inside.filter(|(gate, _)| *gate == held).map(|(_, inside)| inside)
    }
}

/// What local waiters queue at, by a name. Kinds with the same gate and record share a local queue
/// and, if they are reentrant, their holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gate(&'static str);

impl Gate {
    const fn new(name: &'static str) -> Self {
        Self(name)
    }
}

/// How many hold a lock at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    One,
    Many,
    /// So many as there are permits for.
    Permits,
}

/// What becomes of a caller that holds the lock already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It enters its hold once more, without a call to the server.
    Enters,
    /// It waits as others do. Where only its own release could end that wait, it is refused at
    /// once, with these words.
    Waits(&'static str),
}

/// What becomes of a caller that holds the other side of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// It is granted beside that hold.
    LetIn,
    /// It would wait for itself, and is refused at once, with these words.
    Refused(&'static str),
}

/// Where waiters queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiters {
    /// In the client, of which only the first asks the server.
    Client,
    /// On the server, which a client tells by this call that its waiters live. The arguments are
    /// repeated for each of them.
    Server { poll: Form },
}

/// One call: a script, with its KEYS and ARGV in the order in which its head names them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) script: Script,
    pub(crate) keys: &'static [Key],
    pub(crate) args: &'static [Arg],
}

/// A key of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The lock's name itself, as other libraries have it.
    Name,
    /// One of ours.
    Own(Word),
    /// The fencing token's, left out if none is drawn.
    TokenIfDrawn,
}

/// A channel of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Redisson's `getLock` has the same.
    Redisson,
    /// One of ours.
    Own(Word),
}

/// An argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arg {
    /// For how long the record is to last, in ms.
    Ttl,
    /// The owner id.
    Owner,
    /// `1` if a fencing token is drawn, else `0`.
    Fencing,
    /// `1` if the owner waits when it is refused, else `0`.
    Waits,
    /// The owner of the other side's hold that this one is acquired inside; empty if there is none.
    Around,
    /// How many permits are wanted.
    Wanted,
    /// How many permits there are.
    Limit,
    /// Where releases are published.
    Channel,
    /// This word.
    Text(&'static str),
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
    fn only_what_several_hold_lets_in_its_own_gate() {
        for kind in Kind::each() {
            let spec = kind.spec();
            let shares = spec.holders == Holders::Many;
            assert_eq!(spec.excludes.contains(&spec.gate), !shares, "{kind:?}");
            assert_eq!(kind.permits().is_some(), spec.holders == Holders::Permits, "{kind:?}");
        }
    }
}
