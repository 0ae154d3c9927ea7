//! I1: holders that exclude one another never believe to hold at the same time.
//!
//! A holder believes from the moment it is told of its grant until it starts the
//! release of its last level, is told of the loss, or its own clock shows the
//! deadline, whichever is first. And what it relies on ends before its record does.

use leasehold_protocol::{Kind, LeaseId};

use super::{Checked, Operators, broken};
use crate::kinds::admits;
use crate::ledger::{Lease, Ledger};
use crate::time::{Clock, Micros};

/// The check of I1.
#[derive(Debug)]
pub(crate) struct Exclusion {
    /// Whether the tier promises it.
    pub(crate) is_promised: bool,
}

impl Exclusion {
    /// A lease was granted, or may be relied on for longer.
    pub(crate) fn believes(
        &self,
        client: usize,
        lease: LeaseId,
        ledger: &Ledger,
        operators: &Operators,
        clocks: &[Clock],
        now: Micros,
    ) -> Checked {
        if !self.is_promised {
            return Ok(());
        }
        let Some(newcomer) = ledger
            .get(client, lease)
            .filter(|lease| is_believed(lease, clocks[client], now))
        else {
            return Ok(());
        };
        let is_forced = |lease: &Lease, name: usize| {
            let holds = lease.around.iter().copied().chain([lease.hold]);
            operators.has_taken(name, holds)
        };
        for (name, kind) in &newcomer.locks {
            if is_forced(newcomer, *name) {
                continue;
            }
            let mut seen = Vec::new();
            let mut kinds: Vec<Kind> = Vec::new();
            let mut whose = Vec::new();
            for ((other, id), lease) in ledger.live() {
                let Some(held_as) = lease.kind_of(*name).filter(|_| !lease.bears(newcomer)) else {
                    continue;
                };
                if is_forced(lease, *name) {
                    continue;
                }
                if !seen.contains(&lease.hold) && is_believed(lease, clocks[other], now) {
                    seen.push(lease.hold);
                    kinds.push(held_as);
                    whose.push((other, id, held_as));
                }
            }
            if !admits(*kind, &kinds) {
                let what =
                    format!("client {client} relies on {lease:?} ({kind:?}) of name {name}, and so do {whose:?}");
                return broken("I1", what);
            }
        }
        Ok(())
    }
}

/// Whether its holder relies on it.
pub(crate) fn is_believed(lease: &Lease, clock: Clock, now: Micros) -> bool {
    !lease.lost && clock.at(now) < lease.deadline
}
