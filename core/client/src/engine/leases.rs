//! The leases whose holders the engine keeps informed.

use std::sync::{Arc, Weak};

use steadlock_protocol::{Instant, LeaseId, LostReason, Table};

use crate::port::{Event, Lease};

/// Every lease that the session knows: held, or lost and not yet released. The session forgets a fixed lease when it is
/// lost. The object of such a lease still knows how it ended, for as long as the program keeps that object.
#[derive(Default)]
pub(super) struct Leases {
    known: Table<LeaseId, Arc<Lease>>,
    forgotten: Table<LeaseId, Weak<Lease>>,
    /// The number of forgotten leases that the last sweep kept.
    remained: usize,
}

impl Leases {
    pub(super) fn add(&mut self, id: LeaseId, lease: Arc<Lease>) {
        self.known.insert(id, lease);
    }

    pub(super) fn get(&self, id: LeaseId) -> Option<&Arc<Lease>> {
        self.known.get(&id)
    }

    /// Returns the object of a lease if the program still has it, even if the session has forgotten the lease.
    pub(super) fn find(&self, id: LeaseId) -> Option<Arc<Lease>> {
        let forgotten = || self.forgotten.get(&id).and_then(Weak::upgrade);
        self.get(id).cloned().or_else(forgotten)
    }

    /// Removes a lease that the session no longer has. A lost one can still be found, because a later release asks its
    /// object how it ended.
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

    /// Marks a lease as lost. Returns the event for the host; `None` if the lease was released in the same turn, as the
    /// result of that release reports how it ended.
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

    /// Returns, before the client closes, the ending of each lease that the program can still release. `None` stands
    /// for a lease that the close releases, or whose release is under way.
    pub(super) fn endings(&self) -> Vec<(LeaseId, Option<LostReason>)> {
        let known = self.known.iter().map(|(id, lease)| (id, lease.lost_reason()));
        let forgotten = self.forgotten.iter().filter_map(|(id, lease)| {
            let reason = lease.upgrade()?.lost_reason()?;
            Some((id, Some(reason)))
        });
        known.chain(forgotten).collect()
    }

    /// Marks all leases as lost, because nothing renews them any more. Returns an event for each that was not lost
    /// before.
    pub(super) fn lose_all(&mut self, reason: LostReason) -> Vec<Event> {
        let leases = std::mem::take(&mut self.known).into_values();
        leases
            .filter(|lease| lease.mark_lost(reason, true))
            .map(|lease| lost(&lease, reason, true))
            .collect()
    }

    /// Keeps a lost lease in the table while the program has its object. A sweep drops the others whenever the table
    /// has about twice as many entries as the last sweep kept.
    fn remember(&mut self, id: LeaseId, lease: &Arc<Lease>) {
        if self.forgotten.len() >= 2 * self.remained + 64 {
            self.forgotten.retain(|lease| lease.strong_count() > 0);
            self.remained = self.forgotten.len();
        }
        self.forgotten.insert(id, Arc::downgrade(lease));
    }

    /// Whether the release of this lease was requested before the lease was lost.
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
