//! Where something travels: on which connection of which client, to which server.

use steadlock_protocol::Lane;

/// Which of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Line {
    Commands = 0,
    Renewals = 1,
    Messages = 2,
}

impl Line {
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

/// Where something travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) line: Line,
    pub(crate) epoch: u64,
}
