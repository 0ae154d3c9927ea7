//! The holds of each context, so that a holder can re-enter a lock with no server call.

use crate::ids::{Context, HoldId, LockId};
use crate::sorted::SortedMap;

/// A map from a lock and a context to the holds of that context, newest last. Only a semaphore allows several holds.
///
/// A lost auto-renewed hold stays in the map until its outermost level is released, so that its context cannot re-enter
/// as if nothing had happened. A lost fixed hold leaves the map when the loss is reported, because its holder need not
/// release it.
#[derive(Debug, Default)]
pub(super) struct Reentry {
    holds: SortedMap<(LockId, Context), Vec<HoldId>>,
}

impl Reentry {
    /// Adds a hold of `context`.
    pub(super) fn insert(&mut self, lock: LockId, context: Context, hold: HoldId) {
        self.holds.get_or_default((lock, context)).push(hold);
    }

    /// Returns the newest hold of `context`, if there is one.
    pub(super) fn get(&self, lock: LockId, context: Context) -> Option<HoldId> {
        self.holds.get(&(lock, context))?.last().copied()
    }

    /// Returns all holds of `context`, newest last.
    pub(super) fn all(&self, lock: LockId, context: Context) -> &[HoldId] {
        self.holds.get(&(lock, context)).map_or(&[], Vec::as_slice)
    }

    /// Removes a hold of `context`.
    pub(super) fn remove(&mut self, lock: LockId, context: Context, hold: HoldId) {
        if let Some(holds) = self.holds.get_mut(&(lock, context)) {
            holds.retain(|known| *known != hold);
            if holds.is_empty() {
                self.holds.remove(&(lock, context));
            }
        }
    }

    /// Returns the number of entries: pairs of a lock and a context.
    pub(super) fn len(&self) -> usize {
        self.holds.len()
    }

    /// Whether any context holds the lock.
    pub(super) fn any(&self, lock: LockId) -> bool {
        let first = self.holds.first_from(&(lock, Context::from_u64(0)));
        first.is_some_and(|(other, _)| *other == lock)
    }
}
