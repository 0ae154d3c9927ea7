//! One acquisition, from ticket to grant or refusal.
//!
//! ```text
//!            first in the queue, nobody here holds the lock
//!  Queued ───────────────────────────────────────────────► Trying
//!    │  our turn is over                                    │ ▲ │
//!    └────────────────► Pausing ── 2–5 ms ──────────────────┘ │ │ granted
//!                                                    message, │ │────────► a Hold
//!                          refused, or no answer      TTL or  │ │ wait = 0, or
//!                       Trying ─────────► Sleeping ── poll ───┘ │ it cannot work
//!                                                               └────────► refused
//!
//!  any state ── wait is over, cancelled, closed ──► gone; what a call in flight
//!                                                  may still be granted is owed a
//!                                                  Release
//! ```
//!
//! Only the first request of a queue leaves `Queued`. Who stands in the server's
//! queue, or in none, is `Trying` from the start. A request keeps one owner id for
//! all its tries, so that asking again after a lost answer finds its own record;
//! once a release for that id is owed, it draws a new one.

use crate::calls::{InFlight, Purpose, Unresolved};
use crate::defects::Defect;
use crate::error::ErrorKind;
use crate::ids::{CallId, Context, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Answer, Attempt, Keys};
use crate::lease::{LeasePlan, deadline};
use crate::machines::holds;
use crate::news::ClockSeen;
use crate::owner::OwnerId;
use crate::periods::{MAX_ATTEMPT, MIN_GAP};
use crate::queue::Place;
use crate::reply::{CallError, Refusal, Reply};
use crate::session::Session;
use crate::step::{NewHold, Owed};
use crate::timers::Timer;
use crate::token::Token;
use crate::types::{AcquireRequest, Lane};
use crate::wording::explain;
use std::sync::Arc;
use std::time::Duration;

/// The pause of a client whose turn is over.
const TURN_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));
/// The pause after an answer that did not say who holds the lock.
const FAILURE_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(200));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Others are before it, or the lock is held in this client.
    Queued,
    /// It is first, and lets other clients go before it.
    Pausing,
    /// An attempt is in flight.
    Trying(CallId),
    /// It was refused, or there was no answer.
    Sleeping,
}

/// One caller that wants a lock.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) queue: LockId,
    place: Place,
    pub(crate) keys: Arc<Keys>,
    owner: OwnerId,
    pub(crate) context: Option<Context>,
    plan: LeasePlan,
    max_hold: Option<Duration>,
    pub(crate) fencing: bool,
    /// It tries once and does not wait.
    pub(crate) once: bool,
    /// The server told it that others hold what it wants.
    told_held: bool,
    /// The write hold that this read is taken inside.
    inside: Option<OwnerId>,
    /// A refusal left its mark on the server.
    marked: bool,
    /// When the last call was sent that the server answered "queued", and when it
    /// did, in µs of its own clock.
    queued: Option<ClockSeen>,
    pub(crate) started: Instant,
    state: State,
    /// A message came while an attempt was in flight: the refusal may be stale.
    again: bool,
    pub(crate) last_try: Option<Instant>,
    /// The first answer was given its grace.
    pub(crate) graced: bool,
    /// What the server may have granted without our knowing.
    pub(crate) unresolved: Unresolved,
}

/// What the server granted, and when at the earliest.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) token: Option<Token>,
    pub(crate) sent: Instant,
    pub(crate) ttl: Duration,
    /// The server granted it of its own accord, for a short time.
    pub(crate) provisional: bool,
}

impl Request {
    /// Its owner id, and whether it wants a token.
    pub(crate) fn as_waiter(&self) -> (OwnerId, bool) {
        (self.owner.clone(), self.fencing)
    }

    /// Whether it asks under this owner id.
    pub(crate) fn is_of(&self, owner: &[u8]) -> bool {
        self.owner.as_bytes() == owner
    }

    /// A call sent at `sent` found it in the server's queue.
    pub(crate) fn still_queued(&mut self, sent: Instant, server_now: u64) {
        if self.queued.is_none_or(|(at, _)| at < sent) {
            self.queued = Some((sent, server_now));
        }
    }

    /// Whether an attempt is in flight.
    pub(crate) const fn is_trying(&self) -> bool {
        matches!(self.state, State::Trying(_))
    }

    /// A message spoke of it while it was asking: the answer may be stale.
    pub(crate) const fn ask_again(&mut self) {
        self.again = true;
    }

    /// Whether the server is known to have it in its queue.
    pub(crate) const fn is_queued(&self) -> bool {
        self.queued.is_some()
    }

    /// The last call that found it in the queue.
    pub(crate) const fn queued(&self) -> Option<ClockSeen> {
        self.queued
    }
}

impl Session {
    /// Queues a caller that holds nothing yet; `inside` is the write hold that a
    /// read is taken inside.
    pub(crate) fn enqueue(
        &mut self,
        ticket: Ticket,
        request: AcquireRequest,
        keys: Arc<Keys>,
        inside: Option<OwnerId>,
        plan: LeasePlan,
        now: Instant,
    ) {
        let id = self.queues.open(&keys);
        let once = request.wait.is_some_and(|wait| wait.is_zero());
        let asks_alone = once && !self.io.has(Defect::SharedTryStandsInLine);
        let place = Place::of(keys.kind, asks_alone, inside.is_some());
        if once && self.comes_after_others(id, place) {
            let outcome = self.others_first(id, &keys, now);
            self.complete(ticket, outcome);
            return;
        }
        let Some(queue) = self.queues.get_mut(id) else { return };
        queue.enter(ticket, place);
        let owner = self.io.owner_id();
        match request.wait {
            Some(wait) if wait.is_zero() => self.io.set(Timer::Wait(ticket), now + self.io.config().command_timeout),
            Some(wait) => self.io.set(Timer::Wait(ticket), now + wait),
            None => self.io.set(Timer::Silence(ticket), now + self.io.longest_silence()),
        }
        self.requests.insert(
            ticket,
            Request {
                queue: id,
                place,
                keys,
                owner,
                context: request.context,
                plan,
                max_hold: request.max_hold,
                fencing: request.fencing,
                once,
                told_held: false,
                inside,
                marked: false,
                queued: None,
                started: now,
                state: State::Queued,
                again: false,
                last_try: None,
                graced: false,
                unresolved: Unresolved::default(),
            },
        );
        match place {
            Place::Queue => self.advance(id, now),
            Place::Line | Place::Alone => self.attempt(ticket, now),
        }
    }

    /// Whether who tries once is refused since others of this client come first.
    fn comes_after_others(&self, id: LockId, place: Place) -> bool {
        let Some(queue) = self.queues.get(id) else { return false };
        match place {
            Place::Queue | Place::Line => !queue.is_idle(),
            // A large request that waits is not overtaken by small ones; readers are all alike.
            Place::Alone => {
                let first = queue.waiting.front().and_then(|first| self.requests.get(first));
                queue.counts_permits() && first.is_some_and(|first| first.told_held)
            }
        }
    }

    /// Lets the first of the queue try, if nobody here holds the lock.
    pub(crate) fn advance(&mut self, id: LockId, now: Instant) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        if queue.holding.is_some() {
            return;
        }
        let Some(ticket) = queue.waiting.front().copied() else {
            self.tidy(id, now);
            return;
        };
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        match request.state {
            State::Queued => {}
            // It asked before the lock was held here, by a waiter of the server's queue.
            State::Sleeping if self.io.due(Timer::Wake(ticket)).is_none() => {
                self.attempt_after_gap(ticket, now);
                return;
            }
            State::Sleeping | State::Trying(_) | State::Pausing => return,
        }
        if queue.turn.is_over(now) {
            request.state = State::Pausing;
            queue.turn.passed_on();
            let pause = self.io.between(TURN_PAUSE);
            self.io.set(Timer::Wake(ticket), now + pause);
        } else {
            self.attempt(ticket, now);
        }
    }

    /// The lock may be free: the first of the queue tries again.
    pub(crate) fn wake_first(&mut self, id: LockId, now: Instant) {
        let Some(queue) = self.queues.get(id) else { return };
        if queue.holding.is_some() {
            return;
        }
        let Some(ticket) = queue.waiting.front().copied() else {
            return;
        };
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        match request.state {
            State::Trying(_) => request.again = true,
            State::Sleeping => self.attempt_after_gap(ticket, now),
            State::Queued | State::Pausing => {}
        }
    }

    /// A waiter's pause, sleep or gap is over.
    pub(crate) fn wake(&mut self, ticket: Ticket, now: Instant) {
        let waits = |request: &Request| matches!(request.state, State::Sleeping | State::Pausing);
        if self.requests.get(&ticket).is_some_and(waits) {
            self.attempt(ticket, now);
        }
    }

    /// Asks again under the same owner id, unless it is asking.
    pub(crate) fn attempt_again(&mut self, ticket: Ticket, now: Instant) {
        if !self.requests.get(&ticket).is_some_and(Request::is_trying) {
            self.attempt(ticket, now);
        }
    }

    /// There is a connection again: those ask that stand in no local queue, so that
    /// nobody else asks for them.
    pub(crate) fn ask_after_outage(&mut self, node: NodeId, now: Instant) {
        let is_alone = |request: &Request| {
            let asks_itself = match request.place {
                Place::Queue => false,
                Place::Line => !request.is_queued(),
                Place::Alone => true,
            };
            asks_itself && request.keys.node == node && request.state == State::Sleeping
        };
        let alone = self.requests.iter().filter(|(_, request)| is_alone(request));
        let alone: Vec<Ticket> = alone.map(|(ticket, _)| *ticket).collect();
        for ticket in alone {
            self.attempt_after_gap(ticket, now);
        }
    }

    fn attempt_after_gap(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        let earliest = request.last_try.map_or(now, |last| last + MIN_GAP);
        if now < earliest {
            request.state = State::Sleeping;
            self.io.set(Timer::Wake(ticket), earliest);
        } else {
            self.attempt(ticket, now);
        }
    }

    /// Asks the server, if there is a connection; else sleeps until there is.
    fn attempt(&mut self, ticket: Ticket, now: Instant) {
        self.io.stop(Timer::Wake(ticket));
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        let node = request.keys.node;
        if !self.io.is_connected(node) {
            request.state = State::Sleeping;
            return;
        }
        let longest = request.max_hold.map_or(MAX_ATTEMPT, |max| max.min(MAX_ATTEMPT));
        let ttl = request.plan.length.min(longest);
        let invocation = request.keys.acquire(&Attempt {
            owner: &request.owner,
            ttl,
            fencing: request.fencing,
            waits: !request.once,
            inside: request.inside.as_ref(),
        });
        let overdue = self.io.timeout(now);
        let purpose = Purpose::Acquire { ticket, ttl };
        let call = self.io.call(purpose, (node, Lane::Command), invocation, Some(overdue));
        request.state = State::Trying(call);
        request.again = false;
        request.last_try = Some(now);
        request.unresolved.open.push(call);
    }

    /// The answer to an attempt.
    pub(crate) fn attempt_answered(
        &mut self,
        id: CallId,
        call: InFlight,
        ticket: Ticket,
        ttl: Duration,
        result: Result<Reply, CallError>,
        now: Instant,
    ) {
        let asked = |request: &&mut Request| request.unresolved.open.contains(&id);
        let Some(request) = self.requests.get_mut(&ticket).filter(asked) else {
            // Nothing that it may have got is left: who took it over has ended, too.
            return;
        };
        request.unresolved.answered(id, call.was_cut(&result));
        let is_current = request.state == State::Trying(id);
        let queue = request.queue;
        if let Some(queue) = self.queues.get_mut(queue).filter(|_| result.is_ok()) {
            queue.heard = Some(now);
        }
        match result {
            Ok(reply) => match request.keys.parse_answer(&reply) {
                Some(Answer::Granted(token)) => {
                    let sent = call.sent.or(request.last_try).unwrap_or(request.started);
                    if deadline(sent, ttl) > now || self.io.has(Defect::ExpiredGrantIsHeld) {
                        let granted = Granted {
                            token,
                            sent,
                            ttl,
                            provisional: false,
                        };
                        self.grant(ticket, granted, now);
                    } else {
                        // It came too late to be of use. Give it back, and ask under a new id.
                        self.renounce(ticket, true, now);
                        self.attempt(ticket, now);
                    }
                }
                Some(Answer::Held {
                    owner,
                    ttl: remaining,
                    queued,
                    ..
                }) => {
                    request.told_held = true;
                    request.marked = !request.once && request.keys.kind.leaves_mark();
                    // Who does not wait was not put into the queue.
                    let seen = call.sent.zip(queued).filter(|_| !request.once);
                    self.found_in_line(ticket, seen, now);
                    let is_nobodys = owner.is_empty();
                    self.note_held(queue, owner, remaining, call.sent.unwrap_or(now), now);
                    if is_current {
                        self.refused(ticket, remaining, is_nobodys, now);
                    }
                }
                None => {
                    request.unresolved.failed = true;
                    self.fail_request(
                        ticket,
                        ErrorKind::Misconfigured,
                        "the server's reply is not Leasehold's; is something between client and server?",
                        now,
                    );
                }
            },
            Err(failure) => {
                if let CallError::Server { code, message } = &failure {
                    let refusal = Refusal::of(code);
                    request.unresolved.failed |= refusal != Refusal::BeforeWrite;
                    if refusal != Refusal::Temporary {
                        let why = explain(&request.keys, code, message);
                        self.fail_request(ticket, ErrorKind::Misconfigured, &why, now);
                        return;
                    }
                }
                self.note_failure(queue, &failure, now);
                if is_current {
                    self.unanswered(ticket, now);
                }
            }
        }
    }

    /// The answer to an attempt is overdue: ask again under the same id.
    pub(crate) fn attempt_overdue(&mut self, id: CallId, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        if request.state != State::Trying(id) {
            return;
        }
        if request.once {
            self.give_up(ticket, now);
        } else {
            self.attempt(ticket, now);
        }
    }

    fn refused(&mut self, ticket: Ticket, remaining: Option<Duration>, is_nobodys: bool, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        // Dead waiters are before it, of which one call passes over so many.
        let goes_on = is_nobodys && request.keys.kind.queues_on_server();
        if request.once {
            if goes_on {
                self.attempt_after_gap(ticket, now);
            } else {
                self.give_up(ticket, now);
            }
            return;
        }
        let (queue, again, marked) = (request.queue, request.again, request.marked);
        request.state = State::Sleeping;
        if request.keys.kind.queues_on_server() {
            let keys = Arc::clone(&request.keys);
            self.stand_in_line(queue, &keys, now);
            if again {
                self.attempt_after_gap(ticket, now);
            } else if goes_on {
                self.poll_line_soon(queue, now);
            }
            return;
        }
        if self.subscribe(queue) || again {
            self.attempt_after_gap(ticket, now);
            return;
        }
        if self.io.has(Defect::WaiterParks) {
            return;
        }
        let poll = if marked {
            self.heartbeat()
        } else {
            self.io.between(self.io.config().retry_interval)
        };
        let sleep = match remaining {
            Some(ttl) if self.io.has(Defect::WaiterTrustsMessages) => ttl,
            Some(ttl) if !ttl.is_zero() => ttl.saturating_add(Duration::from_millis(1)).min(poll),
            Some(_) => MIN_GAP,
            None => poll,
        };
        self.io.set(Timer::Wake(ticket), now + sleep);
    }

    /// An attempt came to nothing that says who holds the lock.
    fn unanswered(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        request.state = State::Sleeping;
        if request.once && request.unresolved.is_any() {
            self.give_up(ticket, now);
            return;
        }
        let pause = self.io.between(FAILURE_PAUSE);
        self.io.set(Timer::Wake(ticket), now + pause);
    }

    /// Takes a request out; what it may have been granted is owed a release.
    pub(crate) fn remove_request(&mut self, ticket: Ticket, now: Instant) {
        if !self.io.has(Defect::CancelLeavesRecord) {
            self.renounce(ticket, false, now);
        }
        let Some(request) = self.requests.remove(&ticket) else {
            return;
        };
        for timer in [Timer::Wake(ticket), Timer::Wait(ticket), Timer::Silence(ticket)] {
            self.io.stop(timer);
        }
        if let Some(queue) = self.queues.get_mut(request.queue) {
            queue.leave(ticket);
        }
        self.leave_line(ticket, request.queue);
        self.advance(request.queue, now);
    }

    /// Owes a release for what the request's owner id may have been granted, and
    /// gives it a new id: an id is not used again once a release was sent for it.
    fn renounce(&mut self, ticket: Ticket, granted: bool, now: Instant) {
        let fresh = self.io.owner_id();
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        let unresolved = std::mem::take(&mut request.unresolved);
        let marked = std::mem::take(&mut request.marked);
        request.queued = None;
        if unresolved.is_any() || granted || marked {
            let owner = std::mem::replace(&mut request.owner, fresh);
            let (queue, keys) = (request.queue, Arc::clone(&request.keys));
            let owed = Owed {
                lock: queue,
                keys,
                owner,
                ticket: None,
                hold: None,
                unresolved,
            };
            self.owe(owed, now);
        }
    }

    /// Turns a request into a hold.
    pub(crate) fn grant(&mut self, ticket: Ticket, granted: Granted, now: Instant) {
        let Some(request) = self.requests.remove(&ticket) else {
            return;
        };
        for timer in [Timer::Wake(ticket), Timer::Wait(ticket), Timer::Silence(ticket)] {
            self.io.stop(timer);
        }
        if let Some(queue) = self.queues.get_mut(request.queue) {
            queue.leave(ticket);
            queue.turn.granted(now);
            queue.wakes.changed();
        }
        self.leave_line(ticket, request.queue);
        let (queue, is_exclusive) = (request.queue, request.keys.kind.is_exclusive());
        let new = NewHold {
            lock: request.queue,
            keys: request.keys,
            owner: request.owner,
            context: request.context,
            plan: request.plan,
            max_hold: request.max_hold,
            unresolved: request.unresolved,
            token: granted.token.filter(|_| request.fencing),
            sent: granted.sent,
            ttl: granted.ttl,
            provisional: granted.provisional,
            waited: granted.provisional || granted.sent > request.started + MIN_GAP,
        };
        self.hold_by(holds::Input::Granted(ticket, new), now);
        if !is_exclusive {
            // The next one may get in beside it.
            self.advance(queue, now);
        }
    }
}
