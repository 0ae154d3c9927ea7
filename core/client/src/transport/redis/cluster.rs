//! A Redis or Valkey cluster: every key has a slot, and every slot a node.
//!
//! ```text
//!   call ─► Queue ── the slot's node is open ─► that node's lane ─► reply
//!             ▲                                       │
//!             └── MOVED: the slot is another node's ◄─┤
//!             └── ASK: this once, at another node   ◄─┤
//!             └── TRYAGAIN, CLUSTERDOWN: later      ◄─┘
//! ```
//!
//! The session sees the cluster as one node. A lane (a connection for calls) of that node counts as open while any
//! cluster node has its lane open, or some node with slots has not failed yet. The client connects to a node when a
//! call or a channel needs it. A node that is lost, slow or silent delays only the calls of its slots. They wait in the
//! queue, no longer than the response timeout, for the node that has the slot next. A call that still gets CLUSTERDOWN
//! after a few attempts is answered with that error.

mod channels;
#[cfg(feature = "admin")]
pub(super) mod lookup;
mod queue;
mod shard;
mod slots;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use steadlock_protocol::{CallError, CallId, Cause, Error, Instant, Lane, Transmit};

use self::channels::{Change, Channels};
use self::queue::{Decision, Queue, RetryAt, SendableCall};
use self::shard::Shard;
use self::slots::{PrimaryNumbers, Slots};
use self::topology::Topology;
use super::FirstFailure;
use super::address::Address;
use super::failure::Failure;
use super::lane::RejectedCall;
use super::peers::Peers;
use crate::settings::Settings;
use crate::target::Target;
use crate::transport::{NODE, Transport, TransportEvent};

const LANES: [Lane; 2] = [Lane::Command, Lane::Renewal];

/// The nodes of one cluster.
pub(in crate::transport) struct Cluster {
    settings: Arc<Settings>,
    target: Target,
    first: FirstFailure,
    state: State,
    /// The other primaries of the client, with which the cluster must share no node; `None` if there are none.
    peers: Option<Peers>,
    topology: Topology,
    slots: Slots,
    shards: BTreeMap<Address, Shard>,
    queue: Queue,
    channels: Channels,
    primary_numbers: PrimaryNumbers,
    /// Whether a slot may have changed its owner since the channels were placed.
    has_moved: bool,
    /// The lanes that the session considers open.
    open: BTreeSet<Lane>,
    /// The lanes that some node has lost, until every node has its lane open again.
    lost: BTreeSet<Lane>,
    /// The last reason why the topology was unknown, or why a node had no connection.
    cause: Option<Cause>,
    is_in_use: bool,
    shortest_lease: Option<Duration>,
    shard_events: Vec<TransportEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The owners of the slots are unknown.
    First,
    Known,
    /// The first attempt failed, and no other follows.
    Failed,
}

impl Cluster {
    pub(in crate::transport) fn open(
        settings: &Arc<Settings>,
        target: &Target,
        first: FirstFailure,
        peers: Option<Peers>,
    ) -> Self {
        Self {
            peers,
            topology: Topology::new(settings, target),
            settings: Arc::clone(settings),
            target: target.clone(),
            first,
            state: State::First,
            slots: Slots::unknown(),
            shards: BTreeMap::new(),
            queue: Queue::new(settings.command_timeout),
            channels: Channels::default(),
            primary_numbers: PrimaryNumbers::default(),
            has_moved: false,
            open: BTreeSet::new(),
            lost: BTreeSet::new(),
            cause: None,
            is_in_use: false,
            shortest_lease: None,
            shard_events: Vec::new(),
        }
    }

    fn poll_topology(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        let (slots, target) = (&self.slots, &self.target);
        match self.topology.poll(context, now, || slots.nodes(target)) {
            None => {}
            Some(Ok(slots)) => {
                let peers = self.peers.as_ref();
                if let Some(Err(failure)) = peers.map(|peers| peers.check_nodes(slots.ids().clone())) {
                    return self.topology_failed(failure, events);
                }
                self.slots = slots;
                self.channels.retry_moved();
                self.has_moved = true;
                if self.state == State::First {
                    self.state = State::Known;
                    self.first = FirstFailure::Outage;
                    events.extend(LANES.map(|lane| TransportEvent::LaneOpened { node: NODE, lane }));
                    self.open.extend(LANES);
                    events.push(TransportEvent::Ready);
                }
                events.push(TransportEvent::Sendable);
            }
            Some(Err(failure)) => self.topology_failed(failure, events),
        }
    }

    /// Reports the owners of the slots, because each primary has a circuit breaker of its own.
    fn report_slots(&mut self, events: &mut Vec<TransportEvent>) {
        if self.settings.breaker.is_some() {
            events.push(self.primary_numbers.slots_event(&self.slots));
        }
    }

    fn topology_failed(&mut self, failure: Failure, events: &mut Vec<TransportEvent>) {
        self.cause = Some(failure.cause().clone());
        self.topology.request();
        if self.state != State::First {
            return;
        }
        if self.first == FirstFailure::Fatal || self.first == FirstFailure::Retryable && failure.is_lasting() {
            // With several primaries the others may suffice meanwhile, so this one is asked again.
            match self.peers {
                Some(_) => self.first = FirstFailure::Outage,
                None => self.state = State::Failed,
            }
            let error: Error = failure.into_error(&self.target.to_string());
            events.push(TransportEvent::Unreachable(error));
        } else {
            self.first = FirstFailure::Outage;
            events.push(TransportEvent::LaneClosed {
                node: NODE,
                lane: Lane::Command,
                cause: failure.cause().clone(),
            });
        }
    }

    fn poll_shards(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        let mut shard_events = mem::take(&mut self.shard_events);
        let addresses: Vec<Address> = self.shards.keys().cloned().collect();
        for address in addresses {
            let Some(shard) = self.shards.get_mut(&address) else {
                continue;
            };
            shard.redis_mut().poll(context, now, &mut shard_events);
            self.forward_all(&address, &mut shard_events, now, events);
        }
        self.shard_events = shard_events;
    }

    fn forward_all(
        &mut self,
        address: &Address,
        shard_events: &mut Vec<TransportEvent>,
        now: Instant,
        events: &mut Vec<TransportEvent>,
    ) {
        // This comes first: every call that waits must be in the queue when a reply is checked against the queue.
        self.requeue_calls(address, now, events);
        for item in shard_events.drain(..) {
            self.forward(address, item, events);
        }
    }

    /// Passes on an event of one node as an event of the cluster.
    fn forward(&mut self, address: &Address, item: TransportEvent, events: &mut Vec<TransportEvent>) {
        match item {
            TransportEvent::LaneOpened { lane, .. } => {
                events.push(TransportEvent::ShardLaneOpened {
                    server: address.to_string().into(),
                    lane,
                });
                if self.lost.contains(&lane) {
                    events.push(TransportEvent::LaneOpened { node: NODE, lane });
                }
                events.push(TransportEvent::Sendable);
            }
            TransportEvent::LaneClosed { lane, cause, .. } => {
                events.push(TransportEvent::ShardLaneClosed {
                    server: address.to_string().into(),
                    lane,
                    cause: cause.clone(),
                });
                let cause = cause.reworded(|text| format!("{address}: {text}"));
                if let Some(shard) = self.shards.get_mut(address) {
                    shard.record_failure(cause.clone());
                }
                self.cause = Some(cause);
                self.lost.insert(lane);
                self.topology.request();
                events.push(TransportEvent::Sendable);
            }
            TransportEvent::SubscriptionsLost(_) => self.channels.connection_lost(address, events),
            TransportEvent::Reply { call, result } => {
                self.queue.on_reply(call, events);
                events.push(TransportEvent::Reply { call, result });
            }
            TransportEvent::Subscribed { channel, .. } => {
                if self.channels.on_confirmation(address, &channel) {
                    events.push(TransportEvent::Subscribed { node: NODE, channel });
                }
            }
            TransportEvent::Message { channel, payload, .. } => events.push(TransportEvent::Message {
                node: NODE,
                channel,
                payload,
            }),
            TransportEvent::SubscriptionLost { channel, .. } => {
                if let Some(change) = self.channels.mark_moved(address, &channel, events) {
                    self.apply_change(change, Instant::ZERO);
                }
                self.topology.request();
            }
            TransportEvent::Ready
            | TransportEvent::Unreachable(_)
            | TransportEvent::Sendable
            | TransportEvent::ShardLaneOpened { .. }
            | TransportEvent::ShardLaneClosed { .. }
            | TransportEvent::Slots { .. } => {}
        }
    }

    /// Takes back the calls that a node rejected, and those that cannot be sent to it.
    fn requeue_calls(&mut self, address: &Address, now: Instant, events: &mut Vec<TransportEvent>) {
        for lane in LANES {
            let Some(shard) = self.shards.get_mut(address) else {
                return;
            };
            let link = shard.lane(lane);
            let rejected = link.take_rejected();
            let unsent: Vec<_> = if link.is_open() {
                Vec::new()
            } else {
                link.take_unsent().collect()
            };
            if rejected.is_empty() && unsent.is_empty() {
                continue;
            }
            for call in unsent {
                self.queue.on_unsent(call);
            }
            for call in rejected {
                events.extend(self.redirect(address, call, now));
            }
            events.push(TransportEvent::Sendable);
        }
    }

    /// Handles a call that a node did not run, and follows a redirection. Returns the answer to the call, if nothing
    /// else is left to do.
    fn redirect(&mut self, from: &Address, call: RejectedCall, now: Instant) -> Option<TransportEvent> {
        // `MOVED 3999 host:port`
        let (slot, node) = call.error.message.split_once(' ').unwrap_or_default();
        let node = Address::parse(node.trim_end(), &from.host);
        let mut retry = RetryAt::Owner;
        match (call.error.code.as_str(), node, slot.parse()) {
            ("MOVED", Some(node), Ok(slot)) => {
                if self.slots.set_owner(slot, &node) {
                    retry = RetryAt::NewOwner;
                    self.has_moved = true;
                }
                self.topology.request();
            }
            ("ASK", Some(node), _) => retry = RetryAt::ImportingNode(node),
            ("TRYAGAIN", ..) => {}
            _ => self.topology.request(),
        }
        self.queue.on_rejected(call, retry, now)
    }

    /// Returns the node at this address, and adds it if it is unknown.
    fn shard(&mut self, address: &Address, now: Instant) -> &mut Shard {
        let shard = self.shards.entry(address.clone()).or_insert_with(|| {
            let target = self.target.node_target(&address.host, address.port);
            let mut shard = Shard::new(&self.settings, &target, now);
            shard.redis_mut().set_in_use(self.is_in_use);
            shard.redis_mut().set_shortest_lease(self.shortest_lease);
            shard
        });
        shard.mark_used(now);
        shard
    }

    fn place_channels(&mut self, now: Instant, events: &mut Vec<TransportEvent>) {
        for change in self.channels.assign_nodes(&self.slots, events) {
            self.apply_change(change, now);
        }
    }

    fn apply_change(&mut self, change: Change, now: Instant) {
        match change {
            Change::Subscribe { node, channel } => self.shard(&node, now).redis_mut().subscriptions.subscribe(channel),
            Change::Unsubscribe { node, channel } => {
                if let Some(shard) = self.shards.get_mut(&node) {
                    shard.redis_mut().subscriptions.unsubscribe(&channel);
                }
            }
        }
    }

    /// Leaves the nodes that have no slots and had nothing to do for a while.
    fn close_idle(&mut self, now: Instant) {
        let (slots, queue, channels) = (&self.slots, &self.queue, &self.channels);
        self.shards.retain(|address, shard| {
            let is_due = !slots.has(address) && now >= shard.idle_at();
            if is_due && (queue.in_flight_to(address) > 0 || channels.has_any_at(address)) {
                shard.mark_used(now);
                return true;
            }
            !is_due
        });
    }

    /// Gives up the connections to nodes that do not answer and have no slots any more. Calls on such a connection
    /// delay later calls of the same slots, which must go elsewhere.
    fn close_silent(&mut self, now: Instant, events: &mut Vec<TransportEvent>) {
        let failure = Failure::unavailable("it does not answer, and its slots are another node's");
        let mut shard_events = Vec::new();
        let without_slots = self.shards.keys().filter(|address| !self.slots.has(address));
        let without_slots: Vec<Address> = without_slots.cloned().collect();
        for address in without_slots {
            let Some(shard) = self.shards.get_mut(&address) else {
                continue;
            };
            if shard.silent_at().is_none_or(|at| now < at) {
                continue;
            }
            shard.redis_mut().give_up_all(&failure, now, &mut shard_events);
            self.forward_all(&address, &mut shard_events, now, events);
        }
    }

    /// Asks for the topology again while a node with slots is missing or any node is silent, and reports changes of the
    /// lanes.
    fn update_state(&mut self, now: Instant, events: &mut Vec<TransportEvent>) {
        if self.state != State::Known {
            return;
        }
        let is_missing = |(address, shard): (&Address, &Shard)| {
            shard.cause().is_some() && self.slots.has(address) && !shard.redis().every_lane_is_open()
        };
        let is_silent = |shard: &Shard| shard.silent_at().is_some_and(|at| now >= at);
        if self.shards.iter().any(is_missing) || self.shards.values().any(is_silent) {
            self.topology.request();
        } else if self.queue.is_empty() {
            self.topology.on_stable(now);
        }
        for lane in LANES {
            let open = |shard: &Shard| shard.is_open(lane);
            // The lane counts as open until every owner has failed: the next call connects to an owner that was not
            // tried yet.
            let has_failed = |owner: &Address| self.shards.get(owner).is_some_and(|shard| shard.cause().is_some());
            let all_failed = self.slots.owners().all(has_failed);
            let is_open = self.shards.values().any(open) || !all_failed;
            if is_open && self.open.insert(lane) {
                events.push(TransportEvent::LaneOpened { node: NODE, lane });
            } else if !is_open && self.open.remove(&lane) {
                let cause = self.cause.clone().unwrap_or_else(|| "not connected".into());
                events.push(TransportEvent::LaneClosed {
                    node: NODE,
                    lane,
                    cause,
                });
            }
            if self.shards.values().all(open) {
                self.lost.remove(&lane);
            }
        }
    }
}

impl Transport for Cluster {
    fn transmit(&mut self, item: Transmit) {
        match item {
            Transmit::Call(call) => self.queue.push(call),
            Transmit::Subscribe { channel, .. } => self.channels.subscribe(channel),
            Transmit::Unsubscribe { channel, .. } => {
                if let Some(change) = self.channels.unsubscribe(&channel) {
                    self.apply_change(change, Instant::ZERO);
                }
            }
        }
    }

    fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId)) {
        if self.state == State::Failed {
            return;
        }
        if self.channels.has_unplaced() {
            // These channels were never confirmed, so their placement loses no subscription.
            self.place_channels(now, &mut Vec::new());
        }
        let mut queue = mem::replace(&mut self.queue, Queue::new(Duration::ZERO));
        let this = &mut *self;
        let sendable = queue.flush(now, |waiting| {
            let node = waiting.asking.as_ref().or_else(|| this.slots.owner(waiting.flow.slot));
            let Some(node) = node.cloned() else {
                this.topology.request();
                return Decision::Wait;
            };
            if this.shard(&node, now).lane(waiting.flow.lane).is_open() {
                Decision::SendTo(node)
            } else {
                Decision::Wait
            }
        });
        self.queue = queue;
        for SendableCall { node, routed } in sendable {
            let lane = routed.call.lane;
            self.shard(&node, now).lane(lane).push(routed);
        }
        for shard in self.shards.values_mut() {
            shard.redis_mut().flush(now, sent);
        }
    }

    fn poll(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        if self.state == State::Failed {
            return;
        }
        self.poll_shards(context, now, events);
        self.poll_topology(context, now, events);
        if mem::take(&mut self.has_moved) {
            self.report_slots(events);
            self.place_channels(now, events);
            self.close_silent(now, events);
            events.push(TransportEvent::Sendable);
        }
        self.close_idle(now);
        let (slots, shards, cause) = (&self.slots, &self.shards, &self.cause);
        let why = |waiting: &queue::Waiting| {
            let Some(node) = waiting.asking.as_ref().or_else(|| slots.owner(waiting.flow.slot)) else {
                return CallError::server("CLUSTERDOWN", "no node has the slot of the lock");
            };
            let node_cause = shards.get(node).and_then(|shard| shard.cause().cloned());
            CallError::Disconnected(
                node_cause
                    .or_else(|| cause.clone())
                    .unwrap_or_else(|| "not connected".into()),
            )
        };
        self.queue.drop_overdue(now, why, events);
        self.update_state(now, events);
    }

    fn set_in_use(&mut self, is_in_use: bool) {
        self.is_in_use = is_in_use;
        for shard in self.shards.values_mut() {
            shard.redis_mut().set_in_use(is_in_use);
        }
    }

    fn restart(&mut self, now: Instant, events: &mut Vec<TransportEvent>) -> bool {
        self.topology = Topology::new(&self.settings, &self.target);
        for address in self.shards.keys().cloned().collect::<Vec<_>>() {
            let mut shard_events = Vec::new();
            if let Some(shard) = self.shards.get_mut(&address) {
                shard.redis_mut().restart(now, &mut shard_events);
            }
            self.forward_all(&address, &mut shard_events, now, events);
        }
        true
    }

    fn set_shortest_lease(&mut self, lease: Option<Duration>) {
        self.shortest_lease = lease;
        for shard in self.shards.values_mut() {
            shard.redis_mut().set_shortest_lease(lease);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Failed {
            return None;
        }
        let own_timeouts = [self.topology.poll_timeout(), self.queue.poll_timeout()];
        let shards = self.shards.values().filter_map(|shard| shard.redis().poll_timeout());
        let silent_timeouts = self
            .shards
            .values()
            .filter_map(Shard::silent_at)
            .filter(|_| !self.topology.is_requested());
        let idle_timeouts = self.shards.iter().filter(|(address, _)| !self.slots.has(address));
        let idle_timeouts = idle_timeouts.map(|(_, shard)| shard.idle_at());
        own_timeouts
            .into_iter()
            .flatten()
            .chain(shards)
            .chain(silent_timeouts)
            .chain(idle_timeouts)
            .min()
    }

    fn every_lane_is_open(&self) -> bool {
        self.state == State::Known && self.shards.values().all(|shard| shard.redis().every_lane_is_open())
    }
}
