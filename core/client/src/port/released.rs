//! What a release came to.

use steadlock_protocol::{LostReason, ReleaseOutcome};

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
