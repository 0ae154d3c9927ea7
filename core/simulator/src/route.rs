//! The route of a call, reply or message: the client, the connection and the server.

use steadlock_protocol::Lane;

/// A kind of connection. A client has one of each kind to every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ConnectionKind {
    Commands = 0,
    Renewals = 1,
    Messages = 2,
}

impl ConnectionKind {
    pub(crate) const ALL: [Self; 3] = [Self::Commands, Self::Renewals, Self::Messages];

    pub(crate) const fn of(lane: Lane) -> Self {
        match lane {
            Lane::Command => Self::Commands,
            Lane::Renewal => Self::Renewals,
        }
    }

    pub(crate) const fn lane(self) -> Option<Lane> {
        match self {
            Self::Commands => Some(Lane::Command),
            Self::Renewals => Some(Lane::Renewal),
            Self::Messages => None,
        }
    }
}

/// A route. `epoch` is the number of earlier connections on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) connection: ConnectionKind,
    pub(crate) epoch: u64,
}
