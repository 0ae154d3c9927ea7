//! The connection that listens: channels out, messages in, and a ping to know
//! that it is not dead.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use leasehold_protocol::{Instant, NodeId};
use redis::RedisResult;

use super::super::Seen;
use super::connect::{Boxed, Connector, Failure, Listening, plain};
use crate::host::Settings;

/// The subscriptions' connection. On a new one it subscribes again to every
/// channel that is still wanted.
pub(super) struct SubscriptionLink {
    connector: Arc<Connector>,
    state: State,
    wanted: BTreeSet<Arc<[u8]>>,
    /// What to tell the server with the next flush, in order.
    changes: Vec<Change>,
    attempts: u32,
    /// A ping goes out so often, and its answer may take as long.
    ping: Duration,
}

enum State {
    Connecting(Boxed<Result<Listening, Failure>>),
    Open(Box<Open>),
}

struct Open {
    listening: Listening,
    since: Instant,
    /// Requests whose confirmation is due, oldest first.
    requests: VecDeque<Request>,
    ping_due: Instant,
    ping_unanswered_since: Option<Instant>,
}

struct Request {
    what: Asked,
    confirmation: Boxed<RedisResult<()>>,
    /// It was polled once, which hands it to the connection.
    is_sent: bool,
    result: Option<RedisResult<()>>,
}

enum Asked {
    Subscribe(Vec<Arc<[u8]>>),
    Unsubscribe,
    Ping,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Subscribe(Arc<[u8]>),
    Unsubscribe(Arc<[u8]>),
}

impl Change {
    fn channel(&self) -> Arc<[u8]> {
        match self {
            Self::Subscribe(channel) | Self::Unsubscribe(channel) => Arc::clone(channel),
        }
    }
}

const NODE: NodeId = NodeId(0);
/// A connection that lived so long was good: the next try is made at once.
const GOOD: Duration = Duration::from_secs(1);
/// Channels in one command; the server is not to be busy with one for long.
const CHANNELS: usize = 512;

impl SubscriptionLink {
    pub(super) fn new(connector: &Arc<Connector>, settings: &Settings) -> Self {
        Self {
            connector: Arc::clone(connector),
            state: State::Connecting(connector.listening(0)),
            wanted: BTreeSet::new(),
            changes: Vec::new(),
            attempts: 0,
            // Twice this is a third of the lease.
            ping: (settings.lease.get() / 6).clamp(Duration::from_millis(250), Duration::from_secs(10)),
        }
    }

    pub(super) fn subscribe(&mut self, channel: Arc<[u8]>) {
        self.wanted.insert(Arc::clone(&channel));
        self.changes.push(Change::Subscribe(channel));
    }

    pub(super) fn unsubscribe(&mut self, channel: &Arc<[u8]>) {
        self.wanted.remove(channel);
        self.changes.push(Change::Unsubscribe(Arc::clone(channel)));
    }

    /// Sends the changes, neighbours of one kind in one command.
    pub(super) fn flush(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let changes = mem::take(&mut self.changes);
        // While there is no connection, `wanted` says it all.
        let State::Open(open) = &mut self.state else { return };
        for run in changes.chunk_by(|a, b| mem::discriminant(a) == mem::discriminant(b)) {
            for some in run.chunks(CHANNELS) {
                let channels = some.iter().map(Change::channel);
                match some.first() {
                    Some(Change::Subscribe(_)) => open.subscribe(channels.collect()),
                    Some(Change::Unsubscribe(_)) => open.unsubscribe(channels.collect()),
                    None => {}
                }
            }
        }
    }

    /// Moves the connection on. Says why, if there is none any more or still none.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) -> Option<Failure> {
        let mut failure = None;
        loop {
            let cause = match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(listening)) => {
                        self.opened(listening, now);
                        continue;
                    }
                    Poll::Ready(Err(failure)) => failure,
                },
                State::Open(open) => match open.poll(context, now, self.ping, seen) {
                    Ok(()) => break,
                    Err(failure) => failure,
                },
            };
            let was_good = matches!(&self.state, State::Open(open) if now >= open.since + GOOD);
            self.attempts = if was_good { 0 } else { self.attempts.saturating_add(1) };
            self.state = State::Connecting(self.connector.listening(self.attempts));
            failure = failure.or(Some(cause));
        }
        failure
    }

    fn opened(&mut self, listening: Listening, now: Instant) {
        let mut open = Box::new(Open {
            listening,
            since: now,
            requests: VecDeque::new(),
            ping_due: now + self.ping,
            ping_unanswered_since: None,
        });
        // What was to be told is part of what is wanted now.
        self.changes.clear();
        let wanted: Vec<Arc<[u8]>> = self.wanted.iter().cloned().collect();
        for channels in wanted.chunks(CHANNELS) {
            open.subscribe(channels.to_vec());
        }
        self.state = State::Open(open);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Connecting(_) => None,
            State::Open(open) => Some(match open.ping_unanswered_since {
                Some(since) => since + self.ping,
                None => open.ping_due,
            }),
        }
    }
}

impl Open {
    fn subscribe(&mut self, channels: Vec<Arc<[u8]>>) {
        let mut sink = self.listening.sink.clone();
        let names: Vec<Vec<u8>> = channels.iter().map(|channel| channel.to_vec()).collect();
        self.request(
            Asked::Subscribe(channels),
            Box::pin(async move { sink.subscribe(names).await }),
        );
    }

    fn unsubscribe(&mut self, channels: Vec<Arc<[u8]>>) {
        let mut sink = self.listening.sink.clone();
        let names: Vec<Vec<u8>> = channels.iter().map(|channel| channel.to_vec()).collect();
        self.request(
            Asked::Unsubscribe,
            Box::pin(async move { sink.unsubscribe(names).await }),
        );
    }

    fn request(&mut self, what: Asked, confirmation: Boxed<RedisResult<()>>) {
        self.requests.push_back(Request {
            what,
            confirmation,
            is_sent: false,
            result: None,
        });
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        ping: Duration,
        seen: &mut Vec<Seen>,
    ) -> Result<(), Failure> {
        match self.ping_unanswered_since {
            Some(since) if now >= since + ping => {
                return Err(Failure::unavailable(format!("no answer to a ping for {ping:?}")));
            }
            None if now >= self.ping_due => {
                self.ping_unanswered_since = Some(now);
                let mut sink = self.listening.sink.clone();
                let confirmation = Box::pin(async move { sink.ping::<redis::Value>().await.map(|_| ()) });
                self.request(Asked::Ping, confirmation);
            }
            _ => {}
        }
        for (position, request) in self.requests.iter_mut().enumerate() {
            // Behind the first one it is polled once only, to be sent in order.
            if request.result.is_none() && (position == 0 || !request.is_sent) {
                request.poll(context);
            }
        }
        while let Some(front) = self.requests.front_mut() {
            if front.result.is_none() {
                front.poll(context);
            }
            let Some(result) = front.result.take() else { break };
            let Some(request) = self.requests.pop_front() else {
                break;
            };
            self.confirmed(request.what, result, now, ping, seen)?;
        }
        loop {
            match Pin::new(&mut self.listening.messages).poll_next(context) {
                Poll::Ready(Some(message)) => seen.push(Seen::Message(
                    NODE,
                    message.get_channel_name().as_bytes().into(),
                    message.get_payload_bytes().to_vec(),
                )),
                Poll::Ready(None) => return Err(Failure::unavailable("the subscriptions' connection closed")),
                Poll::Pending => return Ok(()),
            }
        }
    }

    fn confirmed(
        &mut self,
        what: Asked,
        result: RedisResult<()>,
        now: Instant,
        ping: Duration,
        seen: &mut Vec<Seen>,
    ) -> Result<(), Failure> {
        match (what, result) {
            (_, Err(error)) if error.is_unrecoverable_error() || error.is_io_error() => {
                return Err(Failure::unavailable(plain(&error)));
            }
            (Asked::Subscribe(channels), Ok(())) => {
                seen.extend(channels.into_iter().map(|channel| Seen::Subscribed(NODE, channel)));
            }
            // Refused, by an ACL perhaps: the waiters poll.
            (Asked::Subscribe(_), Err(_)) | (Asked::Unsubscribe, _) => {}
            (Asked::Ping, _) => {
                self.ping_unanswered_since = None;
                self.ping_due = now + ping;
            }
        }
        Ok(())
    }
}

impl Request {
    fn poll(&mut self, context: &mut Context<'_>) {
        self.is_sent = true;
        if let Poll::Ready(result) = self.confirmation.as_mut().poll(context) {
            self.result = Some(result);
        }
    }
}
