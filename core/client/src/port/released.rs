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

/// The outcomes of releases of a closed client, whose leases have all ended.
#[derive(Default)]
pub(crate) struct Endings(Table<LeaseId, Ending>);

#[derive(Clone, Copy)]
enum Ending {
    /// The lease was lost before the close.
    Lost(LostReason),
    /// The close released it, and this is what the server said of that.
    Released(ReleaseOutcome),
    /// The close released it, and nobody has heard of that.
    Owed,
}

impl Endings {
    /// The client begins to close, and these leases end, or were lost before for a reason.
    pub(crate) fn new(leases: Vec<(LeaseId, Option<LostReason>)>) -> Self {
        let mut endings = Table::default();
        for (id, lost) in leases {
            endings.insert(id, lost.map_or(Ending::Owed, Ending::Lost));
        }
        Self(endings)
    }

    /// Whether the close has yet to say what the release of this lease comes to.
    pub(crate) fn is_owed(&self, id: LeaseId) -> bool {
        matches!(self.0.get(&id), Some(Ending::Owed))
    }

    /// The server answered the release of this lease.
    pub(crate) fn released(&mut self, id: LeaseId, outcome: ReleaseOutcome) {
        if let Some(ending) = self.0.get_mut(&id).filter(|ending| matches!(ending, Ending::Owed)) {
            *ending = Ending::Released(outcome);
        }
    }

    /// Nothing is owed to the servers any more, so all others were released, too: composite locks by their members.
    pub(crate) fn all_released(&mut self) {
        for (_, ending) in self.0.iter_mut() {
            if let Ending::Owed = ending {
                *ending = Ending::Released(ReleaseOutcome::Released);
            }
        }
    }

    /// The outcome of a release of this lease; `lease` is the number that its host knows it by. One that is not known was
    /// released before the close.
    pub(crate) fn of(&self, id: LeaseId, lease: u64) -> Released {
        match self.0.get(&id) {
            Some(Ending::Lost(reason)) => Released::new(lease, reason.outcome(), Some(*reason)),
            Some(Ending::Released(outcome)) => Released::new(lease, *outcome, None),
            Some(Ending::Owed) => Released::new(lease, ReleaseOutcome::Unknown, None),
            None => Released::new(lease, ReleaseOutcome::Released, None),
        }
    }

    /// The leases whose releases come to anything but `Released`.
    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> + '_ {
        let is_special = |ending: &Ending| !matches!(ending, Ending::Released(ReleaseOutcome::Released));
        self.0
            .iter()
            .filter_map(move |(id, ending)| is_special(ending).then_some(id))
    }
}
