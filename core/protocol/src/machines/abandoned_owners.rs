//! The abandoned owner ids of fair waiters: no waiter uses such an id any more, but a late call may put it back into
//! the server's queue.
//!
//! A call that names a fair waiter puts the owner id of the waiter into the server's queue. A call that was cut off or
//! is slow may run after the release that was sent for the same owner id. The server may then grant the lock to a
//! waiter that no longer exists, and all others wait until that grant expires. If an abandoned owner id is granted the
//! lock, the session therefore releases the lock.
//!
//! The session releases only owner ids that it abandoned itself, not every owner id with its client id. If a process is
//! restored from a snapshot while the original runs, both have the same client id, and each has holds of its own.

use std::collections::VecDeque;

use steadlock_collections::SortedSet;

use crate::instant::Instant;
use crate::owner::OwnerId;

/// The maximum number of owner ids that are kept. The oldest are dropped first; a late grant to a dropped one expires
/// by its TTL.
const MOST: usize = 10_000;

/// The abandoned owner ids that a late call may name.
#[derive(Debug, Default)]
pub(super) struct AbandonedOwners {
    owners: SortedSet<OwnerId>,
    /// When each owner id is dropped, the earliest first.
    until: VecDeque<(Instant, OwnerId)>,
}

impl AbandonedOwners {
    /// Adds an owner id that a late call may put back until `until`. Every owner id is kept for the same time, so
    /// `until` never decreases from one call to the next.
    pub(super) fn add(&mut self, owner: OwnerId, until: Instant, now: Instant) {
        self.forget(now);
        if self.owners.insert(owner.clone()) {
            self.until.push_back((until, owner));
        }
        if self.until.len() > MOST
            && let Some((_, first)) = self.until.pop_front()
        {
            self.owners.remove(&first);
        }
    }

    pub(super) fn contains(&mut self, owner: &OwnerId, now: Instant) -> bool {
        self.forget(now);
        self.owners.contains(owner)
    }

    fn forget(&mut self, now: Instant) {
        while self.until.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, owner)) = self.until.pop_front() {
                self.owners.remove(&owner);
            }
        }
    }
}
