//! The connection of one lane: script calls out, replies in, in order.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::{Call, CallError, CallId, Cause, Instant, Lane, brief};

use super::connect::{Boxed, Connector};
use super::failure::Failure;
use super::identity::Question;
use super::in_flight::{InFlight, Routed, TurnedAway};
use super::membership::Membership;
use super::outage::{Outage, up_to};
use super::purpose::Purpose;
use super::resp::Frame;
use super::wire::Wire;
use crate::settings::Settings;
use crate::transport::interface::{NODE, Seen};
use crate::world::Defect;

/// A lane's connection and the calls on their way.
///
/// Calls follow one another without waiting for replies. The first call of each
/// script takes its text along. When the server does not know a script later
/// (NOSCRIPT), nothing new is sent until all replies are in; then what was missing is
/// loaded and the calls are repeated, so that the order of calls stands.
pub(super) struct LaneLink {
    connector: Arc<Connector>,
    lane: Lane,
    state: State,
    /// The session was told that it is open.
    is_told: bool,
    /// Calls that were not handed to a connection.
    waiting: VecDeque<Waiting>,
    /// What is on the connection.
    in_flight: InFlight,
    /// Since when there is no connection, and how often one was tried.
    outage: Outage,
    /// Something is held or waited for: the server has to be a primary.
    is_in_use: bool,
    /// When the server is asked again what it is. One lane asks now and then, the other
    /// one when that has a new connection.
    look_due: Option<Instant>,
    /// A call that could not be sent for so long is answered "disconnected".
    patience: Duration,
    /// A connection that leaves a call unanswered for so long is given up.
    silence: Duration,
    /// The same while a connection that is being made waits for its answer.
    urgent: Duration,
    /// The same while no lease is shorter than the client's.
    longest_silence: Duration,
}

enum State {
    Connecting(Boxed<Result<Wire, Failure>>),
    Open { wire: Wire, since: Instant },
}

struct Waiting {
    routed: Routed,
    since: Instant,
}

/// How often a server in use is asked whether it is still a primary. Who only waits
/// would not notice: a replica, too, says that another holds the lock.
const LOOK: Duration = Duration::from_secs(5);

/// How long a renewal may go without an answer: one that waits for a dead connection is a
/// lock lost.
fn silence_of(lease: Duration) -> Duration {
    (lease / 3).max(Duration::from_millis(250))
}

impl LaneLink {
    pub(super) fn new(connector: &Arc<Connector>, settings: &Settings, lane: Lane) -> Self {
        let longest = settings.command_timeout.saturating_mul(2);
        let silence = match lane {
            Lane::Command => longest,
            Lane::Renewal => longest.min(silence_of(settings.lease.get())),
        };
        let outage = Outage::default();
        Self {
            connector: Arc::clone(connector),
            lane,
            state: State::Connecting(connector.open(Purpose::FirstCalls(lane), &outage, Instant::ZERO)),
            is_told: false,
            waiting: VecDeque::new(),
            in_flight: match connector.membership {
                Membership::Alone | Membership::Sentinel => InFlight::default(),
                Membership::Shard => InFlight::of_shard(),
            },
            outage,
            is_in_use: false,
            look_due: None,
            patience: settings.command_timeout,
            silence,
            urgent: longest.min(silence_of(settings.lease.get())),
            longest_silence: silence,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    pub(super) fn push(&mut self, call: Call, asking: bool) {
        self.waiting.push_back(Waiting {
            routed: Routed { call, asking },
            // Set by the first flush: pushing reads no clock.
            since: Instant::ZERO,
        });
    }

    /// Hands everything that waits to the connection in one write.
    pub(super) fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId)) {
        for waiting in self.waiting.iter_mut().rev() {
            if waiting.since != Instant::ZERO {
                break;
            }
            waiting.since = now;
        }
        if self.in_flight.is_repeating() {
            return;
        }
        let State::Open { wire, .. } = &mut self.state else {
            return;
        };
        if !self.waiting.is_empty() {
            for waiting in self.waiting.drain(..) {
                sent(waiting.routed.call.id);
                self.in_flight.call(waiting.routed, now, wire.out());
            }
            wire.write();
        }
        if self.is_in_use && self.look_due.is_some_and(|due| now >= due) {
            self.look_due = Some(now + LOOK).filter(|_| self.lane == Lane::Command);
            self.in_flight.look(now, wire.out());
            wire.write();
        }
    }

    /// Since when the oldest call on the connection has no answer.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        self.in_flight.since()
    }

    /// Takes the calls that the node of a cluster turned away.
    pub(super) fn take_turned_away(&mut self) -> Vec<TurnedAway> {
        self.in_flight.take_turned_away()
    }

    /// Takes the calls back that no connection has.
    pub(super) fn take_unsent(&mut self) -> impl Iterator<Item = Call> {
        self.waiting.drain(..).map(|waiting| waiting.routed.call)
    }

    /// The shortest lease that is renewed, if it has a length of its own.
    pub(super) fn set_shortest_lease(&mut self, lease: Option<Duration>) {
        self.silence = lease.map_or(self.longest_silence, |lease| {
            self.longest_silence.min(silence_of(lease))
        });
    }

    /// Reads a key for a connection that is being made, which may have found that the primary is elsewhere by now: so
    /// the server is asked, too, whether it is one. Gives the question back if there is no connection.
    pub(super) fn read(&mut self, question: Question, now: Instant) -> Result<(), Question> {
        let State::Open { wire, .. } = &mut self.state else {
            return Err(question);
        };
        self.in_flight.look(now, wire.out());
        self.in_flight.read(question, now, wire.out());
        wire.write();
        Ok(())
    }

    /// When the connection is given up, if no answer comes.
    fn silent_at(&self) -> Option<Instant> {
        self.in_flight.since().map(|since| since + self.silence())
    }

    /// The longest time that the oldest on the connection may go without an answer.
    fn silence(&self) -> Duration {
        if self.in_flight.is_asked() {
            // The connection that is being made may have to take its place.
            self.silence.min(self.urgent)
        } else {
            self.silence
        }
    }

    /// Something is held or waited for, or no longer.
    pub(super) fn set_in_use(&mut self, is_in_use: bool) {
        self.is_in_use = is_in_use && !self.connector.world.has(Defect::DemotedServerStays);
    }

    /// Has the server asked what it is with the next flush.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.look_due = Some(self.look_due.map_or(now, |due| due.min(now)));
    }

    /// Moves the connection on. Says why, if there is none any more or still none.
    ///
    /// A connection's end is told before its calls are answered.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) -> Option<Failure> {
        let mut failure = None;
        loop {
            let cause = match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(wire)) => {
                        self.state = State::Open { wire, since: now };
                        self.in_flight.set_sharded(self.connector.is_sharded());
                        // Those that were connected together do not look together.
                        self.look_due =
                            Some(now + up_to(&self.connector.world, LOOK)).filter(|_| self.lane == Lane::Command);
                        continue;
                    }
                    Poll::Ready(Err(cause)) => cause,
                },
                State::Open { wire, .. } => match poll_open(wire, &mut self.in_flight, context, now, seen) {
                    Err(cause) => cause,
                    Ok(()) => match self.silent_at().filter(|at| now >= *at) {
                        Some(_) => Failure::unavailable(format!("no answer for {}", brief(self.silence()))),
                        None => break,
                    },
                },
            };
            self.close(&cause, now, seen);
            failure = failure.or(Some(cause));
        }
        if !self.is_open() {
            self.drop_overdue(now, failure.as_ref(), seen);
        }
        failure
    }

    /// Tells the session once that the lane is open. Returns true if it did so now.
    pub(super) fn tell_open(&mut self, seen: &mut Vec<Seen>) -> bool {
        if !self.is_open() || mem::replace(&mut self.is_told, true) {
            return false;
        }
        seen.push(Seen::Opened(NODE, self.lane));
        true
    }

    /// Whether the session was told that it is open.
    pub(super) const fn is_told(&self) -> bool {
        self.is_told
    }

    /// Gives the connection up, if it is open.
    pub(super) fn give_up(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        if self.is_open() {
            self.close(failure, now, seen);
        }
    }

    /// Gives the connection up, also one that is still being made, and connects to where the server
    /// is now.
    pub(super) fn follow(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        self.close(failure, now, seen);
        self.outage.moved();
        self.state = State::Connecting(self.connector.open(Purpose::Calls(self.lane), &self.outage, now));
    }

    /// Gives the connection up, answers what was on it, and connects again.
    fn close(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        if let State::Open { since, .. } = self.state {
            self.outage.began(since, now);
        } else {
            self.outage.failed(now);
        }
        self.state = State::Connecting(self.connector.open(Purpose::Calls(self.lane), &self.outage, now));
        if mem::take(&mut self.is_told) {
            seen.push(Seen::Closed(NODE, self.lane, failure.cause().clone()));
        }
        for call in self.in_flight.take() {
            seen.push(disconnected(&call, failure.cause().clone()));
        }
    }

    /// Answers what has waited too long for a connection.
    fn drop_overdue(&mut self, now: Instant, failure: Option<&Failure>, seen: &mut Vec<Seen>) {
        let cause = || failure.map_or_else(|| "not connected".into(), |failure| failure.cause().clone());
        while let Some(front) = self.waiting.front()
            && front.since != Instant::ZERO
            && now >= front.since + self.patience
            && let Some(waiting) = self.waiting.pop_front()
        {
            seen.push(disconnected(&waiting.routed.call, cause()));
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Open { .. } => {
                let silence = self.silent_at();
                let look = self
                    .look_due
                    .filter(|_| self.is_in_use && !self.in_flight.is_repeating());
                silence.into_iter().chain(look).min()
            }
            State::Connecting(_) => self.waiting.front().map(|waiting| waiting.since + self.patience),
        }
    }
}

/// Takes what has come, and repeats what found no script.
fn poll_open(
    wire: &mut Wire,
    in_flight: &mut InFlight,
    context: &mut Context<'_>,
    now: Instant,
    seen: &mut Vec<Seen>,
) -> Result<(), Failure> {
    let mut demotion = Ok(());
    while let Poll::Ready(frame) = wire.poll(context) {
        // Nothing is listened to on this connection; a server may still tell something.
        let frame = match frame {
            Ok(frame) => frame,
            // What the server said of itself before is why.
            Err(end) => return Err(demotion.err().unwrap_or(end)),
        };
        let Frame::Reply(reply) = frame else { continue };
        // The replies behind this one are as good as it is.
        if let Err(failure) = in_flight.answered(reply, seen) {
            demotion = demotion.and(Err(failure));
        }
        if in_flight.repeat(now, wire.out()) {
            wire.write();
        }
    }
    demotion
}

fn disconnected(call: &Call, cause: Cause) -> Seen {
    Seen::Reply(call.id, Err(CallError::Disconnected(cause)))
}
