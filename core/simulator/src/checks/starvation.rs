//! Checks I10 for the two sides of a read-write lock: while no fault strikes, a waiting writer is admitted although
//! readers keep coming. The same holds for a waiting reader and new writers.
//!
//! A waiting writer keeps new readers out for a phase of two seconds, lets them in for another phase, and so on. If no
//! hold lasts for a second or more, the earlier readers are gone after half of the first phase, and the writer asks
//! again before the phase is over. A writer can come so late in a phase that its next attempt is up to a poll after the
//! start of the following phase.
//!
//! A reader that asks during a write comes before the next writer. It asks whenever a write ends, but often the next
//! write has begun by then. Between writes it is kept out for two seconds at most.

use std::collections::{BTreeMap, BTreeSet};

use steadlock_protocol::Kind;

use super::{Checked, broken};
use crate::kinds::Crowd;
use crate::time::{MS, Micros};

/// The check of I10.
#[derive(Debug, Default)]
pub(crate) struct Starvation {
    /// The longest time for which one side may wait.
    bound: Micros,
    waiting_since: BTreeMap<(usize, Kind), Micros>,
    /// The time since which each owner of a name is on record.
    held_since: BTreeMap<(usize, usize), Micros>,
}

impl Starvation {
    /// Creates the check. Waiters ask after `poll` at the latest, and are answered within `round_trips`.
    pub(crate) fn new(poll: Micros, round_trips: Micros) -> Self {
        let bound = 2 * Crowd::PHASE + poll + Crowd::LONG + poll + round_trips;
        Self {
            // Clocks may be slow.
            bound: bound + bound / 100,
            ..Self::default()
        }
    }

    /// Notes that one side was granted the lock.
    pub(crate) fn granted(&mut self, name: usize, kind: Kind) {
        self.waiting_since.remove(&(name, kind));
    }

    /// Notes that a waiter gave up. If it waited to write, it does not keep readers out any more.
    pub(crate) fn gave_up(&mut self, name: usize, kind: Kind) {
        self.waiting_since.remove(&(name, kind));
    }

    /// Forgets what was observed before a fault.
    pub(crate) fn disturbed(&mut self) {
        self.waiting_since.clear();
    }

    /// Checks the sides for which callers wait and the owners on record, while no fault has effects.
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
                    "a waiter for {kind:?} of name {name} was granted nothing for {} ms",
                    (now - since) / MS
                );
                return broken("I10", what);
            }
        }
        Ok(())
    }
}
