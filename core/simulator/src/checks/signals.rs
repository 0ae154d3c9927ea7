//! I9: a loss is told once for each lease, by its deadline, and never after its
//! release. And every ticket is completed once, a cancelled one never. I11, of room: only
//! the server refuses an attempt to acquire what several may hold.

use std::collections::BTreeMap;

use steadlock_protocol::{Instant, LeaseId, Ticket};

use super::{Checked, broken};
use crate::ledger::{Lease, Ledger};
use crate::time::{Clock, Micros};

/// How late by its own clock a client may be: time comes in whole microseconds.
const ROUNDING: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Completed,
    Cancelled,
}

/// The check of I9.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    tickets: BTreeMap<(usize, Ticket), State>,
    /// When each was given out.
    since: BTreeMap<(usize, Ticket), Micros>,
    /// Until when a client had a name, so that nobody there had to ask for it.
    had: BTreeMap<(usize, usize), Micros>,
}

impl Signals {
    /// A session gave out a ticket.
    pub(crate) fn opened(&mut self, client: usize, ticket: Ticket, now: Micros) -> Checked {
        self.since.insert((client, ticket), now);
        match self.tickets.insert((client, ticket), State::Open) {
            None => Ok(()),
            Some(_) => broken("I9", format!("client {client} was given {ticket:?} twice")),
        }
    }

    /// A caller that wants what several may hold is told that there is no room. Only the server knows that, so it
    /// must have been asked.
    pub(crate) fn found_no_room(&self, client: usize, ticket: Ticket, now: Micros) -> Checked {
        match self.since.get(&(client, ticket)) {
            Some(since) if *since == now => broken(
                "I11",
                format!("client {client}: {ticket:?} was refused, and the server was not asked whether there is room"),
            ),
            _ => Ok(()),
        }
    }

    /// A ticket was completed.
    pub(crate) fn completed(&mut self, client: usize, ticket: Ticket) -> Checked {
        match self.tickets.insert((client, ticket), State::Completed) {
            Some(State::Open) => Ok(()),
            before => broken(
                "I9",
                format!("client {client}: {ticket:?} was completed when it was {before:?}"),
            ),
        }
    }

    /// A client has a lock no more, and its waiters there begin to ask.
    pub(crate) fn nobody_had_to_ask(&mut self, client: usize, name: usize, now: Micros) {
        self.had.insert((client, name), now);
    }

    /// A caller without bound is told that the server is silent. It is no sooner than after
    /// `longest`, from its first question on.
    pub(crate) fn heard_silence(
        &self,
        client: usize,
        ticket: Ticket,
        names: impl Iterator<Item = usize>,
        longest: Micros,
        now: Micros,
    ) -> Checked {
        let had = names.filter_map(|name| self.had.get(&(client, name)));
        let since = had.chain(self.since.get(&(client, ticket))).max().copied();
        match since.map(|since| now - since) {
            Some(silent) if silent < longest => broken(
                "I9",
                format!(
                    "client {client}: {ticket:?} heard nothing for {silent} µs, and gives up; it bears {longest} µs"
                ),
            ),
            _ => Ok(()),
        }
    }

    /// A caller went away.
    pub(crate) fn cancelled(&mut self, client: usize, ticket: Ticket) {
        self.tickets.insert((client, ticket), State::Cancelled);
    }

    /// A client crashed: nobody is told any more.
    pub(crate) fn forget(&mut self, client: usize) {
        self.tickets.retain(|(of, _), _| *of != client);
    }

    /// A lease was told to be lost.
    pub(crate) fn lost(&self, client: usize, lease: LeaseId, ledger: &Ledger) -> Checked {
        match ledger.get(client, lease) {
            Some(held) if !held.lost => Ok(()),
            Some(_) => broken("I9", format!("client {client} was told twice that {lease:?} is lost")),
            None if ledger.was_released(client, lease) => broken(
                "I9",
                format!("client {client} was told that {lease:?} is lost after its release"),
            ),
            None => broken(
                "I9",
                format!("client {client} was told that {lease:?} is lost; it never had it"),
            ),
        }
    }

    /// All callers must have their answer.
    pub(crate) fn all_completed(&self) -> Checked {
        match self.tickets.iter().find(|(_, state)| **state == State::Open) {
            None => Ok(()),
            Some(((client, ticket), _)) => broken("I9", format!("client {client}: {ticket:?} was never completed")),
        }
    }
}

/// A client that is awake since `awake_since` has been told of a loss that its clock
/// shows.
pub(crate) fn check_is_told(
    client: usize,
    id: LeaseId,
    lease: &Lease,
    awake_since: Micros,
    clock: Clock,
    now: Micros,
) -> Checked {
    let is_over = |since: Instant| clock.at(now).as_micros() > since.as_micros() + ROUNDING;
    if lease.lost || !is_over(lease.deadline) || !is_over(clock.at(awake_since)) {
        return Ok(());
    }
    broken("I9", format!("client {client} was not told that {id:?} is lost"))
}
