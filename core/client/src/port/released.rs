//! The outcome of a release.

use steadlock_protocol::{LeaseId, LostReason, ReleaseOutcome, Table};

/// The lease that was released, and the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The lease's id.
    pub lease: u64,
    /// The outcome of the release.
    pub outcome: ReleaseOutcome,
    /// The reason of the loss, if the outcome is `Expired` or `Stolen`: the releasing caller learns that it did not
    /// hold the lock to the end.
    pub lost: Option<LostReason>,
}

impl Released {
    /// Makes the result of a release. `lost` is the reason for which the lease was lost before, if it was.
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
    /// The close released the lease, and the server replied with this outcome.
    Released(ReleaseOutcome),
    /// The close released the lease, and no reply has arrived.
    Owed,
}

impl Endings {
    /// Begins a close that ends these leases. The reason is set for a lease that was lost before.
    pub(crate) fn new(leases: Vec<(LeaseId, Option<LostReason>)>) -> Self {
        let mut endings = Table::default();
        for (id, lost) in leases {
            endings.insert(id, lost.map_or(Ending::Owed, Ending::Lost));
        }
        Self(endings)
    }

    /// Whether the outcome of the close's release of this lease is still unknown.
    pub(crate) fn is_owed(&self, id: LeaseId) -> bool {
        matches!(self.0.get(&id), Some(Ending::Owed))
    }

    /// Records the server's reply to the release of this lease.
    pub(crate) fn released(&mut self, id: LeaseId, outcome: ReleaseOutcome) {
        if let Some(ending) = self.0.get_mut(&id).filter(|ending| matches!(ending, Ending::Owed)) {
            *ending = Ending::Released(outcome);
        }
    }

    /// Records that all other leases were released, since no release is owed any more. A composite lock counts as
    /// released by its members.
    pub(crate) fn all_released(&mut self) {
        for (_, ending) in self.0.iter_mut() {
            if let Ending::Owed = ending {
                *ending = Ending::Released(ReleaseOutcome::Released);
            }
        }
    }

    /// Returns the outcome of a release of this lease; `lease` is its number in the form of hosts. An unknown lease was
    /// released before the close.
    pub(crate) fn of(&self, id: LeaseId, lease: u64) -> Released {
        match self.0.get(&id) {
            Some(Ending::Lost(reason)) => Released::new(lease, reason.outcome(), Some(*reason)),
            Some(Ending::Released(outcome)) => Released::new(lease, *outcome, None),
            Some(Ending::Owed) => Released::new(lease, ReleaseOutcome::Unknown, None),
            None => Released::new(lease, ReleaseOutcome::Released, None),
        }
    }

    /// Returns the leases whose releases have another outcome than `Released`.
    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> + '_ {
        let is_special = |ending: &Ending| !matches!(ending, Ending::Released(ReleaseOutcome::Released));
        self.0
            .iter()
            .filter_map(move |(id, ending)| is_special(ending).then_some(id))
    }
}
