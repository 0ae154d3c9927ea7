//! Servers whose connections the program opens itself. The program takes the items to send, and reports the events of
//! its connections.
//!
//! ```text
//!   call ─► waiting ── its lane is open ─► outgoing ─► taken by the program ─► replied
//!              └── for too long ─► disconnected ◄──────── its lane closes ──┘
//! ```

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use steadlock_collections::{SortedMap, SortedSet};
use steadlock_protocol::{Call, CallError, CallId, Error, Instant, Lane, NodeId, Reply, Transmit};

use super::quorum::Quorum;
use super::{FirstConnection, NODE, Transport, TransportEvent};
use crate::settings::Settings;

/// Creates the transport for these settings, and for each server a `NodeLink`, the program's side of it.
pub(crate) fn open(settings: &Settings, first: FirstConnection) -> (Box<dyn Transport>, Vec<NodeLink>) {
    let nodes = 0..settings.targets.len();
    let links: Vec<NodeLink> = nodes
        .map(|node| NodeLink::new(node, settings.command_timeout))
        .collect();
    let mut ends: Vec<Box<dyn Transport>> = links
        .iter()
        .map(|link| Box::new(External(Arc::clone(&link.0))) as Box<dyn Transport>)
        .collect();
    let transport = match ends.len() {
        1 => ends.remove(0),
        _ => Box::new(Quorum::new(ends, settings.servers(), first)),
    };
    (transport, links)
}

/// The engine's side of a server.
struct External(Arc<Mutex<Node>>);

/// The program's side of a server.
pub(crate) struct NodeLink(Arc<Mutex<Node>>);

/// The calls and subscriptions of one server.
struct Node {
    id: NodeId,
    open: SortedSet<Lane>,
    /// Whether both lanes were open at the same time since the last loss of a lane.
    is_ready: bool,
    /// Whether subscriptions have a connection.
    is_subscriber_open: bool,
    channels: SortedSet<Arc<[u8]>>,
    /// Calls that were not sent yet.
    waiting: VecDeque<Waiting>,
    response_timeout: Duration,
    outgoing: VecDeque<Transmit>,
    in_flight: SortedMap<CallId, Lane>,
    events: Vec<TransportEvent>,
}

/// A call that waits for its lane.
struct Waiting {
    call: Call,
    /// The time of the first flush that could not send the call.
    since: Option<Instant>,
}

impl NodeLink {
    fn new(node: usize, response_timeout: Duration) -> Self {
        Self(Arc::new(Mutex::new(Node {
            id: NodeId(u16::try_from(node).unwrap_or(u16::MAX)),
            open: SortedSet::new(),
            is_ready: false,
            is_subscriber_open: false,
            channels: SortedSet::new(),
            waiting: VecDeque::new(),
            response_timeout,
            outgoing: VecDeque::new(),
            in_flight: SortedMap::new(),
            events: Vec::new(),
        })))
    }

    /// Returns the next item to send.
    pub(crate) fn take(&self) -> Option<Transmit> {
        lock(&self.0).outgoing.pop_front()
    }

    pub(crate) fn lane_opened(&self, lane: Lane) {
        let mut node = lock(&self.0);
        if !node.open.insert(lane) {
            return;
        }
        node.events.push(TransportEvent::LaneOpened { node: NODE, lane });
        if node.open.len() == 2 && !mem::replace(&mut node.is_ready, true) {
            node.events.push(TransportEvent::Ready);
        }
    }

    /// Reports that a lane is closed or could not be opened. Answers the calls of that lane that were reported as sent.
    pub(crate) fn lane_closed(&self, lane: Lane, cause: &str) {
        let mut node = lock(&self.0);
        if node.open.remove(&lane) {
            node.is_ready = false;
            // A call that the program did not take must not go out on the next connection: its response timeout has
            // been running since it was reported as sent.
            node.outgoing
                .retain(|item| !matches!(item, Transmit::Call(call) if call.lane == lane));
        }
        node.events.push(TransportEvent::LaneClosed {
            node: NODE,
            lane,
            cause: cause.into(),
        });
        let (lost, left) = mem::take(&mut node.in_flight)
            .into_iter()
            .partition(|(_, of)| *of == lane);
        node.in_flight = left;
        let lost: SortedMap<CallId, Lane> = lost;
        for call in lost.into_keys() {
            node.events.push(disconnected(call, cause));
        }
    }

    /// Reports a new connection for subscriptions. Every channel is subscribed to again.
    pub(crate) fn subscriptions_opened(&self) {
        let mut node = lock(&self.0);
        node.is_subscriber_open = true;
        node.forget_subscriptions();
        let (id, channels) = (node.id, node.channels.clone());
        let subscribe = |channel| Transmit::Subscribe { node: id, channel };
        node.outgoing.extend(channels.into_iter().map(subscribe));
    }

    /// Reports that subscriptions have no connection any more.
    pub(crate) fn subscriptions_lost(&self) {
        let mut node = lock(&self.0);
        node.forget_subscriptions();
        if mem::take(&mut node.is_subscriber_open) {
            node.events.push(TransportEvent::SubscriptionsLost(NODE));
        }
    }

    /// Reports that another attempt to connect would be useless.
    pub(crate) fn give_up(&self, error: Error) {
        lock(&self.0).events.push(TransportEvent::Unreachable(error));
    }

    /// Reports the reply to a call. A second reply to the same call is ignored.
    pub(crate) fn replied(&self, call: CallId, reply: Result<Reply, CallError>) {
        let mut node = lock(&self.0);
        if node.in_flight.remove(&call).is_some() {
            node.events.push(TransportEvent::Reply { call, result: reply });
        }
    }

    pub(crate) fn subscribed(&self, channel: &[u8]) {
        lock(&self.0).events.push(TransportEvent::Subscribed {
            node: NODE,
            channel: channel.into(),
        });
    }

    pub(crate) fn message_received(&self, channel: &[u8], message: Vec<u8>) {
        lock(&self.0).events.push(TransportEvent::Message {
            node: NODE,
            channel: channel.into(),
            payload: message,
        });
    }
}

impl Node {
    fn forget_subscriptions(&mut self) {
        self.outgoing.retain(|item| matches!(item, Transmit::Call(_)));
    }

    /// Answers the calls that have waited too long for their lane.
    fn drop_overdue(&mut self, now: Instant) {
        let response_timeout = self.response_timeout;
        let is_overdue = |waiting: &Waiting| waiting.since.is_some_and(|since| now >= since + response_timeout);
        let (overdue, left) = mem::take(&mut self.waiting).into_iter().partition(is_overdue);
        self.waiting = left;
        let overdue: VecDeque<_> = overdue;
        for waiting in overdue {
            self.events.push(disconnected(waiting.call.id, "not connected"));
        }
    }
}

impl Transport for External {
    fn transmit(&mut self, item: Transmit) {
        let mut node = lock(&self.0);
        match item {
            Transmit::Call(call) => return node.waiting.push_back(Waiting { call, since: None }),
            Transmit::Subscribe { ref channel, .. } => {
                node.channels.insert(Arc::clone(channel));
            }
            Transmit::Unsubscribe { ref channel, .. } => {
                node.channels.remove(channel);
            }
        }
        if node.is_subscriber_open {
            node.outgoing.push_back(item);
        }
    }

    fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId)) {
        let mut node = lock(&self.0);
        for Waiting { call, since } in mem::take(&mut node.waiting) {
            if node.open.contains(&call.lane) {
                sent(call.id);
                node.in_flight.insert(call.id, call.lane);
                node.outgoing.push_back(Transmit::Call(call));
            } else {
                let since = Some(since.unwrap_or(now));
                node.waiting.push_back(Waiting { call, since });
            }
        }
    }

    fn poll(&mut self, _context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        let mut node = lock(&self.0);
        node.drop_overdue(now);
        events.append(&mut node.events);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let node = lock(&self.0);
        let since = node.waiting.iter().filter_map(|waiting| waiting.since).min()?;
        Some(since + node.response_timeout)
    }

    fn every_lane_is_open(&self) -> bool {
        lock(&self.0).open.len() == 2
    }
}

fn disconnected(call: CallId, cause: &str) -> TransportEvent {
    TransportEvent::Reply {
        call,
        result: Err(CallError::Disconnected(cause.into())),
    }
}

fn lock(node: &Mutex<Node>) -> MutexGuard<'_, Node> {
    // No code panics while it holds the lock. Even after a panic the node would be consistent.
    node.lock().unwrap_or_else(PoisonError::into_inner)
}
