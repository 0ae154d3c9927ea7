//! The connection for subscriptions: subscribes to channels, receives messages, and pings the server to notice a dead
//! connection.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::{Instant, Reply, brief};
use steadlock_resp::commands;
use steadlock_resp::replies::{Frame, ServerError};

use super::attempt::Purpose;
use super::connect::{Boxed, Connector};
use super::failure::Failure;
use super::identity::{Server, ServerRef};
use super::lane::REROUTING_CODES;
use super::outage::Outage;
use super::wire::Wire;
use crate::settings::Settings;
use crate::transport::{NODE, TransportEvent};

/// The connection for subscriptions. A new connection subscribes again to every channel in use.
pub(super) struct SubscriptionLink {
    connector: Arc<Connector>,
    state: State,
    channels: BTreeSet<Arc<[u8]>>,
    /// The changes to send with the next flush, in order.
    changes: Vec<Change>,
    outage: Outage,
    /// The interval between two pings, and the time limit for the answer to each.
    ping_interval: Duration,
}

enum State {
    /// There is no connection, and none is tried until the command lane is open: the lane's greeting shows whether the
    /// server is the right one.
    Waiting,
    Connecting(Boxed<Result<Wire, Failure>>),
    Open(Box<Open>),
}

struct Open {
    wire: Wire,
    /// The server of the connection.
    server_ref: Option<ServerRef>,
    since: Instant,
    /// Whether the channels are sharded channels of a cluster.
    is_sharded: bool,
    /// Commands without an answer, oldest first.
    pending: VecDeque<PendingReply>,
    ping_due: Instant,
    ping_unanswered_since: Option<Instant>,
}

/// A command on the connection.
enum PendingReply {
    /// A command for several channels. This many are not confirmed yet.
    Channels(usize),
    /// A command for one sharded channel. Each has its own, because a command can only name channels of one slot, and a
    /// node refuses channels whose slot it does not have.
    Shard(Change),
    Ping,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Subscribe(Arc<[u8]>),
    Unsubscribe(Arc<[u8]>),
}

impl Change {
    fn channel(&self) -> &Arc<[u8]> {
        match self {
            Self::Subscribe(channel) | Self::Unsubscribe(channel) => channel,
        }
    }
}

/// The largest number of channels in one command. A longer command could block the server.
const CHANNELS_PER_COMMAND: usize = 512;
/// The largest number of frames (replies and messages) in one poll. Others can publish faster than this client reads,
/// and the engine has other work.
const FRAMES_PER_POLL: usize = 512;

impl SubscriptionLink {
    pub(super) fn new(connector: &Arc<Connector>, settings: &Settings) -> Self {
        let outage = Outage::default();
        Self {
            connector: Arc::clone(connector),
            state: State::Waiting,
            channels: BTreeSet::new(),
            changes: Vec::new(),
            outage,
            // A dead connection is noticed after at most two intervals: a third of the lease, within limits.
            ping_interval: (settings.lease.get() / 6).clamp(Duration::from_millis(250), Duration::from_secs(10)),
        }
    }

    pub(super) fn subscribe(&mut self, channel: Arc<[u8]>) {
        self.channels.insert(Arc::clone(&channel));
        self.changes.push(Change::Subscribe(channel));
    }

    pub(super) fn unsubscribe(&mut self, channel: &Arc<[u8]>) {
        self.channels.remove(channel);
        self.changes.push(Change::Unsubscribe(Arc::clone(channel)));
    }

    /// Sends the changes. Consecutive changes of one kind share a command.
    pub(super) fn flush(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let changes = mem::take(&mut self.changes);
        // A new connection subscribes to all of `channels`.
        let State::Open(open) = &mut self.state else { return };
        for run in changes.chunk_by(|a, b| mem::discriminant(a) == mem::discriminant(b)) {
            open.send_changes(run);
        }
        open.wire.write();
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Advances the connection. `is_reachable` tells whether the command lane is open.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        is_reachable: bool,
        events: &mut Vec<TransportEvent>,
    ) {
        loop {
            match &mut self.state {
                State::Waiting if is_reachable => {
                    self.state = State::Connecting(self.connector.open(Purpose::Subscriptions, &self.outage, now));
                }
                State::Waiting => return,
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(wire)) => self.on_open(wire, now),
                    Poll::Ready(Err(_)) => {
                        self.outage.failed(now);
                        self.state = State::Waiting;
                    }
                },
                State::Open(open) => match open.poll(context, now, self.ping_interval, events) {
                    Ok(()) => return,
                    Err(_) => self.give_up(now),
                },
            }
        }
    }

    /// Gives up the connection, if it is open.
    pub(super) fn give_up(&mut self, now: Instant) {
        if let State::Open(open) = &self.state {
            self.outage.began(open.since, now);
            self.state = State::Waiting;
        }
    }

    /// Gives up the connection, or the attempt to open one, because the server has moved.
    pub(super) fn follow(&mut self, now: Instant) {
        self.give_up(now);
        self.outage.moved();
        self.state = State::Waiting;
    }

    /// Gives up the connection unless it is known to go to this server, to which the client's commands go.
    pub(super) fn leave_unless_at(&mut self, server: &Server, now: Instant) {
        let State::Open(open) = &self.state else { return };
        if !open
            .server_ref
            .as_ref()
            .is_some_and(|server_ref| server.has(server_ref))
        {
            self.give_up(now);
        }
    }

    fn on_open(&mut self, mut wire: Wire, now: Instant) {
        let mut open = Box::new(Open {
            server_ref: wire.server_ref(),
            wire,
            since: now,
            is_sharded: self.connector.is_sharded(),
            pending: VecDeque::new(),
            ping_due: now + self.ping_interval,
            ping_unanswered_since: None,
        });
        // `channels` includes the changes that were not sent.
        self.changes.clear();
        let channels: Vec<Change> = self.channels.iter().cloned().map(Change::Subscribe).collect();
        open.send_changes(&channels);
        open.wire.write();
        self.state = State::Open(open);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting | State::Connecting(_) => None,
            State::Open(open) => Some(match open.ping_unanswered_since {
                Some(since) => since + self.ping_interval,
                None => open.ping_due,
            }),
        }
    }
}

impl Open {
    /// Writes the commands for changes of one kind.
    fn send_changes(&mut self, changes: &[Change]) {
        if self.is_sharded {
            for change in changes {
                let command = match change {
                    Change::Subscribe(_) => b"SSUBSCRIBE".as_slice(),
                    Change::Unsubscribe(_) => b"SUNSUBSCRIBE",
                };
                commands::write(self.wire.out(), [command, change.channel()].into_iter());
                self.pending.push_back(PendingReply::Shard(change.clone()));
            }
            return;
        }
        for some in changes.chunks(CHANNELS_PER_COMMAND) {
            let channels = some.iter().map(Change::channel);
            match some.first() {
                Some(Change::Subscribe(_)) => self.send_command(b"SUBSCRIBE", channels),
                Some(Change::Unsubscribe(_)) => self.send_command(b"UNSUBSCRIBE", channels),
                None => {}
            }
        }
    }

    fn send_command<'a>(&mut self, command: &[u8], channels: impl ExactSizeIterator<Item = &'a Arc<[u8]>>) {
        let out = self.wire.out();
        let count = channels.len();
        commands::begin(out, 1 + count);
        commands::bulk(out, command);
        for channel in channels {
            commands::bulk(out, channel);
        }
        self.pending.push_back(PendingReply::Channels(count));
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        ping_interval: Duration,
        events: &mut Vec<TransportEvent>,
    ) -> Result<(), Failure> {
        match self.ping_unanswered_since {
            Some(since) if now >= since + ping_interval => {
                return Err(Failure::unavailable(format!(
                    "no answer to a ping for {}",
                    brief(ping_interval)
                )));
            }
            None if now >= self.ping_due => {
                self.ping_unanswered_since = Some(now);
                commands::write(self.wire.out(), [b"PING".as_slice()].into_iter());
                self.pending.push_back(PendingReply::Ping);
            }
            _ => {}
        }
        for _ in 0..FRAMES_PER_POLL {
            match self.wire.poll(context) {
                Poll::Ready(Ok(Frame::Push(parts))) => self.on_push(parts, events),
                Poll::Ready(Ok(Frame::Reply(reply))) => self.on_reply(&reply, now, ping_interval, events)?,
                Poll::Ready(Err(failure)) => return Err(failure),
                Poll::Pending => return Ok(()),
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    /// Handles a message, or the confirmation of one channel.
    fn on_push(&mut self, parts: Vec<Reply>, events: &mut Vec<TransportEvent>) {
        let mut parts = parts.into_iter();
        let (Some(Reply::Bytes(kind)), Some(Reply::Bytes(channel))) = (parts.next(), parts.next()) else {
            return;
        };
        match (kind.as_slice(), parts.next()) {
            (b"message" | b"smessage", Some(Reply::Bytes(payload))) => events.push(TransportEvent::Message {
                node: NODE,
                channel: channel.into(),
                payload,
            }),
            (b"subscribe", _) => {
                self.on_confirmation();
                events.push(TransportEvent::Subscribed {
                    node: NODE,
                    channel: channel.into(),
                });
            }
            (b"unsubscribe", _) => self.on_confirmation(),
            (b"ssubscribe", _) => {
                if let Some(PendingReply::Shard(Change::Subscribe(pending))) = self.pending.front()
                    && **pending == *channel
                {
                    self.pending.pop_front();
                }
                events.push(TransportEvent::Subscribed {
                    node: NODE,
                    channel: channel.into(),
                });
            }
            (b"sunsubscribe", _) => match self.pending.front() {
                Some(PendingReply::Shard(Change::Unsubscribe(pending))) if **pending == *channel => {
                    self.pending.pop_front();
                }
                // The client did not end this subscription: the channel's slot now belongs to another node.
                _ => events.push(TransportEvent::SubscriptionLost {
                    node: NODE,
                    channel: channel.into(),
                }),
            },
            _ => {}
        }
    }

    fn on_confirmation(&mut self) {
        if let Some(PendingReply::Channels(left)) = self.pending.front_mut() {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.pending.pop_front();
            }
        }
    }

    /// Handles the answer to a ping, or an error. An error can mean that the server refused channels, for lack of a
    /// right; their waiters then poll.
    fn on_reply(
        &mut self,
        reply: &Result<Reply, ServerError>,
        now: Instant,
        ping_interval: Duration,
        events: &mut Vec<TransportEvent>,
    ) -> Result<(), Failure> {
        let is_rejected = matches!(reply, Err(error) if REROUTING_CODES.contains(&error.code.as_str()));
        if is_rejected && !matches!(self.pending.front(), Some(PendingReply::Shard(_))) {
            // This error answers a request to end a subscription. The node had ended the subscription itself before it
            // read the request. `on_push` took that message for the answer, and removed the request from `pending`.
            return Ok(());
        }
        match self.pending.pop_front() {
            Some(PendingReply::Ping) => {
                self.ping_unanswered_since = None;
                self.ping_due = now + ping_interval;
                Ok(())
            }
            Some(PendingReply::Shard(Change::Subscribe(channel))) => {
                if is_rejected {
                    events.push(TransportEvent::SubscriptionLost { node: NODE, channel });
                }
                Ok(())
            }
            // A cluster node that refuses to end a subscription ends it itself once the slot has moved.
            Some(PendingReply::Channels(_) | PendingReply::Shard(Change::Unsubscribe(_))) => Ok(()),
            None => Err(Failure::unavailable("the server answers what was not asked")),
        }
    }
}
