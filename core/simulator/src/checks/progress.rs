//! Checks I6: while no fault strikes, a free lock is granted to a connected waiter within a poll and a few round trips,
//! or a few seconds later for RedLock and read-write locks. If callers that acquire several locks wait only for each
//! other, one of them is served. A waiter learns of its grant without another poll. Also checks I9 for records that
//! were removed: the holder of an auto-renewed lease learns of the loss within a third of the lease and half a second.

use std::collections::{BTreeMap, BTreeSet};

use steadlock_protocol::{Kind, Ticket};

use super::{Checked, broken};
use crate::records::{Group, Record};
use crate::time::{MS, Micros};

/// The state of one name at one time, as the observer sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameState {
    /// The number of waiters whose client is connected and that could be granted the lock.
    pub(crate) waiters: usize,
    /// The number of owners on the server's record.
    pub(crate) records: usize,
    /// The number of valid holds.
    pub(crate) valid: usize,
    /// The number of valid holds that are renewed.
    pub(crate) renewed: usize,
    /// The longest lease of these holds.
    pub(crate) longest_lease: Micros,
}

/// A name, and a group of its records.
type Place = (usize, Group);

/// The check of I6.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The longest time for which a lock may stay free.
    pub(crate) bound: Micros,
    /// The longest time until a waiter learns of its grant.
    pub(crate) notice_bound: Micros,
    free_since: BTreeMap<Place, Micros>,
    waiting_since: BTreeMap<(usize, Ticket), Micros>,
    unbacked_since: BTreeMap<Place, Micros>,
    unreported_since: BTreeMap<(usize, usize), Micros>,
}

impl Progress {
    /// Notes that a lock was granted, or that its waiter was refused for good.
    pub(crate) fn granted(&mut self, name: usize, kind: Kind) {
        self.free_since.remove(&(name, Record::of(kind).group()));
    }

    /// Notes that a caller was served. Also called when a caller that may hold some of several locks gives up.
    pub(crate) fn served(&mut self) {
        self.waiting_since.clear();
    }

    /// Forgets what was observed before a fault.
    pub(crate) fn disturbed(&mut self) {
        self.free_since.clear();
        self.waiting_since.clear();
        self.unbacked_since.clear();
        self.unreported_since.clear();
    }

    /// Checks the callers that wait only for each other, while no fault has effects. `callers` has the number of locks
    /// that each of them requests.
    ///
    /// Composite locks acquire their members in one fixed order. Therefore at least one of these callers waits for a
    /// free lock, which is granted to it within `bound`. After at most as many grants as the callers request locks, one
    /// of them is served.
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

    /// Checks owners that hold a lock on the server although their callers still wait, while no fault has effects.
    pub(crate) fn check_unreported(&mut self, name: usize, owners: &BTreeSet<usize>, now: Micros) -> Checked {
        self.unreported_since
            .retain(|(of, owner), _| *of != name || owners.contains(owner));
        for owner in owners {
            let since = *self.unreported_since.entry((name, *owner)).or_insert(now);
            if now - since > self.notice_bound {
                let what = format!(
                    "owner {owner} has name {name} for {} ms, and waits for it",
                    (now - since) / MS
                );
                return broken("I6", what);
            }
        }
        Ok(())
    }

    /// Checks the state of one name, while no fault has effects.
    pub(crate) fn observed(&mut self, place: Place, state: NameState, now: Micros) -> Checked {
        let name = place.0;
        if state.waiters > 0 {
            let since = *self.free_since.entry(place).or_insert(now);
            if now - since > self.bound {
                return broken(
                    "I6",
                    format!("name {name} is free for {} ms: {state:?}", (now - since) / MS),
                );
            }
        } else {
            self.free_since.remove(&place);
        }
        if state.renewed > state.records {
            let since = *self.unbacked_since.entry(place).or_insert(now);
            if now - since > state.longest_lease / 3 + state.longest_lease / 300 + 500 * MS {
                let what = format!("holders of name {name} got no report that their record is gone: {state:?}");
                return broken("I9", what);
            }
        } else {
            self.unbacked_since.remove(&place);
        }
        Ok(())
    }
}
