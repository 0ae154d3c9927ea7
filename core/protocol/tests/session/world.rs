//! A world in virtual time: sessions, a connection for each, and a model of the server that knows the scripts of the
//! reentrant lock and a few others. Nothing here sleeps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use crate::seeded::Seeded;
use steadlock_protocol::{
    AcquireRequest, Call, CallError, CallId, ClientId, Config, Context, Error, ErrorKind, Event, Grant, Instant, Kind,
    LeaseDuration, LeaseId, LeaseTerms, LockName, LostReason, NodeId, OnUnavailable, Outcome, Reply, Script, Session,
    Ticket, Transmit,
};

pub(crate) const LATENCY: Duration = Duration::from_micros(100);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) owner: String,
    pub(crate) expires: Instant,
}

/// The data on the server.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) records: BTreeMap<String, Record>,
    pub(crate) tokens: BTreeMap<String, u64>,
    pub(crate) limits: BTreeMap<String, u32>,
    /// The identities that clients stored, each with the end of its TTL.
    pub(crate) clients: BTreeMap<String, (Vec<u8>, Instant)>,
    pub(crate) listeners: BTreeMap<Vec<u8>, BTreeSet<usize>>,
    pub(crate) calls: Vec<(Instant, usize, Script)>,
    /// Errors that replace the execution of the next calls.
    pub(crate) errors: VecDeque<CallError>,
    pub(crate) stopped: bool,
    /// Whether the server answers with success to every script that the model does not know.
    pub(crate) says_yes: bool,
}

impl Server {
    fn expire(&mut self, now: Instant) {
        self.records.retain(|_, record| record.expires > now);
    }

    /// Runs a script. Returns its reply, and the channel on which it published.
    fn run(&mut self, call: &Call, now: Instant) -> (Reply, Option<Vec<u8>>) {
        self.expire(now);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let key = text(&call.keys[0]);
        let ttl = |at: usize| ms(text(&call.args[at]).parse().unwrap());
        match call.script {
            Script::LockAcquire => {
                let owner = text(&call.args[1]);
                match self.records.get(&key) {
                    Some(record) if record.owner != owner => (held(record, now), None),
                    found => {
                        let until = found.map_or(Instant::ZERO, |record| record.expires);
                        let expires = until.max(now + ttl(0));
                        self.records.insert(key.clone(), Record { owner, expires });
                        let token = self.tokens.entry(key).or_insert(0);
                        *token = (*token + 1).max(now.as_micros());
                        let token = token.to_string().into_bytes();
                        (Reply::Array(vec![Reply::Int(1), Reply::Bytes(token)]), None)
                    }
                }
            }
            Script::LockRenew => {
                let reply = match self.records.get_mut(&key) {
                    Some(record) if record.owner == text(&call.args[1]) => {
                        record.expires = record.expires.max(now + ttl(0));
                        1
                    }
                    Some(_) => 2,
                    None => 0,
                };
                (Reply::Array(vec![Reply::Int(reply)]), None)
            }
            Script::LockRelease => match self.records.get(&key) {
                Some(record) if record.owner == text(&call.args[0]) => {
                    self.records.remove(&key);
                    let channel = call.args[1].to_vec();
                    let listeners = self.listeners.get(&channel).map_or(0, BTreeSet::len);
                    let reply = vec![Reply::Int(1), Reply::Int(i64::try_from(listeners).unwrap())];
                    (Reply::Array(reply), Some(channel))
                }
                Some(_) => (Reply::Array(vec![Reply::Int(2)]), None),
                None => (Reply::Array(vec![Reply::Int(0)]), None),
            },
            Script::LockInspect => match self.records.get(&key) {
                Some(record) => (held(record, now), None),
                None => (Reply::Array(vec![Reply::Int(1)]), None),
            },
            // The model of a semaphore has only a limit, which exists while any permit is held.
            Script::SemaphoreLimit => match self.limits.get_mut(&key) {
                Some(limit) => {
                    *limit = text(&call.args[0]).parse().unwrap();
                    let channel = call.args[1].to_vec();
                    (Reply::Array(vec![Reply::Int(1), Reply::Int(0)]), Some(channel))
                }
                None => (Reply::Array(vec![Reply::Int(0)]), None),
            },
            Script::ClientIdentify => {
                self.clients.insert(key, (call.args[0].to_vec(), now + ttl(1)));
                (Reply::Array(vec![Reply::Int(1)]), None)
            }
            Script::ClientInspect => match self.clients.get(&key).filter(|(_, until)| *until > now) {
                Some((text, _)) => (Reply::Array(vec![Reply::Int(1), Reply::Bytes(text.clone())]), None),
                None => (Reply::Array(vec![Reply::Int(0)]), None),
            },
            _ if self.says_yes => (Reply::Array(vec![Reply::Int(1)]), None),
            other => panic!("the model does not know {other:?}"),
        }
    }
}

fn held(record: &Record, now: Instant) -> Reply {
    let left = record.expires.saturating_since(now).as_micros().div_ceil(1_000);
    Reply::Array(vec![
        Reply::Int(0),
        Reply::Int(i64::try_from(left).unwrap()),
        Reply::Bytes(record.owner.clone().into_bytes()),
    ])
}

enum Travelling {
    Call(Call),
    Subscribe(Vec<u8>),
    Unsubscribe(Vec<u8>),
    Reply(CallId, Result<Reply, CallError>),
    Subscribed(Vec<u8>),
    Message(Vec<u8>),
}

/// One client: its session, its connection, and its events.
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) connected: bool,
    pub(crate) events: Vec<(Instant, Event)>,
    pub(crate) outstanding: BTreeSet<CallId>,
    subscribed: BTreeSet<Vec<u8>>,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    pub(crate) drop_messages: bool,
    /// The travel time of a reply.
    pub(crate) reply_latency: Duration,
    /// The number of next replies that are lost together with their connection.
    pub(crate) cut_after_execution: usize,
    /// The items in transit, in order of arrival; with equal times, in order of departure.
    travelling: BTreeMap<(Instant, u64), (usize, Travelling)>,
    departed: u64,
}

pub(crate) fn config(seed: &mut Seeded) -> Config {
    Config::new(ClientId::random(seed))
}

impl World {
    /// Makes a world with this many connected clients, which have the default configuration.
    pub(crate) fn new(clients: usize) -> Self {
        Self::with(clients, |_| {})
    }

    pub(crate) fn with(clients: usize, change: impl Fn(&mut Config)) -> Self {
        let mut world = Self {
            now: Instant::ZERO + Duration::from_secs(1_000),
            server: Server::default(),
            clients: Vec::new(),
            drop_messages: false,
            reply_latency: LATENCY,
            cut_after_execution: 0,
            travelling: BTreeMap::new(),
            departed: 0,
        };
        for client in 0..clients {
            let mut seed = Seeded(0x9E37_79B9 + client as u64);
            let mut config = config(&mut seed);
            change(&mut config);
            world.clients.push(Client {
                session: Session::new(config, Box::new(seed)),
                connected: false,
                events: Vec::new(),
                outstanding: BTreeSet::new(),
                subscribed: BTreeSet::new(),
            });
            world.connect(client);
        }
        world
    }

    pub(crate) fn connect(&mut self, client: usize) {
        self.clients[client].connected = true;
        let now = self.now;
        self.clients[client].session.on_connected(NodeId::default(), now);
        for channel in self.clients[client].subscribed.clone() {
            self.send(client, Travelling::Subscribe(channel));
        }
        self.drain(client);
    }

    /// Closes a client's connection. Items in transit on the connection are lost.
    pub(crate) fn disconnect(&mut self, client: usize) {
        self.clients[client].connected = false;
        self.travelling.retain(|_, (of, _)| *of != client);
        for listeners in self.server.listeners.values_mut() {
            listeners.remove(&client);
        }
        let now = self.now;
        self.clients[client]
            .session
            .on_disconnected(NodeId::default(), "cut", now);
        for call in std::mem::take(&mut self.clients[client].outstanding) {
            let cut = Err(CallError::Disconnected("cut".into()));
            self.clients[client].session.on_reply(call, cut, now);
        }
        self.drain(client);
    }

    fn send(&mut self, client: usize, what: Travelling) {
        self.departed += 1;
        let latency = match what {
            Travelling::Reply(..) => self.reply_latency,
            _ => LATENCY,
        };
        let arrival = (self.now + latency, self.departed);
        self.travelling.insert(arrival, (client, what));
    }

    /// Drains calls and events, as the driver contract requires after any input. Tests drain the observations.
    pub(crate) fn drain(&mut self, client: usize) {
        while let Some(transmit) = self.clients[client].session.poll_transmit() {
            match transmit {
                Transmit::Call(call) if self.clients[client].connected => {
                    self.clients[client].session.on_sent(call.id, self.now);
                    self.clients[client].outstanding.insert(call.id);
                    self.send(client, Travelling::Call(call));
                }
                Transmit::Call(call) => {
                    let cut = Err(CallError::Disconnected("not connected".into()));
                    self.clients[client].session.on_reply(call.id, cut, self.now);
                }
                Transmit::Subscribe { channel, .. } => {
                    self.clients[client].subscribed.insert(channel.to_vec());
                    if self.clients[client].connected {
                        self.send(client, Travelling::Subscribe(channel.to_vec()));
                    }
                }
                Transmit::Unsubscribe { channel, .. } => {
                    self.clients[client].subscribed.remove(&*channel);
                    if self.clients[client].connected {
                        self.send(client, Travelling::Unsubscribe(channel.to_vec()));
                    }
                }
            }
        }
        while let Some(event) = self.clients[client].session.poll_event() {
            self.clients[client].events.push((self.now, event));
        }
    }

    fn arrive(&mut self, client: usize, what: Travelling) {
        let now = self.now;
        match what {
            Travelling::Call(call) => {
                self.server.calls.push((now, client, call.script));
                let result = match self.server.errors.pop_front() {
                    Some(error) => Err(error),
                    None => {
                        let (reply, channel) = self.server.run(&call, now);
                        if let Some(channel) = channel.filter(|_| !self.drop_messages) {
                            for listener in self.server.listeners.get(&channel).cloned().unwrap_or_default() {
                                self.send(listener, Travelling::Message(channel.clone()));
                            }
                        }
                        Ok(reply)
                    }
                };
                if self.cut_after_execution > 0 {
                    self.cut_after_execution -= 1;
                    self.disconnect(client);
                } else {
                    self.send(client, Travelling::Reply(call.id, result));
                }
            }
            Travelling::Subscribe(channel) => {
                self.server.listeners.entry(channel.clone()).or_default().insert(client);
                self.send(client, Travelling::Subscribed(channel));
            }
            Travelling::Unsubscribe(channel) => {
                if let Some(listeners) = self.server.listeners.get_mut(&channel) {
                    listeners.remove(&client);
                }
            }
            Travelling::Reply(call, result) => {
                self.clients[client].outstanding.remove(&call);
                self.clients[client].session.on_reply(call, result, now);
            }
            Travelling::Subscribed(channel) => {
                self.clients[client]
                    .session
                    .on_subscribed(NodeId::default(), &channel, now);
            }
            Travelling::Message(channel) => {
                self.clients[client]
                    .session
                    .on_message(NodeId::default(), &channel, b"0", now);
            }
        }
        self.drain(client);
    }

    /// Moves to the next event, but not beyond `end`. Returns `false` if there is none.
    fn step(&mut self, end: Instant) -> bool {
        let stopped = self.server.stopped;
        let to_server = |what: &Travelling| {
            matches!(
                what,
                Travelling::Call(_) | Travelling::Subscribe(_) | Travelling::Unsubscribe(_)
            )
        };
        let arrival = self
            .travelling
            .iter()
            .find(|(_, (_, what))| !(stopped && to_server(what)))
            .map(|(key, _)| *key);
        let timeouts = self.clients.iter().enumerate();
        let timeout = timeouts
            .filter_map(|(client, of)| Some((of.session.poll_timeout()?, client)))
            .min();
        let next_arrival = arrival.map(|(at, _)| at.max(self.now));
        let next = [next_arrival, timeout.map(|(at, _)| at.max(self.now))]
            .into_iter()
            .flatten()
            .min();
        let Some(next) = next.filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = next;
        if next_arrival == Some(next) {
            let (client, what) = self.travelling.remove(&arrival.unwrap()).unwrap();
            self.arrive(client, what);
        } else {
            let (_, client) = timeout.unwrap();
            self.clients[client].session.on_timeout(next);
            self.drain(client);
        }
        true
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
    }

    /// Runs until `ticket` completes, for at most `limit`. Returns the outcome, and how long it took.
    pub(crate) fn outcome_within(
        &mut self,
        client: usize,
        ticket: Ticket,
        limit: Duration,
    ) -> Option<(Outcome, Duration)> {
        let (start, end) = (self.now, self.now + limit);
        loop {
            let done = self.clients[client].events.iter().find_map(|(at, event)| match event {
                Event::Completed { ticket: of, outcome } if *of == ticket => {
                    Some((outcome.clone(), at.saturating_since(start)))
                }
                _ => None,
            });
            if done.is_some() || !self.step(end) {
                return done;
            }
        }
    }

    pub(crate) fn outcome(&mut self, client: usize, ticket: Ticket) -> Outcome {
        self.outcome_within(client, ticket, Duration::from_secs(120))
            .expect("the ticket completes")
            .0
    }

    pub(crate) fn acquire(&mut self, client: usize, request: AcquireRequest) -> Ticket {
        let now = self.now;
        let ticket = self.clients[client].session.acquire(request, now);
        self.drain(client);
        ticket
    }

    pub(crate) fn release(&mut self, client: usize, lease: LeaseId) -> Ticket {
        let now = self.now;
        let ticket = self.clients[client].session.release(lease, now);
        self.drain(client);
        ticket
    }

    pub(crate) fn cancel(&mut self, client: usize, ticket: Ticket) {
        let now = self.now;
        self.clients[client].session.cancel(ticket, now);
        self.drain(client);
    }

    pub(crate) fn hold(&mut self, client: usize, request: AcquireRequest) -> Grant {
        let ticket = self.acquire(client, request);
        granted(self.outcome(client, ticket))
    }

    pub(crate) fn lost(&self, client: usize) -> Vec<(Instant, LeaseId, LostReason)> {
        let lost = |(at, event): &(Instant, Event)| match event {
            Event::Lost { lease, reason } => Some((*at, *lease, *reason)),
            _ => None,
        };
        self.clients[client].events.iter().filter_map(lost).collect()
    }

    pub(crate) fn calls(&self, script: Script) -> usize {
        self.server.calls.iter().filter(|(_, _, of)| *of == script).count()
    }
}

/// Returns the session's immediate answer to a request; `None` if the caller waits.
pub(crate) fn first_answer(session: &mut Session, request: AcquireRequest, now: u64) -> Option<Outcome> {
    session.acquire(request, at(now));
    let event = session.poll_event();
    event.map(|event| match event {
        Event::Completed { outcome, .. } => outcome,
        other => panic!("{other:?}"),
    })
}

pub(crate) fn granted(outcome: Outcome) -> Grant {
    match outcome {
        Outcome::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) fn error(outcome: Outcome) -> Error {
    match outcome {
        Outcome::NotGranted(error) | Outcome::Failed(error) => error,
        other => panic!("not an error: {other:?}"),
    }
}

/// Returns why the lease was lost, from the error of an operation that needed the lease.
pub(crate) fn why_lost(outcome: Outcome) -> Option<LostReason> {
    let refusal = error(outcome);
    assert_eq!(refusal.kind(), ErrorKind::LockLost, "{refusal}");
    refusal.reason()
}

pub(crate) fn wants(name: &str) -> AcquireRequest {
    AcquireRequest {
        run: None,
        kind: Kind::Lock,
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

pub(crate) fn from(context: u64, name: &str) -> AcquireRequest {
    AcquireRequest {
        context: Some(Context::from_u64(context)),
        ..wants(name)
    }
}

pub(crate) fn fixed(millis: u64) -> LeaseTerms {
    LeaseTerms::fixed(ms(millis)).unwrap()
}

/// Returns the length of an extension.
pub(crate) fn by_ms(millis: u64) -> Option<LeaseDuration> {
    Some(LeaseDuration::fixed(ms(millis)).unwrap())
}

/// Returns an auto-renewed lease with a length of its own.
pub(crate) fn renewed(millis: u64) -> LeaseTerms {
    LeaseTerms::renewed(ms(millis)).unwrap()
}

pub(crate) fn auto_renewed(millis: u64) -> impl Fn(&mut Config) {
    move |config| config.lease = LeaseDuration::auto_renewed(ms(millis)).unwrap()
}

/// The server of a session that a test drives itself.
pub(crate) const NODE: NodeId = NodeId(0);

/// Returns an instant for a session that a test drives itself.
pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1_000) + ms(millis)
}

/// Returns a session that a test drives itself, with all its connections open.
pub(crate) fn connected() -> Session {
    let mut seed = Seeded(7);
    let config = config(&mut seed);
    let mut session = Session::new(config, Box::new(seed));
    session.on_connected(NODE, at(0));
    session
}

/// Returns the calls that were sent, and the channels that were subscribed to.
pub(crate) fn sent(session: &mut Session, now: Instant) -> (Vec<Call>, Vec<Arc<[u8]>>) {
    let (mut calls, mut channels) = (Vec::new(), Vec::new());
    while let Some(item) = session.poll_transmit() {
        match item {
            Transmit::Call(call) => {
                session.on_sent(call.id, now);
                calls.push(call);
            }
            Transmit::Subscribe { channel, .. } => channels.push(channel),
            Transmit::Unsubscribe { .. } => {}
        }
    }
    (calls, channels)
}
