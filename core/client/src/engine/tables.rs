//! The tables of the engine. `Requests` has the requests without an answer, by the session's tickets. `Leases` has the
//! leases whose holders the engine keeps informed. `Arrivals` has the commands and events that the next turn handles,
//! and `Outbox` the results of a turn.
//!
//! `ShortLeases` knows the shortest auto-renewed lease among those with a length of their own. The transport gives up a
//! silent connection in time to renew that lease on a new connection.

use std::sync::{Arc, Weak};
use std::task::Context;
use std::time::Duration;

use steadlock_collections::{SortedMap, Table};
use steadlock_protocol::{Error, Instant, LeaseId, LeaseTerms, LostReason, Operation, Ticket};

#[cfg(feature = "native")]
use super::spin::CallerKind;
use crate::port::{Command, CommandReceiver, Completion, Event, Lease, Loss, Port, Sink, Slot};
use crate::transport::{Transport, TransportEvent};

/// The request behind a ticket.
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) operation: Operation,
    pub(super) sink: Sink,
    /// The name of the lock as the caller gave it, for a request that acquires one.
    pub(super) name: Option<Arc<str>>,
    /// The lease to release or extend, or the lease within which a re-entry happens.
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
    pub(super) fn cancel(&mut self, id: u64) -> Option<(Ticket, Request)> {
        let ticket = self.tickets.remove(&id)?;
        Some((ticket, self.by_ticket.remove(&ticket)?))
    }

    /// Returns the ids of the requests that wait for a lock.
    pub(super) fn ids_of_waiting(&self) -> Vec<u64> {
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

/// The leases that the session knows, and lost leases that it has forgotten. The session knows a lease that is held or
/// being released, and a lost auto-renewed lease until its release. It forgets a fixed lease that expired or was lost;
/// the object of that lease still knows how the lease ended.
#[derive(Default)]
pub(super) struct Leases {
    known: Table<LeaseId, Arc<Lease>>,
    /// Lost leases that the session has forgotten.
    forgotten: Table<LeaseId, Weak<Lease>>,
    /// The number of forgotten leases that the last sweep kept.
    kept_by_last_sweep: usize,
}

impl Leases {
    pub(super) fn add(&mut self, id: LeaseId, lease: Arc<Lease>) {
        self.known.insert(id, lease);
    }

    pub(super) fn get(&self, id: LeaseId) -> Option<&Arc<Lease>> {
        self.known.get(&id)
    }

    /// Returns the object of a lease that the session knows, or of a lost lease that it has forgotten. The second is
    /// there only while the program keeps it.
    pub(super) fn find(&self, id: LeaseId) -> Option<Arc<Lease>> {
        let forgotten = || self.forgotten.get(&id).and_then(Weak::upgrade);
        self.get(id).cloned().or_else(forgotten)
    }

    /// Removes a lease that the session no longer has. A lost lease can still be found, because a later release asks
    /// its object how the lease ended.
    pub(super) fn forget(&mut self, id: LeaseId) {
        let lost = self.known.remove(&id).filter(|lease| lease.lost_reason().is_some());
        if let Some(lease) = lost {
            self.remember(id, &lease);
        }
    }

    pub(super) fn renewed(&self, id: LeaseId, deadline: Instant) {
        if let Some(lease) = self.get(id) {
            lease.renewed(deadline);
        }
    }

    pub(super) fn mark_released(&self, id: LeaseId) {
        if let Some(lease) = self.get(id) {
            lease.mark_released();
        }
    }

    /// Marks a lease as lost. Returns the event for the host; `None` if the lease is unknown, or if a release of it is
    /// under way: the result of the release reports how the lease ended.
    pub(super) fn lose(&mut self, id: LeaseId, loss: Loss) -> Option<Event> {
        if self.is_released(id) {
            return None;
        }
        let lease = self.get(id).cloned()?;
        lease.mark_lost(loss);
        if loss.is_forgotten {
            self.forget(id);
        }
        Some(lost_event(&lease, loss))
    }

    /// For the close of the client: returns each lease that the program can still release, with the reason if the lease
    /// was lost. `None` stands for a lease that the close releases, or whose release is under way.
    pub(super) fn loss_reasons(&self) -> Vec<(LeaseId, Option<LostReason>)> {
        let known = self.known.iter().map(|(id, lease)| (id, lease.lost_reason()));
        let forgotten = self.forgotten.iter().filter_map(|(id, lease)| {
            let reason = lease.upgrade()?.lost_reason()?;
            Some((id, Some(reason)))
        });
        known.chain(forgotten).collect()
    }

    /// Marks all leases as lost, because the engine ends and they cannot be renewed or released any more. Returns an
    /// event for each lease that was still held.
    pub(super) fn lose_all(&mut self, reason: LostReason) -> Vec<Event> {
        let loss = Loss {
            reason,
            is_forgotten: true,
        };
        let leases = std::mem::take(&mut self.known).into_values();
        leases
            .filter(|lease| lease.mark_lost(loss))
            .map(|lease| lost_event(&lease, loss))
            .collect()
    }

    /// Adds a lost lease to the table of forgotten ones. When the table has about twice as many entries as the last
    /// sweep kept, a new sweep drops those whose objects the program no longer has.
    fn remember(&mut self, id: LeaseId, lease: &Arc<Lease>) {
        if self.forgotten.len() >= 2 * self.kept_by_last_sweep + 64 {
            self.forgotten.retain(|lease| lease.strong_count() > 0);
            self.kept_by_last_sweep = self.forgotten.len();
        }
        self.forgotten.insert(id, Arc::downgrade(lease));
    }

    /// Whether the release of this lease was requested before the lease was lost.
    pub(super) fn is_released(&self, id: LeaseId) -> bool {
        self.get(id).is_some_and(|lease| lease.is_released())
    }
}

fn lost_event(lease: &Lease, loss: Loss) -> Event {
    Event::Lost {
        lease: lease.id(),
        reason: loss.reason,
        is_forgotten: loss.is_forgotten,
    }
}

/// The interval between two clean-ups of `ShortLeases`. A clean-up looks at every entry.
const CLEAN_UP_INTERVAL: Duration = Duration::from_secs(1);

/// The auto-renewed leases that have a length of their own instead of the client's: those that are held, and those that
/// requests wait for.
#[derive(Default)]
pub(super) struct ShortLeases {
    requested: SortedMap<Ticket, Duration>,
    held: SortedMap<LeaseId, Duration>,
    shortest: Option<Duration>,
    /// The time of the next clean-up.
    due: Instant,
}

impl ShortLeases {
    /// Notes that a request waits for a lease on these terms.
    pub(super) fn add_request(&mut self, ticket: Ticket, terms: LeaseTerms) {
        let Some(length) = terms.length().filter(|_| terms.is_renewed()) else {
            return;
        };
        let length = length.get();
        // A composite lock notes one length for each member.
        let shortest = self.requested.get(&ticket).map_or(length, |known| length.min(*known));
        self.requested.insert(ticket, shortest);
        self.shortest = Some(self.shortest.map_or(shortest, |known| shortest.min(known)));
    }

    /// Notes that the request was granted this lease.
    pub(super) fn request_granted(&mut self, ticket: Ticket, lease: LeaseId) {
        if let Some(length) = self.requested.remove(&ticket) {
            self.held.insert(lease, length);
        }
    }

    /// Returns the length of the shortest of these leases. A lease that has ended, or whose request has ended, can
    /// still count for up to a second.
    pub(super) fn shortest(
        &mut self,
        now: Instant,
        is_open: impl Fn(Ticket) -> bool,
        is_held: impl Fn(LeaseId) -> bool,
    ) -> Option<Duration> {
        if self.shortest.is_some() && now >= self.due {
            self.due = now + CLEAN_UP_INTERVAL;
            self.requested.retain(|ticket, _| is_open(*ticket));
            self.held.retain(|lease, _| is_held(*lease));
            self.shortest = self.requested.values().chain(self.held.values()).min().copied();
        }
        self.shortest
    }
}

pub(super) struct Outbox {
    port: Arc<Port>,
    /// The next events for the host.
    events: Vec<Event>,
    /// Results for callers that wait on a slot of their own.
    answers: Vec<(Arc<Slot>, Result<Completion, Error>)>,
}

impl Outbox {
    pub(super) const fn new(port: Arc<Port>) -> Self {
        Self {
            port,
            events: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(super) fn answer(&mut self, sink: Sink, result: Result<Completion, Error>) {
        match sink {
            Sink::Queue(request) => self.events.push(Event::Completed { request, result }),
            Sink::Slot(slot) => self.answers.push((slot, result)),
            Sink::Discard => {}
        }
    }

    pub(super) fn add_events(&mut self, events: impl IntoIterator<Item = Event>) {
        self.events.extend(events);
    }

    /// Delivers everything, grants first: a granted lock stays idle until its new holder runs, while the result of a
    /// release can wait. Returns the leases whose callers went away after the grant.
    pub(super) fn deliver(&mut self) -> Vec<Arc<Lease>> {
        let is_late = |result: &Result<Completion, Error>| !matches!(result, Ok(Completion::Granted(_)));
        move_back(
            &mut self.events,
            |event| !matches!(event, Event::Completed { result, .. } if !is_late(result)),
        );
        self.port.publish(&mut self.events);
        move_back(&mut self.answers, |(_, result)| is_late(result));
        let mut unclaimed = Vec::new();
        for (slot, result) in self.answers.drain(..) {
            if let Err(Ok(Completion::Granted(lease))) = slot.complete(result) {
                unclaimed.push(lease);
            }
        }
        unclaimed
    }

    /// Delivers everything at the engine's end, in the order in which it arrived. A grant whose caller went away
    /// expires on the server.
    pub(super) fn deliver_last(&mut self) {
        self.port.publish(&mut self.events);
        for (slot, result) in self.answers.drain(..) {
            drop(slot.complete(result));
        }
    }
}

/// Moves the items for which `is_late` is true behind the others. Keeps the order otherwise.
fn move_back<T>(items: &mut Vec<T>, is_late: impl Fn(&T) -> bool) {
    if !items.is_sorted_by_key(&is_late) {
        let late: Vec<T> = items.extract_if(.., |item| is_late(item)).collect();
        items.extend(late);
    }
}

/// The largest number of commands in one turn. With larger bursts, callers, engine and server would take turns: each
/// would work on its own burst while the other two wait.
const BURST: usize = 16;

/// The input of one turn.
#[derive(Default)]
pub(super) struct Arrivals {
    pub(super) events: Vec<TransportEvent>,
    pub(super) commands: Vec<Command>,
}

/// The sources that one wait of the engine listens to.
pub(super) struct Sources<'a> {
    transport: &'a mut dyn Transport,
    commands: &'a CommandReceiver,
    due: Option<Instant>,
    arrivals: &'a mut Arrivals,
}

impl<'a> Sources<'a> {
    /// Creates the sources of one wait. `due` is the time at which the engine has work even if nothing arrives.
    pub(super) fn new(
        transport: &'a mut dyn Transport,
        commands: &'a CommandReceiver,
        due: Option<Instant>,
        arrivals: &'a mut Arrivals,
    ) -> Self {
        Self {
            transport,
            commands,
            due,
            arrivals,
        }
    }

    /// Collects the events that have arrived, and up to `BURST` commands. Returns whether there were any. If not, the
    /// task of `context` is woken at the next arrival.
    pub(super) fn take(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        self.transport.poll(context, now, &mut self.arrivals.events);
        let commands = self.commands.poll_many(context, &mut self.arrivals.commands, BURST);
        !self.arrivals.events.is_empty() || commands.is_ready()
    }

    /// Returns the kind of caller that sent the last command; `None` if no command arrived.
    #[cfg(feature = "native")]
    pub(super) fn caller_kind(&self) -> Option<CallerKind> {
        self.arrivals.commands.last().map(|command| match command {
            Command::Run {
                sink: Sink::Queue(_), ..
            } => CallerKind::EventLoop,
            _ => CallerKind::Threads,
        })
    }

    /// Returns the time at which the engine or the transport has work even if nothing arrives.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.due, self.transport.poll_timeout()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewed(seconds: u64) -> LeaseTerms {
        LeaseTerms::renewed(Duration::from_secs(seconds)).unwrap()
    }

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    #[test]
    fn the_shortest_lease_is_one_that_is_held_or_requested_now() {
        let mut short = ShortLeases::default();
        let ticket = Ticket::from_u64;
        let lease = LeaseId::from_u64;
        assert_eq!(short.shortest(at(0), |_| true, |_| true), None);
        short.add_request(ticket(1), renewed(9));
        short.add_request(ticket(2), renewed(3));
        assert_eq!(short.shortest(at(0), |_| true, |_| true), Some(Duration::from_secs(3)));
        short.request_granted(ticket(2), lease(7));
        short.add_request(ticket(3), renewed(2));
        let shortest = short.shortest(at(10), |_| true, |_| true);
        assert_eq!(shortest, Some(Duration::from_secs(2)), "it counts at once");
        // The last request was cancelled. It stops counting at the next clean-up, a second later.
        let only_first = |open: Ticket| open == ticket(1);
        assert_eq!(
            short.shortest(at(1_100), only_first, |_| true),
            Some(Duration::from_secs(3))
        );
        assert_eq!(
            short.shortest(at(2_200), only_first, |_| false),
            Some(Duration::from_secs(9))
        );
        assert_eq!(short.shortest(at(3_300), |_| false, |_| false), None);
    }
}
