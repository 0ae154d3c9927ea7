//! I6: while no fault strikes, a free lock goes to a connected waiter within a
//! poll and a few round trips; of callers who acquire several locks and wait for nobody
//! but one another, one is served; and a waiter learns of its grant without another
//! poll. And I9's promise about records that were taken away: the holder of an
//! auto-renewed lease learns of it within a third of the lease and half a second.

use std::collections::{BTreeMap, BTreeSet};

use steadlock_protocol::{Kind, Ticket};

use super::{Checked, broken};
use crate::records::{Group, Record};
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

/// The records of a name that have to do with one another.
type Place = (usize, Group);

/// The check of I6.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The longest that a free lock may stay free.
    pub(crate) bound: Micros,
    /// The longest that word of a grant may be on its way.
    pub(crate) word: Micros,
    free_since: BTreeMap<Place, Micros>,
    waiting_since: BTreeMap<(usize, Ticket), Micros>,
    unbacked_since: BTreeMap<Place, Micros>,
    untold_since: BTreeMap<(usize, usize), Micros>,
}

impl Progress {
    /// A lock was granted, or who waited for it was told that it cannot be.
    pub(crate) fn granted(&mut self, name: usize, kind: Kind) {
        self.free_since.remove(&(name, Record::of(kind).group()));
    }

    /// Somebody was let in, or one who may have had some of several locks waits no more.
    pub(crate) fn served(&mut self) {
        self.waiting_since.clear();
    }

    /// A fault struck: what was seen before says nothing.
    pub(crate) fn disturbed(&mut self) {
        self.free_since.clear();
        self.waiting_since.clear();
        self.unbacked_since.clear();
        self.untold_since.clear();
    }

    /// Somebody looked while all was calm: these callers, each of whom wants so many locks,
    /// wait for nobody but one another.
    ///
    /// Locks are taken in one order. So one of them waits for a lock that is free, and takes
    /// it as soon as who wants no other; and they take one more each time, until one is
    /// served.
    pub(crate) fn waiting(&mut self, callers: &BTreeMap<(usize, Ticket), usize>, now: Micros) -> Checked {
        self.waiting_since.retain(|caller, _| callers.contains_key(caller));
        let locks = callers.values().sum::<usize>() as u64;
        for caller in callers.keys() {
            let since = *self.waiting_since.entry(*caller).or_insert(now);
            if now - since > self.bound * locks {
                let what = format!("these wait for one another for {} ms: {callers:?}", (now - since) / MS);
                return broken("I6", what);
            }
        }
        Ok(())
    }

    /// Somebody looked while all was calm: these owners have a lock, and those who asked for
    /// it wait.
    pub(crate) fn untold(&mut self, name: usize, owners: &BTreeSet<usize>, now: Micros) -> Checked {
        self.untold_since
            .retain(|(of, owner), _| *of != name || owners.contains(owner));
        for owner in owners {
            let since = *self.untold_since.entry((name, *owner)).or_insert(now);
            if now - since > self.word {
                let what = format!(
                    "owner {owner} has name {name} for {} ms, and waits for it",
                    (now - since) / MS
                );
                return broken("I6", what);
            }
        }
        Ok(())
    }

    /// Somebody looked while all was calm.
    pub(crate) fn observed(&mut self, place: Place, sight: Sight, now: Micros) -> Checked {
        let name = place.0;
        if sight.waiters > 0 {
            let since = *self.free_since.entry(place).or_insert(now);
            if now - since > self.bound {
                return broken(
                    "I6",
                    format!("name {name} is free for {} ms: {sight:?}", (now - since) / MS),
                );
            }
        } else {
            self.free_since.remove(&place);
        }
        if sight.watched > sight.records {
            let since = *self.unbacked_since.entry(place).or_insert(now);
            if now - since > sight.longest_lease / 3 + sight.longest_lease / 300 + 500 * MS {
                let what = format!("holders of name {name} were not told that their record is gone: {sight:?}");
                return broken("I9", what);
            }
        } else {
            self.unbacked_since.remove(&place);
        }
        Ok(())
    }
}
