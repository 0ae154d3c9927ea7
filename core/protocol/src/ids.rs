//! The numbers that identify things.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(u64);

            impl $name {
                /// Returns the id as a number.
                #[must_use]
                pub const fn get(self) -> u64 {
                    self.0
                }

                /// Makes an id from a number that `get` returned.
                #[must_use]
                pub const fn from_u64(id: u64) -> Self {
                    Self(id)
                }
            }
        )*
    };
}

ids! {
    /// One request of a caller. Exactly one event completes it, unless the caller cancels it.
    Ticket,
    /// One script call to a server.
    CallId,
    /// One grant or re-entry.
    LeaseId,
    /// A thread or task that can re-enter its locks. Its number is never used for another thread or task.
    Context,
}

/// Whether callers have contexts. WebAssembly programs have none, so the module that a page loads leaves out the code
/// for contexts.
pub(crate) const HAS_CALLERS: bool = cfg!(not(target_family = "wasm"));

/// The kind of a caller's request, which is a part of its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Acquire,
    Release,
    Extend,
    /// A question, or the operation of an operator.
    Inspect,
}

impl Ticket {
    /// Makes a ticket. The verb is in the two lowest bits, so that tickets sort by their numbers.
    pub(crate) const fn new(number: u64, verb: Verb) -> Self {
        Self((number << 2) | verb as u64)
    }

    /// Returns the kind of the request.
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
                /// Returns the next id. A number is never used twice.
                pub(crate) const fn next(self) -> Self {
                    Self(self.0.wrapping_add(1))
                }
            }
        )*
    };
}

own_ids! {
    /// One lock of this client, while a caller of this client waits for it or holds it, or the client is subscribed to
    /// its channel.
    LockId,
    /// One hold: a record of this client on the server, or a degraded lease.
    HoldId,
    /// One release that is owed.
    ReleaseId,
    /// One leader's lock that callers of this client observe.
    ElectionId,
}

/// A server, or a cluster. If a client has several nodes, its locks are RedLocks on them; otherwise it has only node 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u16);

/// One primary: a node, or one of the primaries of a cluster, by the number that the driver gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Primary {
    /// The node.
    pub node: NodeId,
    /// The number of the primary in its node.
    pub number: u16,
}

impl Primary {
    /// Returns the primary of a node that is not a cluster.
    pub(crate) const fn only(node: NodeId) -> Self {
        Self { node, number: 0 }
    }
}
