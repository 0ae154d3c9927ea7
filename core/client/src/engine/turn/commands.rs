//! What callers ask for, as the session is asked.

use std::sync::Arc;

use leasehold_protocol::{AcquireRequest, Context, Error, ErrorKind, Instant, LeaseId, LeaseTerms, Operation, Ticket};

use super::{CLOSE_LIMIT, Closing, Engine};
use crate::engine::requests::Request;
use crate::port::{Checked, Command, Completion, Lease, Named, Sink, session_id};

/// What the session was asked for.
struct Asked {
    ticket: Ticket,
    name: Option<Arc<str>>,
    lease: Option<LeaseId>,
}

impl Engine {
    /// Does what a caller, or the host's end, wants.
    pub(super) fn obey(&mut self, command: Command, now: Instant) {
        match command {
            Command::Run { request, op, sink } => self.start(request, op, sink, now),
            Command::AwaitConnected(sink) => {
                if let Some((sink, result)) = self.connecting.ask(sink) {
                    self.outbox.answer(sink, result);
                }
            }
            Command::Cancel { request } => self.cancel(request, now),
            Command::Shutdown => self.close(now),
        }
    }

    /// Starts an operation.
    pub(super) fn start(&mut self, request: u64, op: Checked, sink: Sink, now: Instant) {
        let operation = op.operation();
        let asked = match op {
            Checked::Acquire(acquire) => self.acquire(acquire, now),
            Checked::AcquireAll(all) => self.acquire_all(all, now),
            Checked::Release(lease) => self.release(lease, now),
            Checked::ReleaseInnermost(lock, context) => self.release_innermost(&lock, context, now),
            Checked::Extend(lease, by) => Asked::of_lease(self.session.extend(lease, by, now), Some(lease)),
            Checked::Inspect(kind, name) => Asked::of_lock(self.session.inspect(kind, &name, now)),
            Checked::ForceRelease(kind, name) => Asked::of_lock(self.session.force_release(kind, &name, now)),
            Checked::SetLimit(permits, name) => Asked::of_lock(self.session.set_limit(permits, &name, now)),
            Checked::Held(lock, context) => {
                let held = self.held(&lock, context);
                return self.outbox.answer(sink, Ok(held));
            }
            Checked::Close => {
                self.close(now);
                if let Some(closing) = &mut self.closing {
                    closing.waiting.push(sink);
                }
                return;
            }
            Checked::Refused(error) => return self.outbox.answer(sink, Err(error)),
        };
        self.requests.add(
            asked.ticket,
            Request {
                id: request,
                operation,
                sink,
                name: asked.name,
                lease: asked.lease,
            },
        );
    }

    fn acquire(&mut self, acquire: AcquireRequest, now: Instant) -> Asked {
        self.note_length(acquire.lease);
        let name: Arc<str> = self.settings.without_prefix(acquire.name.as_str()).into();
        let kind = acquire.kind;
        let ticket = self.session.acquire(acquire, now);
        if let Some(observing) = &mut self.observing {
            observing.asked(ticket, Some(kind), &name, now);
        }
        Asked::to_acquire(ticket, name)
    }

    fn acquire_all(&mut self, all: Vec<AcquireRequest>, now: Instant) -> Asked {
        let names: Vec<&str> = all
            .iter()
            .map(|acquire| self.settings.without_prefix(acquire.name.as_str()))
            .collect();
        let name: Arc<str> = names.join(", ").into();
        all.iter().for_each(|acquire| self.note_length(acquire.lease));
        let ticket = self.session.acquire_all(all, now);
        if let Some(observing) = &mut self.observing {
            observing.asked(ticket, None, &name, now);
        }
        Asked::to_acquire(ticket, name)
    }

    /// What is to be renewed more often than the client's lease hurries the connections.
    fn note_length(&mut self, lease: LeaseTerms) {
        if let Some(length) = lease.length().filter(|_| lease.is_renewed()) {
            self.transport.set_shortest_lease(length.get());
        }
    }

    fn release(&mut self, lease: LeaseId, now: Instant) -> Asked {
        self.mark_released(lease);
        Asked::of_lease(self.session.release(lease, now), Some(lease))
    }

    fn release_innermost(&mut self, lock: &Named, context: Context, now: Instant) -> Asked {
        let lease = self.innermost(lock, context);
        if let Some(lease) = lease {
            self.mark_released(lease);
        }
        let ticket = match lock {
            Named::One(kind, name) => self.session.release_innermost(*kind, name, context, now),
            Named::All(locks) => self.session.release_innermost_of_all(locks, context, now),
        };
        Asked::of_lease(ticket, lease)
    }

    fn held(&self, lock: &Named, context: Context) -> Completion {
        let levels = match lock {
            Named::One(kind, name) => self.session.levels(*kind, name, context),
            Named::All(locks) => self.session.levels_of_all(locks, context),
        };
        let innermost = self.innermost(lock, context);
        let lease = innermost.and_then(|lease| self.leases.get(lease).cloned());
        Completion::Held { levels, lease }
    }

    /// What a context took last of a lock.
    fn innermost(&self, lock: &Named, context: Context) -> Option<LeaseId> {
        match lock {
            Named::One(kind, name) => self.session.innermost(*kind, name, context),
            Named::All(locks) => self.session.innermost_of_all(locks, context),
        }
    }

    /// From here on the holder must not rely on it, whatever the server says. One that was
    /// lost and forgotten a moment ago is lost, though that is not told yet.
    fn mark_released(&self, lease: LeaseId) {
        if self.session.has_lease(lease) {
            self.leases.mark_released(lease);
        }
    }

    fn cancel(&mut self, request: u64, now: Instant) {
        match self.requests.cancel(request) {
            Some((ticket, request)) => {
                self.session.cancel(ticket, now);
                if let Some(observing) = &mut self.observing {
                    observing.cancelled(ticket, now);
                }
                if let Some(lease) = request.and_then(|request| request.lease) {
                    self.leases.forget_released(lease);
                }
            }
            // Its event was queued while the caller went away.
            None => {
                if let Some(Ok(Completion::Granted(lease))) = self.port.take_event(request) {
                    self.discard(&lease, now);
                }
            }
        }
    }

    /// Releases a lease that nobody took.
    pub(super) fn discard(&mut self, lease: &Lease, now: Instant) {
        let id = LeaseId::from_u64(session_id(lease.id()));
        self.start(0, Checked::Release(id), Sink::Discard, now);
    }

    fn close(&mut self, now: Instant) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(Closing {
            until: now + CLOSE_LIMIT,
            waiting: Vec::new(),
        });
        self.session.close(now);
        self.tell_connected(Err(Error::new(
            ErrorKind::Closed,
            Operation::Connect,
            "the client was closed before it was connected",
        )));
    }
}

impl Asked {
    const fn of_lock(ticket: Ticket) -> Self {
        Self {
            ticket,
            name: None,
            lease: None,
        }
    }

    const fn to_acquire(ticket: Ticket, name: Arc<str>) -> Self {
        Self {
            ticket,
            name: Some(name),
            lease: None,
        }
    }

    const fn of_lease(ticket: Ticket, lease: Option<LeaseId>) -> Self {
        Self {
            ticket,
            name: None,
            lease,
        }
    }
}
