//! What verbs, calls, leases, callers and servers are named by.

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

/// Which server. Node 0 is the only one unless several primaries vote (RedLock).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u16);
