//! I5, owner by owner: what a caller gave up, gave back or never got is off the
//! server soon.

use std::collections::BTreeMap;

use leasehold_protocol::Ticket;

use super::{Checked, broken};
use crate::time::{MS, Micros};

/// What each owner id stands for.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    wanted: BTreeMap<(usize, Ticket), usize>,
    held: BTreeMap<u64, usize>,
    given_up: BTreeMap<usize, Micros>,
}

impl Owners {
    /// A session asks for a lock under an owner id, for this ticket of a caller. There is
    /// none if the caller's wait ended in the same step.
    pub(crate) fn asks(&mut self, client: usize, owner: usize, ticket: Option<Ticket>, now: Micros) {
        let given_up = match ticket {
            Some(ticket) => self
                .wanted
                .insert((client, ticket), owner)
                .filter(|before| *before != owner),
            None => Some(owner),
        };
        if let Some(given_up) = given_up {
            self.given_up.insert(given_up, now);
        }
    }

    /// Of these tickets, the one that asks under an owner id; `None` if that is not seen.
    pub(crate) fn who_asks(&self, client: usize, owner: usize, waiting: &[Ticket]) -> Option<Ticket> {
        let of = |ticket: &&Ticket| self.wanted.get(&(client, **ticket)).copied();
        if let Some(known) = waiting.iter().find(|ticket| of(ticket) == Some(owner)) {
            return Some(*known);
        }
        let may_be = |ticket: &&Ticket| of(ticket).is_none_or(|before| self.given_up.contains_key(&before));
        let mut some = waiting.iter().filter(may_be);
        some.next().copied().filter(|_| some.next().is_none())
    }

    /// A session gives back what an owner id has, or may have.
    pub(crate) fn gives_back(&mut self, owner: usize, now: Micros) {
        self.given_up.entry(owner).or_insert(now);
    }

    /// A ticket was granted as a new hold.
    pub(crate) fn granted(&mut self, client: usize, ticket: Ticket, hold: u64) {
        if let Some(owner) = self.wanted.remove(&(client, ticket)) {
            self.held.insert(hold, owner);
        }
    }

    /// A ticket came to nothing.
    pub(crate) fn refused(&mut self, client: usize, ticket: Ticket, now: Micros) {
        if let Some(owner) = self.wanted.remove(&(client, ticket)) {
            self.given_up.insert(owner, now);
        }
    }

    /// The last level of a hold was given back.
    pub(crate) fn released(&mut self, hold: u64, now: Micros) {
        if let Some(owner) = self.held.remove(&hold) {
            self.given_up.insert(owner, now);
        }
    }

    /// Somebody sees a record of an owner on a server, while all is calm since `settled`
    /// and its client connected.
    pub(crate) fn seen(&self, owner: usize, settled: Micros, longest: Micros, now: Micros) -> Checked {
        let Some(given_up) = self.given_up.get(&owner) else {
            return Ok(());
        };
        let since = now - settled.max(*given_up);
        if since > longest + 200 * MS {
            return broken(
                "I5",
                format!("owner {owner} was given up and is on record for {} ms", since / MS),
            );
        }
        Ok(())
    }
}
