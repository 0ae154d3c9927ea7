//! Checks I5 for each owner: if a caller gives up, releases or never receives a lock, its record is soon gone from the
//! server.

use std::collections::BTreeMap;

use steadlock_protocol::Ticket;

use super::{Checked, broken};
use crate::time::{MS, Micros};

/// A ticket of a client, and the number of a name. A caller that requests several locks asks for each under another
/// owner id.
type Wanted = (usize, Ticket, usize);

/// The caller that each owner id stands for, and since when no caller needs it.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    wanted: BTreeMap<Wanted, usize>,
    /// For each hold, its names and owners.
    held: BTreeMap<u64, Vec<(usize, usize)>>,
    /// The time since which an owner id is given up. After the loss of a fixed lease, this is the time at which the TTL
    /// has passed for certain.
    released_since: BTreeMap<usize, Micros>,
    /// Owners on record whose client has no caller that holds or requests the lock, and since when.
    unwanted: BTreeMap<usize, Micros>,
    /// For each client and name, the time until which the record of a lost fixed lease may stay, because its TTL ends
    /// later than its deadline.
    expired: BTreeMap<(usize, usize), Micros>,
}

impl Owners {
    /// Notes that a session asks for a lock under an owner id, for this ticket. There is no ticket if the wait of the
    /// caller ended in the same step.
    pub(crate) fn on_attempt(&mut self, client: usize, name: usize, owner: usize, ticket: Option<Ticket>, now: Micros) {
        let given_up = match ticket {
            Some(ticket) => self
                .wanted
                .insert((client, ticket, name), owner)
                .filter(|before| *before != owner),
            None => Some(owner),
        };
        if let Some(owner) = given_up {
            self.released_since.insert(owner, now);
        }
    }

    /// Returns the ticket among these that asks under an owner id; `None` if that is not clear.
    pub(crate) fn ticket_of(&self, client: usize, name: usize, owner: usize, waiting: &[Ticket]) -> Option<Ticket> {
        let of = |ticket: &&Ticket| self.wanted.get(&(client, **ticket, name)).copied();
        if let Some(known) = waiting.iter().find(|ticket| of(ticket) == Some(owner)) {
            return Some(*known);
        }
        let may_be = |ticket: &&Ticket| of(ticket).is_none_or(|before| self.released_since.contains_key(&before));
        let mut some = waiting.iter().filter(may_be);
        some.next().copied().filter(|_| some.next().is_none())
    }

    /// Returns the owner id under which a ticket asks for a name, or already holds it while it waits for others.
    pub(crate) fn owner_of(&self, client: usize, ticket: Ticket, name: usize) -> Option<usize> {
        self.wanted.get(&(client, ticket, name)).copied()
    }

    /// Returns whether a caller waits under an owner id.
    pub(crate) fn is_wanted(&self, owner: usize) -> bool {
        self.wanted.values().any(|of| *of == owner)
    }

    /// Checks a session that has learned of the grant of a lock, under an owner id for which a caller waited. In the
    /// same step, it must either grant the lock to the caller or release it.
    pub(crate) fn check_grant(&self, client: usize, owner: usize, is_released: bool) -> Checked {
        if is_released || !self.released_since.contains_key(&owner) {
            return Ok(());
        }
        broken(
            "I5",
            format!(
                "client {client} got the answer that owner {owner} has the lock, gave it up, and did not release it"
            ),
        )
    }

    /// Returns the owner id under which a hold has a name, if that is known.
    pub(crate) fn held_as(&self, hold: u64, name: usize) -> Option<usize> {
        let owners = self.held.get(&hold)?;
        owners.iter().find(|(of, _)| *of == name).map(|(_, owner)| *owner)
    }

    /// Notes that a session releases what an owner id holds or may hold.
    pub(crate) fn on_release(&mut self, owner: usize, now: Micros) {
        self.released_since.entry(owner).or_insert(now);
    }

    /// Notes that a ticket was granted as a new hold.
    pub(crate) fn granted(&mut self, client: usize, ticket: Ticket, hold: u64) {
        let owners = self.take_wanted(client, ticket);
        if !owners.is_empty() {
            self.held.insert(hold, owners);
        }
    }

    /// Notes that a ticket ended without the lock.
    pub(crate) fn refused(&mut self, client: usize, ticket: Ticket, now: Micros) {
        for (_, owner) in self.take_wanted(client, ticket) {
            self.released_since.insert(owner, now);
        }
    }

    fn take_wanted(&mut self, client: usize, ticket: Ticket) -> Vec<(usize, usize)> {
        let all = (client, ticket, 0)..=(client, ticket, usize::MAX);
        let names: Vec<Wanted> = self.wanted.range(all).map(|(wanted, _)| *wanted).collect();
        let taken = names.into_iter();
        taken
            .filter_map(|wanted| Some((wanted.2, self.wanted.remove(&wanted)?)))
            .collect()
    }

    /// Notes that a client lost a fixed lease, whose record may stay until `until`.
    pub(crate) fn expired(&mut self, client: usize, name: usize, until: Micros) {
        let known = self.expired.entry((client, name)).or_insert(until);
        *known = until.max(*known);
    }

    /// Returns whether the record of a lost fixed lease may still exist.
    pub(crate) fn may_have_record(&self, client: usize, name: usize, now: Micros) -> bool {
        self.expired.get(&(client, name)).is_some_and(|until| now < *until)
    }

    /// Notes that the last level of a hold was released. Some names have an heir: another hold that keeps their record.
    pub(crate) fn released(&mut self, hold: u64, heirs: &[(usize, u64)], now: Micros) {
        for (name, owner) in self.held.remove(&hold).unwrap_or_default() {
            match heirs.iter().find(|(of, _)| *of == name) {
                Some((_, heir)) => self.held.entry(*heir).or_default().push((name, owner)),
                None => {
                    self.released_since.insert(owner, now);
                }
            }
        }
    }

    /// Checks a record of an owner on a server. Since `settled`, nothing has kept the client from the server. From then
    /// on, an owner that is given up may stay on record for `longest` and some round trips. `is_unwanted` means that no
    /// caller of that client holds or requests the lock.
    pub(crate) fn check_record(
        &mut self,
        owner: usize,
        is_unwanted: bool,
        settled: Micros,
        longest: Micros,
        now: Micros,
    ) -> Checked {
        let unwanted_since = match is_unwanted {
            true => Some(*self.unwanted.entry(owner).or_insert(now)),
            false => {
                self.unwanted.remove(&owner);
                None
            }
        };
        let released_since = self.released_since.get(&owner).copied().filter(|since| *since <= now);
        let Some(since) = [released_since, unwanted_since].into_iter().flatten().min() else {
            return Ok(());
        };
        let lasts = now - settled.max(since);
        if lasts > longest + 200 * MS {
            return broken(
                "I5",
                format!("owner {owner} was given up and is on record for {} ms", lasts / MS),
            );
        }
        Ok(())
    }
}
