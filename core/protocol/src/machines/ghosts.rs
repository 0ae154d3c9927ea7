//! Fair waiters that have left and may come back.
//!
//! A call that names a waiter puts it into the server's queue. If the call was cut off or is
//! slow, it may run after the release that was sent for the waiter: then the server grants the
//! lock to a waiter that is not there any more, and everybody waits until that grant ends. So if
//! an owner id is granted the lock after this session gave it up, the session releases it again.
//!
//! Only what this session gave up itself counts, not whatever has its client's id: a process
//! that was restored from a snapshot while the original runs has the same id, and holds of its
//! own.

use std::collections::VecDeque;

use crate::instant::Instant;
use crate::owner::OwnerId;
use crate::sorted::SortedSet;

/// So many are kept; of more the first are forgotten, and what a late call grants them ends by itself.
const MOST: usize = 10_000;

/// Owner ids that were given up, and that a late call may name.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    owners: SortedSet<OwnerId>,
    /// When each is forgotten, the first one first.
    until: VecDeque<(Instant, OwnerId)>,
}

impl Ghosts {
    /// A late call may put this owner back until then; each is added for the same time.
    pub(super) fn may_return(&mut self, owner: OwnerId, until: Instant, now: Instant) {
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

    pub(super) fn has(&mut self, owner: &OwnerId, now: Instant) -> bool {
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
