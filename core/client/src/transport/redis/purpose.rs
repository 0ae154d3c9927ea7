//! The purposes of connections, and their consequences.

use steadlock_protocol::Lane;

#[cfg(feature = "simulation")]
use crate::world::Path;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Script calls, before any other connection for them was tried.
    FirstCalls(Lane),
    Calls(Lane),
    Subscriptions,
    /// To make sure that the server is none of the other primaries.
    Proof,
    /// To ask a node, a sentinel, or whatever server a tool looks at, what it knows; a replica will do.
    Topology,
}

impl Purpose {
    pub(super) const fn is_for_calls(self) -> bool {
        matches!(self, Self::FirstCalls(_) | Self::Calls(_) | Self::Proof)
    }

    /// Whether it is to the one server where the client is.
    pub(super) const fn is_at_server(self) -> bool {
        !matches!(self, Self::Topology)
    }

    /// Whether it keeps the client there.
    pub(super) const fn keeps_server(self) -> bool {
        matches!(self, Self::FirstCalls(_) | Self::Calls(_))
    }

    #[cfg(feature = "simulation")]
    pub(super) const fn path(self) -> Path {
        match self {
            Self::FirstCalls(Lane::Command) | Self::Calls(Lane::Command) | Self::Proof | Self::Topology => {
                Path::Commands
            }
            Self::FirstCalls(Lane::Renewal) | Self::Calls(Lane::Renewal) => Path::Renewals,
            Self::Subscriptions => Path::Subscriptions,
        }
    }
}
