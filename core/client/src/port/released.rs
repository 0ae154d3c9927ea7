//! What a release came to.

use steadlock_protocol::{LeaseId, LostReason, ReleaseOutcome, Table};

/// Which lease was released, and how that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The lease's id.
    pub lease: u64,
    /// How it ended.
    pub outcome: ReleaseOutcome,
    /// Why the lease was lost, if the outcome is `Expired` or `Stolen`: the caller that releases a lock
    /// learns that it did not hold it to the end.
    pub lost: Option<LostReason>,
}

impl Released {
    /// A release that ended so, of a lease that was lost before for that reason, if for any.
    pub(crate) fn new(lease: u64, outcome: ReleaseOutcome, lost: Option<LostReason>) -> Self {
        Self {
            lease,
            outcome,
            lost: outcome.lost_reason().map(|found_out| lost.unwrap_or(found_out)),
        }
    }
}

/// What releases of a closed client come to, whose leases have all ended.
pub(crate) struct Endings {
    /// Leases that were lost before the client was closed, and not released.
    lost: Table<LeaseId, LostReason>,
    /// All others.
    others: ReleaseOutcome,
}

impl Endings {
    /// Closing has released every lease that was held; `is_confirmed` says whether the servers answered in time.
    pub(crate) const fn new(lost: Table<LeaseId, LostReason>, is_confirmed: bool) -> Self {
        let others = if is_confirmed {
            ReleaseOutcome::Released
        } else {
            ReleaseOutcome::Unknown
        };
        Self { lost, others }
    }

    /// What a release of this lease comes to; `lease` is the number that its host knows it by.
    pub(crate) fn of(&self, id: LeaseId, lease: u64) -> Released {
        let lost = self.lost.get(&id).copied();
        Released::new(lease, lost.map_or(self.others, LostReason::outcome), lost)
    }
}
