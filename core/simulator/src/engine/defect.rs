//! Known defects, which prove that the checks find them.

use steadlock::simulation::Defect as Mistake;

use crate::defect::Defect;

/// A defect in a part of an engine history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineDefect {
    /// A client does not check whether a server in use is still a primary.
    DemotedServerStays,
    /// Renewals stop while the connection for commands is closed.
    WatchdogStopsWithCommands,
    /// In a cluster, calls that wait for one node delay calls to others.
    StuckShardDelaysOthers,
    /// A client ignores a node's reply that a slot has moved.
    MovedIsNotFollowed,
    /// A client does not send ASKING to a node that imports a slot.
    AskingIsLeftOut,
    /// A call that a node refused runs after its compensating release.
    UndoneCallsRunLate,
    /// A client believes the first sentinel that answers.
    FirstSentinelWins,
    /// The connections of one client lead to several servers of one name.
    LanesSplit,
    /// A script on the servers has a defect.
    Script(Defect),
}

impl EngineDefect {
    /// Returns the mistake that clients make.
    pub(super) const fn of_client(self) -> Option<Mistake> {
        match self {
            Self::DemotedServerStays => Some(Mistake::DemotedServerStays),
            Self::WatchdogStopsWithCommands => Some(Mistake::WatchdogStopsWithCommands),
            Self::StuckShardDelaysOthers => Some(Mistake::StuckShardDelaysOthers),
            Self::MovedIsNotFollowed => Some(Mistake::MovedIsNotFollowed),
            Self::AskingIsLeftOut => Some(Mistake::AskingIsLeftOut),
            Self::UndoneCallsRunLate => Some(Mistake::UndoneCallsRunLate),
            Self::FirstSentinelWins => Some(Mistake::FirstSentinelWins),
            Self::LanesSplit => Some(Mistake::LanesSplit),
            Self::Script(_) => None,
        }
    }

    /// Returns the defect of a script.
    pub(super) const fn of_scripts(self) -> Option<Defect> {
        match self {
            Self::Script(defect) => Some(defect),
            Self::DemotedServerStays
            | Self::WatchdogStopsWithCommands
            | Self::StuckShardDelaysOthers
            | Self::MovedIsNotFollowed
            | Self::AskingIsLeftOut
            | Self::UndoneCallsRunLate
            | Self::FirstSentinelWins
            | Self::LanesSplit => None,
        }
    }
}
