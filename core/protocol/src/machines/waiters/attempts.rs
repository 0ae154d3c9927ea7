//! What follows from the answers to attempts and polls.

use std::sync::Arc;
use std::time::Duration;

use super::Answered;
use super::observing;
use super::queue::Queue;
use super::table::Waiters;
use super::verdict::Verdict;
use crate::cause::Cause;
use crate::defects::Defect;
use crate::error::{ErrorKind, Holder};
use crate::ids::{CallId, LockId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::lateness::too_late;
use crate::lease::deadline;
use crate::machines::holds::Holds;
use crate::machines::waiters::{FAILURE_PAUSE, LONGEST_HEARTBEAT};
use crate::periods::MIN_GAP;
use crate::reply::{CallError, Refusal};
use crate::step::Step;
use crate::timers::Timer;
use crate::types::Outcome;
use crate::wording::{brief, cause_of, explain};

impl Waiters {
    /// The answer to an attempt.
    pub(super) fn answered(&mut self, io: &mut Io, holds: &Holds, attempt: Answered, now: Instant) {
        let Answered {
            ticket,
            call,
            in_flight,
            ttl,
            result,
        } = attempt;
        let was_cut = in_flight.was_cut(&result);
        let request = self.request_mut(ticket);
        let Some(request) = request.filter(|request| request.is_attempt(call)) else {
            // Nothing that it may have got is left: who took it over has ended, too.
            return;
        };
        request.resolved(call, was_cut);
        let (lock, is_current, is_answer) = (request.lock(), request.is_trying_by(call), result.is_ok());
        let verdict = Verdict::of(result, request, (in_flight, ttl), io, now);
        observing::answered(io, request, in_flight, &verdict, now);
        if is_answer && !matches!(verdict, Verdict::TooLate(_)) && deadline(request.sent(in_flight), ttl) > now {
            request.was_answered_in_time();
        }
        if is_answer {
            self.with_queue(lock, |queue| queue.answered(now));
        }
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        match verdict {
            Verdict::Granted(granted) => self.grant(io, ticket, granted, now),
            Verdict::TooLate(took) => self.too_late(io, ticket, (took, ttl), now),
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
                self.tell_due(io, holds, lock, now);
                if is_current {
                    io.step(Step::Refused(ticket, remaining, is_nobodys));
                }
            }
            Verdict::Useless(why, may_be_granted) => {
                request.failed_attempt(may_be_granted);
                self.fail(io, ticket, why);
            }
            Verdict::Failed(failure, may_be_granted) => {
                request.failed_attempt(may_be_granted);
                self.with_queue(lock, |queue| queue.note_failure(cause_of(&failure), now));
                if is_current {
                    self.unanswered(io, holds, ticket, now);
                }
            }
        }
    }

    /// A grant came too late to be of use. It is released, and asked for under a new id, ever more slowly if it
    /// was not the first. A caller without a bound is told why, after some.
    fn too_late(&mut self, io: &mut Io, ticket: Ticket, (took, ttl): (Duration, Duration), now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if let Some(owed) = request.renounce(io, true)
            && !io.has(Defect::LateGrantStays)
        {
            io.step(Step::Owes(owed));
        }
        let (lock, cause) = (request.lock(), too_late(took, ttl, request.is_cut(ttl)));
        let lateness = request.was_late();
        self.with_queue(lock, |queue| queue.note_failure(cause.clone(), now));
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if lateness.is_lasting() && !request.is_bounded() {
            self.fail_late(io, ticket, &cause, now);
            return;
        }
        if request.keys().kind.queues_on_server() {
            let (owner, fencing) = (request.owner().clone(), request.fencing());
            io.step(Step::Joined(lock, ticket, owner, fencing));
        }
        match lateness.pause() {
            None => io.step(Step::Ask(ticket)),
            Some(range) => {
                request.pause();
                let pause = io.between(range);
                io.set(Timer::Wake(ticket), now + pause);
            }
        }
    }

    /// The answers take too long for the lease that a caller wants, and for those that wait behind it and want no
    /// longer one.
    fn fail_late(&mut self, io: &mut Io, ticket: Ticket, cause: &Cause, now: Instant) {
        let Some(request) = self.request(ticket) else {
            return;
        };
        let (lock, length) = (request.lock(), request.plan().length);
        let mut failed = self.queue(lock).map(Queue::in_line).unwrap_or_default();
        failed.retain(|other| {
            let request = self.request(*other).filter(|request| !request.is_bounded());
            *other != ticket && request.is_some_and(|request| request.plan().length <= length)
        });
        failed.insert(0, ticket);
        // The last one first: the next waiter in the queue would ask the server.
        for ticket in failed.into_iter().rev() {
            if let Some(request) = self.request(ticket) {
                let waited = now.saturating_since(request.started());
                let error = request.failed(ErrorKind::Unavailable, format!("not granted after {}", brief(waited)));
                io.complete(ticket, Outcome::Failed(error.with_cause(cause.clone())));
                self.remove(io, ticket);
            }
        }
    }

    /// The server said who holds the lock, in the answer to a call of that instant.
    pub(super) fn note_held(
        &mut self,
        io: &mut Io,
        lock: LockId,
        owner: String,
        (remaining, sent): (Option<Duration>, Instant),
        now: Instant,
    ) {
        if let Some(own) = io.own(owner.as_bytes()) {
            io.step(Step::OwnerSeen(lock, own, false));
        } else if let Some(node) = self.queue(lock).map(Queue::node) {
            io.ask_identity(node, &owner, now);
        }
        let holder = Holder {
            owner,
            remaining,
            client: None,
        };
        self.with_queue(lock, |queue| queue.note_held(holder, sent, now));
    }

    /// An attempt was refused, and the client knows what the answer says.
    pub(super) fn refused(
        &mut self,
        io: &mut Io,
        holds: &Holds,
        refused: (Ticket, Option<Duration>, bool),
        now: Instant,
    ) {
        let (ticket, remaining, is_nobodys) = refused;
        let Some(request) = self.request_mut(ticket) else {
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
        if request.is_over_but_for_an_answer() && !goes_on {
            self.give_up(io, holds, ticket, now);
            return;
        }
        let (lock, keys) = (request.lock(), Arc::clone(request.keys()));
        request.sleep();
        if is_of_server_queue {
            if request.is_stale() {
                request.attempt_after_gap(io, ticket, now);
            } else if goes_on {
                io.step(Step::PollSoon(lock));
            }
            return;
        }
        io.step(Step::Listen(lock, keys.node, keys.channel(), Some(ticket)));
        io.step(Step::Sleep(ticket, remaining));
    }

    /// A refused waiter sleeps until it asks again, unless it asks at once.
    pub(super) fn sleep(&mut self, io: &mut Io, ticket: Ticket, remaining: Option<Duration>, now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
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
    pub(super) fn unanswered(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
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
    pub(super) fn overdue(&mut self, io: &mut Io, holds: &Holds, (ticket, call): (Ticket, CallId), now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if request.is_trying_by(call) {
            observing::overdue(io, request, call, now);
            if request.is_once() {
                self.give_up(io, holds, ticket, now);
            } else {
                request.attempt(io, ticket, now);
            }
        }
    }

    /// A poll failed. If every later one would fail too, since the key belongs to another kind
    /// by now, the waits fail.
    pub(super) fn poll_failed(
        &mut self,
        io: &mut Io,
        lock: LockId,
        polled: &[Ticket],
        failure: &CallError,
        now: Instant,
    ) {
        self.with_queue(lock, |queue| queue.note_failure(cause_of(failure), now));
        let CallError::Server { code, message } = failure else {
            return;
        };
        if Refusal::of(code) != Refusal::BeforeWrite {
            return;
        }
        // Each has been found in the queue, so the client listens, and the lock is not forgotten before all are out.
        for ticket in polled {
            let request = self.request(*ticket).filter(|request| request.is_queued());
            if let Some(why) = request.map(|request| explain(request.keys(), code, message)) {
                self.fail(io, *ticket, why);
            }
        }
    }
}
