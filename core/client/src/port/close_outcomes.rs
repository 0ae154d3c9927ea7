//! The outcomes of releases after a client was closed.

use steadlock_collections::Table;
use steadlock_protocol::{LeaseId, LostReason, ReleaseOutcome};

use super::Released;

/// The outcomes of releases of a closed client, whose leases have all ended.
#[derive(Default)]
pub(crate) struct CloseOutcomes(Table<LeaseId, CloseOutcome>);

#[derive(Clone, Copy)]
enum CloseOutcome {
    /// The lease was lost before the close.
    Lost(LostReason),
    /// The close released the lease with this outcome.
    Released(ReleaseOutcome),
    /// The close released the lease, and no reply has arrived.
    Owed,
}

impl CloseOutcomes {
    /// Begins a close that ends these leases. Each has the reason for its loss, if it was lost before.
    pub(crate) fn new(leases: Vec<(LeaseId, Option<LostReason>)>) -> Self {
        let mut close_outcomes = Table::default();
        for (id, lost) in leases {
            close_outcomes.insert(id, lost.map_or(CloseOutcome::Owed, CloseOutcome::Lost));
        }
        Self(close_outcomes)
    }

    /// Whether the outcome of the close's release of this lease is still unknown.
    pub(crate) fn is_owed(&self, id: LeaseId) -> bool {
        matches!(self.0.get(&id), Some(CloseOutcome::Owed))
    }

    /// Records the server's reply to the release of this lease.
    pub(crate) fn released(&mut self, id: LeaseId, outcome: ReleaseOutcome) {
        if let Some(close_outcome) = self
            .0
            .get_mut(&id)
            .filter(|close_outcome| matches!(close_outcome, CloseOutcome::Owed))
        {
            *close_outcome = CloseOutcome::Released(outcome);
        }
    }

    /// Records that all leases without an outcome were released, because no release is owed any more. A composite lock
    /// counts as released, because its members are.
    pub(crate) fn all_released(&mut self) {
        for (_, close_outcome) in self.0.iter_mut() {
            if let CloseOutcome::Owed = close_outcome {
                *close_outcome = CloseOutcome::Released(ReleaseOutcome::Released);
            }
        }
    }

    /// Returns the outcome of a release of this lease; `lease` is the id that hosts see. A lease that is not known
    /// counts as released before the close.
    pub(crate) fn of(&self, id: LeaseId, lease: u64) -> Released {
        match self.0.get(&id) {
            Some(CloseOutcome::Lost(reason)) => Released::new(lease, reason.outcome(), Some(*reason)),
            Some(CloseOutcome::Released(outcome)) => Released::new(lease, *outcome, None),
            Some(CloseOutcome::Owed) => Released::new(lease, ReleaseOutcome::Unknown, None),
            None => Released::new(lease, ReleaseOutcome::Released, None),
        }
    }

    /// Returns the leases whose releases have another outcome than `Released`.
    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> + '_ {
        let is_reported =
            |close_outcome: &CloseOutcome| !matches!(close_outcome, CloseOutcome::Released(ReleaseOutcome::Released));
        self.0
            .iter()
            .filter_map(move |(id, close_outcome)| is_reported(close_outcome).then_some(id))
    }
}
