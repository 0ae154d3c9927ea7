//! I10, of the two sides of a read-write lock: while no fault strikes, a waiting writer
//! gets in though readers keep coming, and a waiting reader though writers do.
//!
//! A waiting writer keeps new readers out for two seconds, lets them in for two, and so
//! on. If no hold lasts for a second or more, those that were let in before are gone
//! halfway through, and the writer asks once more before the two seconds are over. It may
//! have come when the first two seconds were too far gone already, and then asks again up
//! to a poll after they could begin anew.
//!
//! A reader that asks during a write goes before the next writer. It asks whenever a write
//! ends, and often the next one has begun by then. Between writes it is kept out for two
//! seconds at most.

use std::collections::{BTreeMap, BTreeSet};

use steadlock_protocol::Kind;

use super::{Checked, broken};
use crate::kinds::Crowd;
use crate::time::{MS, Micros};

/// The check of I10.
#[derive(Debug, Default)]
pub(crate) struct Starvation {
    /// The longest that one side may wait.
    bound: Micros,
    waiting_since: BTreeMap<(usize, Kind), Micros>,
    /// Since when each owner of a name is on record.
    held_since: BTreeMap<(usize, usize), Micros>,
}

impl Starvation {
    /// The check where waiters ask after `poll` at the latest and are answered in no more
    /// than `round_trips`.
    pub(crate) fn new(poll: Micros, round_trips: Micros) -> Self {
        let bound = 2 * Crowd::PHASE + poll + Crowd::LONG + poll + round_trips;
        Self {
            // Clocks may be slow.
            bound: bound + bound / 100,
            ..Self::default()
        }
    }

    /// One side was let in.
    pub(crate) fn granted(&mut self, name: usize, kind: Kind) {
        self.waiting_since.remove(&(name, kind));
    }

    /// One who waited goes away, and its word that it waits with it.
    pub(crate) fn gave_up(&mut self, name: usize, kind: Kind) {
        self.waiting_since.remove(&(name, kind));
    }

    /// A fault struck: what was seen before says nothing.
    pub(crate) fn disturbed(&mut self) {
        self.waiting_since.clear();
    }

    /// Somebody looked while all was calm: the sides that are waited for, and the owners on
    /// record.
    pub(crate) fn observed(
        &mut self,
        name: usize,
        wanted: &BTreeSet<Kind>,
        owners: &BTreeSet<usize>,
        now: Micros,
    ) -> Checked {
        self.held_since
            .retain(|(of, owner), _| *of != name || owners.contains(owner));
        let mut is_long = false;
        for owner in owners {
            let since = *self.held_since.entry((name, *owner)).or_insert(now);
            is_long |= now - since >= Crowd::LONG;
        }
        self.waiting_since
            .retain(|(of, kind), _| *of != name || (wanted.contains(kind) && !is_long));
        for kind in wanted {
            let since = *self.waiting_since.entry((name, *kind)).or_insert(now);
            if now - since > self.bound {
                let what = format!(
                    "{kind:?} of name {name} is waited for in vain for {} ms",
                    (now - since) / MS
                );
                return broken("I10", what);
            }
        }
        Ok(())
    }
}
