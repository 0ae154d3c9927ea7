//! Several servers, each a node of its own, for locks that need a majority of the servers.

use std::task::Context;
use std::time::Duration;

use steadlock_collections::{SortedMap, SortedSet};
use steadlock_protocol::{CallId, Cause, Error, ErrorKind, Instant, Lane, NodeId, Operation, Transmit};

use super::{FirstConnection, Transport, TransportEvent};

/// The nodes, in the order of the settings.
pub(super) struct Quorum {
    nodes: Vec<Box<dyn Transport>>,
    names: Vec<String>,
    first: FirstConnection,
    connected: SortedSet<usize>,
    /// The nodes that have failed and have not connected since, until the result is reported.
    failed: SortedMap<usize, Cause>,
    /// Whether the result of the first connection was reported.
    is_reported: bool,
    /// The time at which a majority was connected for the first time.
    majority_since: Option<Instant>,
    events: Vec<TransportEvent>,
}

/// Once a majority is connected, the client waits this long for the other nodes before it counts as ready.
const WAIT_FOR_OTHERS: Duration = Duration::from_millis(200);

impl Quorum {
    pub(super) const fn new(nodes: Vec<Box<dyn Transport>>, names: Vec<String>, first: FirstConnection) -> Self {
        Self {
            nodes,
            names,
            first,
            connected: SortedSet::new(),
            failed: SortedMap::new(),
            is_reported: false,
            majority_since: None,
            events: Vec::new(),
        }
    }

    /// Passes on an event of one node, under the number of that node.
    fn forward(&mut self, node: usize, item: TransportEvent, events: &mut Vec<TransportEvent>) {
        let id = NodeId(u16::try_from(node).unwrap_or(u16::MAX));
        events.push(match item {
            TransportEvent::LaneOpened { lane, .. } => TransportEvent::LaneOpened { node: id, lane },
            TransportEvent::LaneClosed { lane, cause, .. } => {
                let cause = self.with_node_name(node, cause);
                self.connected.remove(&node);
                if !self.is_reported {
                    self.failed.get_or_insert_with(node, || cause.clone());
                }
                TransportEvent::LaneClosed { node: id, lane, cause }
            }
            TransportEvent::SubscriptionsLost(_) => TransportEvent::SubscriptionsLost(id),
            TransportEvent::SubscriptionLost { channel, .. } => TransportEvent::SubscriptionLost { node: id, channel },
            TransportEvent::Subscribed { channel, .. } => TransportEvent::Subscribed { node: id, channel },
            TransportEvent::Message { channel, payload, .. } => TransportEvent::Message {
                node: id,
                channel,
                payload,
            },
            // This event is about one node. `report_result` reports that the client is ready.
            TransportEvent::Ready => {
                self.connected.insert(node);
                self.failed.remove(&node);
                return;
            }
            // A retry cannot repair this failure. Until the result of the first connection is reported, the failure
            // ends the client, even if the other nodes can be reached.
            TransportEvent::Unreachable(error) if self.is_reported => TransportEvent::LaneClosed {
                node: id,
                lane: Lane::Command,
                cause: self.with_node_name(node, Cause::from(&error)),
            },
            TransportEvent::Unreachable(error) => {
                self.is_reported = true;
                TransportEvent::Unreachable(error)
            }
            TransportEvent::Slots {
                primary_of_slot,
                primaries,
                ..
            } => TransportEvent::Slots {
                node: id,
                primary_of_slot,
                primaries,
            },
            same @ (TransportEvent::Reply { .. }
            | TransportEvent::ShardLaneOpened { .. }
            | TransportEvent::ShardLaneClosed { .. }
            | TransportEvent::Sendable) => same,
        });
    }

    /// Adds the name of the node to a cause.
    fn with_node_name(&self, node: usize, cause: Cause) -> Cause {
        let name = self.names.get(node).map_or("", String::as_str);
        cause.reworded(|text| format!("{name}: {text}"))
    }

    /// Reports once whether the client can be used. A lack of a majority is reported only to callers that wait for the
    /// first connection; otherwise it is an outage, as with one server.
    fn report_result(&mut self, now: Instant, events: &mut Vec<TransportEvent>) {
        if self.is_reported {
            return;
        }
        let majority = self.nodes.len() / 2 + 1;
        if self.connected.len() >= majority {
            let since = *self.majority_since.get_or_insert(now);
            if self.connected.len() + self.failed.len() == self.nodes.len() || now >= since + WAIT_FOR_OTHERS {
                self.is_reported = true;
                events.push(TransportEvent::Ready);
            }
        } else if self.first == FirstConnection::Awaited && self.nodes.len() - self.failed.len() < majority {
            self.is_reported = true;
            let what = format!("no majority of {} primaries can be reached", self.nodes.len());
            let error = Error::new(ErrorKind::Unavailable, Operation::Connect, what)
                .with_cause(Cause::joined(self.failed.values(), self.failed.len()))
                .with_advice("are they running, and the addresses right?");
            events.push(TransportEvent::Unreachable(error.with_node(self.names.join(", "))));
        }
    }
}

impl Transport for Quorum {
    fn transmit(&mut self, item: Transmit) {
        let node = match &item {
            Transmit::Call(call) => call.node,
            Transmit::Subscribe { node, .. } | Transmit::Unsubscribe { node, .. } => *node,
        };
        if let Some(node) = self.nodes.get_mut(usize::from(node.0)) {
            node.transmit(item);
        }
    }

    fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId)) {
        for node in &mut self.nodes {
            node.flush(now, sent);
        }
    }

    fn poll(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        let mut node_events = std::mem::take(&mut self.events);
        for node in 0..self.nodes.len() {
            self.nodes[node].poll(context, now, &mut node_events);
            for item in node_events.drain(..) {
                self.forward(node, item, events);
            }
        }
        self.events = node_events;
        self.report_result(now, events);
    }

    fn set_in_use(&mut self, is_in_use: bool) {
        for node in &mut self.nodes {
            node.set_in_use(is_in_use);
        }
    }

    fn set_shortest_lease(&mut self, lease: Option<Duration>) {
        for node in &mut self.nodes {
            node.set_shortest_lease(lease);
        }
    }

    #[cfg(feature = "native")]
    fn restart(&mut self, now: Instant, events: &mut Vec<TransportEvent>) -> bool {
        let mut node_events = std::mem::take(&mut self.events);
        for node in 0..self.nodes.len() {
            if !self.nodes[node].restart(now, &mut node_events) {
                return false;
            }
            for item in node_events.drain(..) {
                self.forward(node, item, events);
            }
        }
        self.events = node_events;
        true
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let majority_timeout = self
            .majority_since
            .filter(|_| !self.is_reported)
            .map(|since| since + WAIT_FOR_OTHERS);
        let nodes = self.nodes.iter().filter_map(|node| node.poll_timeout());
        nodes.chain(majority_timeout).min()
    }

    fn every_lane_is_open(&self) -> bool {
        self.nodes.iter().all(|node| node.every_lane_is_open())
    }
}
