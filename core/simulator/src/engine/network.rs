//! The way from clients to servers: which machine an address leads to, which connections there
//! are, and which clients get none.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadlock::simulation::{Path, Stream};
use tokio::time::sleep;

use super::cable::{Cable, End};
use super::server::Machine;
use super::trace::Trace;
use crate::random::Random;

pub(super) struct Network {
    trace: Arc<Trace>,
    slowest: u64,
    state: Mutex<State>,
}

struct State {
    random: Random,
    addresses: Vec<Arc<Machine>>,
    lines: BTreeMap<u64, Line>,
    doors: BTreeMap<Way, Door>,
    /// Addresses where nobody gets in.
    closed: BTreeMap<usize, Door>,
    next_line: u64,
}

/// What a client has connections for, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) client: usize,
    pub(super) address: usize,
    pub(super) path: Path,
}

/// A connection.
struct Line {
    way: Way,
    machine: u64,
    cable: Arc<Cable>,
}

/// What becomes of a client that wants a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// It is refused.
    Shut,
    /// Nobody answers.
    Silent,
}

impl Network {
    pub(super) fn new(random: Random, slowest: u64, trace: &Arc<Trace>, machines: Vec<Arc<Machine>>) -> Arc<Self> {
        Arc::new(Self {
            trace: Arc::clone(trace),
            slowest,
            state: Mutex::new(State {
                random,
                addresses: machines,
                lines: BTreeMap::new(),
                doors: BTreeMap::new(),
                closed: BTreeMap::new(),
                next_line: 0,
            }),
        })
    }

    /// The name of an address, of which clients have the number.
    pub(super) fn url(address: usize) -> String {
        format!("redis://server-{address}")
    }

    /// The names of the first addresses, as those of a cluster.
    pub(super) fn cluster_url(addresses: usize) -> String {
        let nodes: Vec<String> = (0..addresses).map(|address| format!("server-{address}")).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// Where an address leads now.
    pub(super) fn machine(&self, address: usize) -> Arc<Machine> {
        Arc::clone(&self.lock().addresses[address])
    }

    /// It leads to another machine from now on.
    pub(super) fn lead(&self, address: usize, machine: Arc<Machine>) {
        self.lock().addresses[address] = machine;
    }

    /// Connects a client.
    pub(super) async fn dial(
        self: Arc<Self>,
        client: usize,
        address: String,
        path: Path,
    ) -> io::Result<Box<dyn Stream>> {
        let number = address.strip_prefix("server-").and_then(|rest| rest.split(':').next());
        let address: usize = number.and_then(|number| number.parse().ok()).unwrap_or(usize::MAX);
        let takes = self.lock().random.between(100, self.slowest);
        sleep(Duration::from_micros(takes)).await;
        let way = Way { client, address, path };
        let door = {
            let state = self.lock();
            state.doors.get(&way).or_else(|| state.closed.get(&address)).copied()
        };
        match door {
            Some(Door::Shut) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Door::Silent) => std::future::pending().await,
            None => {}
        }
        let mut state = self.lock();
        let machine = Arc::clone(&state.addresses[address]);
        let cable = Cable::new(state.random.fork(), self.slowest);
        let id = state.next_line;
        state.next_line += 1;
        state.lines.retain(|_, line| line.cable.is_in_use());
        let line = Line {
            way,
            machine: machine.id(),
            cable: Arc::clone(&cable),
        };
        state.lines.insert(id, line);
        self.trace.note(format_args!(
            "client {client} has connection {id} for {path:?} to machine {}",
            machine.id()
        ));
        tokio::spawn(machine.serve(id, Arc::clone(&cable)));
        Ok(Box::new(End::new(cable)))
    }

    /// How a client's next connections for something are met; `None` lets them in.
    pub(super) fn set_door(&self, way: Way, door: Option<Door>) {
        let mut state = self.lock();
        match door {
            Some(door) => state.doors.insert(way, door),
            None => state.doors.remove(&way),
        };
    }

    /// The same for all clients, at an address.
    pub(super) fn set_closed(&self, address: usize, door: Option<Door>) {
        let mut state = self.lock();
        match door {
            Some(door) => state.closed.insert(address, door),
            None => state.closed.remove(&address),
        };
    }

    /// Resets a client's connections for something.
    pub(super) fn cut(&self, way: Way) {
        self.each(|line| line.way == way, Cable::cut);
    }

    /// Lets what is sent on them vanish.
    pub(super) fn silence(&self, way: Way) {
        self.each(|line| line.way == way, Cable::silence);
    }

    /// Resets all connections of a machine.
    pub(super) fn cut_machine(&self, machine: u64) {
        self.each(|line| line.machine == machine, Cable::cut);
    }

    /// What a client has connections to a machine for.
    pub(super) fn paths_to(&self, client: usize, machine: u64) -> Vec<Path> {
        let state = self.lock();
        let lines = state.lines.values();
        lines
            .filter(|line| line.way.client == client && line.machine == machine && line.cable.is_in_use())
            .map(|line| line.way.path)
            .collect()
    }

    /// How many connections there are.
    pub(super) fn connections(&self) -> usize {
        self.lock().lines.values().filter(|line| line.cable.is_in_use()).count()
    }

    fn each(&self, is_meant: impl Fn(&Line) -> bool, strike: impl Fn(&Cable)) {
        for line in self.lock().lines.values().filter(|line| is_meant(line)) {
            strike(&line.cable);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
