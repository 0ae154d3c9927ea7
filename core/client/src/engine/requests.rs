//! The callers' requests that have no answer yet, by the tickets that the session gave.

use std::sync::Arc;

use steadlock_protocol::{LeaseId, Operation, Table, Ticket};

use crate::port::Sink;

/// What a ticket stands for.
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) operation: Operation,
    pub(super) sink: Sink,
    /// The lock's name as the caller gave it, for a grant.
    pub(super) name: Option<Arc<str>>,
    /// The lease that a release, an extension or a re-entry is of.
    pub(super) lease: Option<LeaseId>,
}

#[derive(Default)]
pub(super) struct Requests {
    by_ticket: Table<Ticket, Request>,
    tickets: Table<u64, Ticket>,
}

impl Requests {
    pub(super) fn add(&mut self, ticket: Ticket, request: Request) {
        self.tickets.insert(request.id, ticket);
        self.by_ticket.insert(ticket, request);
    }

    /// The session is done with it; `None` if its caller went away.
    pub(super) fn complete(&mut self, ticket: Ticket) -> Option<Request> {
        let request = self.by_ticket.remove(&ticket)?;
        self.tickets.remove(&request.id);
        Some(request)
    }

    /// Its caller went away; `None` if it is answered already.
    pub(super) fn cancel(&mut self, id: u64) -> Option<(Ticket, Option<Request>)> {
        let ticket = self.tickets.remove(&id)?;
        Some((ticket, self.by_ticket.remove(&ticket)))
    }

    /// Those that wait for a lock.
    pub(super) fn waits(&self) -> Vec<u64> {
        let waits = self.by_ticket.iter().map(|(_, request)| request);
        waits
            .filter(|request| request.operation == Operation::Acquire)
            .map(|request| request.id)
            .collect()
    }

    /// Whether its caller waits for the answer.
    pub(super) fn is_open(&self, ticket: Ticket) -> bool {
        self.by_ticket.get(&ticket).is_some()
    }

    /// All that are not answered.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Request> + use<> {
        std::mem::take(self).by_ticket.into_values()
    }
}
