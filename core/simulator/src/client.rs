//! A client: its session, its connections and its tasks.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use steadlock_protocol::{Call, CallId, ClientId, ClientInfo, Config, Identity, KeyPrefix, Limits, Session};

use crate::event::Event;
use crate::plan::{ClientPlan, Plan, micros};
use crate::random::Random;
use crate::route::Route;
use crate::task::Task;
use crate::time::{Clock, MS, Micros, SECOND};

/// How often a client that has something on a server looks whether it is a primary.
pub(crate) const LOOK: Micros = 5 * SECOND;

/// A client.
pub(crate) struct Client {
    /// `None` once it crashed.
    pub(crate) session: Option<Session>,
    /// When its session wants to be called, in true time.
    pub(crate) due: Option<Micros>,
    /// The first part of its owner ids.
    pub(crate) id: String,
    pub(crate) clock: Clock,
    /// Its watchdog's lease.
    pub(crate) lease: Micros,
    /// One for each node.
    pub(crate) wires: Vec<Wires>,
    pub(crate) tasks: Vec<Task>,
    /// It stands still; what reaches it waits.
    pub(crate) paused: bool,
    pub(crate) backlog: VecDeque<Event>,
    /// Since when it does not stand still.
    pub(crate) awake_since: Micros,
    pub(crate) closed: bool,
}

/// A client's connections to one node.
#[derive(Debug)]
pub(crate) struct Wires {
    pub(crate) links: [Link; 3],
    /// Channels to listen on, also on the next connection.
    pub(crate) channels: BTreeSet<Arc<[u8]>>,
}

/// A connection, or the wish for one. What is sent on it arrives in order.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) open: bool,
    /// Counts connections: what travels on an earlier one does not arrive.
    pub(crate) epoch: u64,
    /// The connection is gone, and the client has not seen it yet.
    pub(crate) cut: bool,
    /// The session was told that it is open.
    pub(crate) is_told: bool,
    /// Until when no connection takes its place.
    pub(crate) away_until: Micros,
    /// Since when the server that it leads to is no primary any more.
    pub(crate) stale_since: Option<Micros>,
    /// When the next call and the next reply may arrive at the earliest.
    pub(crate) busy_until: [Micros; 2],
    /// Calls that wait for a connection.
    pub(crate) waiting: VecDeque<Call>,
    /// Calls that were sent on it and not answered.
    pub(crate) in_flight: Vec<CallId>,
    /// How long the client bears a call without answer before it gives up the connection.
    pub(crate) silence: Micros,
}

impl Client {
    pub(crate) fn new(plan: &Plan, of: &ClientPlan, mut entropy: Random) -> Self {
        let mut draw = move || entropy.next();
        let id = ClientId::random(&mut draw);
        let config = Config {
            client: id,
            lease: of.lease,
            primaries: u16::try_from(plan.nodes).unwrap_or(1),
            command_timeout: plan.command_timeout,
            keeps_order: true,
            retry_interval: plan.poll,
            breaker: plan.breaker,
            identity: plan.are_named.then(|| identity(id)),
        };
        let lease = micros(of.lease.get());
        let mut session = Session::new(config, Box::new(draw));
        session.set_limits(Limits {
            waiters_per_poll: plan.most.waiters,
        });
        Self {
            session: Some(session),
            due: None,
            id: id.to_string(),
            clock: of.clock,
            lease,
            wires: (0..plan.nodes).map(|_| Wires::new(plan.timeout(), lease)).collect(),
            tasks: Task::all(of),
            paused: false,
            backlog: VecDeque::new(),
            awake_since: 0,
            closed: false,
        }
    }

    pub(crate) fn link(&mut self, route: Route) -> &mut Link {
        &mut self.wires[route.node].links[route.line as usize]
    }

    /// Whether it runs and can reach every node.
    pub(crate) fn is_connected(&self) -> bool {
        self.session.is_some() && !self.paused && self.wires.iter().all(Wires::carries_calls)
    }
}

/// What a client says of itself: its id is its host's name, so that it is seen whose it is told as.
fn identity(id: ClientId) -> Identity {
    let mut info = ClientInfo::default();
    info.host = id.to_string();
    Identity {
        info: Arc::new(info),
        prefix: KeyPrefix::default(),
    }
}

impl Wires {
    fn new(timeout: Micros, lease: Micros) -> Self {
        let longest = 2 * timeout;
        let link = |silence| Link {
            silence,
            ..Link::default()
        };
        Self {
            links: [
                link(longest),
                // A renewal that waits for a dead connection is a lock lost.
                link(longest.min((lease / 3).max(250 * MS))),
                link(longest),
            ],
            channels: BTreeSet::new(),
        }
    }

    /// Whether calls can be sent, and reach a server that serves them.
    fn carries_calls(&self) -> bool {
        let mut lanes = self.links[..2].iter();
        lanes.all(|link| link.is_told && link.stale_since.is_none())
    }
}
