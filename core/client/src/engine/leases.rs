//! The leases that the engine keeps the holders informed of.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_protocol::{Instant, LeaseId, LostReason};

use crate::port::{Event, Lease};

/// Every lease that the session has: held, or lost and not yet released. A fixed one
/// that was lost is forgotten; what became of it, its object knows as long as the
/// program keeps it.
#[derive(Default)]
pub(super) struct Leases(HashMap<LeaseId, Arc<Lease>>);

impl Leases {
    pub(super) fn add(&mut self, id: LeaseId, lease: Arc<Lease>) {
        self.0.insert(id, lease);
    }

    pub(super) fn get(&self, id: LeaseId) -> Option<&Arc<Lease>> {
        self.0.get(&id)
    }

    pub(super) fn forget(&mut self, id: LeaseId) {
        self.0.remove(&id);
    }

    /// Forgets it if its release was asked for.
    pub(super) fn forget_released(&mut self, id: LeaseId) {
        if self.is_released(id) {
            self.forget(id);
        }
    }

    pub(super) fn renewed(&self, id: LeaseId, deadline: Instant) {
        if let Some(lease) = self.get(id) {
            lease.renewed(deadline);
        }
    }

    pub(super) fn mark_released(&self, id: LeaseId) {
        if let Some(lease) = self.get(id) {
            lease.mark_released();
        }
    }

    /// It is lost: what the host is to be told. Nothing, if its release was asked for in the
    /// same turn, which says what it came to.
    pub(super) fn lose(&mut self, id: LeaseId, reason: LostReason, is_forgotten: bool) -> Option<Event> {
        if self.is_released(id) {
            return None;
        }
        let lease = if is_forgotten {
            self.0.remove(&id)
        } else {
            self.get(id).cloned()
        }?;
        lease.mark_lost(reason, is_forgotten);
        Some(lost(&lease, reason, is_forgotten))
    }

    /// Nothing renews any of them any more. Gives what is news of it.
    pub(super) fn lose_all(&mut self, reason: LostReason) -> Vec<Event> {
        let leases = std::mem::take(&mut self.0).into_values();
        leases
            .filter(|lease| lease.mark_lost(reason, true))
            .map(|lease| lost(&lease, reason, true))
            .collect()
    }

    fn is_released(&self, id: LeaseId) -> bool {
        self.get(id).is_some_and(|lease| lease.is_released())
    }
}

fn lost(lease: &Lease, reason: LostReason, is_forgotten: bool) -> Event {
    Event::Lost {
        lease: lease.id(),
        reason,
        is_forgotten,
    }
}
