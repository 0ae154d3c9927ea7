//! The requests of callers that have no answer yet, by the tickets of the session.

use std::sync::Arc;

use steadlock_protocol::{LeaseId, Operation, Table, Ticket};

use crate::port::Sink;

/// The request behind a ticket.
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) operation: Operation,
    pub(super) sink: Sink,
    /// The name of the lock as the caller gave it, for a request that acquires one.
    pub(super) name: Option<Arc<str>>,
    /// The lease to release or extend, or the one that a re-entry is within.
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

    /// Removes a request that the session has completed. `None` if its caller went away.
    pub(super) fn complete(&mut self, ticket: Ticket) -> Option<Request> {
        let request = self.by_ticket.remove(&ticket)?;
        self.tickets.remove(&request.id);
        Some(request)
    }

    /// Removes a request whose caller went away. `None` if it is answered already.
    pub(super) fn cancel(&mut self, id: u64) -> Option<(Ticket, Option<Request>)> {
        let ticket = self.tickets.remove(&id)?;
        Some((ticket, self.by_ticket.remove(&ticket)))
    }

    /// Returns the ids of the requests that wait for a lock.
    pub(super) fn waits(&self) -> Vec<u64> {
        let waits = self.by_ticket.iter().map(|(_, request)| request);
        waits
            .filter(|request| request.operation == Operation::Acquire)
            .map(|request| request.id)
            .collect()
    }

    /// Whether a caller waits for the answer to this ticket.
    pub(super) fn is_open(&self, ticket: Ticket) -> bool {
        self.by_ticket.get(&ticket).is_some()
    }

    /// Removes and returns all requests.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Request> + use<> {
        std::mem::take(self).by_ticket.into_values()
    }
}
