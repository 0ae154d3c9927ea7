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
//! Only the first request of a queue leaves `Queued`. A request keeps one owner
//! id for all its tries, so that asking again after a lost answer finds its own
//! record; once a release for that id is owed, it draws a new one.

use std::sync::Arc;
use std::time::Duration;

use crate::calls::{InFlight, Purpose};
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::hold::LeasePlan;
use crate::instant::Instant;
use crate::kinds::{Answer, Keys, parse_answer};
use crate::lease::deadline;
use crate::owner::OwnerId;
use crate::queue::{LastAnswer, QueueId};
use crate::reply::{CallError, Refusal, Reply};
use crate::session::{AcquireRequest, CallId, Context, Lane, Outcome, Session, Ticket};
use crate::timers::Timer;

/// The shortest time between two tries of one waiter.
const MIN_GAP: Duration = Duration::from_millis(2);
/// The longest TTL that an attempt sets; an orphan lives no longer.
pub(crate) const MAX_ATTEMPT: Duration = Duration::from_secs(30);
/// How much longer than its wait a caller is kept while the first answer is due.
const FIRST_ANSWER_GRACE: Duration = Duration::from_millis(40);
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
    queue: QueueId,
    keys: Arc<Keys>,
    owner: OwnerId,
    pub(crate) context: Option<Context>,
    plan: LeasePlan,
    max_hold: Option<Duration>,
    fencing: bool,
    /// It tries once and does not wait.
    once: bool,
    started: Instant,
    state: State,
    /// A message came while an attempt was in flight: the refusal may be stale.
    again: bool,
    last_try: Option<Instant>,
    /// The first answer was given its grace.
    graced: bool,
    /// What the server may have granted without our knowing.
    pub(crate) doubt: Doubt,
}

/// Attempts of one owner id whose outcome is not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubt {
    /// Calls in flight.
    pub(crate) open: Vec<CallId>,
    /// A call was sent and its connection closed: it may run after a release
    /// that takes the next connection.
    pub(crate) cut: bool,
    /// A call failed in a way that does not exclude a grant.
    pub(crate) failed: bool,
}

impl Doubt {
    /// Whether there may be a record.
    pub(crate) fn is_any(&self) -> bool {
        !self.open.is_empty() || self.cut || self.failed
    }

    /// A call's answer came, or its connection closed.
    pub(crate) fn answered(&mut self, call: CallId) {
        self.open.retain(|open| *open != call);
    }
}

impl Session {
    /// Queues a caller that holds nothing yet.
    pub(crate) fn enqueue(&mut self, ticket: Ticket, request: AcquireRequest, keys: Arc<Keys>, now: Instant) {
        let id = self.queues.open(&keys);
        let once = request.wait.is_some_and(|wait| wait.is_zero());
        let Some(queue) = self.queues.get_mut(id) else { return };
        if once && !queue.is_idle() {
            let error = self.others_first(id, &keys, now);
            self.complete(ticket, Outcome::NotGranted(error));
            return;
        }
        queue.waiting.push_back(ticket);
        let owner = OwnerId::random(self.config.client, &mut *self.entropy);
        let plan = LeasePlan::of(request.lease, &self.config);
        match request.wait {
            Some(wait) if wait.is_zero() => self.timers.set(Timer::Wait(ticket), now + self.config.command_timeout),
            Some(wait) => self.timers.set(Timer::Wait(ticket), now + wait),
            None => self.timers.set(Timer::Silence(ticket), now + self.longest_silence()),
        }
        self.requests.insert(
            ticket,
            Request {
                queue: id,
                keys,
                owner,
                context: request.context,
                plan,
                max_hold: request.max_hold,
                fencing: request.fencing,
                once,
                started: now,
                state: State::Queued,
                again: false,
                last_try: None,
                graced: false,
                doubt: Doubt::default(),
            },
        );
        self.advance(id, now);
    }

    /// Lets the first of the queue try, if nobody here holds the lock.
    pub(crate) fn advance(&mut self, id: QueueId, now: Instant) {
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
        if request.state != State::Queued {
            return;
        }
        if queue.turn.is_over(now) {
            request.state = State::Pausing;
            queue.turn.passed_on();
            let pause = self.between(TURN_PAUSE);
            self.timers.set(Timer::Wake(ticket), now + pause);
        } else {
            self.attempt(ticket, now);
        }
    }

    /// The lock may be free: the first of the queue tries again.
    pub(crate) fn wake_first(&mut self, id: QueueId, now: Instant) {
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

    fn attempt_after_gap(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        let earliest = request.last_try.map_or(now, |last| last + MIN_GAP);
        if now < earliest {
            request.state = State::Sleeping;
            self.timers.set(Timer::Wake(ticket), earliest);
        } else {
            self.attempt(ticket, now);
        }
    }

    /// Asks the server, if there is a connection; else sleeps until there is.
    fn attempt(&mut self, ticket: Ticket, now: Instant) {
        self.timers.stop(Timer::Wake(ticket));
        let connected = self.is_connected();
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        if !connected {
            request.state = State::Sleeping;
            return;
        }
        let longest = request.max_hold.map_or(MAX_ATTEMPT, |max| max.min(MAX_ATTEMPT));
        let ttl = request.plan.length.min(longest);
        let invocation = request.keys.acquire(&request.owner, ttl, request.fencing);
        let call = self.calls.start(Purpose::Acquire { ticket, ttl });
        request.state = State::Trying(call);
        request.again = false;
        request.last_try = Some(now);
        request.doubt.open.push(call);
        self.timers
            .set(Timer::CallTimeout(call), now + self.config.command_timeout);
        self.transmit(call, Lane::Command, invocation);
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
        let asked = |request: &&mut Request| request.doubt.open.contains(&id);
        let Some(request) = self.requests.get_mut(&ticket).filter(asked) else {
            // Granted by another try, asked under an id that was given up, or gone: what
            // it may have got is in doubt there.
            self.doubt_answered(id, call, &result, now);
            return;
        };
        request.doubt.answered(id);
        let is_current = request.state == State::Trying(id);
        let queue = request.queue;
        if let Some(queue) = self.queues.get_mut(queue).filter(|_| result.is_ok()) {
            queue.heard = Some(now);
        }
        match result {
            Ok(reply) => match parse_answer(&reply) {
                Some(Answer::Granted(token)) => {
                    let sent = call.sent.or(request.last_try).unwrap_or(request.started);
                    if deadline(sent, ttl) > now {
                        self.grant(ticket, token, sent, ttl, now);
                    } else {
                        // It came too late to be of use. Give it back, and ask under a new id.
                        self.renounce(ticket, true, now);
                        self.attempt(ticket, now);
                    }
                }
                Some(Answer::Held { owner, ttl: remaining }) => {
                    self.note_held(queue, owner, remaining, now);
                    if is_current {
                        self.refused(ticket, remaining, now);
                    }
                }
                None => {
                    request.doubt.failed = true;
                    self.fail_request(
                        ticket,
                        ErrorKind::Misconfigured,
                        "the server's reply is not Leasehold's; is something between client and server?",
                        now,
                    );
                }
            },
            Err(CallError::Server { code, message }) => match Refusal::of(&code) {
                Refusal::BeforeWrite => {
                    self.fail_request(ticket, ErrorKind::Misconfigured, &explain(&code, &message), now);
                }
                Refusal::Temporary => {
                    request.doubt.failed = true;
                    self.note_failure(queue, format!("{code} {message}"), now);
                    if is_current {
                        self.unanswered(ticket, now);
                    }
                }
                Refusal::Permanent => {
                    request.doubt.failed = true;
                    self.fail_request(ticket, ErrorKind::Misconfigured, &explain(&code, &message), now);
                }
            },
            Err(CallError::Disconnected(cause)) => {
                request.doubt.cut |= call.sent.is_some();
                self.note_failure(queue, cause, now);
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

    fn refused(&mut self, ticket: Ticket, remaining: Option<Duration>, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        if request.once {
            self.give_up(ticket, now);
            return;
        }
        let (queue, again) = (request.queue, request.again);
        request.state = State::Sleeping;
        self.subscribe(queue);
        if again {
            self.attempt_after_gap(ticket, now);
            return;
        }
        let poll = self.between(self.config.poll);
        let sleep = match remaining {
            Some(ttl) if !ttl.is_zero() => ttl.saturating_add(Duration::from_millis(1)).min(poll),
            Some(_) => MIN_GAP,
            None => poll,
        };
        self.timers.set(Timer::Wake(ticket), now + sleep);
    }

    /// An attempt came to nothing that says who holds the lock.
    fn unanswered(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        request.state = State::Sleeping;
        if request.once && request.doubt.is_any() {
            self.give_up(ticket, now);
            return;
        }
        let pause = self.between(FAILURE_PAUSE);
        self.timers.set(Timer::Wake(ticket), now + pause);
    }

    /// A caller's wait is over.
    pub(crate) fn wait_over(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        let first_answer_due = matches!(request.state, State::Trying(_)) && !request.once && !request.graced;
        let started = request.started;
        let answered = |(at, answer): &(Instant, LastAnswer)| *at >= started && matches!(answer, LastAnswer::Held(_));
        let heard = self
            .queues
            .get(request.queue)
            .and_then(|queue| queue.last_answer.as_ref())
            .is_some_and(answered);
        if first_answer_due && !heard {
            request.graced = true;
            self.timers.set(Timer::Wait(ticket), now + FIRST_ANSWER_GRACE);
        } else {
            self.give_up(ticket, now);
        }
    }

    /// A caller without a bound has waited one lease since it last asked whether
    /// the server is there.
    pub(crate) fn silence(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        let Some(queue) = self.queues.get(request.queue) else {
            return;
        };
        let heard = match queue.heard {
            _ if queue.holding.is_some() => now,
            Some(at) => at.max(request.started),
            None => request.started,
        };
        let patience = heard + self.longest_silence();
        if patience > now {
            self.timers.set(Timer::Silence(ticket), patience);
        } else {
            // Whatever was said before: who waits without bound is not told "held".
            let outcome = Outcome::Failed(self.no_answer(request, now));
            self.complete(ticket, outcome);
            self.remove_request(ticket, now);
        }
    }

    /// How long a caller without a bound bears to hear nothing: one lease, but no less
    /// than it takes to ask again and be answered.
    fn longest_silence(&self) -> Duration {
        let asked_again = self.config.poll.1.saturating_add(self.config.command_timeout);
        self.config.lease.get().max(asked_again)
    }

    fn give_up(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        let error = self.not_granted(request, now);
        let outcome = match error.kind() {
            ErrorKind::LockTimeout => Outcome::NotGranted(error),
            _ => Outcome::Failed(error),
        };
        self.complete(ticket, outcome);
        self.remove_request(ticket, now);
    }

    fn fail_request(&mut self, ticket: Ticket, kind: ErrorKind, message: &str, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        let error = Error::new(kind, Operation::Acquire, message).with_lock(request.keys.name.as_str());
        self.complete(ticket, Outcome::Failed(error));
        self.remove_request(ticket, now);
    }

    /// Takes a request out; what it may have been granted is owed a release.
    pub(crate) fn remove_request(&mut self, ticket: Ticket, now: Instant) {
        self.renounce(ticket, false, now);
        let Some(request) = self.requests.remove(&ticket) else {
            return;
        };
        for timer in [Timer::Wake(ticket), Timer::Wait(ticket), Timer::Silence(ticket)] {
            self.timers.stop(timer);
        }
        if let Some(queue) = self.queues.get_mut(request.queue) {
            queue.waiting.retain(|waiting| *waiting != ticket);
        }
        self.advance(request.queue, now);
    }

    /// Owes a release for what the request's owner id may have been granted, and
    /// gives it a new id: an id is not used again once a release was sent for it.
    fn renounce(&mut self, ticket: Ticket, granted: bool, now: Instant) {
        let fresh = OwnerId::random(self.config.client, &mut *self.entropy);
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        let doubt = std::mem::take(&mut request.doubt);
        if doubt.is_any() || granted {
            let owner = std::mem::replace(&mut request.owner, fresh);
            let (queue, keys) = (request.queue, Arc::clone(&request.keys));
            self.compensate(queue, keys, owner, doubt, now);
        }
    }

    /// Turns a request into a hold.
    fn grant(&mut self, ticket: Ticket, token: Option<crate::Token>, sent: Instant, ttl: Duration, now: Instant) {
        let Some(request) = self.requests.remove(&ticket) else {
            return;
        };
        for timer in [Timer::Wake(ticket), Timer::Wait(ticket), Timer::Silence(ticket)] {
            self.timers.stop(timer);
        }
        if let Some(queue) = self.queues.get_mut(request.queue) {
            queue.waiting.retain(|waiting| *waiting != ticket);
            queue.turn.granted(now);
        }
        self.start_hold(
            ticket,
            crate::hold::Grant {
                queue: request.queue,
                keys: request.keys,
                owner: request.owner,
                context: request.context,
                plan: request.plan,
                max_hold: request.max_hold,
                doubt: request.doubt,
                token,
                sent,
                ttl,
            },
            now,
        );
    }

    /// The server said who holds the lock.
    fn note_held(&mut self, id: QueueId, owner: String, remaining: Option<Duration>, now: Instant) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.last_answer = Some((now, LastAnswer::Held(Holder { owner, remaining })));
            queue.turn.passed_on();
        }
    }

    fn note_failure(&mut self, id: QueueId, cause: String, now: Instant) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.last_answer = Some((now, LastAnswer::Failed(cause)));
        }
    }

    /// Why a caller that does not wait is refused without asking the server.
    fn others_first(&self, id: QueueId, keys: &Keys, now: Instant) -> Error {
        match self.local_holder(id, now) {
            Some(holder) => held_error(keys, Duration::ZERO, holder),
            None => {
                let message = "not granted: others of this client wait for it already; wait longer or try again";
                Error::new(ErrorKind::LockTimeout, Operation::Acquire, message).with_lock(keys.name.as_str())
            }
        }
    }

    /// Why a caller that waited does not get the lock: it is held (`LockTimeout`),
    /// or the server did not say so (`Unavailable`).
    fn not_granted(&self, request: &Request, now: Instant) -> Error {
        let waited = now.saturating_since(request.started);
        let queue = self.queues.get(request.queue);
        let last_answer = queue.and_then(|queue| queue.last_answer.as_ref());
        let held = self.local_holder(request.queue, now).or_else(|| match last_answer {
            // A waiter whose turn never came has it from those before it.
            Some((at, LastAnswer::Held(holder))) if *at >= request.started || request.last_try.is_none() => {
                Some(holder.clone())
            }
            _ => None,
        });
        match held {
            Some(holder) => held_error(&request.keys, waited, holder),
            None => self.no_answer(request, now),
        }
    }

    /// Why a caller hears that the server did not answer.
    fn no_answer(&self, request: &Request, now: Instant) -> Error {
        let waited = now.saturating_since(request.started);
        let queue = self.queues.get(request.queue);
        let last_answer = queue.and_then(|queue| queue.last_answer.as_ref());
        let cause = match last_answer {
            _ if !self.is_connected() => self.outage(),
            Some((at, LastAnswer::Failed(cause))) if *at >= request.started => cause.clone(),
            _ => "no answer".into(),
        };
        let message =
            format!("the server did not answer within {waited:?}: {cause}; check that it is up and reachable");
        Error::new(ErrorKind::Unavailable, Operation::Acquire, message).with_lock(request.keys.name.as_str())
    }

    /// Who of this client holds the lock.
    fn local_holder(&self, id: QueueId, now: Instant) -> Option<Holder> {
        let hold = self.queues.get(id)?.holding?;
        Some(self.holds.get(&hold)?.as_holder(now))
    }
}

fn held_error(keys: &Keys, waited: Duration, holder: Holder) -> Error {
    let left = match holder.remaining {
        Some(left) => format!("for another {left:?} unless it is renewed"),
        None => "by a record without TTL".into(),
    };
    let message = format!(
        "not granted after {waited:?}: held by {} {left}; wait longer or try again",
        holder.owner
    );
    Error::new(ErrorKind::LockTimeout, Operation::Acquire, message)
        .with_lock(keys.name.as_str())
        .with_holder(Some(holder))
}

/// What a server's error means for a lock.
pub(crate) fn explain(code: &str, message: &str) -> String {
    match code {
        "WRONGTYPE" => "the key of this name holds something that is not a lock; choose another name".into(),
        "LEASEHOLD_TOKEN" => {
            format!("{message}; delete the key leasehold:token of this name after checking who wrote it")
        }
        _ => format!("the server refused: {code} {message}"),
    }
}
