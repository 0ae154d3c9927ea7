//! The leases that the engine keeps the holders informed of.

use std::sync::{Arc, Weak};

use steadlock_protocol::{Instant, LeaseId, LostReason, Table};

use crate::port::{Event, Lease};

/// Every lease that the session has: held, or lost and not yet released. A fixed one
/// that was lost is forgotten; what became of it, its object knows as long as the
/// program keeps it.
#[derive(Default)]
pub(super) struct Leases {
    known: Table<LeaseId, Arc<Lease>>,
    forgotten: Table<LeaseId, Weak<Lease>>,
    /// How many of those forgotten were left by the last sweep.
    remained: usize,
}

impl Leases {
    pub(super) fn add(&mut self, id: LeaseId, lease: Arc<Lease>) {
        self.known.insert(id, lease);
    }

    pub(super) fn get(&self, id: LeaseId) -> Option<&Arc<Lease>> {
        self.known.get(&id)
    }

    /// The object of a lease, also of one that is forgotten, if the program still has it.
    pub(super) fn find(&self, id: LeaseId) -> Option<Arc<Lease>> {
        let forgotten = || self.forgotten.get(&id).and_then(Weak::upgrade);
        self.get(id).cloned().or_else(forgotten)
    }

    /// The session has it no more. Whether it was lost, its object is asked later too.
    pub(super) fn forget(&mut self, id: LeaseId) {
        let lost = self.known.remove(&id).filter(|lease| lease.lost_reason().is_some());
        if let Some(lease) = lost {
            self.remember(id, &lease);
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
        let lease = self.get(id).cloned()?;
        lease.mark_lost(reason, is_forgotten);
        if is_forgotten {
            self.forget(id);
        }
        Some(lost(&lease, reason, is_forgotten))
    }

    /// The client is about to be closed: how each lease ended that the program may still release, as far as that is
    /// known. `None` is one that the close releases, or whose release is on its way.
    pub(super) fn endings(&self) -> Vec<(LeaseId, Option<LostReason>)> {
        let known = self.known.iter().map(|(id, lease)| (id, lease.lost_reason()));
        let forgotten = self.forgotten.iter().filter_map(|(id, lease)| {
            let reason = lease.upgrade()?.lost_reason()?;
            Some((id, Some(reason)))
        });
        known.chain(forgotten).collect()
    }

    /// Nothing renews any lease any more: all are lost. Returns an event for each that was not lost before.
    pub(super) fn lose_all(&mut self, reason: LostReason) -> Vec<Event> {
        let leases = std::mem::take(&mut self.known).into_values();
        leases
            .filter(|lease| lease.mark_lost(reason, true))
            .map(|lease| lost(&lease, reason, true))
            .collect()
    }

    /// Finds a lease that was lost as long as the program has it. A sweep now and then drops the others, so
    /// that there are never many more than twice as many as the program has.
    fn remember(&mut self, id: LeaseId, lease: &Arc<Lease>) {
        if self.forgotten.len() >= 2 * self.remained + 64 {
            self.forgotten.retain(|lease| lease.strong_count() > 0);
            self.remained = self.forgotten.len();
        }
        self.forgotten.insert(id, Arc::downgrade(lease));
    }

    /// Whether its release was asked for before it was lost.
    pub(super) fn is_released(&self, id: LeaseId) -> bool {
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
