//! A world in virtual time: sessions, servers that run the shipped scripts, and a link between each pair. Calls,
//! replies and messages on a link can be delayed or lost. The scripts may have a mistake. No test sleeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Call, CallError, CallId, ClientId, Config, Entropy, Event, Grant, Instant, Kind, Lane,
    LeaseDuration, LeaseId, LeaseTerms, LockName, LostReason, NodeId, OnUnavailable, Outcome, Reply, Script, Session,
    Ticket, Transmit,
};
use steadlock_store::{Reply as StoreReply, ServerTime, Store, SubscriberId};

use crate::known::Mistake;

/// How long a call, a reply or a message takes to arrive.
const LATENCY: Duration = Duration::from_micros(500);
/// The time that every server's clock shows when a world begins.
const EPOCH: u64 = 1_795_000_000_000_000;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A small seeded generator (xorshift64*).
struct Seeded(u64);

impl Entropy for Seeded {
    fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Which of a call and its reply is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The call, on its way to the server.
    There,
    /// The reply, on its way back.
    Back,
}

/// A server.
struct Node {
    store: Store,
    /// How far its clock was set back.
    set_back: Duration,
    /// Whether the server is paused. While it is, everything sent to it waits.
    is_stopped: bool,
}

/// A client.
struct Client {
    session: Session,
    is_alive: bool,
    events: Vec<(Instant, Event)>,
}

/// A script that a server ran.
struct Ran {
    at: Instant,
    client: usize,
    script: Script,
}

enum Travelling {
    Call(Call),
    Subscribe(NodeId, Arc<[u8]>),
    Unsubscribe(NodeId, Arc<[u8]>),
    Reply(CallId, Result<Reply, CallError>),
    Subscribed(NodeId, Arc<[u8]>),
    Message(NodeId, Arc<[u8]>, Arc<[u8]>),
}

impl Travelling {
    /// Returns the server that this is sent to, unless it is sent to a client.
    const fn to(&self) -> Option<NodeId> {
        match self {
            Self::Call(call) => Some(call.node),
            Self::Subscribe(node, _) | Self::Unsubscribe(node, _) => Some(*node),
            Self::Reply(..) | Self::Subscribed(..) | Self::Message(..) => None,
        }
    }
}

pub(crate) struct World {
    pub(crate) now: Instant,
    /// Whether published messages are lost.
    pub(crate) loses_messages: bool,
    mistake: Mistake,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    ran: Vec<Ran>,
    delays: Vec<(Script, Way, Duration)>,
    /// The earliest arrival time on each lane and direction, which keeps the order of departure.
    busy_until: BTreeMap<(usize, NodeId, Lane, bool), Instant>,
    /// In the order of arrival, and at the same time in the order of departure.
    travelling: BTreeMap<(Instant, u64), (usize, Travelling)>,
    departed: u64,
    /// Lanes that are closed for good.
    closed: BTreeSet<(usize, NodeId, Lane)>,
    lanes: BTreeMap<(usize, CallId), (NodeId, Lane, Script)>,
}

impl World {
    /// Creates clients of one server, with the default length of auto-renewed leases.
    pub(crate) fn new(mistake: Mistake, clients: usize) -> Self {
        Self::with(mistake, clients, 1, LeaseDuration::DEFAULT)
    }

    /// Creates clients of one server, with this length of auto-renewed leases.
    pub(crate) fn auto_renewed(mistake: Mistake, clients: usize, lease: Duration) -> Self {
        Self::with(mistake, clients, 1, LeaseDuration::auto_renewed(lease).unwrap())
    }

    /// Creates one client whose locks are held by a majority of several servers.
    pub(crate) fn of_a_majority(mistake: Mistake, nodes: u16, lease: Duration) -> Self {
        Self::with(mistake, 1, nodes, LeaseDuration::auto_renewed(lease).unwrap())
    }

    fn with(mistake: Mistake, clients: usize, nodes: u16, lease: LeaseDuration) -> Self {
        let node = |_| Node {
            store: Store::new(),
            set_back: Duration::ZERO,
            is_stopped: false,
        };
        let client = |number| {
            let mut seed = Seeded(0x9E37_79B9 + number as u64);
            let config = Config {
                lease,
                primaries: nodes,
                ..Config::new(ClientId::random(&mut seed))
            };
            Client {
                session: Session::new(config, Box::new(seed)),
                is_alive: true,
                events: Vec::new(),
            }
        };
        let mut world = Self {
            now: Instant::ZERO + seconds(1_000),
            loses_messages: false,
            mistake,
            nodes: (0..nodes).map(node).collect(),
            clients: (0..clients).map(client).collect(),
            ran: Vec::new(),
            delays: Vec::new(),
            busy_until: BTreeMap::new(),
            travelling: BTreeMap::new(),
            departed: 0,
            closed: BTreeSet::new(),
            lanes: BTreeMap::new(),
        };
        for client in 0..clients {
            for node in 0..nodes {
                world.tell(client, |session, now| session.on_connected(NodeId(node), now));
            }
        }
        world
    }

    // Actions of a test on the world.

    /// Delays the next call of a script, or its reply.
    pub(crate) fn hold_up(&mut self, script: Script, way: Way, by: Duration) {
        self.delays.push((script, way, by));
    }

    /// Pauses a server, or resumes it.
    pub(crate) fn stop(&mut self, node: usize, is_stopped: bool) {
        self.nodes[node].is_stopped = is_stopped;
    }

    /// Sets a server's clock back.
    pub(crate) fn put_back_clock(&mut self, by: Duration) {
        self.nodes[0].set_back += by;
    }

    /// Closes one lane of a client for good. Calls and replies that are on their way on it are lost.
    pub(crate) fn cut(&mut self, client: usize, lane: Lane) {
        let node = NodeId(0);
        self.closed.insert((client, node, lane));
        let lanes = &self.lanes;
        let is_on_lane = |of: usize, call: CallId| {
            of == client
                && lanes
                    .get(&(client, call))
                    .is_some_and(|(to, of, _)| (*to, *of) == (node, lane))
        };
        let mut lost = Vec::new();
        self.travelling.retain(|_, (of, what)| {
            let call = match what {
                Travelling::Call(call) => call.id,
                Travelling::Reply(call, _) => *call,
                _ => return true,
            };
            let is_lost = is_on_lane(*of, call);
            if is_lost {
                lost.push(call);
            }
            !is_lost
        });
        self.tell(client, |session, now| session.on_lane_closed(node, lane, "cut", now));
        for call in lost {
            let cut = Err(CallError::Disconnected("cut".into()));
            self.tell(client, |session, now| session.on_reply(call, cut, now));
        }
    }

    /// Kills a client without closing it.
    pub(crate) fn kill(&mut self, client: usize) {
        self.clients[client].is_alive = false;
    }

    /// Returns the time of the first server's clock, in µs.
    pub(crate) fn time(&self) -> u64 {
        self.clock(0).as_micros()
    }

    /// Runs a command on a server, as an operator or another program would.
    pub(crate) fn command(&mut self, node: usize, words: &[&str]) -> StoreReply {
        let clock = self.clock(node);
        let reply = self.nodes[node].store.execute(words, clock);
        self.publish(node);
        reply
    }

    // Actions of callers.

    pub(crate) fn acquire(&mut self, client: usize, request: AcquireRequest) -> Ticket {
        self.tell(client, |session, now| session.acquire(request, now))
    }

    pub(crate) fn acquire_all(&mut self, client: usize, requests: Vec<AcquireRequest>) -> Ticket {
        self.tell(client, |session, now| session.acquire_all(requests, now))
    }

    pub(crate) fn release(&mut self, client: usize, lease: LeaseId) -> Ticket {
        self.tell(client, |session, now| session.release(lease, now))
    }

    pub(crate) fn extend(&mut self, client: usize, lease: LeaseId, by: Duration) -> Ticket {
        let by = Some(LeaseDuration::fixed(by).unwrap());
        self.tell(client, |session, now| session.extend(lease, by, now))
    }

    pub(crate) fn cancel(&mut self, client: usize, ticket: Ticket) {
        self.tell(client, |session, now| session.cancel(ticket, now));
    }

    /// Gives a session an input, then drains both of its polls as the driver contract demands.
    fn tell<T>(&mut self, client: usize, input: impl FnOnce(&mut Session, Instant) -> T) -> T {
        let now = self.now;
        let result = input(&mut self.clients[client].session, now);
        while let Some(transmit) = self.clients[client].session.poll_transmit() {
            match transmit {
                // The call waits for a connection.
                Transmit::Call(call) if self.closed.contains(&(client, call.node, call.lane)) => {}
                Transmit::Call(call) => {
                    self.clients[client].session.on_sent(call.id, now);
                    self.lanes
                        .insert((client, call.id), (call.node, call.lane, call.script));
                    let line = (client, call.node, call.lane, true);
                    let at = self.arrival(line, call.script, Way::There);
                    self.depart(at, client, Travelling::Call(call));
                }
                Transmit::Subscribe { node, channel } => self.send(client, Travelling::Subscribe(node, channel)),
                Transmit::Unsubscribe { node, channel } => self.send(client, Travelling::Unsubscribe(node, channel)),
            }
        }
        while let Some(event) = self.clients[client].session.poll_event() {
            self.clients[client].events.push((now, event));
        }
        result
    }

    // Calls, replies and messages on their way.

    fn send(&mut self, client: usize, what: Travelling) {
        self.depart(self.now + LATENCY, client, what);
    }

    fn depart(&mut self, arrival: Instant, client: usize, what: Travelling) {
        self.departed += 1;
        self.travelling.insert((arrival, self.departed), (client, what));
    }

    /// Returns when something that is sent now arrives. It never overtakes what was sent earlier on the same lane.
    fn arrival(&mut self, line: (usize, NodeId, Lane, bool), script: Script, way: Way) -> Instant {
        let held_up = |(of, to, _): &(Script, Way, Duration)| *of == script && *to == way;
        let delay = self.delays.iter().position(held_up).map(|at| self.delays.remove(at).2);
        let busy = self.busy_until.entry(line).or_default();
        *busy = (self.now + LATENCY + delay.unwrap_or_default()).max(*busy);
        *busy
    }

    fn arrive(&mut self, client: usize, what: Travelling) {
        match what {
            Travelling::Call(call) => {
                let node = usize::from(call.node.0);
                let (id, script) = (call.id, call.script);
                let at = self.now;
                self.ran.push(Ran { at, client, script });
                let result = self.run(node, &call);
                self.publish(node);
                let at = self.arrival((client, call.node, call.lane, false), script, Way::Back);
                self.depart(at, client, Travelling::Reply(id, result));
            }
            Travelling::Subscribe(node, channel) => {
                let subscriber = SubscriberId(client as u64);
                self.nodes[usize::from(node.0)].store.subscribe(subscriber, &channel);
                self.send(client, Travelling::Subscribed(node, channel));
            }
            Travelling::Unsubscribe(node, channel) => {
                let subscriber = SubscriberId(client as u64);
                self.nodes[usize::from(node.0)].store.unsubscribe(subscriber, &channel);
            }
            _ if !self.clients[client].is_alive => {}
            Travelling::Reply(call, result) => self.tell(client, |session, now| session.on_reply(call, result, now)),
            Travelling::Subscribed(node, channel) => {
                self.tell(client, |session, now| session.on_subscribed(node, &channel, now));
            }
            Travelling::Message(node, channel, payload) => {
                self.tell(client, |session, now| session.on_message(node, &channel, &payload, now));
            }
        }
    }

    /// Runs the script of a call, in its defective text if the mistake has one.
    fn run(&mut self, node: usize, call: &Call) -> Result<Reply, CallError> {
        let clock = self.clock(node);
        let store = &mut self.nodes[node].store;
        let reply = match self.mistake.and_then(|switch| switch.text(call.script)) {
            None => store.run_script(call.script, &call.keys, &call.args, clock),
            Some(text) => {
                let count = call.keys.len().to_string();
                let mut words: Vec<&[u8]> = vec![b"EVAL", text.as_bytes(), count.as_bytes()];
                words.extend(call.keys.iter().chain(&call.args).map(|word| &**word));
                store.execute(&words, clock)
            }
        };
        Ok(reply.into_result()?.into())
    }

    fn publish(&mut self, node: usize) {
        let of = NodeId(u16::try_from(node).unwrap());
        for delivery in self.nodes[node].store.take_deliveries() {
            if !self.loses_messages {
                let listener = usize::try_from(delivery.subscriber.0).unwrap();
                self.send(listener, Travelling::Message(of, delivery.channel, delivery.payload));
            }
        }
    }

    fn clock(&self, node: usize) -> ServerTime {
        let set_back = u64::try_from(self.nodes[node].set_back.as_micros()).unwrap();
        ServerTime::from_micros(EPOCH + self.now.as_micros() - set_back)
    }

    // The passing of time.

    /// Advances to the next event, or to `end` if there is none before it. Returns whether there was one.
    fn step(&mut self, end: Instant) -> bool {
        let nodes = &self.nodes;
        let is_paused = |what: &Travelling| what.to().is_some_and(|node| nodes[usize::from(node.0)].is_stopped);
        let arrival = self.travelling.iter().find(|(_, (_, what))| !is_paused(what));
        let arrival = arrival.map(|(key, _)| *key);
        let alive = self.clients.iter().enumerate().filter(|(_, client)| client.is_alive);
        let timeout = alive.filter_map(|(number, client)| Some((client.session.poll_timeout()?, number)));
        let timeout = timeout.min();
        let times = [arrival.map(|(at, _)| at), timeout.map(|(at, _)| at)];
        let next = times.into_iter().flatten().min().map(|next| next.max(self.now));
        let Some(next) = next.filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = next;
        let arrived = arrival.filter(|(at, _)| *at <= next);
        if let Some((client, what)) = arrived.and_then(|key| self.travelling.remove(&key)) {
            self.arrive(client, what);
        } else if let Some((_, client)) = timeout {
            self.tell(client, Session::on_timeout);
        }
        true
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
    }

    // Results.

    /// Waits at most `limit` for the outcome of a ticket. Returns it and when it came.
    pub(crate) fn outcome(&mut self, client: usize, ticket: Ticket, limit: Duration) -> Option<(Outcome, Instant)> {
        let end = self.now + limit;
        loop {
            let mut events = self.clients[client].events.iter();
            let done = events.find_map(|(at, event)| match event {
                Event::Completed { ticket: of, outcome } if *of == ticket => Some((outcome.clone(), *at)),
                _ => None,
            });
            if done.is_some() || !self.step(end) {
                return done;
            }
        }
    }

    /// Waits at most `limit` for the grant of a ticket.
    pub(crate) fn granted(&mut self, client: usize, ticket: Ticket, limit: Duration) -> Result<Grant, String> {
        match self.outcome(client, ticket, limit) {
            Some((Outcome::Granted(grant), _)) => Ok(grant),
            None => Err(format!("not granted to client {client} within {limit:?}")),
            Some((other, _)) => Err(format!("not granted to client {client}: {other:?}")),
        }
    }

    /// Returns the deadline of a lease that its client reported last.
    pub(crate) fn deadline(&self, client: usize, lease: LeaseId) -> Option<Instant> {
        let events = self.clients[client].events.iter().rev();
        events.map(|(_, event)| event).find_map(|event| match event {
            Event::Renewed { lease: of, deadline } if *of == lease => Some(*deadline),
            Event::Completed {
                outcome: Outcome::Granted(grant),
                ..
            } if grant.lease == lease => Some(grant.deadline),
            _ => None,
        })
    }

    /// Acquires a lock, and waits for it for at most 120 s.
    pub(crate) fn hold(&mut self, client: usize, request: AcquireRequest) -> Result<Grant, String> {
        let ticket = self.acquire(client, request);
        self.granted(client, ticket, seconds(120))
    }

    /// Has a client acquire an auto-renewed lease and lose it while the server is paused.
    pub(crate) fn lose(&mut self, client: usize, request: AcquireRequest) -> Result<Grant, String> {
        let held = self.hold(client, request)?;
        self.stop(0, true);
        self.run_for(LeaseDuration::DEFAULT.get());
        self.stop(0, false);
        self.run_for(seconds(5));
        match self.lost(client).contains_key(&held.lease) {
            true => Ok(held),
            false => Err("the lease was not lost".into()),
        }
    }

    /// Returns whether a client can acquire the lock without waiting.
    pub(crate) fn is_free(&mut self, client: usize, request: AcquireRequest) -> bool {
        let once = AcquireRequest {
            wait: Some(Duration::ZERO),
            ..request
        };
        self.hold(client, once).is_ok()
    }

    /// Returns the leases that a client reported lost, with the reasons.
    pub(crate) fn lost(&self, client: usize) -> BTreeMap<LeaseId, LostReason> {
        let events = self.clients[client].events.iter();
        let lost = events.filter_map(|(_, event)| match event {
            Event::Lost { lease, reason } => Some((*lease, *reason)),
            _ => None,
        });
        lost.collect()
    }

    /// Returns how often servers have run a script for a client since `since`.
    pub(crate) fn ran(&self, script: Script, client: usize, since: Instant) -> usize {
        let is_it = |ran: &&Ran| ran.script == script && ran.client == client && ran.at >= since;
        self.ran.iter().filter(is_it).count()
    }

    /// Returns what is left of a key's TTL, or `None` if there is no such key.
    pub(crate) fn left(&mut self, node: usize, key: &str) -> Option<Duration> {
        match self.command(node, &["PTTL", key]) {
            StoreReply::Int(left) => u64::try_from(left).ok().map(ms),
            other => unreachable!("PTTL replied {other:?}"),
        }
    }

    /// Returns the owners in the record of a lock.
    pub(crate) fn owners(&mut self, kind: Kind, name: &str) -> BTreeSet<Vec<u8>> {
        let reply = match kind {
            Kind::Mutex => self.command(0, &["GET", name]),
            _ => self.command(0, &["HKEYS", name]),
        };
        match reply {
            StoreReply::Nil => BTreeSet::new(),
            StoreReply::Bytes(owner) => BTreeSet::from([owner]),
            StoreReply::Array(owners) => owners
                .into_iter()
                .map(|owner| match owner {
                    StoreReply::Bytes(owner) => owner,
                    other => unreachable!("an owner is {other:?}"),
                })
                .collect(),
            other => unreachable!("the owners are {other:?}"),
        }
    }
}

/// Returns a request that waits without a limit.
pub(crate) fn wants(kind: Kind, name: &str) -> AcquireRequest {
    AcquireRequest {
        run: None,
        kind,
        name: LockName::parse(name).unwrap(),
        context: None,
        within: None,
        wait: None,
        lease: LeaseTerms::CLIENT,
        max_hold: None,
        fencing: true,
        on_unavailable: OnUnavailable::Fail,
        blocked: Vec::new(),
    }
}

/// Returns the same request with a fixed lease of this length.
pub(crate) fn wants_for(lease: Duration, kind: Kind, name: &str) -> AcquireRequest {
    AcquireRequest {
        lease: LeaseTerms::fixed(lease).unwrap(),
        ..wants(kind, name)
    }
}
