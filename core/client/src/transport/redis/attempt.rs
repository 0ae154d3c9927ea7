//! The way to a server, the purpose of a connection, and the connection that results.

use std::path::PathBuf;
use std::sync::Arc;

use steadlock_protocol::Lane;

use super::address_mapping::AnnouncedServer;
use super::dial::Tcp;
use super::failure::Failure;
use super::identity::Mark;
use super::outage::Deadline;
use super::primary::SentinelPrimary;
use super::tls::{TlsDialer, TlsOutcome};
use super::wire::Wire;
#[cfg(feature = "simulation")]
use crate::world::Path;

/// The method to open a connection.
pub(super) enum Dialer {
    Tcp(Tcp),
    Unix(PathBuf),
    Tls(TlsDialer),
    /// A server that sentinels or cluster nodes announce, at the address that the `address_map` gives for it.
    Announced(AnnouncedServer),
    /// The server that sentinels name at the time of the attempt.
    SentinelPrimary(SentinelPrimary),
}

impl Dialer {
    /// Returns the host and port, if the connection uses TCP.
    pub(super) const fn tcp(&self) -> Option<&Tcp> {
        match self {
            Self::Tcp(tcp) => Some(tcp),
            Self::Tls(dialer) => Some(dialer.tcp()),
            Self::Unix(_) | Self::Announced(_) | Self::SentinelPrimary(_) => None,
        }
    }
}

/// The way to a server, its name in messages, and the purpose of the connection.
pub(super) struct Attempt<'a> {
    pub(super) dialer: &'a Dialer,
    pub(super) node: &'a str,
    pub(super) purpose: Purpose,
    pub(super) deadline: &'a Deadline,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Script calls, on the first connection of a lane.
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

    /// Whether the connection must go to the same server as the client's other connections.
    pub(super) const fn is_at_server(self) -> bool {
        !matches!(self, Self::Topology)
    }

    /// Whether this connection binds the client to its server while it is open (`identity.rs`).
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

/// A connection whose server has accepted the client and has the expected kind.
pub(super) struct Connection {
    pub(super) wire: Wire,
    pub(super) mark: Mark,
    /// Whether the server's greeting is that of a replica.
    pub(super) is_replica: bool,
    /// The observations of TLS; `None` without TLS.
    pub(super) outcome: Option<Arc<TlsOutcome>>,
}

impl Connection {
    /// Returns the TLS library's reason for the failure, if it has one, or else the failure itself.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match &self.outcome {
            Some(outcome) => outcome.failure(failure),
            None => failure,
        }
    }
}
