//! The callers of a client that wait for locks: who asks the server, when, and what each is told.
//!
//! `request` draws one of them, `queue` is the local queue that they stand in, `refusal` says
//! how a wait ends without the lock, and `wakes` how often messages make them ask.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
mod input;
mod queue;
mod refusal;
mod request;
#[cfg(test)]
mod tests;
mod verdict;
mod wakes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::input::{Answered, Input, Wanted};
use self::queue::{Place, Queue, Queues};
use self::refusal::{Wait, no_answer, others_first};
use self::request::{Arrival, Request, tries_once};
use self::verdict::Verdict;
use super::holds::Holds;
use crate::defects::Defect;
use crate::error::{ErrorKind, Holder};
use crate::ids::{CallId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Gate, Keys};
use crate::owner::OwnerId;
use crate::periods::{FIRST_ANSWER_GRACE, MIN_GAP};
use crate::reply::{CallError, Refusal};
use crate::step::{Granted, Step};
use crate::timers::Timer;
use crate::transitions;
use crate::types::{Event, Outcome};
use crate::wording::{explain, in_words};

/// The pause of a client whose turn is over.
const TURN_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));
/// The pause after an answer that did not say who holds the lock.
const FAILURE_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(200));
/// A waiting writer's mark ends after 2 s.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(1);

/// The waiters of a client, and their queues.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queues: Queues,
    requests: BTreeMap<Ticket, Request>,
}

impl Waiters {
    /// `holds` tells who of this client holds a lock.
    pub(crate) fn input(&mut self, io: &mut Io, holds: &Holds, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Wanted(wanted) => self.arrive(io, holds, wanted, now),
            Input::Answered(attempt) => self.answered(io, holds, attempt, now),
            Input::Overdue(ticket, call) => self.overdue(io, holds, (ticket, call), now),
            Input::Woken(ticket) => self.with(ticket, |request| request.wake(io, ticket, now)),
            Input::WaitOver(ticket) => self.wait_over(io, holds, ticket, now),
            Input::Silence(ticket) => self.silence(io, ticket, now),
            Input::Cancelled(ticket) => self.remove(io, ticket),
            Input::Refused(ticket, remaining, is_nobodys) => {
                self.refused(io, holds, (ticket, remaining, is_nobodys), now);
            }
            Input::Sleep(ticket, remaining) => self.sleep(io, ticket, remaining, now),
            Input::Ask(ticket) => self.with(ticket, |request| request.attempt(io, ticket, now)),
            Input::MissedNews(ticket) => self.with(ticket, Request::ask_again),
            Input::Advance(lock) => self.advance(io, lock, now),
            Input::Held(lock, hold) => self.with_queue(lock, |queue| queue.held_by(hold)),
            Input::Freed(lock, hold) => {
                self.with_queue(lock, |queue| queue.freed_by(hold, now));
                self.advance(io, lock, now);
            }
            Input::MayBeFree(lock) => {
                self.wake_first(io, lock, now);
                io.step(Step::PollSoon(lock));
            }
            Input::Heard(lock) => self.heard(io, lock, now),
            Input::Published(lock, others) => self.with_queue(lock, |queue| queue.heard_by(others)),
            Input::Connected(node) => self.ask_after_outage(io, node, now),
            Input::Disconnected(node, cause) => self.forget_answers(node, &cause, now),
            Input::Forget(lock) => self.queues.remove(lock),
            Input::Polled(call, tickets) => self.with_all(&tickets, |request| request.polled(call)),
            Input::PollAnswered(call, was_cut, tickets) => self.with_all(&tickets, |request| {
                request.resolved(call, was_cut);
            }),
            Input::PollFailed(lock, tickets, failure) => self.poll_failed(io, lock, &tickets, &failure, now),
            Input::HolderSeen(lock, owner, remaining, sent) => {
                self.with_queue(lock, |queue| queue.answered(now));
                self.note_held(io, lock, owner, (remaining, sent), now);
            }
            Input::GrantedUnasked(ticket, granted) => self.grant(io, ticket, granted, now),
            Input::AskAgain(ticket) => self.with(ticket, |request| {
                if request.is_trying() {
                    request.ask_again();
                } else {
                    // It keeps the hold, and gets the whole lease and a token.
                    request.attempt(io, ticket, now);
                }
            }),
        }
        transitions::after(self, io, &before);
    }

    /// The lock of these keys, if anybody here knows it.
    pub(crate) fn find(&self, keys: &Keys) -> Option<LockId> {
        self.queues.find(keys, keys.kind.gate())
    }

    /// The same at another gate of its record.
    pub(crate) fn find_at(&self, keys: &Keys, gate: Gate) -> Option<LockId> {
        self.queues.find(keys, gate)
    }

    /// All locks that are known, oldest first.
    pub(crate) fn locks(&self) -> Vec<LockId> {
        self.queues.ids()
    }

    /// Whether nobody here asks, waits or holds; `None` if the lock is not known.
    pub(crate) fn is_unused(&self, lock: LockId) -> Option<bool> {
        self.queues.get(lock).map(Queue::is_unused)
    }

    /// Whether others wait for it elsewhere.
    pub(crate) fn is_shared(&self, lock: LockId) -> bool {
        self.queues.get(lock).is_some_and(Queue::is_shared)
    }

    /// Whether a ticket is that of a waiter.
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.requests.contains_key(&ticket)
    }

    /// The tickets of all waiters, oldest first.
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.requests.keys().copied().collect()
    }

    /// How many entries it keeps.
    pub(crate) fn len(&self) -> usize {
        self.queues.len().saturating_add(self.requests.len())
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

    fn arrive(&mut self, io: &mut Io, holds: &Holds, wanted: Wanted, now: Instant) {
        let Wanted {
            ticket,
            request,
            keys,
            inside,
            plan,
        } = wanted;
        let lock = self.queues.open(&keys);
        let once = tries_once(&request);
        let asks_alone = once && !io.has(Defect::SharedTryStandsInLine);
        let place = Place::of(keys.kind, asks_alone, inside.is_some());
        if once && self.comes_after_others(lock, place) {
            let local = self.local_holder(holds, lock, now);
            let outcome = others_first(&keys, self.queues.get(lock), local, io);
            complete(io, ticket, outcome);
            return;
        }
        let Some(queue) = self.queues.get_mut(lock) else { return };
        queue.enter(ticket, place);
        let owner = io.owner_id();
        match request.wait {
            Some(wait) if wait.is_zero() => io.set(Timer::Wait(ticket), io.timeout(now)),
            Some(wait) => io.set(Timer::Wait(ticket), now + wait),
            None => io.set(Timer::Silence(ticket), now + io.longest_silence()),
        }
        if place == Place::Server {
            io.step(Step::Joined(lock, ticket, owner.clone(), request.fencing));
        }
        let arrival = Arrival {
            lock,
            place,
            keys,
            inside,
            plan,
            owner,
        };
        self.requests.insert(ticket, Request::new(arrival, &request, now));
        match place {
            Place::Queue => self.advance(io, lock, now),
            Place::Server | Place::Alone => self.with(ticket, |request| request.attempt(io, ticket, now)),
        }
    }

    /// Whether who tries once is refused since others of this client come first.
    fn comes_after_others(&self, lock: LockId, place: Place) -> bool {
        let Some(queue) = self.queues.get(lock) else {
            return false;
        };
        match place {
            Place::Queue | Place::Server => !queue.is_idle(),
            // A large request that waits is not overtaken by small ones; readers are all alike.
            Place::Alone => {
                let first = queue.first().and_then(|first| self.requests.get(&first));
                queue.counts_permits() && first.is_some_and(Request::was_told_held)
            }
        }
    }

    /// Who of this client holds the lock.
    fn local_holder(&self, holds: &Holds, lock: LockId, now: Instant) -> Option<Holder> {
        let hold = self.queues.get(lock)?.holding()?;
        Some(holds.get(hold)?.as_holder(now))
    }

    /// The first of a queue, if nobody here holds the lock.
    fn first(&mut self, lock: LockId) -> Option<(Ticket, &mut Request)> {
        let queue = self.queues.get(lock).filter(|queue| queue.holding().is_none())?;
        let ticket = queue.first()?;
        Some((ticket, self.requests.get_mut(&ticket)?))
    }

    /// Lets the first of the queue try, if nobody here holds the lock.
    fn advance(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let Some(queue) = self.queues.get_mut(lock) else { return };
        if queue.holding().is_some() {
            return;
        }
        let Some(ticket) = queue.first() else {
            io.step(Step::Tidy(lock));
            return;
        };
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        if request.is_sleeping() && io.due(Timer::Wake(ticket)).is_none() {
            // It asked before the lock was held here, by a waiter of the server's queue.
            request.attempt_after_gap(io, ticket, now);
        } else if request.is_waiting_for_turn() {
            if queue.passes_on(now) {
                request.pause();
                let pause = io.between(TURN_PAUSE);
                io.set(Timer::Wake(ticket), now + pause);
            } else {
                request.attempt(io, ticket, now);
            }
        }
    }

    /// The lock may be free: the first of the queue tries again.
    fn wake_first(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let Some((ticket, request)) = self.first(lock) else {
            return;
        };
        if request.is_trying() {
            request.ask_again();
        } else if request.is_sleeping() {
            request.attempt_after_gap(io, ticket, now);
        }
    }

    /// Those who wait ask, unless messages before it have made them ask in vain.
    fn heard(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        if io.has(Defect::MessagesWakeNobody) {
            return;
        }
        let poll = io.config().retry_interval.0;
        let Some(queue) = self.queues.get_mut(lock).filter(|queue| queue.is_waited_at()) else {
            return;
        };
        if let Err(earliest) = queue.message(poll, now) {
            // What it may have said is not forgotten.
            io.set(Timer::Heard(lock), earliest);
            return;
        }
        // Of those that are not known to be in the queue yet, the answer that is under way may be stale.
        for ticket in queue.on_server() {
            let request = self.requests.get_mut(&ticket);
            if let Some(request) = request.filter(|request| request.is_trying() && !request.is_queued()) {
                request.ask_again();
            }
        }
        io.step(Step::MayBeFree(lock));
    }

    /// There is a connection again: those ask that stand in no local queue, so that
    /// nobody else asks for them.
    fn ask_after_outage(&mut self, io: &mut Io, node: NodeId, now: Instant) {
        let is_alone = |request: &Request| request.asks_itself() && request.node() == node && request.is_sleeping();
        for (ticket, request) in self.requests.iter_mut().filter(|(_, request)| is_alone(request)) {
            request.attempt_after_gap(io, *ticket, now);
        }
    }

    /// Who waits here is not told who held a lock by the word of a server that is gone: it may have been
    /// demoted, and the next connection may lead to another.
    fn forget_answers(&mut self, node: NodeId, cause: &str, now: Instant) {
        let cut = CallError::Disconnected(cause.into());
        for queue in self.queues.iter_mut() {
            if queue.node() == node && queue.last_holder().is_some() {
                queue.note_failure(in_words(&cut), now);
            }
        }
    }

    /// The answer to an attempt.
    fn answered(&mut self, io: &mut Io, holds: &Holds, attempt: Answered, now: Instant) {
        let Answered {
            ticket,
            call,
            in_flight,
            ttl,
            result,
        } = attempt;
        let was_cut = in_flight.was_cut(&result);
        let request = self.requests.get_mut(&ticket);
        let Some(request) = request.filter(|request| request.is_attempt(call)) else {
            // Nothing that it may have got is left: who took it over has ended, too.
            return;
        };
        request.resolved(call, was_cut);
        let (lock, is_current) = (request.lock(), request.is_trying_by(call));
        if let Some(queue) = self.queues.get_mut(lock).filter(|_| result.is_ok()) {
            queue.answered(now);
        }
        match Verdict::of(result, request, (in_flight, ttl), io, now) {
            Verdict::Granted(granted) => self.grant(io, ticket, granted, now),
            Verdict::TooLate => self.renounce_late(io, ticket),
            Verdict::Held {
                owner,
                remaining,
                queued,
            } => {
                request.refused();
                // Who does not wait was not put into the queue. Also by an attempt that was given up: the one that
                // followed it may never be answered.
                if let Some(found) = in_flight.sent.zip(queued).filter(|_| !request.is_once()) {
                    request.found_queued();
                    io.step(Step::Found(ticket, lock, Arc::clone(request.keys()), found));
                }
                let is_nobodys = owner.is_empty();
                self.note_held(io, lock, owner, (remaining, in_flight.sent.unwrap_or(now)), now);
                if is_current {
                    io.step(Step::Refused(ticket, remaining, is_nobodys));
                }
            }
            Verdict::Useless(why, may_be_granted) => {
                request.failed_attempt(may_be_granted);
                self.fail(io, ticket, &why);
            }
            Verdict::Failed(failure, may_be_granted) => {
                request.failed_attempt(may_be_granted);
                self.with_queue(lock, |queue| queue.note_failure(in_words(&failure), now));
                if is_current {
                    self.unanswered(io, holds, ticket, now);
                }
            }
        }
    }

    /// A grant came too late to be of use. It is released, and asked for under a new id.
    fn renounce_late(&mut self, io: &mut Io, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        if let Some(owed) = request.renounce(io, true) {
            io.step(Step::Owes(owed));
        }
        if request.keys().kind.queues_on_server() {
            let (owner, fencing) = (request.owner().clone(), request.fencing());
            io.step(Step::Joined(request.lock(), ticket, owner, fencing));
        }
        io.step(Step::Ask(ticket));
    }

    /// The server said who holds the lock, in the answer to a call of that instant.
    fn note_held(
        &mut self,
        io: &mut Io,
        lock: LockId,
        owner: String,
        (remaining, sent): (Option<Duration>, Instant),
        now: Instant,
    ) {
        if let Some(own) = OwnerId::of_client(io.config().client, owner.as_bytes()) {
            io.step(Step::OwnerSeen(lock, own, false));
        }
        let holder = Holder { owner, remaining };
        self.with_queue(lock, |queue| queue.note_held(holder, sent, now));
    }

    /// An attempt was refused, and the client knows what the answer says.
    fn refused(&mut self, io: &mut Io, holds: &Holds, refused: (Ticket, Option<Duration>, bool), now: Instant) {
        let (ticket, remaining, is_nobodys) = refused;
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        // Dead waiters are before it, of which one call passes over so many.
        let is_of_server_queue = request.keys().kind.queues_on_server();
        let goes_on = is_nobodys && is_of_server_queue;
        if request.is_once() {
            if goes_on {
                request.attempt_after_gap(io, ticket, now);
            } else {
                self.give_up(io, holds, ticket, now);
            }
            return;
        }
        let lock = request.lock();
        request.sleep();
        if !is_of_server_queue {
            if let Some(queue) = self.queues.get(lock) {
                let channel = Arc::clone(queue.channel());
                io.step(Step::Listen(lock, queue.node(), channel, Some(ticket)));
            }
            io.step(Step::Sleep(ticket, remaining));
        } else if request.is_stale() {
            request.attempt_after_gap(io, ticket, now);
        } else if goes_on {
            io.step(Step::PollSoon(lock));
        }
    }

    /// A refused waiter sleeps until it asks again, unless it asks at once.
    fn sleep(&mut self, io: &mut Io, ticket: Ticket, remaining: Option<Duration>, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        if request.is_stale() {
            request.attempt_after_gap(io, ticket, now);
            return;
        }
        if io.has(Defect::WaiterParks) {
            return;
        }
        let poll = io.between(io.config().retry_interval);
        let poll = if request.is_marked() {
            poll.min(LONGEST_HEARTBEAT)
        } else {
            poll
        };
        let sleep = match remaining {
            Some(ttl) if io.has(Defect::WaiterTrustsMessages) => ttl,
            Some(ttl) if !ttl.is_zero() => ttl.saturating_add(Duration::from_millis(1)).min(poll),
            Some(_) => MIN_GAP,
            None => poll,
        };
        io.set(Timer::Wake(ticket), now + sleep);
    }

    /// An attempt came to nothing that says who holds the lock.
    fn unanswered(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        request.sleep();
        if request.is_once() && request.is_unresolved() {
            self.give_up(io, holds, ticket, now);
            return;
        }
        let pause = io.between(FAILURE_PAUSE);
        io.set(Timer::Wake(ticket), now + pause);
    }

    /// The answer to an attempt is overdue: ask again under the same id.
    fn overdue(&mut self, io: &mut Io, holds: &Holds, (ticket, call): (Ticket, CallId), now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        if request.is_trying_by(call) {
            if request.is_once() {
                self.give_up(io, holds, ticket, now);
            } else {
                request.attempt(io, ticket, now);
            }
        }
    }

    /// A caller's wait is over.
    fn wait_over(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        let queue = self.queues.get(request.lock());
        let told = queue.and_then(Queue::last_holder);
        let is_answered = told.is_some_and(|(at, _)| at >= request.started());
        if request.is_due_grace() && !is_answered {
            request.give_grace();
            io.set(Timer::Wait(ticket), now + FIRST_ANSWER_GRACE);
        } else {
            self.give_up(io, holds, ticket, now);
        }
    }

    /// A caller without a bound has waited one lease since it last asked whether
    /// the server is there.
    fn silence(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        let Some(queue) = self.queues.get(request.lock()) else {
            return;
        };
        let heard = match queue.heard() {
            _ if queue.holding().is_some() => now,
            Some(at) => at.max(request.started()),
            None => request.started(),
        };
        let until = heard + io.longest_silence();
        if until > now {
            io.set(Timer::Silence(ticket), until);
        } else {
            // Whatever was said before: who waits without bound is not told "held".
            let outcome = Outcome::Failed(no_answer(request, Some(queue), io, now));
            complete(io, ticket, outcome);
            self.remove(io, ticket);
        }
    }

    fn give_up(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        let wait = Wait {
            request,
            queue: self.queues.get(request.lock()),
            local: self.local_holder(holds, request.lock(), now),
        };
        let outcome = wait.outcome(io, now);
        complete(io, ticket, outcome);
        self.remove(io, ticket);
    }

    /// Asking again cannot help.
    fn fail(&mut self, io: &mut Io, ticket: Ticket, why: &str) {
        if let Some(request) = self.requests.get(&ticket) {
            let error = request.failed(ErrorKind::Misconfigured, why);
            complete(io, ticket, Outcome::Failed(error));
            self.remove(io, ticket);
        }
    }

    /// Takes a request out; what it may have been granted is owed a release.
    fn remove(&mut self, io: &mut Io, ticket: Ticket) {
        let Some(mut request) = self.requests.remove(&ticket) else {
            return;
        };
        if !io.has(Defect::CancelLeavesRecord)
            && let Some(owed) = request.renounce(io, false)
        {
            io.step(Step::Owes(owed));
        }
        self.forget(io, ticket, request.lock());
        io.step(Step::Advance(request.lock()));
    }

    /// Turns a request into a hold.
    fn grant(&mut self, io: &mut Io, ticket: Ticket, granted: Granted, now: Instant) {
        let Some(request) = self.requests.remove(&ticket) else {
            return;
        };
        let (lock, is_exclusive) = (request.lock(), request.keys().kind.is_exclusive());
        self.forget(io, ticket, lock);
        self.with_queue(lock, |queue| queue.granted(now));
        io.step(Step::Granted(ticket, request.into_hold(granted)));
        if !is_exclusive {
            // The next one may get in beside it.
            io.step(Step::Advance(lock));
        }
    }

    /// A ticket waits no longer.
    fn forget(&mut self, io: &mut Io, ticket: Ticket, lock: LockId) {
        for timer in [Timer::Wake(ticket), Timer::Wait(ticket), Timer::Silence(ticket)] {
            io.stop(timer);
        }
        if self.queues.get_mut(lock).is_some_and(|queue| queue.leave(ticket)) {
            io.step(Step::Left(lock, ticket));
        }
    }

    /// A poll came to nothing. If it always will, since the key is another kind's by now,
    /// those who wait are told so.
    fn poll_failed(&mut self, io: &mut Io, lock: LockId, polled: &[Ticket], failure: &CallError, now: Instant) {
        self.with_queue(lock, |queue| queue.note_failure(in_words(failure), now));
        let CallError::Server { code, message } = failure else {
            return;
        };
        if Refusal::of(code) != Refusal::BeforeWrite {
            return;
        }
        for ticket in polled {
            let request = self.requests.get(ticket).filter(|request| request.is_queued());
            if let Some(why) = request.map(|request| explain(request.keys(), code, message)) {
                self.fail(io, *ticket, &why);
            }
        }
    }
}

fn complete(io: &mut Io, ticket: Ticket, outcome: Outcome) {
    io.step(Step::Tell(Event::Completed { ticket, outcome }));
}
