//! The connection of one lane: script calls out, replies in, in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_protocol::{Call, CallError, CallId, Instant, Lane, Reply, Script};
use redis::{Cmd, Pipeline, PushKind, RedisResult, ServerError, ServerErrorKind, Value};

use super::connect::{Boxed, Calls, Connector, Failure, plain};
use super::outage::{Outage, up_to};
use super::{permission, role};
use crate::settings::Settings;
use crate::transport::interface::{NODE, Seen};

/// A lane's connection and the calls on their way.
///
/// Batches follow one another without waiting for replies. The first call of each
/// script takes its text along. When the server does not know a script later
/// (NOSCRIPT), nothing new is sent until all replies are in; then one batch loads
/// what was missing and repeats the calls, so that the order of calls stands.
pub(super) struct LaneLink {
    connector: Arc<Connector>,
    lane: Lane,
    state: State,
    /// The session was told that it is open.
    is_told: bool,
    /// Calls that were not handed to a connection.
    waiting: VecDeque<Waiting>,
    /// Batches on the connection, oldest first.
    in_flight: VecDeque<Batch>,
    /// Calls that were answered NOSCRIPT.
    unknown: Vec<Call>,
    /// Scripts whose text was sent to some server.
    loaded: BTreeSet<Script>,
    /// Since when there is no connection, and how often one was tried.
    outage: Outage,
    /// Something is held or waited for: the server has to be a primary.
    is_in_use: bool,
    /// When the server is asked again what it is. One lane asks now and then, the other
    /// one when that has a new connection.
    look_due: Option<Instant>,
    /// A call that could not be sent for so long is answered "disconnected".
    patience: Duration,
    /// A connection that leaves a batch unanswered for so long is given up.
    silence: Duration,
}

enum State {
    Connecting(Boxed<Result<Calls, Failure>>),
    Open { calls: Calls, since: Instant },
}

struct Waiting {
    call: Call,
    since: Instant,
}

struct Batch {
    calls: Vec<Call>,
    replies: Replies,
    sent: Instant,
    /// The scripts that it loads; those replies come first. A call of one of them is
    /// not repeated once more.
    loads: Vec<Script>,
    /// It asks the server what it is, and nothing else.
    is_look: bool,
}

enum Replies {
    /// Not handed to the connection: its first poll does that.
    Unsent(Boxed<RedisResult<Vec<Value>>>),
    Due(Boxed<RedisResult<Vec<Value>>>),
    Here(RedisResult<Vec<Value>>),
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
            state: State::Connecting(connector.calls(&outage, Instant::ZERO)),
            is_told: false,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            unknown: Vec::new(),
            loaded: BTreeSet::new(),
            outage,
            is_in_use: false,
            look_due: None,
            patience: settings.command_timeout,
            silence,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    pub(super) fn push(&mut self, call: Call) {
        self.waiting.push_back(Waiting {
            call,
            // Set by the first flush: pushing reads no clock.
            since: Instant::ZERO,
        });
    }

    /// Hands everything that waits to the connection as one batch.
    pub(super) fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId)) {
        for waiting in self.waiting.iter_mut().rev() {
            if waiting.since != Instant::ZERO {
                break;
            }
            waiting.since = now;
        }
        if !self.unknown.is_empty() || !self.is_open() {
            return;
        }
        if !self.waiting.is_empty() {
            let calls: Vec<Call> = self.waiting.drain(..).map(|waiting| waiting.call).collect();
            for call in &calls {
                sent(call.id);
            }
            let new = scripts(&calls).filter(|script| !self.loaded.contains(script)).collect();
            self.send(calls, new, now);
        }
        if self.is_in_use && self.look_due.is_some_and(|due| now >= due) {
            self.look(now);
        }
    }

    /// A lease of this length is to be renewed.
    pub(super) fn set_shortest_lease(&mut self, lease: Duration) {
        self.silence = self.silence.min(silence_of(lease));
    }

    /// Something is held or waited for, or no longer.
    pub(super) const fn set_in_use(&mut self, is_in_use: bool) {
        self.is_in_use = is_in_use;
    }

    /// Has the server asked what it is with the next flush.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.look_due = Some(self.look_due.map_or(now, |due| due.min(now)));
    }

    fn send(&mut self, calls: Vec<Call>, loads: BTreeSet<Script>, now: Instant) {
        let mut pipeline = Pipeline::with_capacity(loads.len() + calls.len());
        for script in &loads {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text());
        }
        for call in &calls {
            pipeline.add_command(evalsha(call));
        }
        self.loaded.extend(&loads);
        let loads = loads.into_iter().collect();
        self.dispatch(pipeline, calls, loads, false, now);
    }

    fn look(&mut self, now: Instant) {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(role::question());
        self.look_due = Some(now + LOOK).filter(|_| self.lane == Lane::Command);
        self.dispatch(pipeline, Vec::new(), Vec::new(), true, now);
    }

    fn dispatch(&mut self, pipeline: Pipeline, calls: Vec<Call>, loads: Vec<Script>, is_look: bool, now: Instant) {
        let State::Open { calls: open, .. } = &self.state else {
            return;
        };
        let mut connection = open.connection.clone();
        let count = pipeline.len();
        self.in_flight.push_back(Batch {
            calls,
            replies: Replies::Unsent(Box::pin(async move {
                connection.send_packed_commands(&pipeline, 0, count).await
            })),
            sent: now,
            loads,
            is_look,
        });
    }

    /// Loads the scripts and repeats the calls that found none, once all replies are in.
    fn repeat_unknown(&mut self, now: Instant) {
        if self.unknown.is_empty() || !self.in_flight.is_empty() {
            return;
        }
        let calls = mem::take(&mut self.unknown);
        let missing = scripts(&calls).collect();
        self.send(calls, missing, now);
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
                    Poll::Ready(Ok(calls)) => {
                        self.state = State::Open { calls, since: now };
                        // Those that were connected together do not look together.
                        self.look_due = Some(now + up_to(LOOK)).filter(|_| self.lane == Lane::Command);
                        continue;
                    }
                    Poll::Ready(Err(cause)) => cause,
                },
                State::Open { .. } => match self.poll_open(context, now, seen) {
                    Ok(()) => break,
                    Err(cause) => cause,
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

    /// Tells once that it is open. True if that is news.
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

    fn poll_open(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) -> Result<(), Failure> {
        loop {
            self.poll_batches(context);
            let Some(Replies::Here(_)) = self.in_flight.front().map(|batch| &batch.replies) else {
                break;
            };
            if let Some(batch) = self.in_flight.pop_front() {
                self.answered(batch, seen)?;
                self.repeat_unknown(now);
            }
        }
        if let Some(front) = self.in_flight.front()
            && now >= front.sent + self.silence
        {
            return Err(Failure::unavailable(format!("no answer for {:?}", self.silence)));
        }
        if let State::Open { calls, .. } = &mut self.state {
            while let Poll::Ready(news) = calls.news.poll_recv(context) {
                if news.is_none_or(|push| push.kind == PushKind::Disconnection) {
                    return Err(Failure::unavailable("the connection closed"));
                }
            }
        }
        Ok(())
    }

    /// Hands unsent batches to the connection and looks for the replies of the
    /// oldest one; the others cannot be answered before it.
    fn poll_batches(&mut self, context: &mut Context<'_>) {
        for (position, batch) in self.in_flight.iter_mut().enumerate() {
            let future = match mem::replace(&mut batch.replies, Replies::Here(Ok(Vec::new()))) {
                Replies::Due(future) if position > 0 => {
                    batch.replies = Replies::Due(future);
                    continue;
                }
                Replies::Here(result) => {
                    batch.replies = Replies::Here(result);
                    continue;
                }
                Replies::Unsent(future) | Replies::Due(future) => future,
            };
            batch.poll(future, context);
        }
    }

    fn answered(&mut self, batch: Batch, seen: &mut Vec<Seen>) -> Result<(), Failure> {
        let values = match batch.replies {
            Replies::Here(Ok(values)) if batch.is_look => return values.first().map_or(Ok(()), role::still_primary),
            Replies::Here(Ok(values)) if values.len() == batch.loads.len() + batch.calls.len() => values,
            replies => {
                let cause = match replies {
                    Replies::Here(Err(error)) => plain(&error),
                    _ => "the server's replies do not match the calls".into(),
                };
                answer_disconnected(batch.calls, &cause, seen);
                return Err(Failure::unavailable(cause));
            }
        };
        let mut values = values.into_iter();
        let mut refused_loads = BTreeMap::new();
        for (script, load) in batch.loads.iter().zip(values.by_ref()) {
            if let Value::ServerError(error) = load {
                refused_loads.insert(*script, error);
            }
        }
        let mut demotion = None;
        for (call, value) in batch.calls.into_iter().zip(values) {
            match value {
                Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
                    if batch.loads.contains(&call.script) {
                        let error = refused_loads.get(&call.script).unwrap_or(&error);
                        seen.push(Seen::Reply(call.id, Err(refusal(error, &call))));
                    } else {
                        self.unknown.push(call);
                    }
                }
                Value::ServerError(error) => {
                    demotion = role::no_primary(&error).map(Failure::demoted).or(demotion);
                    seen.push(Seen::Reply(call.id, Err(refusal(&error, &call))));
                }
                value => seen.push(Seen::Reply(call.id, read(value))),
            }
        }
        demotion.map_or(Ok(()), Err)
    }

    /// Gives the connection up, if it is open.
    pub(super) fn give_up(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        if self.is_open() {
            self.close(failure, now, seen);
        }
    }

    /// Gives the connection up, answers what was on it, and connects again.
    fn close(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        if let State::Open { since, .. } = self.state {
            self.outage.began(since, now);
        } else {
            self.outage.failed(now);
        }
        self.state = State::Connecting(self.connector.calls(&self.outage, now));
        if mem::take(&mut self.is_told) {
            seen.push(Seen::Closed(NODE, self.lane, self.connector.cause(failure)));
        }
        for batch in mem::take(&mut self.in_flight) {
            answer_disconnected(batch.calls, failure.cause(), seen);
        }
        answer_disconnected(mem::take(&mut self.unknown), failure.cause(), seen);
    }

    /// Answers what has waited too long for a connection.
    fn drop_overdue(&mut self, now: Instant, failure: Option<&Failure>, seen: &mut Vec<Seen>) {
        let cause = failure.map_or("not connected", Failure::cause);
        while let Some(front) = self.waiting.front()
            && front.since != Instant::ZERO
            && now >= front.since + self.patience
            && let Some(waiting) = self.waiting.pop_front()
        {
            answer_disconnected(vec![waiting.call], cause, seen);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Open { .. } => {
                let silence = self.in_flight.front().map(|batch| batch.sent + self.silence);
                let look = self.look_due.filter(|_| self.is_in_use && self.unknown.is_empty());
                silence.into_iter().chain(look).min()
            }
            State::Connecting(_) => self.waiting.front().map(|waiting| waiting.since + self.patience),
        }
    }
}

impl Batch {
    fn poll(&mut self, mut future: Boxed<RedisResult<Vec<Value>>>, context: &mut Context<'_>) {
        self.replies = match future.as_mut().poll(context) {
            Poll::Ready(result) => Replies::Here(result),
            Poll::Pending => Replies::Due(future),
        };
    }
}

fn answer_disconnected(calls: Vec<Call>, cause: &str, seen: &mut Vec<Seen>) {
    seen.extend(
        calls
            .into_iter()
            .map(|call| Seen::Reply(call.id, Err(CallError::Disconnected(cause.to_owned())))),
    );
}

fn scripts(calls: &[Call]) -> impl Iterator<Item = Script> {
    calls.iter().map(|call| call.script)
}

fn evalsha(call: &Call) -> Cmd {
    let mut command = Cmd::with_capacity(3 + call.keys.len() + call.args.len(), 256);
    command.arg("EVALSHA").arg(call.script.sha1()).arg(call.keys.len());
    for part in call.keys.iter().chain(&call.args) {
        command.arg(&**part);
    }
    command
}

/// A value as the session knows it.
fn read(value: Value) -> Result<Reply, CallError> {
    Ok(match value {
        Value::ServerError(error) => return Err(server_error(&error)),
        Value::Int(number) => Reply::Int(number),
        Value::Boolean(flag) => Reply::Int(flag.into()),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Bytes(text.into_bytes()),
        Value::Okay => Reply::Bytes(b"OK".to_vec()),
        Value::Double(number) => Reply::Bytes(number.to_string().into_bytes()),
        Value::Array(items) | Value::Set(items) => Reply::Array(items.into_iter().map(read).collect::<Result<_, _>>()?),
        Value::Map(pairs) => Reply::Array(
            pairs
                .into_iter()
                .flat_map(|(key, value)| [read(key), read(value)])
                .collect::<Result<_, _>>()?,
        ),
        Value::Attribute { data, .. } => return read(*data),
        _ => Reply::Nil,
    })
}

/// The server's answer to a call that is an error.
fn refusal(error: &ServerError, call: &Call) -> CallError {
    let missing = permission::missing(error.code(), error.details().unwrap_or_default(), call);
    missing.unwrap_or_else(|| server_error(error))
}

fn server_error(error: &ServerError) -> CallError {
    CallError::server(error.code(), error.details().unwrap_or_default())
}
