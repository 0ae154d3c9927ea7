//! One acquisition, from ticket to grant or refusal.
//!
//! ```text
//!            first in the queue, and the lock is not held here
//!  Queued ───────────────────────────────────────────────► Asking
//!    │  this client's turn is over                          │ ▲ │
//!    └────────────────► Pausing ── 2–5 ms ──────────────────┘ │ │ granted
//!                                               TTL, message, │ │────────► a Hold
//!                          refused, or no answer      poll or │ │ wait = 0, or a
//!                       Asking ─────────► Sleeping ── pause ──┘ │ permanent error
//!                                                               └────────► refused
//!
//!  without a connection: Sleeping instead of Asking, until one opens
//!  Asking ── overdue ──► Asking once more, or refused if wait = 0
//!  Asking ── granted too late ──► Asking once more; again in a row ──► Pausing; the fifth
//!              time, unless the wait has a bound ──► refused
//!  Pausing ── wait is over, and no attempt was sent ──► Asking
//!  Queued ── wait is over, and the first one here is answered, or holds the lock ──► refused
//!  Asking, Sleeping ── the server grants the lock to a waiter in its queue ──► a Hold
//!  Sleeping ── an overdue attempt is granted, or fails for good ──► as from Asking
//!
//!  any state ── the circuit breaker of its primary opens ──► refused, or Queued in this
//!                                                  client, where the first one is
//!                                                  granted a degraded lease ──► a Hold
//!  Queued in an outage ── the primary serves again ──► Asking, if first or of a fair lock
//!  any state ── wait is over, cancelled, closed ──► gone; a compensating release is owed
//!                                                  if an attempt is unresolved
//! ```
//!
//! Only the first request of a local queue asks. A request in the server's queue, or in no queue, starts as `Asking`. A
//! request keeps one owner id for all its attempts, so that an attempt after a lost reply finds the record of the
//! attempt before it. Once a release for that id is owed, the request draws a new id.
//!
//! A thread can have two waits at once, because a signal handler can run during a wait of its thread. When one of them
//! is granted the lock, the router (`locks.rs`) decides the other one anew, by its `CallerWait`.
//!
//! A bounded wait that is over, and a single attempt without a grant, fail with `LockTimeout` if the client knows that
//! another owner holds the lock, or that other callers of this client come first. Otherwise they fail with
//! `Unavailable`. A bounded wait lasts up to 40 ms longer if its first answer is still due. A permanent error fails any
//! request with `Misconfigured`.

use std::sync::Arc;
use std::time::Duration;

use super::queue::{Place, Queue};
use crate::calls::{InFlight, Purpose, Resolved, Unresolved};
use crate::error::{Cause, Error, ErrorKind, Holder, Operation};
use crate::ids::{CallId, Context, HAS_CALLERS, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Attempt, Keys, QueueEntry, RunSeen};
use crate::lateness::Lateness;
use crate::lease::{LeasePlan, LeaseTerms};
use crate::owner::OwnerId;
use crate::periods::{MAX_ATTEMPT, MIN_GAP};
use crate::run::RunEnd;
use crate::skip::{Skip, SkipReason};
use crate::step::{GrantKind, Granted, NewHold, Owed, Wanted};
use crate::timers::Timer;
use crate::types::{AcquireRequest, Lane, OnUnavailable, Outcome};
use crate::wording::brief;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Other waiters come first, or the lock is held in this client.
    Queued,
    /// The request waits before its next attempt: other clients come first, or grants came too late.
    Pausing,
    /// An attempt is in flight.
    Asking(CallId),
    /// The last attempt was refused or failed, or there is no connection.
    Sleeping,
}

/// A caller's request for a lock.
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
    /// Whether the request is a single attempt, which does not wait.
    once: bool,
    /// Whether the wait has a bound; `false` for a single attempt, which does not wait.
    bounded: bool,
    /// How many grants in a row came too late.
    lateness: Lateness,
    /// Whether the server has refused an attempt, because other owners hold the lock or other waiters come first.
    was_refused: bool,
    /// The owner id of the write hold inside which the caller reads, if any.
    inside: Option<OwnerId>,
    /// Whether a refusal left the mark of a waiting writer on the server (`Kind::leaves_mark`).
    marked: bool,
    /// Whether the answer to an attempt said that the request is in the server's queue.
    in_server_queue: bool,
    started: Instant,
    state: State,
    /// Whether a refusal may be stale, because a message arrived or may have been missed during the attempt.
    stale: bool,
    last_attempt: Option<Instant>,
    /// Whether the wait is over and was prolonged once, for the first answer.
    graced: bool,
    /// The unresolved attempts under the present owner id.
    unresolved: Unresolved,
}

/// The part of a request that is abandoned together with its owner id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renounced {
    /// A grant that came too late. Its record may still be on the server.
    Grant,
    /// The attempts, of which some may have been granted.
    Attempts,
}

/// The data of a new request that the caller does not supply.
pub(super) struct Arrival {
    pub(super) lock: LockId,
    pub(super) place: Place,
    pub(super) keys: Arc<Keys>,
    /// The owner id of the write hold inside which the caller reads, if any.
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
            once: is_single_attempt(request),
            bounded: request.wait.is_some() && !is_single_attempt(request),
            lateness: Lateness::default(),
            was_refused: false,
            inside: arrival.inside,
            marked: false,
            in_server_queue: false,
            started: now,
            state: State::Queued,
            stale: false,
            last_attempt: None,
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

    #[cfg(test)]
    pub(super) const fn owner(&self) -> &OwnerId {
        &self.owner
    }

    pub(super) const fn context(&self) -> Option<Context> {
        if HAS_CALLERS { self.context } else { None }
    }

    pub(super) const fn fencing(&self) -> bool {
        self.fencing
    }

    /// Returns the waiter as the server's queue stores it.
    pub(super) fn queue_entry(&self) -> QueueEntry {
        QueueEntry {
            owner: self.owner.clone(),
            fencing: self.fencing,
        }
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

    pub(super) const fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    pub(super) const fn started(&self) -> Instant {
        self.started
    }

    /// Whether the request is a single attempt, which does not wait.
    pub(super) const fn is_once(&self) -> bool {
        self.once
    }

    pub(super) const fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// Whether the wait has a bound; `false` for a single attempt, which does not wait.
    pub(super) const fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// Counts a grant that came too late, and returns how many came in a row.
    pub(super) const fn count_late_grant(&mut self) -> Lateness {
        self.lateness.again();
        self.lateness
    }

    /// Notes that an answer arrived in time: a grant at that moment would have been useful.
    pub(super) const fn reset_lateness(&mut self) {
        self.lateness.over();
    }

    /// Whether an attempt for `ttl` asks for less than the lease because of `max_hold`.
    pub(super) fn is_cut(&self, ttl: Duration) -> bool {
        ttl < self.plan.length && ttl < MAX_ATTEMPT
    }

    /// Returns when the request last sent an attempt.
    pub(super) const fn last_attempt(&self) -> Option<Instant> {
        self.last_attempt
    }

    /// Whether the server has refused an attempt, because other owners hold the lock or other waiters come first.
    pub(super) const fn was_refused(&self) -> bool {
        self.was_refused
    }

    /// Whether the request has left the mark of a waiting writer on the server, and must renew it before it expires.
    pub(super) const fn is_marked(&self) -> bool {
        self.marked
    }

    /// Whether the request is known to be in the server's queue.
    pub(super) const fn is_in_server_queue(&self) -> bool {
        self.in_server_queue
    }

    /// Whether an attempt is in flight.
    pub(super) const fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking(_))
    }

    /// Whether this call is the current attempt.
    pub(super) fn is_asking_by(&self, call: CallId) -> bool {
        self.state == State::Asking(call)
    }

    /// Whether the request waits until it is first in the local queue.
    pub(super) fn is_queued(&self) -> bool {
        self.state == State::Queued
    }

    pub(super) fn is_sleeping(&self) -> bool {
        self.state == State::Sleeping
    }

    /// Whether the answer to the current attempt may be stale.
    pub(super) const fn is_stale(&self) -> bool {
        self.stale
    }

    /// Whether the request must ask for itself: neither the first waiter of a local queue nor a poll asks for it.
    pub(super) const fn asks_itself(&self) -> bool {
        match self.place {
            Place::Queue => false,
            Place::Server => !self.is_in_server_queue(),
            Place::Alone => true,
        }
    }

    /// Notes that the answer to the current attempt may be stale, because a message arrived or may have been missed.
    pub(super) const fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// Notes that the answer to an attempt said that the request is in the server's queue.
    pub(super) const fn mark_in_server_queue(&mut self) {
        self.in_server_queue = true;
    }

    /// Lets the request wait before its next attempt.
    pub(super) const fn pause(&mut self) {
        self.state = State::Pausing;
    }

    pub(super) const fn sleep(&mut self) {
        self.state = State::Sleeping;
    }

    /// Lets the request wait until it is first in the local queue.
    pub(super) const fn queue(&mut self) {
        self.state = State::Queued;
        self.stale = false;
    }

    /// Whether a wait that is over must be prolonged, once, for the first answer. The answer is due while an attempt is
    /// in flight. It is also due if the request never had its turn to ask, the node is connected or connecting, and no
    /// failure of the server is known.
    pub(super) fn is_due_grace(&self, queue: Option<&Queue>, io: &Io) -> bool {
        let node = self.keys.node;
        let may_ask = io.is_connected(node) || io.is_connecting(node);
        let will_ask = || self.last_attempt.is_none() && may_ask && queue.and_then(Queue::last_failure).is_none();
        !self.once && !self.graced && (self.is_asking() || will_ask())
    }

    /// Notes that the wait is prolonged for the first answer. A pausing request asks at once.
    pub(super) fn give_grace(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        self.graced = true;
        if self.state == State::Pausing {
            self.attempt(io, ticket, now);
        }
    }

    /// Whether the wait is over, and was prolonged for the first answer.
    pub(super) const fn is_graced(&self) -> bool {
        self.graced
    }

    /// Whether the request waits for one answer only.
    pub(super) const fn ends_with_next_answer(&self) -> bool {
        self.once || self.graced
    }

    /// Notes a poll that names the request, because such a poll counts as an attempt.
    pub(super) fn polled(&mut self, call: CallId) {
        self.unresolved.sent(call);
    }

    /// Notes that an attempt was answered, or was cut off.
    pub(super) fn resolved(&mut self, resolved: Resolved) {
        if self.is_attempt(resolved.attempt) {
            self.unresolved.resolved(resolved);
        }
    }

    /// Whether the answer to this call matters: the call is an attempt or a poll under the present owner id.
    pub(super) fn is_attempt(&self, call: CallId) -> bool {
        self.unresolved.in_flight().contains(&call)
    }

    /// Notes that an attempt failed, and whether the server may have granted it all the same.
    pub(super) const fn failed_attempt(&mut self, may_be_granted: bool) {
        self.unresolved.failed(may_be_granted);
    }

    /// Whether the server may have a record for the present owner id.
    pub(super) fn is_unresolved(&self) -> bool {
        self.unresolved.is_any()
    }

    /// Notes that the server refused an attempt, because other owners hold the lock or other waiters come first.
    pub(super) fn refused(&mut self) {
        self.was_refused = true;
        self.marked = !self.once && self.keys.kind.leaves_mark();
    }

    /// Returns when an answered attempt was sent.
    pub(super) fn sent(&self, call: InFlight) -> Instant {
        call.sent.or(self.last_attempt).unwrap_or(self.started)
    }

    /// Sends an attempt, because a pause, a sleep or a gap is over.
    pub(super) fn wake(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        if matches!(self.state, State::Sleeping | State::Pausing) {
            self.attempt(io, ticket, now);
        }
    }

    /// Sends an attempt, but not before `MIN_GAP` has passed since the last one.
    pub(super) fn attempt_after_gap(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        let earliest = self.last_attempt.map_or(now, |last| last + MIN_GAP);
        if now < earliest {
            self.state = State::Sleeping;
            io.set(Timer::Wake(ticket), earliest);
        } else {
            self.attempt(io, ticket, now);
        }
    }

    /// Sends an attempt if the node is connected; otherwise sleeps until it is.
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
            client: io.own_info(),
        });
        io.identify(node, now);
        let overdue = io.timeout(now);
        let purpose = Purpose::Acquire { ticket, ttl };
        let call = io.call(purpose, node, Lane::Command, invocation, Some(overdue));
        self.state = State::Asking(call);
        self.stale = false;
        self.last_attempt = Some(now);
        self.unresolved.sent(call);
    }

    /// Abandons the owner id if a compensating release is owed for it, and returns that release. The request then gets
    /// a new owner id, because an id is never used again after a release was sent for it.
    pub(super) fn renounce(&mut self, io: &mut Io, renounced: Renounced) -> Option<Owed> {
        let fresh = io.owner_id();
        let unresolved = std::mem::take(&mut self.unresolved);
        let marked = std::mem::take(&mut self.marked);
        self.in_server_queue = false;
        let is_owed = unresolved.is_any() || renounced == Renounced::Grant || marked;
        is_owed.then(|| Owed {
            lock: self.lock,
            keys: Arc::clone(&self.keys),
            owner: std::mem::replace(&mut self.owner, fresh),
            ticket: None,
            hold: None,
            end: RunEnd::Unused.into(),
            unresolved,
        })
    }

    /// Turns the request into the hold that it was granted.
    pub(super) fn into_hold(self, granted: Granted) -> NewHold {
        NewHold {
            lock: self.lock,
            keys: self.keys,
            owner: self.owner,
            context: self.context,
            plan: self.plan,
            max_hold: self.max_hold,
            unresolved: self.unresolved,
            granted: Granted {
                token: granted.token.filter(|_| self.fencing),
                ..granted
            },
            waited: granted.kind == GrantKind::Provisional || granted.sent > self.started + MIN_GAP,
        }
    }

    /// Returns the error of a failed request.
    pub(super) fn failed(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, Operation::Acquire, message).with_lock(self.keys.name.as_str())
    }
}

/// Whether a request is a single attempt, which does not wait.
pub(super) fn is_single_attempt(request: &AcquireRequest) -> bool {
    request.wait.is_some_and(|wait| wait.is_zero())
}

/// A wait of a caller, with all that is needed to request its lock again.
pub(crate) struct CallerWait {
    pub(crate) ticket: Ticket,
    pub(crate) keys: Arc<Keys>,
    pub(crate) plan: LeasePlan,
    /// Whether the caller waits without a bound.
    pub(crate) is_endless: bool,
    request: AcquireRequest,
}

impl CallerWait {
    pub(super) fn of(ticket: Ticket, request: &Request) -> Self {
        let keys = request.keys();
        Self {
            ticket,
            keys: Arc::clone(keys),
            plan: request.plan(),
            is_endless: !request.is_once() && !request.is_bounded(),
            request: AcquireRequest {
                kind: keys.kind,
                name: keys.name.clone(),
                context: request.context(),
                within: None,
                wait: None,
                lease: LeaseTerms::default(),
                max_hold: request.max_hold(),
                fencing: request.fencing(),
                on_unavailable: request.on_unavailable(),
                blocked: Vec::new(),
                run: None,
            },
        }
    }

    /// Returns a new request for the lock of an endless wait: the caller now reads inside the write hold of `writer`.
    pub(crate) fn again(self, writer: OwnerId) -> Wanted {
        Wanted {
            ticket: self.ticket,
            request: self.request,
            keys: self.keys,
            inside: Some(writer),
            plan: self.plan,
        }
    }
}

/// A wait that ends: the request, the queue of the lock, and the holder in this client, if there is one.
pub(super) struct Wait<'a> {
    pub(super) request: &'a Request,
    pub(super) queue: Option<&'a Queue>,
    pub(super) local: Option<KnownHolder>,
}

/// The holder of a lock, for the error of a caller that does not get the lock.
pub(super) struct KnownHolder {
    pub(super) holder: Holder,
    /// Whether the holder is the thread or task that requests the lock.
    pub(super) is_the_caller: bool,
}

impl Wait<'_> {
    /// Returns the outcome of a wait that is over.
    pub(super) fn outcome(self, io: &Io, now: Instant) -> Outcome {
        let error = self.not_granted(io, now);
        match error.kind() {
            ErrorKind::LockTimeout => Outcome::NotGranted(error),
            _ => Outcome::Failed(error),
        }
    }

    /// Returns why the caller is not granted the lock: another owner holds it, or other callers of this client come
    /// first (`LockTimeout`); or the client knows neither (`Unavailable`).
    fn not_granted(self, io: &Io, now: Instant) -> Error {
        let request = self.request;
        let waited = now.saturating_since(request.started());
        let last_holder = self.queue.and_then(|queue| {
            let (at, holder) = queue.last_holder()?;
            // A waiter that never asked uses the answer to the waiters before it.
            let is_of_others = request.last_attempt().is_none() && !queue.had_contact_after(at);
            (at >= request.started() || is_of_others).then(|| holder.clone())
        });
        let remote = last_holder.map(|holder| KnownHolder {
            holder,
            is_the_caller: false,
        });
        match self.local.or(remote) {
            Some(holder) => held_error(request.keys(), Some(waited), holder, io),
            None if others_had_it(request, self.queue, io) => request
                .failed(ErrorKind::LockTimeout, format!("not granted after {}", brief(waited)))
                .with_cause(Cause::new("others of this client come first").with_advice("wait longer")),
            None => no_answer(request, self.queue, io, now),
        }
    }
}

/// Whether a caller never asked the server, because other callers of this client held the lock, or got answers, while
/// it waited.
fn others_had_it(request: &Request, queue: Option<&Queue>, io: &Io) -> bool {
    let Some(queue) = queue else { return false };
    let had_contact = queue
        .last_contact()
        .is_some_and(|last_contact| last_contact >= request.started());
    let is_answered = io.is_connected(request.node()) && queue.last_failure().is_none();
    request.last_attempt().is_none() && had_contact && is_answered
}

/// Returns the error of a caller that does not learn who holds the lock.
pub(super) fn no_answer(request: &Request, queue: Option<&Queue>, io: &Io, now: Instant) -> Error {
    let waited = now.saturating_since(request.started());
    let node = request.node();
    let is_connected = io.is_connected(node);
    let failure = queue.and_then(|queue| queue.failure_since(request.started()));
    let (what, cause) = match failure {
        Some(why) if is_connected => (format!("not granted after {}", brief(waited)), why.clone()),
        // The cause says how long the caller waited.
        _ if is_connected => (String::new(), io.unreached(node, waited)),
        _ => (
            format!("not granted after {}", brief(waited)),
            io.unreached(node, waited),
        ),
    };
    request.failed(ErrorKind::Unavailable, what).with_cause(cause)
}

/// Returns the outcome of a single attempt that a local check refuses, with no server call.
pub(super) fn others_first(queue: &Queue, local: Option<KnownHolder>, io: &Io) -> Outcome {
    let keys = queue.keys();
    if let Some(holder) = local {
        return Outcome::NotGranted(held_error(keys, None, holder, io));
    }
    let silence = if io.is_connected(keys.node) {
        queue.last_failure().cloned()
    } else {
        Some(io.unreached(keys.node, Duration::ZERO))
    };
    let error = |kind, why: Cause| {
        let error = Error::new(kind, Operation::Acquire, "not granted");
        error.with_cause(why).with_lock(keys.name.as_str())
    };
    match silence {
        // The waiters get no answer either.
        Some(why) => Outcome::Failed(error(ErrorKind::Unavailable, why)),
        None => {
            let why = Cause::new("others of this client wait for it already");
            Outcome::NotGranted(error(ErrorKind::LockTimeout, why.with_advice(LATER)))
        }
    }
}

/// Returns the error of a caller that waited for `waited`, or that was refused with no server call (`None`).
fn held_error(keys: &Keys, waited: Option<Duration>, holder: KnownHolder, io: &Io) -> Error {
    let KnownHolder {
        mut holder,
        is_the_caller,
    } = holder;
    let after = waited.map_or_else(String::new, |waited| format!(" after {}", brief(waited)));
    let error = |cause: Cause, advice: &str| {
        let error = Error::new(
            ErrorKind::LockTimeout,
            Operation::Acquire,
            format!("not granted{after}"),
        );
        error
            .with_cause(cause.with_advice(advice))
            .with_lock(keys.name.as_str())
    };
    if holder.owner.is_empty() && keys.kind.queues_on_server() {
        return error(Cause::new("others wait for it and come first"), LATER);
    }
    let left = match holder.remaining {
        Some(left) => format!("for another {} unless it is renewed", brief(left)),
        None => "by a record without TTL".into(),
    };
    holder.client = io.identity_of(&holder.owner);
    if is_the_caller {
        let cause = Cause::new(format!("held by the calling thread or task itself {left}"));
        return error(cause, NOT_REENTRANT).with_holder(Some(holder));
    }
    let by = match (&holder.client, holder.owner.as_str()) {
        (Some(client), _) => client.to_string(),
        (None, "") => "an owner without a name".into(),
        (None, owner) => owner.into(),
    };
    error(Cause::new(format!("held by {by} {left}")), LATER).with_holder(Some(holder))
}

/// Returns the error of a request that another run keeps out.
pub(super) fn skipped(request: &Request, holder: Holder, run: &RunSeen) -> Error {
    let by = match (&holder.client, holder.owner.as_str()) {
        (Some(client), _) => client.to_string(),
        (None, owner) => owner.into(),
    };
    let (reason, cause) = match run.took {
        None => {
            let cause = format!("{by} has been running it for {}", brief(run.age));
            let cause = Cause::new(cause).with_advice("try again when that run has ended");
            (SkipReason::Running, cause)
        }
        Some(took) => {
            let ended = run.age.saturating_sub(took);
            let cause = Cause::new(format!("{by} ran it in {}, {} ago", brief(took), brief(ended)));
            let again = holder
                .remaining
                .map(|left| format!("it can run again in {}", brief(left)));
            (SkipReason::Done, again.into_iter().fold(cause, Cause::with_advice))
        }
    };
    let skip = Skip {
        reason,
        since: Some(run.since),
        took: run.took,
    };
    let error = request.failed(ErrorKind::Skipped, "skipped").with_cause(cause);
    error.with_holder(Some(holder)).with_skip(skip)
}

/// The advice for a caller that was not granted the lock.
const LATER: &str = "wait longer or try again";
/// The advice for a holder that requests the lock again.
const NOT_REENTRANT: &str = "this kind of lock is not reentrant: release it first";
