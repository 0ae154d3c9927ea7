//! Observations of a session's work, as plain data.
//!
//! A session makes no observations unless they are requested, and observations never change what a session does.

use std::time::Duration;

use crate::ending::LostReason;
use crate::ids::{LeaseId, NodeId, Primary};
use crate::kinds::{Keys, Kind};
use crate::name::LockName;

/// How much a session observes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// No observations, and no work for them.
    #[default]
    Nothing,
    /// Losses, failing renewals and their recovery, circuit breakers, and clocks that are ahead. A driver itself
    /// observes the connections that open and close.
    Trouble,
    /// The same, and each renewal.
    Renewals,
    /// The same, and each attempt. A driver itself observes each wait, grant and release.
    Everything,
}

/// A lock on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lock's kind.
    pub kind: Kind,
    /// The name of the lock.
    pub name: LockName,
    /// The server.
    pub node: NodeId,
}

impl Place {
    pub(crate) fn of(keys: &Keys) -> Self {
        Self {
            kind: keys.kind,
            name: keys.name.clone(),
            node: keys.node,
        }
    }
}

/// The result of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempted {
    /// The server granted the lock.
    Granted,
    /// Another owner holds the lock, or comes first.
    Refused,
    /// No useful answer came: none in time, an error, or a grant that came too late.
    Failed,
}

impl Attempted {
    /// Returns the text that all languages show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// An observation of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// An attempt to acquire a lock was answered, was cut off, or is overdue. A later answer to an overdue attempt is
    /// observed as well.
    Attempt {
        /** The lock. */
        place: Place,
        /** The result. */
        outcome: Attempted,
        /** The time since the call was sent; `None` if the call was not sent. */
        took: Option<Duration>,
    },
    /// The server confirmed a renewal.
    Renewed {
        /** The lock. */
        place: Place,
        /** The time until the answer. */
        took: Duration,
        /** The number of failures in a row before this renewal. */
        failures: u32,
    },
    /// A renewal failed, or could not be sent. It is repeated.
    RenewalFailed {
        /** The lock. */
        place: Place,
        /** The reason, in words. */
        why: String,
        /** The time until the deadline of the lease. */
        left: Duration,
        /** The number of failures in a row, with this one. */
        failures: u32,
    },
    /// The circuit breaker of a primary opened, after enough failures in a row.
    BreakerOpened {
        /** The primary. */
        primary: Primary,
        /** The reason, in words. */
        why: String,
    },
    /// The circuit breaker of a primary closed: the primary serves again, or no lock is known to ask it about.
    BreakerClosed {
        /** The primary. */
        primary: Primary,
        /** How long the breaker was open. */
        open: Duration,
    },
    /// The clock of a primary has jumped ahead, or a server whose clock is ahead has become the primary. Records from
    /// the time before the jump expire early.
    ClockAhead {
        /** The primary. */
        primary: Primary,
        /** By how much the clock is ahead, at the least. */
        by: Duration,
    },
    /// A hold is lost.
    Lost {
        /** The lock. */
        place: Place,
        /** The leases of the hold. */
        leases: Vec<LeaseId>,
        /** The reason, as its holder receives it. */
        reason: LostReason,
        /** Why no renewal was confirmed, in words; only if an auto-renewed hold expired. */
        why: Option<String>,
        /** How long the lock was held. */
        held: Duration,
        /** The length of the lease. */
        lease: Duration,
    },
}
