//! What a release came to.

use leasehold_protocol::{LostReason, ReleaseOutcome};

/// Which lease a release gave back, and how that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The lease's id.
    pub lease: u64,
    /// How it ended.
    pub outcome: ReleaseOutcome,
    /// Why the lease was lost, if it was `Expired` or `Stolen`: whoever gives a lock back is told
    /// that it was not held to the end.
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
