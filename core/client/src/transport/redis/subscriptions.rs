//! The connection that listens: channels out, messages in, and a ping to know
//! that it is not dead.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::{Instant, Reply, brief};

use super::connect::{Boxed, Connector};
use super::failure::Failure;
use super::identity::{Server, Visit};
use super::in_flight::NOT_HERE_NOT_NOW;
use super::outage::Outage;
use super::purpose::Purpose;
use super::resp::{self, Frame, ServerError};
use super::wire::Wire;
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
    Connecting(Boxed<Result<Wire, Failure>>),
    Open(Box<Open>),
}

struct Open {
    wire: Wire,
    /// Which server it is to.
    visit: Option<Visit>,
    since: Instant,
    /// Its channels are sharded ones of a cluster.
    is_sharded: bool,
    /// Commands whose answer is due, oldest first.
    asked: VecDeque<Asked>,
    ping_due: Instant,
    ping_unanswered_since: Option<Instant>,
}

/// A command on the connection.
enum Asked {
    /// So many channels of it are not confirmed yet.
    Channels(usize),
    /// A sharded channel: a node refuses one whose slot is not its own, and a command has those of one slot only.
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

/// Channels in one command; the server is not to be busy with one for long.
const CHANNELS: usize = 512;
/// What is taken in one poll: others publish as fast as they like.
const FRAMES: usize = 512;

impl SubscriptionLink {
    pub(super) fn new(connector: &Arc<Connector>, settings: &Settings) -> Self {
        let outage = Outage::default();
        Self {
            connector: Arc::clone(connector),
            state: State::Waiting,
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
            open.tell(run);
        }
        open.wire.write();
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Moves the connection on. `is_reachable` says that the server can be asked.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, is_reachable: bool, seen: &mut Vec<Seen>) {
        loop {
            match &mut self.state {
                State::Waiting if is_reachable => {
                    self.state = State::Connecting(self.connector.open(Purpose::Subscriptions, &self.outage, now));
                }
                State::Waiting => return,
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(wire)) => self.opened(wire, now),
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

    /// Gives the connection up, also one that is still being made: the server is elsewhere now.
    pub(super) fn follow(&mut self, now: Instant) {
        self.give_up(now);
        self.outage.moved();
        self.state = State::Waiting;
    }

    /// Gives the connection up if it is to another server than this one, where the client is now.
    pub(super) fn leave_unless_at(&mut self, server: &Server, now: Instant) {
        let State::Open(open) = &self.state else { return };
        if !open.visit.as_ref().is_some_and(|visit| server.has(visit)) {
            self.give_up(now);
        }
    }

    fn opened(&mut self, mut wire: Wire, now: Instant) {
        let mut open = Box::new(Open {
            visit: wire.visit(),
            wire,
            since: now,
            is_sharded: self.connector.is_sharded(),
            asked: VecDeque::new(),
            ping_due: now + self.ping,
            ping_unanswered_since: None,
        });
        // What was to be told is part of what is wanted now.
        self.changes.clear();
        let wanted: Vec<Change> = self.wanted.iter().cloned().map(Change::Subscribe).collect();
        open.tell(&wanted);
        open.wire.write();
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
    /// Asks for changes of one kind.
    fn tell(&mut self, changes: &[Change]) {
        if self.is_sharded {
            for change in changes {
                let command = match change {
                    Change::Subscribe(_) => b"SSUBSCRIBE".as_slice(),
                    Change::Unsubscribe(_) => b"SUNSUBSCRIBE",
                };
                resp::command(self.wire.out(), [command, change.channel()].into_iter());
                self.asked.push_back(Asked::Shard(change.clone()));
            }
            return;
        }
        for some in changes.chunks(CHANNELS) {
            let channels = some.iter().map(Change::channel);
            match some.first() {
                Some(Change::Subscribe(_)) => self.ask(b"SUBSCRIBE", channels),
                Some(Change::Unsubscribe(_)) => self.ask(b"UNSUBSCRIBE", channels),
                None => {}
            }
        }
    }

    fn ask<'a>(&mut self, command: &[u8], channels: impl ExactSizeIterator<Item = &'a Arc<[u8]>>) {
        let out = self.wire.out();
        let count = channels.len();
        resp::begin(out, 1 + count);
        resp::bulk(out, command);
        for channel in channels {
            resp::bulk(out, channel);
        }
        self.asked.push_back(Asked::Channels(count));
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
                return Err(Failure::unavailable(format!("no answer to a ping for {}", brief(ping))));
            }
            None if now >= self.ping_due => {
                self.ping_unanswered_since = Some(now);
                resp::command(self.wire.out(), [b"PING".as_slice()].into_iter());
                self.asked.push_back(Asked::Ping);
            }
            _ => {}
        }
        for _ in 0..FRAMES {
            match self.wire.poll(context) {
                Poll::Ready(Ok(Frame::Push(parts))) => self.pushed(parts, seen),
                Poll::Ready(Ok(Frame::Reply(reply))) => self.answered(&reply, now, ping, seen)?,
                Poll::Ready(Err(failure)) => return Err(failure),
                Poll::Pending => return Ok(()),
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    /// A message, or the confirmation of one channel.
    fn pushed(&mut self, parts: Vec<Reply>, seen: &mut Vec<Seen>) {
        let mut parts = parts.into_iter();
        let (Some(Reply::Bytes(kind)), Some(Reply::Bytes(channel))) = (parts.next(), parts.next()) else {
            return;
        };
        match (kind.as_slice(), parts.next()) {
            (b"message" | b"smessage", Some(Reply::Bytes(payload))) => {
                seen.push(Seen::Message(NODE, channel.into(), payload))
            }
            (b"subscribe", _) => {
                self.confirmed();
                seen.push(Seen::Subscribed(NODE, channel.into()));
            }
            (b"unsubscribe", _) => self.confirmed(),
            (b"ssubscribe", _) => {
                if let Some(Asked::Shard(Change::Subscribe(asked))) = self.asked.front()
                    && **asked == *channel
                {
                    self.asked.pop_front();
                }
                seen.push(Seen::Subscribed(NODE, channel.into()));
            }
            (b"sunsubscribe", _) => match self.asked.front() {
                Some(Asked::Shard(Change::Unsubscribe(asked))) if **asked == *channel => {
                    self.asked.pop_front();
                }
                // Nobody asked for it: the channel's slot is another node's by now.
                _ => seen.push(Seen::Unheard(NODE, channel.into())),
            },
            _ => {}
        }
    }

    fn confirmed(&mut self) {
        if let Some(Asked::Channels(left)) = self.asked.front_mut() {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.asked.pop_front();
            }
        }
    }

    /// A ping's answer; or an error: the channels were refused, by an ACL perhaps, and their
    /// waiters poll.
    fn answered(
        &mut self,
        reply: &Result<Reply, ServerError>,
        now: Instant,
        ping: Duration,
        seen: &mut Vec<Seen>,
    ) -> Result<(), Failure> {
        let is_turned_away = matches!(reply, Err(error) if NOT_HERE_NOT_NOW.contains(&error.code.as_str()));
        if is_turned_away && !matches!(self.asked.front(), Some(Asked::Shard(_))) {
            // The end of a channel, which the node had ended itself before it read that.
            return Ok(());
        }
        match self.asked.pop_front() {
            Some(Asked::Ping) => {
                self.ping_unanswered_since = None;
                self.ping_due = now + ping;
                Ok(())
            }
            Some(Asked::Shard(Change::Subscribe(channel))) => {
                if is_turned_away {
                    seen.push(Seen::Unheard(NODE, channel));
                }
                Ok(())
            }
            // What a node of a cluster refuses to end, it ends itself once the slot has moved.
            Some(Asked::Channels(_) | Asked::Shard(Change::Unsubscribe(_))) => Ok(()),
            None => Err(Failure::unavailable("the server answers what was not asked")),
        }
    }
}
