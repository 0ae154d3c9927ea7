//! The connection of one lane: sends script calls and receives their replies in order.

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

/// A lane's connection and its calls.
///
/// Calls are sent without waiting for earlier replies. The first call of each script is preceded by the script's text.
/// If the server forgets a script later (NOSCRIPT), nothing new is sent until all replies have arrived. Then the
/// missing scripts are loaded and their calls repeated, which keeps the order of the calls.
pub(super) struct LaneLink {
    connector: Arc<Connector>,
    lane: Lane,
    state: State,
    /// Whether the session was told that the lane is open.
    is_told: bool,
    /// Calls that were not given to a connection yet.
    waiting: VecDeque<Waiting>,
    /// The commands on the connection.
    in_flight: InFlight,
    /// The time since when there is no connection, and the number of attempts.
    outage: Outage,
    /// Whether anything is held or waited for. Then the server must be a primary.
    is_in_use: bool,
    /// The time of the next question whether the server is a primary. The command lane asks regularly, and each lane
    /// also asks when the other one has a new connection.
    look_due: Option<Instant>,
    /// The time after which a call that cannot be sent is answered as disconnected.
    patience: Duration,
    /// The time without a reply after which a connection is given up.
    silence: Duration,
    /// The limit of `silence` while a connection that is being made waits for an answer.
    urgent: Duration,
    /// The value of `silence` while no lease is shorter than the client's.
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

/// The interval at which a server in use is asked whether it is still a primary. Waiters alone would not notice a
/// demotion: a replica, too, replies that another owner holds the lock.
const LOOK: Duration = Duration::from_secs(5);

/// Returns how long a renewal may stay without a reply. A lock is lost if its renewals wait too long on a dead
/// connection.
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
            // Set by the first flush, because `push` reads no clock.
            since: Instant::ZERO,
        });
    }

    /// Sends all waiting calls in one write.
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

    /// Returns the time since when the oldest command on the connection has no reply.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        self.in_flight.since()
    }

    /// Removes and returns the calls that the cluster node turned away.
    pub(super) fn take_turned_away(&mut self) -> Vec<TurnedAway> {
        self.in_flight.take_turned_away()
    }

    /// Removes and returns the calls that were not sent.
    pub(super) fn take_unsent(&mut self) -> impl Iterator<Item = Call> {
        self.waiting.drain(..).map(|waiting| waiting.routed.call)
    }

    /// Sets the length of the shortest auto-renewed lease that has its own length.
    pub(super) fn set_shortest_lease(&mut self, lease: Option<Duration>) {
        self.silence = lease.map_or(self.longest_silence, |lease| {
            self.longest_silence.min(silence_of(lease))
        });
    }

    /// Reads a key for a connection that is being made, and asks whether the server is still a primary: the new
    /// connection may have found a newer primary. Returns the question if this lane has no connection.
    pub(super) fn read(&mut self, question: Question, now: Instant) -> Result<(), Question> {
        let State::Open { wire, .. } = &mut self.state else {
            return Err(question);
        };
        self.in_flight.look(now, wire.out());
        self.in_flight.read(question, now, wire.out());
        wire.write();
        Ok(())
    }

    /// Returns the time at which the connection is given up if no reply arrives.
    fn silent_at(&self) -> Option<Instant> {
        self.in_flight.since().map(|since| since + self.silence())
    }

    /// Returns how long the oldest command may stay without a reply.
    fn silence(&self) -> Duration {
        if self.in_flight.is_asked() {
            // The connection that is being made may have to replace this one.
            self.silence.min(self.urgent)
        } else {
            self.silence
        }
    }

    /// Sets whether anything is held or waited for.
    pub(super) fn set_in_use(&mut self, is_in_use: bool) {
        self.is_in_use = is_in_use && !self.connector.world.has(Defect::DemotedServerStays);
    }

    /// Makes the next flush ask whether the server is a primary.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.look_due = Some(self.look_due.map_or(now, |due| due.min(now)));
    }

    /// Advances the connection. Returns the reason why it was lost or could not be opened.
    ///
    /// The end of a connection is reported before the calls on it are answered.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) -> Option<Failure> {
        let mut failure = None;
        loop {
            let cause = match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(wire)) => {
                        self.state = State::Open { wire, since: now };
                        self.in_flight.set_sharded(self.connector.is_sharded());
                        // A random start: clients that connected at the same moment do not ask at the same moment.
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

    /// Reports to the session once that the lane is open. Returns whether it did so now.
    pub(super) fn tell_open(&mut self, seen: &mut Vec<Seen>) -> bool {
        if !self.is_open() || mem::replace(&mut self.is_told, true) {
            return false;
        }
        seen.push(Seen::Opened(NODE, self.lane));
        true
    }

    /// Whether the session was told that the lane is open.
    pub(super) const fn is_told(&self) -> bool {
        self.is_told
    }

    /// Gives up the connection, if it is open.
    pub(super) fn give_up(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        if self.is_open() {
            self.close(failure, now, seen);
        }
    }

    /// Gives up the connection, or the attempt to open one, and connects to the server's new address.
    pub(super) fn follow(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        self.close(failure, now, seen);
        self.outage.moved();
        self.state = State::Connecting(self.connector.open(Purpose::Calls(self.lane), &self.outage, now));
    }

    /// Gives up the connection, answers the calls on it, and connects again.
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

    /// Answers the calls that have waited too long for a connection.
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

/// Handles the replies that have arrived, and repeats calls whose script was missing.
fn poll_open(
    wire: &mut Wire,
    in_flight: &mut InFlight,
    context: &mut Context<'_>,
    now: Instant,
    seen: &mut Vec<Seen>,
) -> Result<(), Failure> {
    let mut demotion = Ok(());
    while let Poll::Ready(frame) = wire.poll(context) {
        // This connection has no subscriptions, but a server can still push something.
        let frame = match frame {
            Ok(frame) => frame,
            // An earlier reply that shows a demotion is the real cause.
            Err(end) => return Err(demotion.err().unwrap_or(end)),
        };
        let Frame::Reply(reply) = frame else { continue };
        // A demotion does not invalidate the replies behind it.
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
