//! Known defects, to prove that the checks find them.

use steadlock::simulation::Defect as Mistake;

use crate::defect::Defect;

/// A defect of what a history of the engine is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineDefect {
    /// A server in use is not asked whether it is still a primary.
    DemotedServerStays,
    /// Renewals stop while the connection for commands is not open.
    WatchdogStopsWithCommands,
    /// In a cluster, what waits for a node holds up what is for others.
    StuckShardDelaysOthers,
    /// A cluster's node that says where a slot is now is not believed.
    MovedIsNotFollowed,
    /// A cluster's node that a slot is on its way to is not told that it is meant.
    AskingIsLeftOut,
    /// A call that a cluster's node turned away runs after what undoes it.
    UndoneCallsRunLate,
    /// The first sentinel that answers is believed.
    FirstSentinelWins,
    /// Connections of one client go to several servers of one name.
    LanesSplit,
    /// A script that the servers run is another one.
    Script(Defect),
}

impl EngineDefect {
    /// The mistake that clients make.
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

    /// The defect of a script.
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
