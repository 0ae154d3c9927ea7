//! Checks I1: holders that exclude each other never believe that they hold at the same time.
//!
//! A holder believes that it holds the lock from its grant until the first of these events: it starts the release of
//! its last level, it learns of the loss, or its own clock reaches the deadline. The deadline comes before the end of
//! the record.

use steadlock_protocol::{Kind, LeaseId};

use super::{Checked, Operators, broken};
use crate::kinds::admits;
use crate::ledger::{Lease, Ledger};
use crate::records::Record;
use crate::time::{Clock, Micros};

/// The check of I1.
#[derive(Debug)]
pub(crate) struct Exclusion {
    /// Whether the tier promises I1.
    pub(crate) is_promised: bool,
}

impl Exclusion {
    /// Checks a lease that was granted or renewed.
    pub(crate) fn check_lease(
        &self,
        client: usize,
        lease: LeaseId,
        ledger: &Ledger,
        operators: &Operators,
        clocks: &[Clock],
        now: Micros,
    ) -> Checked {
        check_degraded(client, lease, ledger, clocks[client], now)?;
        if !self.is_promised {
            return Ok(());
        }
        let Some(newcomer) = ledger
            .get(client, lease)
            .filter(|lease| is_valid(lease, clocks[client], now))
        else {
            return Ok(());
        };
        let is_forced = |lease: &Lease, name: usize| {
            let holds = lease.around.iter().copied().chain([lease.hold]);
            operators.has_removed(name, holds)
        };
        for (name, kind) in &newcomer.locks {
            if is_forced(newcomer, *name) {
                continue;
            }
            let mut seen = Vec::new();
            let mut kinds: Vec<Kind> = Vec::new();
            let mut whose = Vec::new();
            for ((other, id), lease) in ledger.live() {
                let Some(held_as) = lease.kind_of(*name).filter(|_| !lease.tolerates(newcomer)) else {
                    continue;
                };
                // Without a server, a client cannot notice that a name is used as two kinds.
                let is_elsewhere = other != client || Record::of(held_as) != Record::of(*kind);
                if is_elsewhere && (lease.is_local(*name) || newcomer.is_local(*name)) {
                    continue;
                }
                if is_forced(lease, *name) {
                    continue;
                }
                if !seen.contains(&lease.hold) && is_valid(lease, clocks[other], now) {
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

/// Checks I14: in its client, a degraded lease of a name excludes other leases of that name as a lease from a server
/// would, whether a server or the client granted them. In a composite lock, only the members that no server granted
/// count as degraded.
fn check_degraded(client: usize, id: LeaseId, ledger: &Ledger, clock: Clock, now: Micros) -> Checked {
    let Some(newcomer) = ledger.get(client, id).filter(|lease| is_valid(lease, clock, now)) else {
        return Ok(());
    };
    for (name, kind) in &newcomer.locks {
        let conflicting = ledger.of(client).find(|(_, other)| {
            let is_same = other
                .kind_of(*name)
                .is_some_and(|of| Record::of(of) == Record::of(*kind) && !admits(*kind, &[of]));
            let is_degraded = other.is_local(*name) || newcomer.is_local(*name);
            is_same && is_degraded && !other.tolerates(newcomer) && is_valid(other, clock, now)
        });
        if let Some((other, _)) = conflicting {
            let what =
                format!("client {client} relies on {id:?} and on {other:?} of name {name}, one of them degraded");
            return broken("I14", what);
        }
    }
    Ok(())
}

/// Returns whether the holder relies on the lease.
pub(crate) fn is_valid(lease: &Lease, clock: Clock, now: Micros) -> bool {
    !lease.lost && clock.at(now) < lease.deadline
}
