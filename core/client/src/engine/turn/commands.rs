//! Passes the requests of callers to the session.

use steadlock_protocol::{
    AcquireRequest, Context, Error, ErrorKind, Instant, LeaseId, LeaseTerms, Operation, Subject, Ticket,
};

use super::closing::Closing;
use super::{CLOSE_LIMIT, Engine};
use crate::engine::requests::Request;
use crate::port::{Checked, Command, Completion, Endings, Lease, Sink, session_id};

impl Engine {
    /// Executes a command of a caller or of the host.
    pub(super) fn obey(&mut self, command: Command, now: Instant) {
        match command {
            Command::Run { request, op, sink } => self.start(request, op, sink, now),
            Command::AwaitConnected(sink) => {
                if let Some((sink, result)) = self.connecting.ask(sink) {
                    self.outbox.answer(sink, result);
                }
            }
            Command::Cancel { request } => self.cancel(request, now),
            Command::EndWaits(sink) => {
                for request in self.requests.waits() {
                    self.cancel(request, now);
                }
                self.settling.push(sink);
            }
            Command::Shutdown => self.close(now),
        }
    }

    pub(super) fn start(&mut self, request: u64, op: Checked, sink: Sink, now: Instant) {
        if let (Checked::Release(lease), Some(closing)) = (&op, &mut self.closing)
            && closing.is_owed(*lease)
        {
            return closing.is_released_meanwhile(sink, *lease);
        }
        let operation = op.operation();
        let kind = match &op {
            Checked::Acquire(acquire) => Some(acquire.kind),
            _ => None,
        };
        let mut asked = Request {
            id: request,
            operation,
            sink,
            name: None,
            lease: None,
        };
        let ticket = match op {
            Checked::Acquire(acquire) => self.acquire(acquire, &mut asked, now),
            Checked::AcquireAll(all) => self.acquire_all(all, &mut asked, now),
            Checked::Release(lease) => self.release(lease, &mut asked, now),
            Checked::ReleaseInnermost(lock, context) => self.release_innermost(&lock, context, &mut asked, now),
            Checked::Extend(lease, by) => {
                asked.lease = Some(lease);
                self.session.extend(lease, by, now)
            }
            Checked::Inspect(kind, name) => self.session.inspect(kind, &name, now),
            Checked::ForceRelease(kind, name) => self.session.force_release(kind, &name, now),
            Checked::SetLimit(permits, name) => self.session.set_limit(permits, &name, now),
            Checked::Held(lock, context) => {
                let held = self.held(&lock, context);
                return self.outbox.answer(asked.sink, Ok(held));
            }
            Checked::Close => {
                self.close(now);
                if let Some(closing) = &mut self.closing {
                    closing.is_awaited(asked.sink);
                }
                return;
            }
            Checked::Refused(error) => return self.outbox.answer(asked.sink, Err(error)),
        };
        // Only a request that waits for a lock has a name at this point.
        if let (Some(observing), Some(name)) = (&mut self.observing, &asked.name) {
            observing.asked(ticket, kind, name, now);
        }
        self.requests.add(ticket, asked);
    }

    fn acquire(&mut self, acquire: AcquireRequest, asked: &mut Request, now: Instant) -> Ticket {
        asked.name = Some(self.settings.given_name(&acquire.name));
        asked.lease = acquire.within;
        let terms = acquire.lease;
        let ticket = self.session.acquire(acquire, now);
        self.short_leases.asked(ticket, terms);
        ticket
    }

    fn acquire_all(&mut self, all: Vec<AcquireRequest>, asked: &mut Request, now: Instant) -> Ticket {
        let names: Vec<&str> = all
            .iter()
            .map(|acquire| self.settings.without_prefix(acquire.name.as_str()))
            .collect();
        asked.name = Some(names.join(", ").into());
        asked.lease = all.first().and_then(|acquire| acquire.within);
        let terms: Vec<LeaseTerms> = all.iter().map(|acquire| acquire.lease).collect();
        let ticket = self.session.acquire_all(all, now);
        for terms in terms {
            self.short_leases.asked(ticket, terms);
        }
        ticket
    }

    fn release(&mut self, lease: LeaseId, asked: &mut Request, now: Instant) -> Ticket {
        self.mark_released(lease);
        asked.lease = Some(lease);
        self.session.release(lease, now)
    }

    fn release_innermost(&mut self, lock: &Subject, context: Context, asked: &mut Request, now: Instant) -> Ticket {
        asked.lease = self.session.innermost(lock, context);
        if let Some(lease) = asked.lease {
            self.mark_released(lease);
        }
        self.session.release_innermost(lock, context, now)
    }

    fn held(&self, lock: &Subject, context: Context) -> Completion {
        let innermost = self.session.innermost(lock, context);
        Completion::Held {
            levels: self.session.levels(lock, context),
            lease: innermost.and_then(|lease| self.leases.get(lease).cloned()),
        }
    }

    /// Marks a lease as released: its holder must not rely on it from now on, whatever the server replies. A lease that
    /// the session has just lost and forgotten stays lost, even if that loss is not reported yet.
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
                let release = request.filter(|request| request.operation == Operation::Release);
                if let Some(lease) = release.and_then(|request| request.lease) {
                    if let Some(observing) = &mut self.observing {
                        observing.releases_on(ticket, lease);
                    }
                    // The session answers the release of a lost lease at once, and does not have the lease any more.
                    if self.leases.is_released(lease) || !self.session.has_lease(lease) {
                        self.leases.forget(lease);
                    }
                }
            }
            // The request was answered before its caller went away: the result is still in the queue.
            None => {
                if let Some(Ok(Completion::Granted(lease))) = self.port.take_event(request) {
                    self.discard(&lease, now);
                }
            }
        }
    }

    /// Releases a lease whose grant no caller received.
    pub(super) fn discard(&mut self, lease: &Lease, now: Instant) {
        let id = LeaseId::from_u64(session_id(lease.id()));
        self.start(0, Checked::Release(id), Sink::Discard, now);
    }

    fn close(&mut self, now: Instant) {
        if self.closing.is_some() {
            return;
        }
        let mut closing = Closing::new(now + CLOSE_LIMIT, Endings::new(self.leases.endings()));
        for (ticket, leases) in self.session.close_telling(now) {
            closing.releases(ticket, leases);
        }
        self.closing = Some(closing);
        self.queues = None;
        self.tell_connected(Err(Error::new(
            ErrorKind::Closed,
            Operation::Connect,
            "the client was closed before it was connected",
        )));
    }
}
