//! I1: holders that exclude one another never believe to hold at the same time.
//!
//! A holder believes from the moment it is told of its grant until it starts the
//! release of its last level, is told of the loss, or its own clock shows the
//! deadline, whichever is first. And what it relies on ends before its record does.

use leasehold_protocol::{Kind, LeaseId};

use super::{Checked, broken};
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
        let mut seen = vec![newcomer.hold];
        let mut kinds: Vec<Kind> = Vec::new();
        let mut whose = Vec::new();
        for ((other, id), lease) in ledger.live() {
            let counts = lease.name == newcomer.name && !seen.contains(&lease.hold);
            if counts && is_believed(lease, clocks[other], now) {
                seen.push(lease.hold);
                kinds.push(lease.kind);
                whose.push((other, id));
            }
        }
        if admits(newcomer.kind, &kinds) {
            return Ok(());
        }
        broken(
            "I1",
            format!(
                "client {client} relies on {lease:?} of name {}, and so do {whose:?}",
                newcomer.name
            ),
        )
    }
}

impl Exclusion {
    /// Two holders are only a matter of time if one of them relies on its lease for
    /// longer than its record lasts.
    pub(crate) fn outlasts(&self, client: usize, lease: LeaseId, relied_on: Micros, lasts: Micros) -> Checked {
        if !self.is_promised || relied_on <= lasts {
            return Ok(());
        }
        let more = relied_on - lasts;
        broken(
            "I1",
            format!("client {client} relies on {lease:?} for {more} µs longer than its record lasts"),
        )
    }
}

/// Whether its holder relies on it.
pub(crate) fn is_believed(lease: &Lease, clock: Clock, now: Micros) -> bool {
    !lease.lost && clock.at(now) < lease.deadline
}
