//! I6: while no fault strikes, a free lock goes to a connected waiter within a
//! poll and a few round trips. And I9's promise about records that were taken
//! away: a watched holder hears of it within a third of its lease and half a
//! second.

use std::collections::BTreeMap;

use super::{Checked, broken};
use crate::time::{MS, Micros};

/// What an observer sees of one name at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Callers whose client is connected and who could have it.
    pub(crate) waiters: usize,
    /// Owners on the server's record.
    pub(crate) records: usize,
    /// Holds that are relied on.
    pub(crate) believed: usize,
    /// Those of them that the watchdog renews, and the longest of their leases.
    pub(crate) watched: usize,
    pub(crate) longest_lease: Micros,
}

/// The check of I6.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The longest that a free lock may stay free.
    pub(crate) bound: Micros,
    free_since: BTreeMap<usize, Micros>,
    unbacked_since: BTreeMap<usize, Micros>,
}

impl Progress {
    /// A lock was granted.
    pub(crate) fn granted(&mut self, name: usize) {
        self.free_since.remove(&name);
    }

    /// A fault struck: what was seen before says nothing.
    pub(crate) fn disturbed(&mut self) {
        self.free_since.clear();
        self.unbacked_since.clear();
    }

    /// Somebody looked while all was calm.
    pub(crate) fn observed(&mut self, name: usize, sight: Sight, now: Micros) -> Checked {
        if sight.waiters > 0 {
            let since = *self.free_since.entry(name).or_insert(now);
            if now - since > self.bound {
                return broken(
                    "I6",
                    format!("name {name} is free for {} ms: {sight:?}", (now - since) / MS),
                );
            }
        } else {
            self.free_since.remove(&name);
        }
        if sight.watched > sight.records {
            let since = *self.unbacked_since.entry(name).or_insert(now);
            if now - since > sight.longest_lease / 3 + 500 * MS {
                let what = format!("holders of name {name} were not told that their record is gone: {sight:?}");
                return broken("I9", what);
            }
        } else {
            self.unbacked_since.remove(&name);
        }
        Ok(())
    }
}
