//! The callers of a client that wait for locks: who asks the server, when, and what each is told.
//!
//! `request` draws one of them, `queue` is the local queue that they stand in, `turn` says when
//! other clients come first, `refusal` how a wait ends without the lock, and `wakes` how often
//! messages make them ask.

mod attempts;
mod caller_wait;
#[cfg(any(test, feature = "transitions"))]
mod drawing;
mod ends;
mod input;
mod observing;
mod outage;
mod queue;
mod refusal;
mod request;
mod table;
#[cfg(test)]
mod tests;
mod turn;
mod verdict;
mod wakes;

use std::time::Duration;

use self::queue::Place;
use self::refusal::others_first;
use self::request::{Arrival, Request, tries_once};
use super::holds::{Hold, Holds};
use crate::cause::Cause;
use crate::defects::Defect;
use crate::ids::{Context, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::step::Step;
use crate::timers::Timer;
use crate::transitions;
use crate::types::Outcome;
use crate::wording::cut_off;

pub(crate) use self::caller_wait::CallerWait;
pub(crate) use self::input::{Answered, Input, Wanted};
pub(crate) use self::outage::refused_unasked;
pub(crate) use self::table::Waiters;

/// The pause of a client whose turn is over.
const TURN_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));
/// The pause after an answer that did not say who holds the lock.
const FAILURE_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(200));
/// A waiting writer's mark ends after 2 s.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(1);

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
            Input::MissedMessages(ticket) => self.with(ticket, Request::ask_again),
            Input::Advance(lock) => self.advance(io, lock, now),
            Input::Held(lock, hold) => {
                self.with_queue(lock, |queue| queue.held_by(hold));
                self.tell_due(io, holds, lock, now);
            }
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
            Input::Outage(primary) => self.outage(io, primary, now),
            Input::OutageOver(primary) => self.outage_over(io, primary),
            Input::Forget(lock) => self.close(lock),
            Input::Polled(call, tickets) => self.with_all(&tickets, |request| request.polled(call)),
            Input::PollAnswered(call, was_cut, tickets) => self.with_all(&tickets, |request| {
                request.resolved(call, was_cut);
            }),
            Input::PollFailed(lock, tickets, failure) => self.poll_failed(io, lock, &tickets, &failure, now),
            Input::HolderSeen(lock, owner, remaining, sent) => {
                self.with_queue(lock, |queue| queue.answered(now));
                self.note_held(io, lock, owner, (remaining, sent), now);
                self.tell_due(io, holds, lock, now);
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

    fn arrive(&mut self, io: &mut Io, holds: &Holds, wanted: Wanted, now: Instant) {
        let Wanted {
            ticket,
            request,
            keys,
            inside,
            plan,
        } = wanted;
        io.note_lock(&keys);
        if let Some(outcome) = outage::refusal(io, &keys, request.on_unavailable, now) {
            io.complete(ticket, outcome);
            return;
        }
        let lock = self.open(&keys);
        let once = tries_once(&request);
        let asks_alone = once && !io.has(Defect::SharedTryStandsInLine);
        // What is held in this client alone keeps those waiting here who would wait at the server.
        let is_held_here = self.holder(holds, lock).is_some_and(Hold::is_local);
        let place = if is_held_here || io.outage(&keys).is_some() {
            Place::Queue
        } else {
            Place::of(keys.kind, asks_alone, inside.is_some())
        };
        let is_behind_others = once && self.comes_after_others(lock, place);
        if is_behind_others && let Some(outcome) = self.refusal_behind_others(io, holds, (lock, request.context), now) {
            io.complete(ticket, outcome);
            return;
        }
        let Some(queue) = self.queue_mut(lock) else { return };
        queue.enter(ticket, place);
        if is_behind_others && place == Place::Queue {
            queue.tell_with_first_answer(ticket);
        }
        let owner = io.owner_id();
        match request.wait {
            Some(wait) if wait.is_zero() => io.set(Timer::Wait(ticket), io.timeout(now)),
            Some(wait) => io.set(Timer::Wait(ticket), now + wait),
            None => io.set(Timer::Silence(ticket), now + io.longest_silence()),
        }
        if place == Place::Server {
            io.step(Step::Joined(lock, ticket, owner.clone(), request.fencing));
        }
        let is_mistaken = io.has(Defect::LocalBesideHolder) && io.outage(&keys).is_some();
        let arrival = Arrival {
            lock,
            place,
            keys,
            inside,
            plan,
            owner,
        };
        self.admit(ticket, Request::new(arrival, &request, now));
        if is_mistaken {
            self.grant_locally(io, ticket, now);
            return;
        }
        match place {
            Place::Queue => self.advance(io, lock, now),
            Place::Server | Place::Alone => self.with(ticket, |request| request.attempt(io, ticket, now)),
        }
    }

    /// What a caller is told that tries once, and does not come first here. `None` while the first connection is
    /// being made: nobody could ask yet, and the first one here is answered soon.
    fn refusal_behind_others(
        &self,
        io: &Io,
        holds: &Holds,
        (lock, context): (LockId, Option<Context>),
        now: Instant,
    ) -> Option<Outcome> {
        let queue = self.queue(lock)?;
        let local = self.local_holder(holds, (lock, context), now);
        let is_too_early = local.is_none() && io.is_connecting(queue.node());
        (!is_too_early).then(|| others_first(queue, local, io))
    }

    /// Lets the first of the queue try, if nobody here holds the lock.
    fn advance(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let Some((queue, first)) = self.queue_and_first(lock) else {
            return;
        };
        let Some((ticket, request)) = first else {
            io.step(Step::Tidy(lock));
            return;
        };
        if io.outage(request.keys()).is_some() {
            if let Some(outcome) = outage::refusal(io, request.keys(), request.on_unavailable(), now) {
                // Its slot has come to a primary that does not answer.
                io.complete(ticket, outcome);
                self.remove(io, ticket);
            } else if !queue.is_held_twice() {
                self.grant_locally(io, ticket, now);
            }
        } else if request.keys().kind.queues_on_server() {
            self.go_to_server(io, lock, now);
        } else if request.is_sleeping() && io.due(Timer::Wake(ticket)).is_none() {
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
        let Some((_, Some((ticket, request)))) = self.queue_and_first(lock) else {
            return;
        };
        if request.is_trying() {
            request.ask_again();
        } else if request.is_sleeping() {
            request.attempt_after_gap(io, ticket, now);
        }
    }

    /// A message came: the waiters ask, unless messages before it have made them ask in vain.
    fn heard(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        if io.has(Defect::MessagesWakeNobody) {
            return;
        }
        let poll = io.config().retry_interval.0;
        let Some(queue) = self.queue_mut(lock).filter(|queue| queue.is_waited_at()) else {
            return;
        };
        if let Err(earliest) = queue.message(poll, now) {
            // What it may have said is not forgotten.
            io.set(Timer::Heard(lock), earliest);
            return;
        }
        // Of those that are not known to be in the queue yet, the answer that is under way may be stale.
        let on_server: Vec<Ticket> = queue.on_server().collect();
        self.with_all(&on_server, |request| {
            if request.is_trying() && !request.is_queued() {
                request.ask_again();
            }
        });
        io.step(Step::MayBeFree(lock));
    }

    /// There is a connection again: those ask that stand in no local queue, so that
    /// nobody else asks for them.
    fn ask_after_outage(&mut self, io: &mut Io, node: NodeId, now: Instant) {
        let is_alone = |request: &Request| request.asks_itself() && request.node() == node && request.is_sleeping();
        for (ticket, request) in self.requests_mut().filter(|(_, request)| is_alone(request)) {
            request.attempt_after_gap(io, ticket, now);
        }
    }

    /// The connection to a server is gone: waiters are no longer told of a holder that this server named. It may
    /// have been demoted, and the next connection may lead to another server.
    fn forget_answers(&mut self, node: NodeId, cause: &Cause, now: Instant) {
        let cause = cut_off(cause);
        for queue in self.queues_mut() {
            if queue.node() == node && queue.last_holder().is_some() {
                queue.note_failure(cause.clone(), now);
            }
        }
    }
}
