//! The columns of the tables: all that tells one kind from another.

use super::replies::HeldReply;
use crate::name::Word;
use crate::script::Script;

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
    pub(super) const fn new(name: &'static str) -> Self {
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
