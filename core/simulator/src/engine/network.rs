//! The network between clients and servers: the addresses of each name, the server at each address (a `Machine`), the
//! connections, and the clients that cannot connect.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadlock::simulation::{Path, Stream};
use tokio::time::{Instant, sleep};

use super::cable::{Cable, End};
use super::sentinels::Sentinels;
use super::server::Machine;
use super::shards::host;
use super::trace::Trace;
use crate::random::Random;

/// The address of the first server. The others follow it.
const FIRST: u32 = Ipv4Addr::new(10, 0, 0, 0).to_bits();
/// The number of the first sentinel's address.
const SENTINELS: usize = 256;
/// The name that can have several addresses, or lead to other addresses later.
const NAME: &str = "locks";

/// The longest time for which a client keeps a connection only to examine a server.
const LOOKED_AT: Duration = Duration::from_secs(1);

pub(super) struct Network {
    trace: Arc<Trace>,
    slowest: u64,
    sentinels: Option<Arc<Sentinels>>,
    state: Mutex<State>,
}

struct State {
    random: Random,
    addresses: Vec<Arc<Machine>>,
    /// The addresses to which the name leads.
    named: Vec<usize>,
    connections: BTreeMap<u64, Connection>,
    outcomes: BTreeMap<Way, ConnectOutcome>,
    /// Addresses that accept no connection.
    unreachable: BTreeMap<usize, ConnectOutcome>,
    next_connection: u64,
}

/// A client's connections for one purpose, to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) client: usize,
    pub(super) address: usize,
    pub(super) path: Path,
}

struct Connection {
    way: Way,
    /// The machine; `None` for a sentinel.
    machine: Option<u64>,
    since: Instant,
    cable: Arc<Cable>,
}

/// How an attempt to connect fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectOutcome {
    /// The connection is refused.
    Refused,
    /// The connection is never answered.
    Unanswered,
}

impl Network {
    pub(super) fn new(
        random: Random,
        slowest: u64,
        trace: &Arc<Trace>,
        machines: Vec<Arc<Machine>>,
        sentinels: Option<Arc<Sentinels>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            trace: Arc::clone(trace),
            slowest,
            sentinels,
            state: Mutex::new(State {
                random,
                named: (0..machines.len()).collect(),
                addresses: machines,
                connections: BTreeMap::new(),
                outcomes: BTreeMap::new(),
                unreachable: BTreeMap::new(),
                next_connection: 0,
            }),
        })
    }

    /// Returns the URL of the address with this number.
    pub(super) fn url(address: usize) -> String {
        format!("redis://{}", host(address))
    }

    /// Returns the URL of a cluster, with the first addresses.
    pub(super) fn cluster_url(addresses: usize) -> String {
        let nodes: Vec<String> = (0..addresses).map(host).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// Returns the URL that lists the first sentinels, and the service that they watch.
    pub(super) fn sentinel_url(listed: usize) -> String {
        let sentinels: Vec<String> = (0..listed).map(Sentinels::host).collect();
        format!("redis+sentinel://{}/{}", sentinels.join(","), Sentinels::SERVICE)
    }

    /// Returns the URL with the name `NAME`.
    pub(super) fn named_url() -> String {
        format!("redis://{NAME}")
    }

    /// Sets the addresses of the name.
    pub(super) fn name(&self, addresses: Vec<usize>) {
        self.lock().named = addresses;
    }

    /// Returns the addresses of a host, in random order.
    pub(super) fn resolve(&self, host: &str, port: u16) -> Vec<SocketAddr> {
        let mut state = self.lock();
        let State { named, random, .. } = &mut *state;
        let mut numbers = match host {
            NAME => named.clone(),
            _ => number(host).into_iter().collect(),
        };
        random.shuffle(&mut numbers);
        numbers.into_iter().map(|number| socket(number, port)).collect()
    }

    /// Returns the machine to which an address leads now.
    pub(super) fn machine(&self, address: usize) -> Arc<Machine> {
        Arc::clone(&self.lock().addresses[address])
    }

    /// Makes all addresses of a machine lead to another machine.
    pub(super) fn replace(&self, machine: u64, by: &Arc<Machine>) {
        for place in &mut self.lock().addresses {
            if place.id() == machine {
                *place = Arc::clone(by);
            }
        }
    }

    pub(super) async fn dial(
        self: Arc<Self>,
        client: usize,
        address: SocketAddr,
        path: Path,
    ) -> io::Result<Box<dyn Stream>> {
        let address = number_of(address);
        let sentinel = self.sentinels.as_ref().filter(|_| address >= SENTINELS);
        let slowest = sentinel.map_or(self.slowest, |of| of.slowest(address - SENTINELS));
        let latency = self.lock().random.between(100, slowest);
        sleep(Duration::from_micros(latency)).await;
        let way = Way { client, address, path };
        let outcome = {
            let state = self.lock();
            state
                .outcomes
                .get(&way)
                .or_else(|| state.unreachable.get(&address))
                .copied()
        };
        match outcome {
            Some(ConnectOutcome::Refused) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(ConnectOutcome::Unanswered) => std::future::pending().await,
            None => {}
        }
        let mut state = self.lock();
        let cable = Cable::new(state.random.fork(), slowest);
        let id = state.next_connection;
        state.next_connection += 1;
        state.connections.retain(|_, connection| connection.cable.is_in_use());
        let machine = match sentinel {
            Some(sentinels) => {
                let number = address - SENTINELS;
                self.trace
                    .note(format_args!("client {client} has connection {id} to sentinel {number}"));
                tokio::spawn(Arc::clone(sentinels).serve(number, id, Arc::clone(&cable)));
                None
            }
            None => {
                let machine = Arc::clone(&state.addresses[address]);
                self.trace.note(format_args!(
                    "client {client} has connection {id} for {path:?} to machine {}",
                    machine.id()
                ));
                tokio::spawn(Arc::clone(&machine).serve(id, client, Arc::clone(&cable)));
                Some(machine.id())
            }
        };
        let connection = Connection {
            way,
            machine,
            since: Instant::now(),
            cable: Arc::clone(&cable),
        };
        state.connections.insert(id, connection);
        Ok(Box::new(End::new(cable)))
    }

    /// Sets what happens to a client's next connections for a purpose; `None` accepts them.
    pub(super) fn set_outcome(&self, way: Way, outcome: Option<ConnectOutcome>) {
        let mut state = self.lock();
        match outcome {
            Some(outcome) => state.outcomes.insert(way, outcome),
            None => state.outcomes.remove(&way),
        };
    }

    /// Sets what happens to the next connections of all clients to an address; `None` accepts them.
    pub(super) fn set_unreachable(&self, address: usize, outcome: Option<ConnectOutcome>) {
        let mut state = self.lock();
        match outcome {
            Some(outcome) => state.unreachable.insert(address, outcome),
            None => state.unreachable.remove(&address),
        };
    }

    /// Resets a client's connections for a purpose.
    pub(super) fn cut(&self, way: Way) {
        self.each(|connection| connection.way == way, Cable::cut);
    }

    /// Makes everything vanish that is sent on a client's connections for a purpose.
    pub(super) fn silence(&self, way: Way) {
        self.each(|connection| connection.way == way, Cable::silence);
    }

    /// Resets all connections of a machine.
    pub(super) fn cut_machine(&self, machine: u64) {
        self.each(|connection| connection.machine == Some(machine), Cable::cut);
    }

    /// Stops a sentinel from answering clients. With `is_silent` false, resets its connections, and lets it answer again.
    pub(super) fn silence_sentinel(&self, sentinel: usize, is_silent: bool) {
        let address = SENTINELS + sentinel;
        self.set_unreachable(address, is_silent.then_some(ConnectOutcome::Unanswered));
        let strike = if is_silent { Cable::silence } else { Cable::cut };
        self.each(|connection| connection.way.address == address, strike);
    }

    /// Returns the purposes of the connections that a client keeps to a machine. A short connection that only examines
    /// the machine does not count.
    pub(super) fn paths_to(&self, client: usize, machine: u64) -> Vec<Path> {
        let state = self.lock();
        let is_kept = |connection: &&Connection| {
            let is_there = connection.way.client == client && connection.machine == Some(machine);
            is_there && connection.cable.is_in_use() && connection.since.elapsed() > LOOKED_AT
        };
        state
            .connections
            .values()
            .filter(is_kept)
            .map(|connection| connection.way.path)
            .collect()
    }

    /// Returns the number of connections.
    pub(super) fn connections(&self) -> usize {
        self.lock()
            .connections
            .values()
            .filter(|connection| connection.cable.is_in_use())
            .count()
    }

    fn each(&self, is_meant: impl Fn(&Connection) -> bool, strike: impl Fn(&Cable)) {
        for connection in self
            .lock()
            .connections
            .values()
            .filter(|connection| is_meant(connection))
        {
            strike(&connection.cable);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of a host's address, which the host's name contains.
fn number(host: &str) -> Option<usize> {
    let of = |prefix| host.strip_prefix(prefix)?.parse::<usize>().ok();
    of("server-").or_else(|| Some(SENTINELS + of("sentinel-")?))
}

fn socket(number: usize, port: u16) -> SocketAddr {
    let number = u32::try_from(number).unwrap_or(u32::MAX - FIRST);
    (Ipv4Addr::from_bits(FIRST + number), port).into()
}

fn number_of(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(address) => (address.ip().to_bits() - FIRST) as usize,
        SocketAddr::V6(_) => unreachable!("no host has such an address"),
    }
}
