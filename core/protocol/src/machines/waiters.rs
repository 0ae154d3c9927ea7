//! The waiters of a client: the callers that request a lock and do not re-enter it. This machine decides which of them
//! asks the server and when, and how each wait ends.
//!
//! This file has the effect of each input and the tables of all waiters. `request` has the state diagram of one
//! acquisition, and the errors of waits that end without the lock. `queue` is the local wait queue of a lock. It also
//! decides when other clients come first, and how often messages make the waiters ask. `answers` handles the server's
//! answers and ends waits. `outage` handles requests while the circuit breaker of their primary is open.

mod answers;
#[cfg(any(test, feature = "transitions"))]
mod drawing;
mod outage;
mod queue;
mod request;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::time::Duration;

use steadlock_collections::{SortedMap, Table};

pub(crate) use self::outage::refused_unasked;
use self::queue::{Place, Queue, Queues};
pub(crate) use self::request::CallerWait;
use self::request::{Arrival, KnownHolder, Request, is_single_attempt, others_first};
use super::holds::{Hold, Holds};
use crate::error::Cause;
use crate::ids::{Context, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Gate, Keys};
pub(crate) use crate::step::WaiterInput as Input;
use crate::step::{FairInput, Step, Wanted};
use crate::timers::Timer;
use crate::transitions;
use crate::types::Outcome;
use crate::wording::cut_off;

/// The pause after a client's turn (`queue::Turn`), in which other clients can acquire the lock.
const TURN_PAUSE: RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_millis(5);
/// The pause after an attempt that failed. The client does not know then whether the lock is held.
const FAILURE_PAUSE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_millis(200);
/// The longest time between two attempts of a waiting writer. A refusal renews the writer's mark on the server, which
/// can hold back new readers and expires after 2 s.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(1);

impl Waiters {
    /// Handles an input. `holds` has the holds of this client.
    pub(crate) fn input(&mut self, io: &mut Io, holds: &Holds, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Wanted(wanted) => self.arrive(io, holds, wanted, now),
            Input::Answered { ticket, ttl, attempt } => self.answered(io, holds, ticket, ttl, attempt, now),
            Input::Overdue(ticket, call) => self.overdue(io, holds, ticket, call, now),
            Input::Woken(ticket) => self.with(ticket, |request| request.wake(io, ticket, now)),
            Input::WaitOver(ticket) => self.wait_over(io, holds, ticket, now),
            Input::Silence(ticket) => self.silence(io, ticket, now),
            Input::Cancelled(ticket) => self.remove(io, ticket),
            Input::Refused(refused) => self.refused(io, holds, refused, now),
            Input::Sleep { ticket, remaining } => self.sleep(io, ticket, remaining, now),
            Input::Ask(ticket) => self.with(ticket, |request| request.attempt(io, ticket, now)),
            Input::AnswerMayBeStale(ticket) => self.with(ticket, Request::mark_stale),
            Input::Advance(lock) => self.advance(io, lock, now),
            Input::Held(lock, hold) => {
                self.with_queue(lock, |queue| queue.held_by(hold));
                self.end_due_waits(io, holds, lock, now);
            }
            Input::Freed(lock, hold) => {
                self.with_queue(lock, |queue| queue.freed_by(hold, now));
                self.advance(io, lock, now);
            }
            Input::MayBeFree(lock) => {
                self.wake_first(io, lock, now);
                io.step(Step::Fair(FairInput::PollSoon(lock)));
            }
            Input::ReleaseMessage(lock) => self.release_message(io, lock, now),
            Input::Published { lock, others } => self.with_queue(lock, |queue| queue.note_listeners(others)),
            Input::Connected(node) => self.connected(io, node, now),
            Input::Disconnected(node, cause) => self.forget_answers(node, &cause, now),
            Input::Outage(primary) => self.outage(io, primary, now),
            Input::OutageOver(primary) => self.outage_over(io, primary),
            Input::Forget(lock) => self.queues.remove(lock),
            Input::Polled { poll, waiters } => self.with_all(&waiters, |request| request.polled(poll)),
            Input::PollAnswered { poll, waiters } => self.with_all(&waiters, |request| request.resolved(poll)),
            Input::PollFailed { lock, waiters, failure } => self.poll_failed(io, lock, &waiters, &failure, now),
            Input::HolderSeen(lock, holder) => {
                self.with_queue(lock, |queue| queue.answered(now));
                self.note_held(io, lock, holder, now);
                self.end_due_waits(io, holds, lock, now);
            }
            Input::GrantedInQueue(ticket, granted) => self.grant(io, ticket, granted, now),
            Input::AskAgain(ticket) => self.with(ticket, |request| {
                if request.is_asking() {
                    request.mark_stale();
                } else {
                    // If the server's grant to this waiter has not expired, the answer to the attempt repeats it, with
                    // the full lease and, if the waiter wants one, a token.
                    request.attempt(io, ticket, now);
                }
            }),
        }
        transitions::after(self, io, &before);
    }

    fn arrive(&mut self, io: &mut Io, holds: &Holds, wanted: Wanted, now: Instant) {
        io.note_lock(&wanted.keys);
        if let Some(outcome) = outage::refusal(io, &wanted.keys, wanted.request.on_unavailable, now) {
            io.complete(wanted.ticket, outcome);
            return;
        }
        let lock = self.queues.open(&wanted.keys);
        let place = self.place(io, holds, lock, &wanted);
        let Wanted {
            ticket,
            request,
            keys,
            inside,
            plan,
        } = wanted;
        let is_behind_others = is_single_attempt(&request) && self.comes_after_others(lock, place);
        if is_behind_others && let Some(outcome) = self.refusal_behind_others(io, holds, lock, request.context, now) {
            io.complete(ticket, outcome);
            return;
        }
        let Some(queue) = self.queue_mut(lock) else { return };
        queue.enter(ticket, place);
        if is_behind_others && place == Place::Queue {
            queue.end_with_first_answer(ticket);
        }
        let owner = io.owner_id();
        match request.wait {
            Some(wait) if wait.is_zero() => io.set(Timer::Wait(ticket), io.timeout(now)),
            Some(wait) => io.set(Timer::Wait(ticket), now + wait),
            None => io.set(Timer::Silence(ticket), now + io.silence_timeout()),
        }
        let arrival = Arrival {
            lock,
            place,
            keys,
            inside,
            plan,
            owner,
        };
        let request = Request::new(arrival, &request, now);
        if place == Place::Server {
            io.step(Step::Fair(FairInput::WillJoin {
                lock,
                ticket,
                entry: request.queue_entry(),
            }));
        }
        self.admit(ticket, request);
        match place {
            Place::Queue => self.advance(io, lock, now),
            Place::Server | Place::Alone => self.with(ticket, |request| request.attempt(io, ticket, now)),
        }
    }

    /// Returns the place for a new request.
    ///
    /// A read inside a write waits for no other caller, because the caller is the writer. A single attempt for a lock
    /// that can have several holders waits for none either: the attempt may succeed although other callers of this
    /// client wait, and only the server knows whether it does. A request for a run of a job never waits at all.
    fn place(&self, io: &Io, holds: &Holds, lock: LockId, wanted: &Wanted) -> Place {
        let kind = wanted.keys.kind;
        // While a caller of this client has a degraded lease of the lock, all waiters queue in this client, even those
        // that would otherwise queue on the server.
        let is_degraded = self.holder(holds, lock).is_some_and(Hold::is_local);
        let is_shared_attempt = is_single_attempt(&wanted.request) && !kind.is_exclusive() || kind.never_waits();
        if is_degraded || io.outage(&wanted.keys).is_some() {
            Place::Queue
        } else if kind.queues_on_server() {
            Place::Server
        } else if wanted.inside.is_some() || is_shared_attempt {
            Place::Alone
        } else {
            Place::Queue
        }
    }

    /// Returns the outcome of a single attempt that is not first in this client. Returns `None` if no caller here holds
    /// the lock and the client is still connecting. No waiter could ask yet then, so the attempt waits for the answer
    /// to the first waiter.
    fn refusal_behind_others(
        &self,
        io: &Io,
        holds: &Holds,
        lock: LockId,
        context: Option<Context>,
        now: Instant,
    ) -> Option<Outcome> {
        let queue = self.queue(lock)?;
        let local = self.local_holder(holds, lock, context, now);
        let is_too_early = local.is_none() && io.is_connecting(queue.node());
        (!is_too_early).then(|| others_first(queue, local, io))
    }

    /// Lets the first waiter of a local queue ask the server, after a pause if other clients come first. Does nothing
    /// while a caller of this client holds the lock. In an outage, the waiter is granted a degraded lease or refused.
    fn advance(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let Some((queue, first)) = self.queue_and_first(lock) else {
            return;
        };
        let Some((ticket, request)) = first else {
            io.step(Step::ForgetIfUnused(lock));
            return;
        };
        if io.outage(request.keys()).is_some() {
            if let Some(outcome) = outage::refusal(io, request.keys(), request.on_unavailable(), now) {
                // The slot of the lock has moved to a primary whose circuit breaker is open.
                io.complete(ticket, outcome);
                self.remove(io, ticket);
            } else if !queue.is_held_twice() {
                self.grant_locally(io, ticket, now);
            }
        } else if request.keys().kind.queues_on_server() {
            self.go_to_server(io, lock, now);
        } else if request.is_sleeping() && io.due(Timer::Wake(ticket)).is_none() {
            // This waiter sleeps without a timer, until a connection opens. A connection that opened while a caller of
            // this client held the lock woke no waiter, so the waiter asks now.
            request.attempt_after_gap(io, ticket, now);
        } else if request.is_queued() {
            if queue.passes_on(now) {
                request.pause();
                let pause = io.random_between(TURN_PAUSE);
                io.set(Timer::Wake(ticket), now + pause);
            } else {
                request.attempt(io, ticket, now);
            }
        }
    }

    /// Lets the first waiter of a local queue ask again, because the lock may be free.
    fn wake_first(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let Some((_, Some((ticket, request)))) = self.queue_and_first(lock) else {
            return;
        };
        if request.is_asking() {
            request.mark_stale();
        } else if request.is_sleeping() {
            request.attempt_after_gap(io, ticket, now);
        }
    }

    /// Handles a message that the lock may be free. The waiters ask the server; if messages have made them ask too
    /// often without success, they ask later.
    fn release_message(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let poll = *io.config().retry_interval.start();
        let Some(queue) = self.queue_mut(lock).filter(|queue| queue.has_waiter_to_ask()) else {
            return;
        };
        if let Err(earliest) = queue.message(poll, now) {
            // The timer delivers the message again when the waiters may ask.
            io.set(Timer::DelayedMessage(lock), earliest);
            return;
        }
        // Until a fair waiter is known to be in the server's queue, the answer to its attempt may be stale.
        let on_server: Vec<Ticket> = queue.on_server().collect();
        self.with_all(&on_server, |request| {
            if request.is_asking() && !request.is_in_server_queue() {
                request.mark_stale();
            }
        });
        io.step(Step::Waiter(Input::MayBeFree(lock)));
    }

    /// Handles that a node is connected: sends attempts for the sleeping waiters that ask for themselves. For the first
    /// waiter of each local queue, the router (`Locks::lanes_opened`) adds `MayBeFree`.
    fn connected(&mut self, io: &mut Io, node: NodeId, now: Instant) {
        let is_due = |request: &Request| request.asks_itself() && request.node() == node && request.is_sleeping();
        for (ticket, request) in self.requests.iter_mut().filter(|(_, request)| is_due(request)) {
            request.attempt_after_gap(io, ticket, now);
        }
    }

    /// Forgets the holders that a server has named, because the connection to it has closed. The server may have been
    /// demoted, and the next connection may lead to another server.
    fn forget_answers(&mut self, node: NodeId, cause: &Cause, now: Instant) {
        let cause = cut_off(cause);
        for queue in self.queues.iter_mut() {
            if queue.node() == node && queue.last_holder().is_some() {
                queue.note_failure(cause.clone(), now);
            }
        }
    }
}

/// The waiters of a client, and their queues.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queues: Queues,
    requests: Table<Ticket, Request>,
    /// The number of requests of each context, which stands for the thread or task of a caller.
    by_caller: SortedMap<Context, usize>,
}

impl Waiters {
    /// Returns the lock with these keys, if it is known here.
    pub(crate) fn find(&self, keys: &Keys) -> Option<LockId> {
        self.queues.find(keys, keys.kind.gate())
    }

    /// Returns the lock at this gate of the record of these keys. The gate need not be that of their kind: a read lock
    /// and a write lock are two gates of one record.
    pub(crate) fn find_at(&self, keys: &Keys, gate: Gate) -> Option<LockId> {
        self.queues.find(keys, gate)
    }

    /// Returns all known locks, oldest first.
    pub(crate) fn locks(&self) -> Vec<LockId> {
        self.queues.ids()
    }

    /// Whether the lock is known, no caller of this client requests it, and no hold here blocks the waiters.
    pub(crate) fn is_unused(&self, lock: LockId) -> bool {
        self.queues.get(lock).is_some_and(Queue::is_unused)
    }

    /// Whether other clients listened to the last message about a release of the lock.
    pub(crate) fn is_shared(&self, lock: LockId) -> bool {
        self.queues.get(lock).is_some_and(Queue::is_shared)
    }

    /// Returns the tickets of all waiters, oldest first.
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.requests.keys()
    }

    /// Whether this caller waits for any lock.
    pub(crate) fn has_waits_of(&self, context: Context) -> bool {
        self.by_caller.contains_key(&context)
    }

    /// Returns all waits of this caller, oldest first. Slow: it looks at every waiter of the client.
    pub(crate) fn of_caller(&self, context: Context) -> Vec<CallerWait> {
        let tickets = self.requests.keys().into_iter();
        let wait = |ticket| {
            let request = self.requests.get(&ticket)?;
            (request.context() == Some(context)).then(|| CallerWait::of(ticket, request))
        };
        tickets.filter_map(wait).collect()
    }

    /// Returns the number of entries in all tables.
    pub(crate) fn len(&self) -> usize {
        let requests = self.requests.len().saturating_add(self.by_caller.len());
        self.queues.len().saturating_add(requests)
    }

    fn request(&self, ticket: Ticket) -> Option<&Request> {
        self.requests.get(&ticket)
    }

    fn request_mut(&mut self, ticket: Ticket) -> Option<&mut Request> {
        self.requests.get_mut(&ticket)
    }

    fn queue(&self, lock: LockId) -> Option<&Queue> {
        self.queues.get(lock)
    }

    fn queue_mut(&mut self, lock: LockId) -> Option<&mut Queue> {
        self.queues.get_mut(lock)
    }

    /// Returns a queue and its first request, unless the lock is held here.
    fn queue_and_first(&mut self, lock: LockId) -> Option<(&mut Queue, Option<(Ticket, &mut Request)>)> {
        let queue = self.queues.get_mut(lock).filter(|queue| queue.holding().is_none())?;
        let first = queue.first();
        let first = first.and_then(|ticket| Some((ticket, self.requests.get_mut(&ticket)?)));
        Some((queue, first))
    }

    fn admit(&mut self, ticket: Ticket, request: Request) {
        if let Some(context) = request.context() {
            let count = self.by_caller.get_or_insert_with(context, || 0);
            *count = count.saturating_add(1);
        }
        self.requests.insert(ticket, request);
    }

    fn take(&mut self, ticket: Ticket) -> Option<Request> {
        let request = self.requests.remove(&ticket)?;
        if let Some(context) = request.context()
            && let Some(count) = self.by_caller.get_mut(&context)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_caller.remove(&context);
            }
        }
        Some(request)
    }

    fn with(&mut self, ticket: Ticket, change: impl FnOnce(&mut Request)) {
        if let Some(request) = self.requests.get_mut(&ticket) {
            change(request);
        }
    }

    fn with_all(&mut self, tickets: &[Ticket], change: impl Fn(&mut Request)) {
        for ticket in tickets {
            self.with(*ticket, &change);
        }
    }

    fn with_queue(&mut self, lock: LockId, change: impl FnOnce(&mut Queue)) {
        if let Some(queue) = self.queues.get_mut(lock) {
            change(queue);
        }
    }

    /// Whether other callers of this client come before a single attempt at this place.
    fn comes_after_others(&self, lock: LockId, place: Place) -> bool {
        let Some(queue) = self.queues.get(lock) else {
            return false;
        };
        match place {
            Place::Queue | Place::Server => !queue.is_idle(),
            // Small requests for permits must not overtake a large one that waits. Readers need no such rule.
            Place::Alone => {
                let first = queue.first().and_then(|first| self.requests.get(&first));
                queue.counts_permits() && first.is_some_and(Request::was_refused)
            }
        }
    }

    /// Returns the holder in this client, for the error of a caller with this context. `None` for a run, because only
    /// the server knows since when it goes on.
    fn local_holder(&self, holds: &Holds, lock: LockId, context: Option<Context>, now: Instant) -> Option<KnownHolder> {
        let hold = self
            .holder(holds, lock)
            .filter(|hold| !hold.keys().kind.never_waits())?;
        Some(KnownHolder {
            holder: hold.as_holder(now),
            is_the_caller: context.is_some() && hold.context() == context,
        })
    }

    /// Returns the hold of this client that blocks the waiters.
    fn holder<'a>(&self, holds: &'a Holds, lock: LockId) -> Option<&'a Hold> {
        holds.get(self.queues.get(lock)?.holding()?)
    }
}
