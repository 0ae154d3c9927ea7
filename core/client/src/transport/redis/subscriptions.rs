//! The connection that listens: channels out, messages in, and a ping to know
//! that it is not dead.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use leasehold_protocol::Instant;
use redis::RedisResult;

use super::connect::{Boxed, Connector, Failure, Listening, plain};
use super::outage::Outage;
use crate::settings::Settings;
use crate::transport::interface::{NODE, Seen};

/// The subscriptions' connection. On a new one it subscribes again to every
/// channel that is still wanted.
pub(super) struct SubscriptionLink {
    connector: Arc<Connector>,
    state: State,
    wanted: BTreeSet<Arc<[u8]>>,
    /// What to tell the server with the next flush, in order.
    changes: Vec<Change>,
    outage: Outage,
    /// A ping goes out so often, and its answer may take as long.
    ping: Duration,
}

enum State {
    /// There is none, and none is tried while the server cannot be asked either: where
    /// the next one leads, the greeting of a lane has decided then.
    Waiting,
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

/// Channels in one command; the server is not to be busy with one for long.
const CHANNELS: usize = 512;

impl SubscriptionLink {
    pub(super) fn new(connector: &Arc<Connector>, settings: &Settings) -> Self {
        let outage = Outage::default();
        Self {
            connector: Arc::clone(connector),
            state: State::Connecting(connector.listening(&outage, Instant::ZERO)),
            wanted: BTreeSet::new(),
            changes: Vec::new(),
            outage,
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

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Moves the connection on. `is_reachable` says that the server can be asked.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, is_reachable: bool, seen: &mut Vec<Seen>) {
        loop {
            match &mut self.state {
                State::Waiting if is_reachable => {
                    self.state = State::Connecting(self.connector.listening(&self.outage, now));
                }
                State::Waiting => return,
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(listening)) => self.opened(listening, now),
                    Poll::Ready(Err(_)) => {
                        self.outage.failed(now);
                        self.state = State::Waiting;
                    }
                },
                State::Open(open) => match open.poll(context, now, self.ping, seen) {
                    Ok(()) => return,
                    Err(_) => self.give_up(now),
                },
            }
        }
    }

    /// Gives the connection up, if it is open.
    pub(super) fn give_up(&mut self, now: Instant) {
        if let State::Open(open) = &self.state {
            self.outage.began(open.since, now);
            self.state = State::Waiting;
        }
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
            State::Waiting | State::Connecting(_) => None,
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
