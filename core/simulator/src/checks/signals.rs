//! Checks I9: a loss is reported once for each lease, by its deadline, and never after its release. Every ticket is
//! completed once, unless its caller cancels or its client crashes first. Also checks I11: only the server refuses an
//! attempt for a lock that several can hold.

use std::collections::BTreeMap;

use steadlock_protocol::{Instant, LeaseId, Ticket};

use super::{Checked, broken};
use crate::ledger::{Lease, Ledger};
use crate::time::{Clock, Micros};

/// How late a client may be by its own clock, in microseconds, because times are rounded.
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
    /// The time at which each ticket was returned.
    since: BTreeMap<(usize, Ticket), Micros>,
    /// The time until which a client held a name. Until then its callers did not have to ask for the name.
    held_until: BTreeMap<(usize, usize), Micros>,
}

impl Signals {
    /// Notes that a session returned a ticket.
    pub(crate) fn opened(&mut self, client: usize, ticket: Ticket, now: Micros) -> Checked {
        self.since.insert((client, ticket), now);
        match self.tickets.insert((client, ticket), State::Open) {
            None => Ok(()),
            Some(_) => broken("I9", format!("client {client} was given {ticket:?} twice")),
        }
    }

    /// Returns when a session returned a ticket.
    pub(crate) fn opened_at(&self, client: usize, ticket: Ticket) -> Option<Micros> {
        self.since.get(&(client, ticket)).copied()
    }

    /// Checks the answer that a lock for several holders has no room left. Only the server knows how much room there
    /// is, so the client must have sent a call, whose reply takes time.
    pub(crate) fn found_no_room(&self, client: usize, ticket: Ticket, now: Micros) -> Checked {
        match self.since.get(&(client, ticket)) {
            Some(since) if *since == now => broken(
                "I11",
                format!("client {client}: {ticket:?} was refused, and the server was not asked whether there is room"),
            ),
            _ => Ok(()),
        }
    }

    pub(crate) fn completed(&mut self, client: usize, ticket: Ticket) -> Checked {
        match self.tickets.insert((client, ticket), State::Completed) {
            Some(State::Open) => Ok(()),
            before => broken(
                "I9",
                format!("client {client}: {ticket:?} was completed when it was {before:?}"),
            ),
        }
    }

    /// Notes that a client does not hold a lock any more. The client's waiters then begin to ask.
    pub(crate) fn on_hold_ended(&mut self, client: usize, name: usize, now: Micros) {
        self.held_until.insert((client, name), now);
    }

    /// Checks that a caller without a wait limit failed with `Unavailable` only after a silence of `longest`. The
    /// silence begins when the caller can first ask: when its ticket was returned and its client holds none of `names`.
    pub(crate) fn check_silence(
        &self,
        client: usize,
        ticket: Ticket,
        names: impl Iterator<Item = usize>,
        longest: Micros,
        now: Micros,
    ) -> Checked {
        let held_until = names.filter_map(|name| self.held_until.get(&(client, name)));
        let since = held_until.chain(self.since.get(&(client, ticket))).max().copied();
        match since.map(|since| now - since) {
            Some(silent) if silent < longest => broken(
                "I9",
                format!(
                    "client {client}: {ticket:?} got no answer for {silent} µs, and gives up; its limit is {longest} µs"
                ),
            ),
            _ => Ok(()),
        }
    }

    pub(crate) fn cancelled(&mut self, client: usize, ticket: Ticket) {
        self.tickets.insert((client, ticket), State::Cancelled);
    }

    /// Forgets the tickets of a client that crashed.
    pub(crate) fn forget(&mut self, client: usize) {
        self.tickets.retain(|(of, _), _| *of != client);
    }

    /// Checks a lease that was reported as lost.
    pub(crate) fn lost(&self, client: usize, lease: LeaseId, ledger: &Ledger) -> Checked {
        match ledger.get(client, lease) {
            Some(held) if !held.lost => Ok(()),
            Some(_) => broken("I9", format!("client {client} got two reports that {lease:?} is lost")),
            None if ledger.was_released(client, lease) => broken(
                "I9",
                format!("client {client} got the report that {lease:?} is lost after its release"),
            ),
            None => broken(
                "I9",
                format!("client {client} got the report that {lease:?} is lost; it never had it"),
            ),
        }
    }

    /// Checks that all callers have their answer.
    pub(crate) fn all_completed(&self) -> Checked {
        match self.tickets.iter().find(|(_, state)| **state == State::Open) {
            None => Ok(()),
            Some(((client, ticket), _)) => broken("I9", format!("client {client}: {ticket:?} was never completed")),
        }
    }
}

/// Checks that a session has reported a loss as soon as the client's clock shows it. The client has not been paused
/// since `awake_since`.
pub(crate) fn check_reported(
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
    broken("I9", format!("client {client} got no report that {id:?} is lost"))
}
