//! Which context holds which lock, so that a holder is let in again with no server call.

use crate::ids::{Context, HoldId, LockId};
use crate::sorted::SortedMap;

/// The map from a lock and a context to the holds of that context, newest last:
/// one, but for semaphores.
///
/// A lost hold that was renewed stays in it until its outermost level is released:
/// its context must not be let in as if nothing had happened. One of a fixed lease
/// leaves it when its loss is told, as its holder need not come back.
#[derive(Debug, Default)]
pub(super) struct Reentry {
    holds: SortedMap<(LockId, Context), Vec<HoldId>>,
}

impl Reentry {
    /// Notes that `context` holds the lock.
    pub(super) fn insert(&mut self, lock: LockId, context: Context, hold: HoldId) {
        self.holds.get_or_default((lock, context)).push(hold);
    }

    /// The newest hold of `context`, if it has one.
    pub(super) fn get(&self, lock: LockId, context: Context) -> Option<HoldId> {
        self.holds.get(&(lock, context))?.last().copied()
    }

    /// All holds of `context`, newest last.
    pub(super) fn all(&self, lock: LockId, context: Context) -> &[HoldId] {
        self.holds.get(&(lock, context)).map_or(&[], Vec::as_slice)
    }

    /// Forgets a hold of `context`.
    pub(super) fn remove(&mut self, lock: LockId, context: Context, hold: HoldId) {
        if let Some(holds) = self.holds.get_mut(&(lock, context)) {
            holds.retain(|known| *known != hold);
            if holds.is_empty() {
                self.holds.remove(&(lock, context));
            }
        }
    }

    /// How many contexts hold something.
    pub(super) fn len(&self) -> usize {
        self.holds.len()
    }

    /// Whether any context holds the lock.
    pub(super) fn any(&self, lock: LockId) -> bool {
        let first = self.holds.first_from(&(lock, Context::from_u64(0)));
        first.is_some_and(|(other, _)| *other == lock)
    }
}
