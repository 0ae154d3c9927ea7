//! The waiters of a client: the callers that request a lock which they do not hold. This machine decides which of them
//! asks the server, when, and with what outcome the wait ends.
//!
//! `request` has the state diagram of one acquisition, and `queue` is the local wait queue of a lock. `turn` decides
//! when other clients come first, `refusal` how a wait ends without the lock, and `wakes` how often messages make the
//! waiters ask.

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

/// The pause of a client whose turn is over, in which other clients can acquire the lock.
const TURN_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));
/// The pause after a failed attempt, which did not return the holder of the lock.
const FAILURE_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(200));
/// The longest time between two attempts of a waiting writer. Its mark on the server expires after 2 s.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(1);

impl Waiters {
    /// Handles an input. `holds` has the holds of this client.
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
                    // The server answers this attempt with the same hold, the full lease and a token.
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
        // While a caller of this client has a degraded lease of the lock, all waiters queue in this client, even those
        // that would otherwise queue on the server.
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

    /// Returns the outcome of a single attempt that is not first in this client. Returns `None` while the first
    /// connection is being made: no waiter could ask yet, and the first one will be answered soon.
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

    /// Lets the first waiter of a local queue ask the server, if no caller of this client holds the lock.
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
                // The slot of the lock has moved to a primary whose circuit breaker is open.
                io.complete(ticket, outcome);
                self.remove(io, ticket);
            } else if !queue.is_held_twice() {
                self.grant_locally(io, ticket, now);
            }
        } else if request.keys().kind.queues_on_server() {
            self.go_to_server(io, lock, now);
        } else if request.is_sleeping() && io.due(Timer::Wake(ticket)).is_none() {
            // This waiter first asked before a fair waiter of this client was granted the lock. While the lock is held
            // here, a new connection does not wake the waiter, so it must ask now.
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

    /// Lets the first waiter of a local queue ask again, because the lock may be free.
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

    /// Handles a message. The waiters ask the server, unless messages have made them ask too often without success.
    fn heard(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        if io.has(Defect::MessagesWakeNobody) {
            return;
        }
        let poll = io.config().retry_interval.0;
        let Some(queue) = self.queue_mut(lock).filter(|queue| queue.is_waited_at()) else {
            return;
        };
        if let Err(earliest) = queue.message(poll, now) {
            // The message is not dropped: the waiters ask when the gap is over.
            io.set(Timer::Heard(lock), earliest);
            return;
        }
        // The reply to an attempt in flight may be stale, if its waiter is not known to be in the server's queue yet.
        let on_server: Vec<Ticket> = queue.on_server().collect();
        self.with_all(&on_server, |request| {
            if request.is_trying() && !request.is_queued() {
                request.ask_again();
            }
        });
        io.step(Step::MayBeFree(lock));
    }

    /// Lets the waiters ask that are in no local queue, because a connection has opened. No other waiter asks on their
    /// behalf.
    fn ask_after_outage(&mut self, io: &mut Io, node: NodeId, now: Instant) {
        let is_alone = |request: &Request| request.asks_itself() && request.node() == node && request.is_sleeping();
        for (ticket, request) in self.requests_mut().filter(|(_, request)| is_alone(request)) {
            request.attempt_after_gap(io, ticket, now);
        }
    }

    /// Forgets the holders that a server has named, because the connection to it has closed. The server may have been
    /// demoted, and the next connection may lead to another server.
    fn forget_answers(&mut self, node: NodeId, cause: &Cause, now: Instant) {
        let cause = cut_off(cause);
        for queue in self.queues_mut() {
            if queue.node() == node && queue.last_holder().is_some() {
                queue.note_failure(cause.clone(), now);
            }
        }
    }
}
