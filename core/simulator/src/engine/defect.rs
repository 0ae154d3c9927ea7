//! Known defects, to prove that the checks find them.

use leasehold::simulation::Defect as Mistake;

use crate::defect::Defect;

/// A defect of what a history of the engine is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineDefect {
    /// A server in use is not asked whether it is still a primary.
    DemotedServerStays,
    /// Renewals stop while the connection for commands is not open.
    WatchdogStopsWithCommands,
    /// A script that the servers run is another one.
    Script(Defect),
}

impl EngineDefect {
    /// The mistake that clients make.
    pub(super) const fn of_client(self) -> Option<Mistake> {
        match self {
            Self::DemotedServerStays => Some(Mistake::DemotedServerStays),
            Self::WatchdogStopsWithCommands => Some(Mistake::WatchdogStopsWithCommands),
            Self::Script(_) => None,
        }
    }

    /// The defect of a script.
    pub(super) const fn of_scripts(self) -> Option<Defect> {
        match self {
            Self::Script(defect) => Some(defect),
            Self::DemotedServerStays | Self::WatchdogStopsWithCommands => None,
        }
    }
}
