//! The waiters for a primary whose circuit breaker is open: they fail, are skipped, or wait for a degraded lease, which
//! the client grants without the server.
//!
//! The waiters for a degraded lease use the local queue, even for a lock whose waiters otherwise queue on the server.
//! A degraded lease therefore waits until no caller of this client holds the lock. Once the primary serves again, the
//! waiters ask it.

use super::Waiters;
use super::queue::{Place, Queue};
use super::request::{Renounced, Request};
use crate::breakers::Outage;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{LockId, Primary, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Keys;
use crate::name::LockName;
use crate::skip::Skip;
use crate::step::{FairInput, GrantKind, Granted, Step, WaiterInput};
use crate::timers::Timer;
use crate::types::{OnUnavailable, Outcome};

/// Returns the outcome of a request that is refused at once. Returns `None` if the primary serves, or if the request
/// can be granted a degraded lease.
pub(super) fn refusal(io: &Io, keys: &Keys, policy: OnUnavailable, now: Instant) -> Option<Outcome> {
    let outage = io.outage(keys)?;
    let is_granted = policy == OnUnavailable::Local && is_granted_locally(keys);
    let kind = match keys.kind.never_waits() {
        true if policy == OnUnavailable::Skip => ErrorKind::Skipped,
        _ => ErrorKind::Unavailable,
    };
    (!is_granted).then(|| refused_unasked(outage, kind, &keys.name, policy, now))
}

/// Returns the outcome of a request that is refused with no server call.
pub(crate) fn refused_unasked(
    outage: &Outage,
    kind: ErrorKind,
    name: &LockName,
    policy: OnUnavailable,
    now: Instant,
) -> Outcome {
    let error = |what: &str| {
        let error = Error::new(kind, Operation::Acquire, what);
        error.with_cause(outage.refusal_cause(now)).with_lock(name.as_str())
    };
    match policy {
        OnUnavailable::Skip => Outcome::NotGranted(error("skipped").with_skip(Skip::unavailable())),
        OnUnavailable::Fail | OnUnavailable::Local => Outcome::Failed(error("not attempted")),
    }
}

/// Whether this kind of lock has degraded leases. A lock that can have several holders, or that has two sides, has
/// none, because only the server knows all its holders. A job has none, because two clients would both run it.
fn is_granted_locally(keys: &Keys) -> bool {
    let spec = keys.kind.spec();
    keys.kind.is_exclusive() && spec.gates_around().count() == 1 && !keys.kind.never_waits()
}

impl Waiters {
    /// Handles that the circuit breaker of a primary has opened.
    pub(super) fn outage(&mut self, io: &mut Io, primary: Primary, now: Instant) {
        for ticket in self.waiting_for(io, primary) {
            let Some(request) = self.request(ticket) else { continue };
            io.note_lock(request.keys());
            match refusal(io, request.keys(), request.on_unavailable(), now) {
                Some(outcome) => {
                    io.complete(ticket, outcome);
                    self.remove(io, ticket);
                }
                None => self.wait_here(io, ticket),
            }
        }
    }

    /// Handles that a primary serves again. For each lock that no caller here holds any more, the first waiter asks the
    /// primary; for a fair lock, every waiter asks.
    pub(super) fn outage_over(&mut self, io: &mut Io, primary: Primary) {
        for ticket in self.waiting_for(io, primary) {
            if let Some(request) = self.request(ticket) {
                io.step(Step::Waiter(WaiterInput::Advance(request.lock())));
            }
        }
    }

    /// Moves the waiters of a fair lock from the local queue to the server's queue. Waiters of other kinds in the same
    /// local queue stay there.
    pub(super) fn go_to_server(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let local = self.queue(lock).map(Queue::local).unwrap_or_default();
        for ticket in local {
            let request = self.request(ticket);
            let Some(request) = request.filter(|request| request.keys().kind.queues_on_server()) else {
                continue;
            };
            let entry = request.queue_entry();
            self.move_to(ticket, Place::Server);
            io.step(Step::Fair(FairInput::WillJoin { lock, ticket, entry }));
            self.with(ticket, |request| request.attempt(io, ticket, now));
        }
        io.step(Step::Waiter(WaiterInput::Advance(lock)));
    }

    /// Returns the tickets of the waiters for the locks of a primary, oldest first.
    fn waiting_for(&self, io: &Io, primary: Primary) -> Vec<Ticket> {
        let is_its = |request: &Request| io.primary(request.keys()) == primary;
        let mut tickets = self.tickets();
        tickets.retain(|ticket| self.request(*ticket).is_some_and(is_its));
        tickets
    }

    /// Moves a waiter to the local queue. A compensating release is owed for its unresolved attempts.
    fn wait_here(&mut self, io: &mut Io, ticket: Ticket) {
        io.stop(Timer::Wake(ticket));
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if let Some(owed) = request.renounce(io, Renounced::Attempts) {
            io.step(Step::Owes(owed));
        }
        request.queue();
        let lock = request.lock();
        if self.move_to(ticket, Place::Queue) {
            io.step(Step::Fair(FairInput::Left(lock, ticket)));
        }
        io.step(Step::Waiter(WaiterInput::Advance(lock)));
    }

    /// Moves a waiter to another place. Returns whether its place was `Place::Server` before.
    fn move_to(&mut self, ticket: Ticket, place: Place) -> bool {
        let Some(request) = self.request_mut(ticket) else {
            return false;
        };
        let (lock, before) = (request.lock(), request.place());
        request.set_place(place);
        if before == place {
            return false;
        }
        let mut was_on_server = false;
        self.with_queue(lock, |queue| {
            was_on_server = queue.leave(ticket);
            queue.enter(ticket, place);
        });
        was_on_server
    }

    /// Grants a degraded lease to the first waiter of the local queue.
    pub(super) fn grant_locally(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if let Some(owed) = request.renounce(io, Renounced::Attempts) {
            io.step(Step::Owes(owed));
        }
        let granted = Granted {
            token: None,
            sent: now,
            ttl: request.plan().length,
            kind: GrantKind::Degraded,
        };
        self.grant(io, ticket, granted, now);
    }
}
