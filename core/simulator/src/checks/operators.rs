//! Checks the promises about operators.
//!
//! A forced release (I4, I7, I9) removes the record, and the next live waiter of a fair lock is granted the lock. Each
//! forced release is sent only once to each server. The former holder may still believe that it holds the lock, but
//! excludes no other caller any more (I1). If its lease is auto-renewed, the next renewal finds the loss.
//!
//! A new limit (I11) does not add, remove or prolong a permit. While permits are held, a request with another limit
//! than the one that applies is refused. A request with the right limit is granted exactly if enough permits are free.

use std::collections::{BTreeMap, BTreeSet};

use steadlock_protocol::{Permits, Ticket};

use super::fair_queue::WAITER_LIFE;
use super::{Checked, broken};
use crate::records::{FairState, OnRecord};
use crate::time::{MS, Micros};

/// The check of what operators do.
#[derive(Debug, Default)]
pub(crate) struct Operators {
    /// Each hold and name whose record an operator removed.
    forced: BTreeSet<(u64, usize)>,
    /// Tickets whose record an operator may have removed before the grant was reported.
    forced_early: BTreeSet<(usize, Ticket, usize)>,
    /// For a hold and name in `forced`: since when the record is gone and the holder does not know, while no fault has
    /// effects.
    unreported_since: BTreeMap<(u64, usize), Micros>,
    /// The number of forced releases that each client still has to send.
    requested: BTreeMap<usize, usize>,
    /// The limit that applies to a name while permits of it are held.
    limits: BTreeMap<usize, u32>,
}

/// The state of a semaphore on its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SemaphoreState {
    pub(crate) holders: Vec<(String, i64)>,
    pub(crate) held: u32,
    pub(crate) limit: Option<u32>,
}

/// The answer of a server to a request for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitReply {
    Granted,
    Held,
    OtherLimit,
    /// An error that does not depend on how many permits are held.
    Failed,
}

impl Operators {
    /// An operator requests a forced release on this number of servers.
    pub(crate) fn requested(&mut self, client: usize, servers: usize) {
        *self.requested.entry(client).or_default() += servers;
    }

    /// A session sends a forced release.
    pub(crate) fn sends(&mut self, client: usize) -> Checked {
        match self.requested.get_mut(&client).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => broken(
                "I4",
                format!("client {client} forces a release that no operator requested, or twice"),
            ),
        }
    }

    /// Notes that the record of a hold was removed.
    pub(crate) fn removed(&mut self, hold: u64, name: usize) {
        self.forced.insert((hold, name));
    }

    /// Notes that a record was removed before its caller learned of the grant.
    pub(crate) fn removed_before_grant(&mut self, client: usize, ticket: Ticket, name: usize) {
        self.forced_early.insert((client, ticket, name));
    }

    /// Notes that a ticket was granted as a hold.
    pub(crate) fn granted(&mut self, client: usize, ticket: Ticket, hold: u64, names: impl Iterator<Item = usize>) {
        for name in names {
            if self.forced_early.remove(&(client, ticket, name)) {
                self.removed(hold, name);
            }
        }
    }

    /// Notes that a hold was released, and that another one, its heir, keeps the record of this name.
    pub(crate) fn inherits(&mut self, hold: u64, heir: u64, name: usize) {
        if self.forced.contains(&(hold, name)) {
            self.removed(heir, name);
        }
    }

    /// Returns whether the record of one of these holds was removed.
    pub(crate) fn has_removed(&self, name: usize, mut holds: impl Iterator<Item = u64>) -> bool {
        !self.forced.is_empty() && holds.any(|hold| self.forced.contains(&(hold, name)))
    }

    /// Forgets what was observed before a fault.
    pub(crate) fn disturbed(&mut self) {
        self.unreported_since.clear();
    }

    /// Checks an auto-renewed hold whose record was removed, while no fault has effects. `is_over` means that its
    /// holder knows of the loss, or has a record again.
    pub(crate) fn observed(&mut self, hold: u64, name: usize, is_over: bool, lease: Micros, now: Micros) -> Checked {
        if is_over {
            self.unreported_since.remove(&(hold, name));
            return Ok(());
        }
        let since = *self.unreported_since.entry((hold, name)).or_insert(now);
        // A third of the lease by a clock that may be slow, and half a second.
        if now - since > lease / 3 + lease / 300 + 500 * MS {
            let what = format!(
                "name {name} was removed from hold {hold} by force, whose holder got no report for {} ms",
                (now - since) / MS
            );
            return broken("I9", what);
        }
        Ok(())
    }

    /// Checks an owner's request for permits. The owner held none before. With `keeps_records`, an older record can
    /// come back, with an older limit.
    pub(crate) fn check_permits(
        &mut self,
        name: usize,
        wanted: Permits,
        (before, after): (&SemaphoreState, &SemaphoreState),
        reply: PermitReply,
        keeps_records: bool,
    ) -> Checked {
        if before.held > 0 && !keeps_records && before.limit != self.limits.get(&name).copied() {
            let what = format!("{before:?} of name {name} agreed on {:?}", self.limits.get(&name));
            return broken("I11", what);
        }
        let is_agreed = before.held == 0 || before.limit == Some(wanted.limit());
        let expected = match is_agreed {
            false => PermitReply::OtherLimit,
            true if before.held + wanted.wanted() <= wanted.limit() => PermitReply::Granted,
            true => PermitReply::Held,
        };
        let held = before.held
            + if reply == PermitReply::Granted {
                wanted.wanted()
            } else {
                0
            };
        if (reply != expected && reply != PermitReply::Failed) || after.held != held {
            let what = format!("{wanted:?} of name {name}: {reply:?}; before {before:?}, after {after:?}");
            return broken("I11", what);
        }
        if reply == PermitReply::Granted {
            self.limits.insert(name, wanted.limit());
        }
        Ok(())
    }

    /// Checks a change of the limit. `is_yes` means that the server reported success.
    pub(crate) fn set_limit(
        &mut self,
        name: usize,
        limit: u32,
        (before, after): (&SemaphoreState, &SemaphoreState),
        is_yes: bool,
    ) -> Checked {
        let expected = SemaphoreState {
            limit: if is_yes { Some(limit) } else { before.limit },
            ..before.clone()
        };
        if is_yes != (before.held > 0) || expected != *after {
            let what =
                format!("a limit of {limit} for name {name} was set: {is_yes}; before {before:?}, after {after:?}");
            return broken("I11", what);
        }
        if is_yes {
            self.limits.insert(name, limit);
        }
        Ok(())
    }
}

/// Checks a forced release: no owner that was on record still is, and the reply reports the removal.
pub(crate) fn check_forced(name: usize, before: &[OnRecord], after: &[OnRecord], is_yes: bool) -> Checked {
    let stays = before
        .iter()
        .any(|(owner, _)| after.iter().any(|(other, _)| other == owner));
    // The script may also remove an expired record, which is not in `before`. Then the reply is yes too.
    if stays || (!before.is_empty() && !is_yes) {
        let (before, after) = (shown(before), shown(after));
        let what = format!("a forced release of name {name}: {is_yes}; before {before:?}, after {after:?}");
        return broken("I4", what);
    }
    Ok(())
}

/// Checks a server's answer to the question which owner holds a lock. `reply` is `None` if the server named no owner.
pub(crate) fn check_inspected(name: usize, held: &[OnRecord], reply: Option<&[u8]>) -> Checked {
    let is_correct = match &reply {
        Some(owner) => held.iter().any(|(other, _)| other == *owner),
        None => held.is_empty(),
    };
    if is_correct {
        return Ok(());
    }
    broken(
        "I4",
        format!(
            "a server names {:?} as the holder of name {name}; the record has {:?}",
            reply.map(String::from_utf8_lossy),
            shown(held)
        ),
    )
}

/// Checks a script that removed the holder of a fair lock: if the first waiter is alive, it holds the lock.
pub(crate) fn check_next(name: usize, before: &FairState, after: &FairState, now: u64) -> Checked {
    let Some(first) = before.queue.first() else {
        return Ok(());
    };
    let seen = before
        .seen
        .get(first)
        .filter(|seen| **seen <= now && now - **seen <= WAITER_LIFE);
    let has_it = after.holder.as_ref().is_some_and(|(owner, _)| owner == first);
    if seen.is_none() || has_it {
        return Ok(());
    }
    let holder = after.holder.as_ref().map(|(owner, _)| String::from_utf8_lossy(owner));
    let first = String::from_utf8_lossy(first);
    let what = format!("the holder of name {name} is gone, and {first}, which is next, does not have it: {holder:?}");
    broken("I7", what)
}

/// Returns the owners on record as text.
pub(crate) fn shown(holders: &[OnRecord]) -> Vec<(String, i64)> {
    let text = |(owner, left): &OnRecord| (String::from_utf8_lossy(owner).into_owned(), *left);
    holders.iter().map(text).collect()
}

/// Checks a script about one record of a name: it must not change the record of another kind. If both have the same
/// key, the call must be refused.
pub(crate) fn check_undisturbed(
    name: usize,
    (before, after): (&[OnRecord], &[OnRecord]),
    collides: bool,
    was_wrong_type: bool,
) -> Checked {
    let is_reported = !collides || before.is_empty() || was_wrong_type;
    if before == after && is_reported {
        return Ok(());
    }
    let (before, after) = (shown(before), shown(after));
    let what =
        format!("name {name} as another kind: before {before:?}, after {after:?}; was it refused? {was_wrong_type}");
    broken("I4", what)
}
