//! What a session alone knows of its work, as plain data for those who watch it.
//!
//! It tells nothing unless it is asked to, and then nothing that changes what it does.

use std::time::Duration;

use crate::ending::LostReason;
use crate::ids::{LeaseId, NodeId, Primary};
use crate::kinds::{Keys, Kind};
use crate::name::LockName;

/// How much is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Nothing; nothing is computed either.
    #[default]
    Nothing,
    /// Losses, failing renewals, and connections that come and go.
    Trouble,
    /// Also each renewal.
    Renewals,
    /// Also each attempt, wait, grant and release.
    Everything,
}

/// A lock on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lock's kind.
    pub kind: Kind,
    /// Its name.
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

/// What became of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempted {
    /// The server granted the lock.
    Granted,
    /// Another owner holds it, or comes first.
    Refused,
    /// There was no answer in time, or one that says that the server cannot serve.
    Failed,
}

impl Attempted {
    /// The word that hosts see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// Something that a session saw or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// An attempt to acquire a lock was answered, or is given up.
    Attempt {
        /** Where. */
        place: Place,
        /** How it ended. */
        outcome: Attempted,
        /** How long the answer took; `None` if the call was not sent. */
        took: Option<Duration>,
    },
    /// A renewal was confirmed.
    Renewed {
        /** Where. */
        place: Place,
        /** How long the answer took. */
        took: Duration,
        /** How many in a row had failed before. */
        failures: u32,
    },
    /// A renewal came to nothing, or could not be sent. It is repeated.
    RenewalFailed {
        /** Where. */
        place: Place,
        /** Why, in words. */
        why: String,
        /** How long the lease may still be relied on. */
        left: Duration,
        /** How many in a row have failed. */
        failures: u32,
    },
    /// A primary has not answered so often that nobody waits for it.
    BreakerOpened {
        /** Which. */
        primary: Primary,
        /** Why, in words. */
        why: String,
    },
    /// It serves again.
    BreakerClosed {
        /** Which. */
        primary: Primary,
        /** How long it did not. */
        open: Duration,
    },
    /// The clock of a primary is ahead of what it was, or of that of the one before: records that were made by that
    /// end early.
    ClockAhead {
        /** Which. */
        primary: Primary,
        /** By how much, at the least. */
        by: Duration,
    },
    /// A hold is lost.
    Lost {
        /** Where. */
        place: Place,
        /** The leases that were given of it. */
        leases: Vec<LeaseId>,
        /** Why, as its holder is told. */
        reason: LostReason,
        /** Why no renewal was confirmed, in words; only of one that expired though it was to be renewed. */
        why: Option<String>,
        /** How long it was held. */
        held: Duration,
        /** How long a lease of it was. */
        lease: Duration,
    },
}
