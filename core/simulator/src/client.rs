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

/// The interval at which a client checks whether a server is a primary, while the client holds or waits for a lock.
pub(crate) const LOOK: Micros = 5 * SECOND;

pub(crate) struct Client {
    /// The session; `None` after a crash.
    pub(crate) session: Option<Session>,
    /// The true time at which the session must be called.
    pub(crate) due: Option<Micros>,
    /// The client id, which is the first part of its owner ids.
    pub(crate) id: String,
    pub(crate) clock: Clock,
    /// The length of the client's auto-renewed leases.
    pub(crate) lease: Micros,
    /// The connections to each node.
    pub(crate) wires: Vec<Wires>,
    pub(crate) tasks: Vec<Task>,
    /// Whether the client is paused. Events for it wait meanwhile.
    pub(crate) paused: bool,
    pub(crate) backlog: VecDeque<Event>,
    /// The time since which the client has not been paused.
    pub(crate) awake_since: Micros,
    pub(crate) closed: bool,
}

/// The connections of a client to one node.
#[derive(Debug)]
pub(crate) struct Wires {
    pub(crate) links: [Link; 3],
    /// The channels to subscribe to, on the connection for messages and on its successors.
    pub(crate) channels: BTreeSet<Arc<[u8]>>,
}

/// A connection, open or lost. Everything sent on a connection arrives in order.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) open: bool,
    /// The number of earlier connections. Nothing that was sent on an earlier connection arrives, except calls that
    /// survive its loss.
    pub(crate) epoch: u64,
    /// Whether the connection is gone and the client has not noticed yet.
    pub(crate) cut: bool,
    /// Whether the session believes that the connection is open. If so, the driver must report its loss.
    pub(crate) is_reported: bool,
    /// The time until which no new connection replaces this one.
    pub(crate) away_until: Micros,
    /// The time since which the server at its other end is not a primary any more.
    pub(crate) stale_since: Option<Micros>,
    /// The earliest arrival times of the next call and of the next reply.
    pub(crate) busy_until: [Micros; 2],
    /// Calls that were handed out and not sent yet.
    pub(crate) waiting: VecDeque<Call>,
    /// Calls that were sent on the connection and have no reply yet.
    pub(crate) in_flight: Vec<CallId>,
    /// How long the client waits for a reply before it closes the connection.
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
            retry_interval: plan.poll.0..=plan.poll.1,
            breaker: plan.breaker,
            identity: plan.write_identities.then(|| identity(id)),
        };
        let lease = micros(of.lease.get());
        let mut session = Session::new(config, Box::new(draw));
        session.set_limits(Limits {
            waiters_per_poll: plan.call_limits.waiters,
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
        &mut self.wires[route.node].links[route.connection as usize]
    }

    /// Returns whether the client runs and can reach every node.
    pub(crate) fn is_connected(&self) -> bool {
        self.session.is_some() && !self.paused && self.wires.iter().all(Wires::carries_calls)
    }
}

/// Returns the identity of a client. Its host name is the client id, so that checks can compare it with an owner id.
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
                // A renewal that waited longer for a dead connection would come too late, after the lease has expired.
                link(longest.min((lease / 3).max(250 * MS))),
                link(longest),
            ],
            channels: BTreeSet::new(),
        }
    }

    /// Returns whether calls can be sent, and lead to a primary.
    fn carries_calls(&self) -> bool {
        let mut lanes = self.links[..2].iter();
        lanes.all(|link| link.is_reported && link.stale_since.is_none())
    }
}
