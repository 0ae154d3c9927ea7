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
//!  without a connection: Sleeping instead of Trying
//!  Trying ── overdue, or granted too late ──► Trying once more
//!  Trying ── granted too late several times in a row ──► Pausing, ever longer; without
//!              a bound of its own ──► refused
//!  Pausing ── wait is over, and it has not asked ──► Trying
//!  Queued ── wait is over, and the first here is answered, or holds the lock ──► refused
//!  Sleeping ── the server grants of its own accord, or an attempt that was given up
//!              is answered ──► a Hold, or refused
//!
//!  any state ── its primary's circuit breaker opens ──► refused, or Queued among those
//!                                                  of this client alone, where the first
//!                                                  gets ──► a Hold of this client
//!  Queued so ── the primary serves again ──► Trying, if the server has the queue
//!  any state ── wait is over, cancelled, closed ──► gone; what a call in flight
//!                                                  may still be granted is owed a
//!                                                  release
//! ```
//!
//! Only the first request of a queue leaves `Queued`. Who stands in the server's
//! queue, or in none, is `Trying` from the start. A request keeps one owner id for
//! all its attempts, so that asking again after a lost answer finds its own record;
//! once a release for that id is owed, it draws a new one.

use std::sync::Arc;
use std::time::Duration;

use super::queue::{Place, Queue};
use crate::calls::{InFlight, Purpose, Unresolved};
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{CallId, Context, HAS_CALLERS, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Attempt, Keys};
use crate::lateness::Lateness;
use crate::lease::LeasePlan;
use crate::owner::OwnerId;
use crate::periods::{MAX_ATTEMPT, MIN_GAP};
use crate::step::{Granted, NewHold, Owed};
use crate::timers::Timer;
use crate::types::{AcquireRequest, Lane, OnUnavailable};

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
pub(super) struct Request {
    lock: LockId,
    place: Place,
    keys: Arc<Keys>,
    owner: OwnerId,
    context: Option<Context>,
    plan: LeasePlan,
    max_hold: Option<Duration>,
    fencing: bool,
    on_unavailable: OnUnavailable,
    /// It tries once and does not wait.
    once: bool,
    /// Its wait has an end of its own.
    bounded: bool,
    /// Grants that came too late for it.
    lateness: Lateness,
    /// The server told it that others hold what it wants.
    told_held: bool,
    /// The write hold that this read is taken inside.
    inside: Option<OwnerId>,
    /// A refusal left its mark on the server.
    marked: bool,
    /// A call was answered that it is in the server's queue: the fair queue knows since when.
    queued: bool,
    started: Instant,
    state: State,
    /// A message came while an attempt was in flight: the refusal may be stale.
    again: bool,
    last_try: Option<Instant>,
    /// The first answer was given its grace.
    graced: bool,
    /// What the server may have granted without our knowing.
    unresolved: Unresolved,
}

/// Why a request is where it is.
pub(super) struct Arrival {
    pub(super) lock: LockId,
    pub(super) place: Place,
    pub(super) keys: Arc<Keys>,
    /// The write hold that a read is taken inside.
    pub(super) inside: Option<OwnerId>,
    pub(super) plan: LeasePlan,
    pub(super) owner: OwnerId,
}

impl Request {
    pub(super) fn new(arrival: Arrival, request: &AcquireRequest, now: Instant) -> Self {
        Self {
            lock: arrival.lock,
            place: arrival.place,
            keys: arrival.keys,
            owner: arrival.owner,
            context: request.context,
            plan: arrival.plan,
            max_hold: request.max_hold,
            fencing: request.fencing,
            on_unavailable: request.on_unavailable,
            once: tries_once(request),
            bounded: request.wait.is_some() && !tries_once(request),
            lateness: Lateness::default(),
            told_held: false,
            inside: arrival.inside,
            marked: false,
            queued: false,
            started: now,
            state: State::Queued,
            again: false,
            last_try: None,
            graced: false,
            unresolved: Unresolved::default(),
        }
    }

    pub(super) const fn lock(&self) -> LockId {
        self.lock
    }

    pub(super) const fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    pub(super) fn node(&self) -> NodeId {
        self.keys.node
    }

    pub(super) const fn owner(&self) -> &OwnerId {
        &self.owner
    }

    pub(super) const fn context(&self) -> Option<Context> {
        if HAS_CALLERS { self.context } else { None }
    }

    pub(super) const fn fencing(&self) -> bool {
        self.fencing
    }

    pub(super) const fn on_unavailable(&self) -> OnUnavailable {
        self.on_unavailable
    }

    #[cfg(test)]
    pub(super) const fn set_on_unavailable(&mut self, policy: OnUnavailable) {
        self.on_unavailable = policy;
    }

    pub(super) const fn plan(&self) -> LeasePlan {
        self.plan
    }

    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// From now on it stands there.
    pub(super) const fn stand(&mut self, place: Place) {
        self.place = place;
    }

    pub(super) const fn started(&self) -> Instant {
        self.started
    }

    /// Whether it tries once and does not wait.
    pub(super) const fn is_once(&self) -> bool {
        self.once
    }

    /// The longest that its hold may last.
    pub(super) const fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// Whether its wait has an end of its own.
    pub(super) const fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// A grant came too late; how many have so far.
    pub(super) const fn was_late(&mut self) -> Lateness {
        self.lateness.again();
        self.lateness
    }

    /// An answer came while something of its lease would have been left.
    pub(super) const fn was_answered_in_time(&mut self) {
        self.lateness.over();
    }

    /// Whether an attempt for `ttl` is for less than it wants, as its hold may last no longer.
    pub(super) fn is_cut(&self, ttl: Duration) -> bool {
        ttl < self.plan.length && ttl < MAX_ATTEMPT
    }

    /// When it last asked the server.
    pub(super) const fn last_try(&self) -> Option<Instant> {
        self.last_try
    }

    /// Whether the server told it that others hold what it wants.
    pub(super) const fn was_told_held(&self) -> bool {
        self.told_held
    }

    /// Whether it left its mark on the server, to be renewed before that ends.
    pub(super) const fn is_marked(&self) -> bool {
        self.marked
    }

    /// Whether the server is known to have it in its queue.
    pub(super) const fn is_queued(&self) -> bool {
        self.queued
    }

    /// Whether an attempt is in flight.
    pub(super) const fn is_trying(&self) -> bool {
        matches!(self.state, State::Trying(_))
    }

    /// Whether this is the attempt in flight that counts.
    pub(super) fn is_trying_by(&self, call: CallId) -> bool {
        self.state == State::Trying(call)
    }

    pub(super) fn is_waiting_for_turn(&self) -> bool {
        self.state == State::Queued
    }

    pub(super) fn is_sleeping(&self) -> bool {
        self.state == State::Sleeping
    }

    /// Whether it was refused while the answer may have become stale.
    pub(super) const fn is_stale(&self) -> bool {
        self.again
    }

    /// Whether nobody else asks for it: it stands in no local queue.
    pub(super) const fn asks_itself(&self) -> bool {
        match self.place {
            Place::Queue => false,
            Place::Server => !self.is_queued(),
            Place::Alone => true,
        }
    }

    /// A message spoke of it while it was asking: the answer may be stale.
    pub(super) const fn ask_again(&mut self) {
        self.again = true;
    }

    pub(super) const fn found_queued(&mut self) {
        self.queued = true;
    }

    /// Lets other clients go before it.
    pub(super) const fn pause(&mut self) {
        self.state = State::Pausing;
    }

    pub(super) const fn sleep(&mut self) {
        self.state = State::Sleeping;
    }

    /// It waits until it is the first here.
    pub(super) const fn queue(&mut self) {
        self.state = State::Queued;
        self.again = false;
    }

    /// Whether an answer is due that it has not waited for yet: then it waits a little longer, once. That is so
    /// while an attempt is in flight, and if it was not its turn to ask a server from which nothing bad is known.
    pub(super) fn is_due_grace(&self, queue: Option<&Queue>, io: &Io) -> bool {
        let node = self.keys.node;
        let may_ask = io.is_connected(node) || io.is_connecting(node);
        let is_to_ask = || self.last_try.is_none() && may_ask && queue.and_then(Queue::last_failure).is_none();
        !self.once && !self.graced && (self.is_trying() || is_to_ask())
    }

    /// From now on it waits for the first answer alone. If it let others go first, it asks.
    pub(super) fn give_grace(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        self.graced = true;
        if self.state == State::Pausing {
            self.attempt(io, ticket, now);
        }
    }

    /// Whether its wait has ended, and the first answer is given its grace.
    pub(super) const fn is_graced(&self) -> bool {
        self.graced
    }

    /// Whether its time is over, but for the first answer.
    pub(super) const fn is_over_but_for_an_answer(&self) -> bool {
        self.once || self.graced
    }

    /// A poll is an attempt of it, too.
    pub(super) fn polled(&mut self, call: CallId) {
        self.unresolved.sent(call);
    }

    /// An attempt of it was answered, or cut off.
    pub(super) fn resolved(&mut self, call: CallId, was_cut: bool) {
        if self.is_attempt(call) {
            self.unresolved.answered(call, was_cut);
        }
    }

    /// Whether an answer to this call is of use: it is an attempt under its present owner id.
    pub(super) fn is_attempt(&self, call: CallId) -> bool {
        self.unresolved.in_flight().contains(&call)
    }

    /// An attempt failed, perhaps in a way that does not exclude a grant.
    pub(super) const fn failed_attempt(&mut self, may_be_granted: bool) {
        self.unresolved.failed(may_be_granted);
    }

    /// Whether there may be a record of it.
    pub(super) fn is_unresolved(&self) -> bool {
        self.unresolved.is_any()
    }

    /// The server refused it, since others hold the lock.
    pub(super) fn refused(&mut self) {
        self.told_held = true;
        self.marked = !self.once && self.keys.kind.leaves_mark();
    }

    /// When an attempt was sent that was answered.
    pub(super) fn sent(&self, call: InFlight) -> Instant {
        call.sent.or(self.last_try).unwrap_or(self.started)
    }

    /// A pause, sleep or gap is over.
    pub(super) fn wake(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        if matches!(self.state, State::Sleeping | State::Pausing) {
            self.attempt(io, ticket, now);
        }
    }

    pub(super) fn attempt_after_gap(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        let earliest = self.last_try.map_or(now, |last| last + MIN_GAP);
        if now < earliest {
            self.state = State::Sleeping;
            io.set(Timer::Wake(ticket), earliest);
        } else {
            self.attempt(io, ticket, now);
        }
    }

    /// Asks the server, if there is a connection; else sleeps until there is.
    pub(super) fn attempt(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        io.stop(Timer::Wake(ticket));
        let node = self.keys.node;
        if !io.is_connected(node) {
            self.state = State::Sleeping;
            return;
        }
        let longest = self.max_hold.map_or(MAX_ATTEMPT, |max| max.min(MAX_ATTEMPT));
        let ttl = self.plan.length.min(longest);
        let invocation = self.keys.acquire(&Attempt {
            owner: &self.owner,
            ttl,
            fencing: self.fencing,
            waits: !self.once,
            inside: self.inside.as_ref(),
        });
        io.identify(node, now);
        let overdue = io.timeout(now);
        let purpose = Purpose::Acquire { ticket, ttl };
        let call = io.call(purpose, (node, Lane::Command), invocation, Some(overdue));
        self.state = State::Trying(call);
        self.again = false;
        self.last_try = Some(now);
        self.unresolved.sent(call);
    }

    /// The release that is owed for what its owner id may have been granted. It draws a new
    /// id: one is not used again once a release was sent for it.
    pub(super) fn renounce(&mut self, io: &mut Io, granted: bool) -> Option<Owed> {
        let fresh = io.owner_id();
        let unresolved = std::mem::take(&mut self.unresolved);
        let marked = std::mem::take(&mut self.marked);
        self.queued = false;
        let is_owed = unresolved.is_any() || granted || marked;
        is_owed.then(|| Owed {
            lock: self.lock,
            keys: Arc::clone(&self.keys),
            owner: std::mem::replace(&mut self.owner, fresh),
            ticket: None,
            hold: None,
            unresolved,
        })
    }

    /// What it becomes when it is granted.
    pub(super) fn into_hold(self, granted: Granted) -> NewHold {
        NewHold {
            lock: self.lock,
            keys: self.keys,
            owner: self.owner,
            context: self.context,
            plan: self.plan,
            max_hold: self.max_hold,
            unresolved: self.unresolved,
            token: granted.token.filter(|_| self.fencing),
            sent: granted.sent,
            ttl: granted.ttl,
            provisional: granted.provisional,
            is_local: granted.is_local,
            waited: granted.provisional || granted.sent > self.started + MIN_GAP,
        }
    }

    /// Why it comes to nothing.
    pub(super) fn failed(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, Operation::Acquire, message).with_lock(self.keys.name.as_str())
    }
}

/// Whether a caller does not wait.
pub(super) fn tries_once(request: &AcquireRequest) -> bool {
    request.wait.is_some_and(|wait| wait.is_zero())
}
