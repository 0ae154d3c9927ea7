//! The connection of one lane: script calls out, replies in, in order.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_protocol::{Call, CallError, CallId, Instant, Lane, Reply, Script};
use redis::{Cmd, Pipeline, PushKind, RedisResult, ServerError, ServerErrorKind, Value};

use super::super::Seen;
use super::connect::{Boxed, Calls, Connector, Failure, append_script_loads, plain};
use super::permission;
use crate::host::Settings;

/// A lane's connection and the calls on their way.
///
/// Batches follow one another without waiting for replies. When the server has
/// forgotten its scripts (NOSCRIPT), nothing new is sent until all replies are
/// in; then one batch loads the scripts and repeats the calls, so that the order
/// of calls stands.
pub(super) struct LaneLink {
    connector: Arc<Connector>,
    state: State,
    /// Calls that were not handed to a connection.
    waiting: VecDeque<Waiting>,
    /// Batches on the connection, oldest first.
    in_flight: VecDeque<Batch>,
    /// Calls that were answered NOSCRIPT.
    unknown: Vec<Call>,
    /// Tries since a connection proved good.
    attempts: u32,
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
    /// How many replies come before those of the calls: a batch that has some is
    /// not repeated once more.
    loads: usize,
}

enum Replies {
    /// Not handed to the connection: its first poll does that.
    Unsent(Boxed<RedisResult<Vec<Value>>>),
    Due(Boxed<RedisResult<Vec<Value>>>),
    Here(RedisResult<Vec<Value>>),
}

/// A connection that lived so long was good: the next try is made at once.
const GOOD: Duration = Duration::from_secs(1);

impl LaneLink {
    pub(super) fn new(connector: &Arc<Connector>, settings: &Settings, lane: Lane) -> Self {
        let longest = settings.command_timeout.saturating_mul(2);
        let silence = match lane {
            Lane::Command => longest,
            // A renewal that waits for a dead connection is a lock lost.
            Lane::Renewal => longest.min((settings.lease.get() / 3).max(Duration::from_millis(250))),
        };
        Self {
            connector: Arc::clone(connector),
            state: State::Connecting(connector.calls(0)),
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            unknown: Vec::new(),
            attempts: 0,
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
        if self.waiting.is_empty() || !self.unknown.is_empty() || !self.is_open() {
            return;
        }
        let calls: Vec<Call> = self.waiting.drain(..).map(|waiting| waiting.call).collect();
        for call in &calls {
            sent(call.id);
        }
        self.send(Pipeline::with_capacity(calls.len()), calls, 0, now);
    }

    fn send(&mut self, mut pipeline: Pipeline, calls: Vec<Call>, loads: usize, now: Instant) {
        let State::Open { calls: open, .. } = &self.state else {
            return;
        };
        for call in &calls {
            pipeline.add_command(evalsha(call));
        }
        let mut connection = open.connection.clone();
        let count = pipeline.len();
        self.in_flight.push_back(Batch {
            calls,
            replies: Replies::Unsent(Box::pin(async move {
                connection.send_packed_commands(&pipeline, 0, count).await
            })),
            sent: now,
            loads,
        });
    }

    /// Loads the scripts and repeats the calls that found none, once all replies are in.
    fn repeat_unknown(&mut self, now: Instant) {
        if self.unknown.is_empty() || !self.in_flight.is_empty() {
            return;
        }
        let calls = mem::take(&mut self.unknown);
        let mut pipeline = Pipeline::with_capacity(calls.len() + Script::ALL.len());
        append_script_loads(&mut pipeline);
        self.send(pipeline, calls, Script::ALL.len(), now);
    }

    /// Moves the connection on. Says why, if there is none any more or still none.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) -> Option<Failure> {
        let mut failure = None;
        loop {
            let cause = match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(calls)) => {
                        self.state = State::Open { calls, since: now };
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
            Replies::Here(Ok(values)) if values.len() == batch.loads + batch.calls.len() => values,
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
        let mut refused_load = None;
        for load in values.by_ref().take(batch.loads) {
            if let Value::ServerError(error) = load {
                refused_load = Some(error);
            }
        }
        for (call, value) in batch.calls.into_iter().zip(values) {
            match value {
                Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
                    if batch.loads == 0 {
                        self.unknown.push(call);
                    } else {
                        let error = refused_load.as_ref().unwrap_or(&error);
                        seen.push(Seen::Reply(call.id, Err(refusal(error, &call))));
                    }
                }
                Value::ServerError(error) => seen.push(Seen::Reply(call.id, Err(refusal(&error, &call)))),
                value => seen.push(Seen::Reply(call.id, read(value))),
            }
        }
        Ok(())
    }

    /// Gives the connection up, answers what was on it, and connects again.
    fn close(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        let was_good = matches!(self.state, State::Open { since, .. } if now >= since + GOOD);
        self.attempts = if was_good { 0 } else { self.attempts.saturating_add(1) };
        self.state = State::Connecting(self.connector.calls(self.attempts));
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
            State::Open { .. } => self.in_flight.front().map(|batch| batch.sent + self.silence),
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
    CallError::Server {
        code: error.code().to_owned(),
        message: error.details().unwrap_or_default().to_owned(),
    }
}
