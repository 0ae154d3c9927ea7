//! The purposes of connections and their consequences.

use steadlock_protocol::Lane;

#[cfg(feature = "simulation")]
use crate::world::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Script calls, on the first connection for them.
    FirstCalls(Lane),
    Calls(Lane),
    Subscriptions,
    /// A check that the server is none of the other primaries.
    PeerCheck,
    /// Commands of a tool. A replica is acceptable if the name leads to no primary.
    Tool,
    /// A question to a cluster node or a sentinel about what it knows. A replica is acceptable, and so is any address.
    Topology,
}

impl Purpose {
    pub(super) const fn is_for_calls(self) -> bool {
        matches!(self, Self::FirstCalls(_) | Self::Calls(_) | Self::PeerCheck)
    }

    /// Whether the connection must go to the server where the client is.
    pub(super) const fn is_at_server(self) -> bool {
        !matches!(self, Self::Topology)
    }

    /// Whether the connection keeps the client at its server.
    pub(super) const fn keeps_server(self) -> bool {
        matches!(self, Self::FirstCalls(_) | Self::Calls(_) | Self::Tool)
    }

    #[cfg(feature = "simulation")]
    pub(super) const fn path(self) -> Path {
        match self {
            Self::FirstCalls(Lane::Command)
            | Self::Calls(Lane::Command)
            | Self::PeerCheck
            | Self::Tool
            | Self::Topology => Path::Commands,
            Self::FirstCalls(Lane::Renewal) | Self::Calls(Lane::Renewal) => Path::Renewals,
            Self::Subscriptions => Path::Subscriptions,
        }
    }
}
