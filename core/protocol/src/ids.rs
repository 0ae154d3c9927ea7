//! The numbers by which things are named.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(u64);

            impl $name {
                /// As a number.
                #[must_use]
                pub const fn get(self) -> u64 {
                    self.0
                }

                /// From a number that `get` gave.
                #[must_use]
                pub const fn from_u64(id: u64) -> Self {
                    Self(id)
                }
            }
        )*
    };
}

ids! {
    /// One verb of a caller, to be completed by exactly one event.
    Ticket,
    /// One script call on its way to a server.
    CallId,
    /// One grant or re-entry.
    LeaseId,
    /// Who may re-enter: a thread or task, by a number that is never used for another.
    Context,
}

/// Whether programs say who calls. For WebAssembly none does, and a page need not load what is for callers alone.
pub(crate) const HAS_CALLERS: bool = cfg!(not(target_family = "wasm"));

/// What a caller wants, as its ticket tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Acquire,
    Release,
    Extend,
    /// A question, or what an operator does.
    Inspect,
}

impl Ticket {
    /// The ticket of this number, which tells its verb in the two lowest bits, so that tickets sort by their numbers.
    pub(crate) const fn new(number: u64, verb: Verb) -> Self {
        Self((number << 2) | verb as u64)
    }

    /// What it is for.
    pub(crate) const fn verb(self) -> Verb {
        match self.0 & 3 {
            0 => Verb::Acquire,
            1 => Verb::Release,
            2 => Verb::Extend,
            _ => Verb::Inspect,
        }
    }
}

macro_rules! own_ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub(crate) struct $name(u64);

            impl $name {
                /// The one after it: a number is never used twice.
                pub(crate) const fn next(self) -> Self {
                    Self(self.0.wrapping_add(1))
                }
            }
        )*
    };
}

own_ids! {
    /// One lock of this client, while anybody here waits for it, holds it or listens for it.
    LockId,
    /// One record of ours on the server.
    HoldId,
    /// One release that is owed.
    ReleaseId,
}

/// Which server. Node 0 is the only one unless the client has several primaries (RedLock).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u16);

/// One primary: a node, or of a cluster the one among its primaries that the driver gave this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Primary {
    /// The node.
    pub node: NodeId,
    /// Which of its primaries.
    pub number: u16,
}

impl Primary {
    /// The one of a node that is no cluster.
    pub(crate) const fn only(node: NodeId) -> Self {
        Self { node, number: 0 }
    }
}
