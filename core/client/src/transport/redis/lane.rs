//! The connection of one lane: sends script calls and receives their replies in order. A lane is a connection for
//! calls: commands have one, and renewals have another.
//!
//! `InFlight` has the commands that were sent on a lane's connection and have no reply yet, oldest first.
//!
//! ```text
//!   call ─► Call ── reply ─► reported, and after READONLY the connection is given up
//!             └─── NOSCRIPT ─► unknown script ── all others are answered ─► Load, Call
//!   load ─► Load ── refused: the calls of this script behind it fail with the server's error
//!   check_role ─► RoleCheck ── a replica: the connection is given up
//!   read_key ─► ReadKey ── any reply ─► passed to the connection that is being made
//!   the connection ends ─► each of its calls is answered as disconnected
//!   a node of a cluster: call ─► Call ── MOVED, ASK, TRYAGAIN, CLUSTERDOWN ─► rejected
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::{Call, CallError, CallId, Cause, Instant, Lane, Reply, SHARDED, Script, brief};
use steadlock_resp::commands;
use steadlock_resp::replies::{Frame, ServerError};
use tokio::sync::oneshot;

use super::attempt::Purpose;
use super::connect::{Boxed, Connector};
use super::failure::Failure;
use super::identity::Question;
use super::outage::{Outage, random_up_to};
use super::server_kind::ServerKind;
use super::wire::Wire;
use super::{permission, role};
use crate::settings::Settings;
use crate::transport::{NODE, TransportEvent};

/// A lane's connection and its calls.
///
/// Calls are sent without waiting for earlier replies. The text of a script (`SCRIPT LOAD`) is sent before its first
/// call. If the server forgets a script later (NOSCRIPT), no new call is sent until all replies have arrived. Then the
/// missing scripts are loaded and their calls repeated, which keeps the order of the calls.
pub(super) struct LaneLink {
    connector: Arc<Connector>,
    lane: Lane,
    state: State,
    /// Whether the session was told that the lane is open.
    is_reported: bool,
    /// Calls that were not given to a connection yet.
    waiting: VecDeque<Waiting>,
    /// The commands on the connection.
    in_flight: InFlight,
    /// The time since when there is no connection, and the number of failures.
    outage: Outage,
    /// Whether anything is held, waited for or owed. If so, the lane checks that the server is a primary.
    is_in_use: bool,
    /// The time of the next question whether the server is a primary. The command lane asks regularly, and each lane
    /// also asks when the other one has a new connection.
    role_check_due: Option<Instant>,
    /// The time after which a call is answered as disconnected if there is no connection to send it on.
    response_timeout: Duration,
    /// The time without a reply after which a connection is given up.
    silence_limit: Duration,
    /// The upper bound of `silence_limit` while a connection that is being made waits for an answer.
    urgent_silence_limit: Duration,
    /// The value of `silence_limit` while no lease is shorter than the client's.
    longest_silence_limit: Duration,
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
const ROLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Returns how long a renewal may stay without a reply. The renewal is sent after a third of the lease. If its
/// connection is given up another third later, the last third is left to renew on a new connection. The limit is never
/// shorter than 250 ms.
fn silence_limit_of(lease: Duration) -> Duration {
    (lease / 3).max(Duration::from_millis(250))
}

impl LaneLink {
    pub(super) fn new(connector: &Arc<Connector>, settings: &Settings, lane: Lane) -> Self {
        let longest = settings.command_timeout.saturating_mul(2);
        let silence_limit = match lane {
            Lane::Command => longest,
            Lane::Renewal => longest.min(silence_limit_of(settings.lease.get())),
        };
        let outage = Outage::default();
        Self {
            connector: Arc::clone(connector),
            lane,
            state: State::Connecting(connector.open(Purpose::FirstCalls(lane), &outage, Instant::ZERO)),
            is_reported: false,
            waiting: VecDeque::new(),
            in_flight: match connector.server_kind {
                ServerKind::Standalone | ServerKind::Sentinel => InFlight::default(),
                ServerKind::ClusterNode => InFlight::of_shard(),
            },
            outage,
            is_in_use: false,
            role_check_due: None,
            response_timeout: settings.command_timeout,
            silence_limit,
            urgent_silence_limit: longest.min(silence_limit_of(settings.lease.get())),
            longest_silence_limit: silence_limit,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Adds a call to send with the next flush.
    pub(super) fn push(&mut self, routed: Routed) {
        self.waiting.push_back(Waiting {
            routed,
            // Set by the first flush, because `push` reads no clock.
            since: Instant::ZERO,
        });
    }

    /// Sends all waiting calls in one write, if the connection is open and no script has to be loaded again first.
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
        if self.is_in_use && self.role_check_due.is_some_and(|due| now >= due) {
            self.role_check_due = Some(now + ROLE_CHECK_INTERVAL).filter(|_| self.lane == Lane::Command);
            self.in_flight.check_role(now, wire.out());
            wire.write();
        }
    }

    /// Returns the time since when the oldest command on the connection has no reply.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        self.in_flight.oldest_sent()
    }

    /// Removes and returns the calls that the cluster node rejected.
    pub(super) fn take_rejected(&mut self) -> Vec<RejectedCall> {
        self.in_flight.take_rejected()
    }

    /// Removes and returns the calls that were not sent.
    pub(super) fn take_unsent(&mut self) -> impl Iterator<Item = Call> {
        self.waiting.drain(..).map(|waiting| waiting.routed.call)
    }

    /// Sets the length of the shortest auto-renewed lease that has its own length; `None` if there is none.
    pub(super) fn set_shortest_lease(&mut self, lease: Option<Duration>) {
        self.silence_limit = lease.map_or(self.longest_silence_limit, |lease| {
            self.longest_silence_limit.min(silence_limit_of(lease))
        });
    }

    /// Reads a key for a connection that is being made, and asks whether the server is still a primary: the new
    /// connection may have found a newer primary. Returns the question if this lane has no connection.
    pub(super) fn read_key(&mut self, question: Question, now: Instant) -> Result<(), Question> {
        let State::Open { wire, .. } = &mut self.state else {
            return Err(question);
        };
        self.in_flight.check_role(now, wire.out());
        self.in_flight.read_key(question, now, wire.out());
        wire.write();
        Ok(())
    }

    /// Returns the time at which the connection is given up if no reply arrives.
    fn silent_at(&self) -> Option<Instant> {
        self.in_flight.oldest_sent().map(|since| since + self.silence_limit())
    }

    /// Returns how long the oldest command may stay without a reply.
    fn silence_limit(&self) -> Duration {
        if self.in_flight.has_key_question() {
            // The connection that is being made may have to replace this one.
            self.silence_limit.min(self.urgent_silence_limit)
        } else {
            self.silence_limit
        }
    }

    /// Sets whether anything is held, waited for or owed.
    pub(super) fn set_in_use(&mut self, is_in_use: bool) {
        self.is_in_use = is_in_use;
    }

    /// Makes the next flush ask whether the server is a primary.
    pub(super) fn check_role_soon(&mut self, now: Instant) {
        self.role_check_due = Some(self.role_check_due.map_or(now, |due| due.min(now)));
    }

    /// Advances the connection. Returns the reason why it was lost or could not be opened.
    ///
    /// The end of a connection is reported before the calls on it are answered.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        events: &mut Vec<TransportEvent>,
    ) -> Option<Failure> {
        let mut failure = None;
        loop {
            let cause = match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(wire)) => {
                        self.state = State::Open { wire, since: now };
                        self.in_flight.set_sharded(self.connector.is_sharded());
                        // A random start: clients that connected at the same moment do not ask at the same moment.
                        self.role_check_due = Some(now + random_up_to(&self.connector.world, ROLE_CHECK_INTERVAL))
                            .filter(|_| self.lane == Lane::Command);
                        continue;
                    }
                    Poll::Ready(Err(cause)) => cause,
                },
                State::Open { wire, .. } => match poll_open(wire, &mut self.in_flight, context, now, events) {
                    Err(cause) => cause,
                    Ok(()) => match self.silent_at().filter(|at| now >= *at) {
                        Some(_) => Failure::unavailable(format!("no answer for {}", brief(self.silence_limit()))),
                        None => break,
                    },
                },
            };
            self.close(&cause, now, events);
            failure = failure.or(Some(cause));
        }
        if !self.is_open() {
            self.drop_overdue(now, failure.as_ref(), events);
        }
        failure
    }

    /// Reports to the session, once for each connection, that the lane is open. Returns whether it did so now.
    pub(super) fn report_open(&mut self, events: &mut Vec<TransportEvent>) -> bool {
        if !self.is_open() || mem::replace(&mut self.is_reported, true) {
            return false;
        }
        events.push(TransportEvent::LaneOpened {
            node: NODE,
            lane: self.lane,
        });
        true
    }

    /// Whether the session was told that the lane is open.
    pub(super) const fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Gives up the connection, if it is open.
    pub(super) fn give_up(&mut self, failure: &Failure, now: Instant, events: &mut Vec<TransportEvent>) {
        if self.is_open() {
            self.close(failure, now, events);
        }
    }

    /// Gives up the connection, or the attempt to open one, and connects again soon, because the server may have a new
    /// address.
    pub(super) fn follow(&mut self, failure: &Failure, now: Instant, events: &mut Vec<TransportEvent>) {
        self.close(failure, now, events);
        self.outage.moved();
        self.state = State::Connecting(self.connector.open(Purpose::Calls(self.lane), &self.outage, now));
    }

    /// Gives up the connection, answers the calls on it, and connects again.
    fn close(&mut self, failure: &Failure, now: Instant, events: &mut Vec<TransportEvent>) {
        if let State::Open { since, .. } = self.state {
            self.outage.began(since, now);
        } else {
            self.outage.failed(now);
        }
        self.state = State::Connecting(self.connector.open(Purpose::Calls(self.lane), &self.outage, now));
        if mem::take(&mut self.is_reported) {
            events.push(TransportEvent::LaneClosed {
                node: NODE,
                lane: self.lane,
                cause: failure.cause().clone(),
            });
        }
        for call in self.in_flight.take() {
            events.push(disconnected(&call, failure.cause().clone()));
        }
    }

    /// Answers the calls that have waited too long for a connection.
    fn drop_overdue(&mut self, now: Instant, failure: Option<&Failure>, events: &mut Vec<TransportEvent>) {
        let cause = || failure.map_or_else(|| "not connected".into(), |failure| failure.cause().clone());
        while let Some(front) = self.waiting.front()
            && front.since != Instant::ZERO
            && now >= front.since + self.response_timeout
            && let Some(waiting) = self.waiting.pop_front()
        {
            events.push(disconnected(&waiting.routed.call, cause()));
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Open { .. } => {
                let silent_at = self.silent_at();
                let check_role = self
                    .role_check_due
                    .filter(|_| self.is_in_use && !self.in_flight.is_repeating());
                silent_at.into_iter().chain(check_role).min()
            }
            State::Connecting(_) => self
                .waiting
                .front()
                .map(|waiting| waiting.since + self.response_timeout),
        }
    }
}

/// Handles the replies that have arrived, and repeats calls whose script was missing.
fn poll_open(
    wire: &mut Wire,
    in_flight: &mut InFlight,
    context: &mut Context<'_>,
    now: Instant,
    events: &mut Vec<TransportEvent>,
) -> Result<(), Failure> {
    let mut demotion = Ok(());
    while let Poll::Ready(frame) = wire.poll(context) {
        let frame = match frame {
            Ok(frame) => frame,
            // An earlier reply that shows a demotion is the real cause.
            Err(end) => return Err(demotion.err().unwrap_or(end)),
        };
        // This connection has no subscriptions, but a server can still push something.
        let Frame::Reply(reply) = frame else { continue };
        // A demotion does not invalidate the replies behind it.
        if let Err(failure) = in_flight.on_reply(reply, events) {
            demotion = demotion.and(Err(failure));
        }
        if in_flight.repeat(now, wire.out()) {
            wire.write();
        }
    }
    demotion
}

fn disconnected(call: &Call, cause: Cause) -> TransportEvent {
    replied(call, Err(CallError::Disconnected(cause)))
}

fn replied(call: &Call, result: Result<Reply, CallError>) -> TransportEvent {
    TransportEvent::Reply { call: call.id, result }
}

#[derive(Default)]
pub(super) struct InFlight {
    entries: VecDeque<Entry>,
    /// Calls with the reply NOSCRIPT.
    unknown_script: Vec<Routed>,
    /// Calls that the node did not run; only for a node of a cluster.
    rejected: Option<Vec<RejectedCall>>,
    /// Whether messages use sharded channels.
    is_sharded: bool,
    /// Scripts whose text was sent on any connection of this lane and was not refused.
    loaded: BTreeSet<Script>,
    /// Scripts that the server refused when they were last sent, with its error.
    refused: BTreeMap<Script, ServerError>,
}

/// A call and its routing.
pub(super) struct Routed {
    pub(super) call: Call,
    /// Whether to ask the node to run the call although the slot is still migrating to it.
    pub(super) asking: bool,
    /// Whether the call was repeated after NOSCRIPT. Such a call is not repeated again.
    pub(super) is_repeated: bool,
}

/// A call to the owner of its slot.
impl From<Call> for Routed {
    fn from(call: Call) -> Self {
        Self {
            call,
            asking: false,
            is_repeated: false,
        }
    }
}

/// A call that a cluster node did not run, and the node's error.
pub(super) struct RejectedCall {
    pub(super) call: Call,
    pub(super) error: ServerError,
}

/// The error codes with which a cluster node rejects a call before it runs any part of it.
pub(super) const REROUTING_CODES: [&str; 4] = ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"];

/// Parts of the errors with which a node stops a script midway. While a node gives a slot away, it refuses commands on
/// keys that it does not have. An earlier command of the script can have removed such a key.
const STOPPED_IN_SCRIPT: [&str; 2] = [
    "attempted to access a non local key",
    // Redis 8.
    "undeclared keys were accessed during rehashing",
];

struct Entry {
    command: Command,
    sent: Instant,
}

enum Command {
    Call(Routed),
    /// The request to run the next call although its slot is still migrating to the node.
    Asking,
    Load(Script),
    /// The question whether the server is a primary.
    RoleCheck,
    /// The value of a key, for another connection.
    ReadKey(oneshot::Sender<Result<Reply, ServerError>>),
}

impl InFlight {
    /// Creates the state for a node of a cluster, which can reject calls.
    pub(super) fn of_shard() -> Self {
        Self {
            rejected: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Sets whether messages use sharded channels on this connection.
    pub(super) const fn set_sharded(&mut self, is_sharded: bool) {
        self.is_sharded = is_sharded;
    }

    /// Removes and returns the calls that the node has rejected.
    pub(super) fn take_rejected(&mut self) -> Vec<RejectedCall> {
        self.rejected.as_mut().map(mem::take).unwrap_or_default()
    }

    /// Returns the time at which the oldest command was sent.
    pub(super) fn oldest_sent(&self) -> Option<Instant> {
        self.entries.front().map(|entry| entry.sent)
    }

    /// Whether calls wait for their script to be loaded. No other call may be sent before them.
    pub(super) fn is_repeating(&self) -> bool {
        !self.unknown_script.is_empty()
    }

    /// Writes a call, and before it the script's text if this is the script's first call.
    pub(super) fn call(&mut self, routed: Routed, now: Instant, out: &mut Vec<u8>) {
        if !self.loaded.contains(&routed.call.script) {
            self.load(routed.call.script, now, out);
        }
        self.push_call(routed, now, out);
    }

    fn push_call(&mut self, routed: Routed, now: Instant, out: &mut Vec<u8>) {
        if routed.asking {
            commands::write(out, [b"ASKING".as_slice()].into_iter());
            self.push(Command::Asking, now);
        }
        let call = &routed.call;
        let word = (self.is_sharded && call.script.publishes()).then_some(SHARDED);
        commands::begin(out, 3 + call.keys.len() + call.args.len() + usize::from(word.is_some()));
        commands::bulk(out, b"EVALSHA");
        commands::bulk(out, call.script.sha1().as_bytes());
        commands::bulk_number(out, call.keys.len());
        for part in call.keys.iter().chain(&call.args) {
            commands::bulk(out, part);
        }
        if let Some(word) = word {
            commands::bulk(out, word);
        }
        self.push(Command::Call(routed), now);
    }

    fn load(&mut self, script: Script, now: Instant, out: &mut Vec<u8>) {
        self.loaded.insert(script);
        let parts: [&[u8]; 3] = [b"SCRIPT", b"LOAD", script.text().as_bytes()];
        commands::write(out, parts.into_iter());
        self.push(Command::Load(script), now);
    }

    /// Writes the question whether the server is a primary.
    pub(super) fn check_role(&mut self, now: Instant, out: &mut Vec<u8>) {
        commands::write(out, [role::QUESTION].into_iter());
        self.push(Command::RoleCheck, now);
    }

    /// Writes the question of a connection that is being made: the value of a key.
    pub(super) fn read_key(&mut self, question: Question, now: Instant, out: &mut Vec<u8>) {
        commands::write(out, [b"GET".as_slice(), &question.key].into_iter());
        self.push(Command::ReadKey(question.answer), now);
    }

    /// Whether a connection that is being made waits for an answer.
    pub(super) fn has_key_question(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| matches!(entry.command, Command::ReadKey(_)))
    }

    fn push(&mut self, command: Command, now: Instant) {
        self.entries.push_back(Entry { command, sent: now });
    }

    /// Handles the reply to the oldest command.
    ///
    /// # Errors
    /// The server is no longer a primary, or its reply matches no command.
    pub(super) fn on_reply(
        &mut self,
        reply: Result<Reply, ServerError>,
        events: &mut Vec<TransportEvent>,
    ) -> Result<(), Failure> {
        let Some(entry) = self.entries.pop_front() else {
            return Err(Failure::unavailable("the server's replies do not match the calls"));
        };
        let routed = match entry.command {
            // An error of `ASKING` also fails the call after it.
            Command::Asking => return Ok(()),
            Command::RoleCheck => return role::check_primary(&reply),
            Command::ReadKey(answer) => {
                // The other connection may no longer wait.
                let _ = answer.send(reply);
                return Ok(());
            }
            Command::Load(script) => {
                if let Err(error) = reply {
                    self.loaded.remove(&script);
                    self.refused.insert(script, error);
                } else {
                    self.refused.remove(&script);
                }
                return Ok(());
            }
            Command::Call(routed) => routed,
        };
        let call = &routed.call;
        let error = match reply {
            Ok(reply) => {
                events.push(replied(call, Ok(reply)));
                return Ok(());
            }
            Err(error) => error,
        };
        if error.code == NO_SCRIPT {
            let refusal = self.refused.get(&call.script);
            if refusal.is_none() && !routed.is_repeated {
                self.unknown_script.push(routed);
                return Ok(());
            }
            let error = refusal.unwrap_or(&error);
            events.push(replied(call, Err(permission::explain(error, call))));
            return Ok(());
        }
        if let Some(rejected) = &mut self.rejected {
            if REROUTING_CODES.contains(&error.code.as_str()) {
                let call = routed.call;
                rejected.push(RejectedCall { call, error });
                return Ok(());
            }
            let message = error.message.to_ascii_lowercase();
            if STOPPED_IN_SCRIPT.iter().any(|text| message.contains(text)) {
                // Reported like a closed connection: the script may have taken effect, so the call is unresolved.
                let cause = Cause::new("the lock's slot is on its way to another node");
                events.push(disconnected(call, cause));
                return Ok(());
            }
        }
        events.push(replied(call, Err(permission::explain(&error, call))));
        role::not_primary_code(&error).map_or(Ok(()), |code| Err(Failure::demoted(code)))
    }

    /// Loads the missing scripts and repeats their calls, once all replies have arrived. Returns whether it wrote
    /// anything.
    pub(super) fn repeat(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.unknown_script.is_empty() || !self.entries.is_empty() {
            return false;
        }
        let calls = mem::take(&mut self.unknown_script);
        let missing: BTreeSet<Script> = calls.iter().map(|routed| routed.call.script).collect();
        for script in missing {
            self.load(script, now, out);
        }
        for routed in calls {
            let repeated = Routed {
                is_repeated: true,
                ..routed
            };
            self.push_call(repeated, now, out);
        }
        true
    }

    /// Removes and returns the calls that will get no reply, oldest first.
    pub(super) fn take(&mut self) -> Vec<Call> {
        self.refused.clear();
        let unknown_script = mem::take(&mut self.unknown_script).into_iter();
        let mut calls: Vec<Call> = unknown_script.map(|routed| routed.call).collect();
        let sent = mem::take(&mut self.entries).into_iter();
        calls.extend(sent.filter_map(|entry| match entry.command {
            Command::Call(routed) => Some(routed.call),
            Command::Asking | Command::Load(_) | Command::RoleCheck | Command::ReadKey(_) => None,
        }));
        calls
    }
}

/// The error code of a server that does not know the script.
const NO_SCRIPT: &str = "NOSCRIPT";
