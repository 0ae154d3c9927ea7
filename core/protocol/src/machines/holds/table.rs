//! The tables of holds: by their id, by lease and by context.

use super::extensions::Extensions;
use super::hold::Hold;
use super::reentry::Reentry;
use crate::ids::{Context, HoldId, LeaseId, LockId, NodeId};
use crate::instant::Instant;
use crate::step::NewHold;
use crate::table::Table;

/// The holds of a client and their leases.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    last: HoldId,
    by_id: Table<HoldId, Hold>,
    by_lease: Table<LeaseId, HoldId>,
    extensions: Extensions,
    reentry: Reentry,
}

impl Holds {
    pub(crate) fn get(&self, id: HoldId) -> Option<&Hold> {
        self.by_id.get(&id)
    }

    /// Returns the hold that a lease belongs to.
    pub(crate) fn of_lease(&self, lease: LeaseId) -> Option<HoldId> {
        self.by_lease.get(&lease).copied()
    }

    /// Returns all holds, oldest first.
    pub(crate) fn ids(&self) -> Vec<HoldId> {
        self.by_id.keys()
    }

    /// Returns the newest hold of a context on a lock, if there is one.
    pub(crate) fn of_context(&self, lock: LockId, context: Context) -> Option<HoldId> {
        self.reentry.get(lock, context)
    }

    /// Returns all holds of a context on a lock, newest last.
    pub(crate) fn all_of_context(&self, lock: LockId, context: Context) -> impl Iterator<Item = &Hold> {
        let holds = self.reentry.all(lock, context).iter();
        holds.filter_map(|hold| self.by_id.get(hold))
    }

    /// Whether any context holds the lock.
    pub(crate) fn is_held_by_any(&self, lock: LockId) -> bool {
        self.reentry.any(lock)
    }

    /// Returns the number of entries in all tables.
    pub(crate) fn len(&self) -> usize {
        let entries = self.by_id.len().saturating_add(self.extensions.len());
        entries.saturating_add(self.reentry.len())
    }

    /// Returns the holds of a node, oldest first.
    pub(super) fn of_node(&mut self, node: NodeId) -> impl Iterator<Item = (HoldId, &mut Hold)> {
        self.by_id.iter_mut().filter(move |(_, hold)| hold.keys().node == node)
    }

    pub(super) fn hold_mut(&mut self, id: HoldId) -> Option<&mut Hold> {
        self.by_id.get_mut(&id)
    }

    /// Returns the id for the next hold.
    pub(super) const fn next_id(&mut self) -> HoldId {
        self.last = self.last.next();
        self.last
    }

    pub(super) fn insert(&mut self, id: HoldId, new: NewHold, now: Instant) {
        if let Some(context) = new.context {
            self.reentry.insert(new.lock, context, id);
        }
        self.by_id.insert(id, Hold::new(new, now));
    }

    /// Adds a lease to a hold.
    pub(super) fn add_level(&mut self, id: HoldId, lease: LeaseId) -> Option<&Hold> {
        let hold = self.by_id.get_mut(&id)?;
        hold.add_level(lease);
        self.by_lease.insert(lease, id);
        Some(hold)
    }

    /// Removes a lease from its hold, and returns the hold.
    pub(super) fn remove_level(&mut self, lease: LeaseId) -> Option<(HoldId, &Hold)> {
        let id = self.by_lease.remove(&lease)?;
        let hold = self.by_id.get_mut(&id)?;
        hold.remove_level(lease);
        Some((id, hold))
    }

    /// Removes a hold from all tables.
    pub(super) fn take(&mut self, id: HoldId) -> Option<Hold> {
        let hold = self.by_id.remove(&id)?;
        for lease in hold.levels() {
            self.by_lease.remove(lease);
        }
        if let Some(context) = hold.context() {
            self.reentry.remove(hold.lock(), context, id);
        }
        Some(hold)
    }

    pub(super) const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// Returns a hold, together with the extensions of all holds.
    pub(super) fn hold_and_extensions(&mut self, id: HoldId) -> Option<(&Hold, &mut Extensions)> {
        Some((self.by_id.get(&id)?, &mut self.extensions))
    }
}
