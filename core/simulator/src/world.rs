//! One history: the queue of its events, and the servers, clients and checks that take part in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadlock_protocol::NodeId;

use crate::calls::Calls;
use crate::checks::{
    Broken, Checked, Exclusion, FairQueue, Fencing, Following, Operators, Owners, Progress, Removals, Renewal, Runs,
    Signals, Starvation, Wakes, broken, check_reported,
};
use crate::choices::{Choices, Chooser};
use crate::client::{Client, LOOK};
use crate::defect::Defect;
use crate::event::Event;
use crate::fault::{Fault, FaultCounts};
use crate::kinds::Family;
use crate::ledger::Ledger;
use crate::node::Node;
use crate::operation::{Operation, OperationCounts};
use crate::plan::{Plan, micros};
use crate::random::Random;
use crate::recorded_messages::RecordedMessages;
use crate::route::{self, Route};
use crate::time::{Clock, MS, Micros};
use crate::trace::{self, Trace};

/// A history with more steps than this is considered endless.
const MOST_STEPS: u64 = 300_000;

/// The state of one history.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Micros,
    pub(crate) choices: Choices,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    pub(crate) clocks: Vec<Clock>,
    pub(crate) names: Vec<steadlock_protocol::LockName>,
    pub(crate) ledger: Ledger,
    pub(crate) trace: Trace,
    pub(crate) calls: Calls,
    pub(crate) faults: FaultCounts,
    pub(crate) operations: OperationCounts,
    pub(crate) exclusion: Exclusion,
    pub(crate) fencing: Fencing,
    pub(crate) renewal: Renewal,
    pub(crate) removals: Removals,
    pub(crate) owned: Owners,
    pub(crate) signals: Signals,
    pub(crate) progress: Progress,
    pub(crate) starvation: Starvation,
    pub(crate) fair_queue: FairQueue,
    pub(crate) following: Following,
    pub(crate) wakes: Wakes,
    pub(crate) recorded_messages: RecordedMessages,
    pub(crate) operators: Operators,
    pub(crate) runs: Runs,
    /// Whether faults may strike. The faults of external clients strike even afterwards.
    pub(crate) is_rough: bool,
    /// The time since which only external clients cause faults; zero while other faults strike.
    pub(crate) undisturbed_since: Micros,
    /// Whether tasks start nothing new.
    pub(crate) is_ending: bool,
    pub(crate) grants: u64,
    pub(crate) script_runs: u64,
    /// The owner ids, numbered in the order in which they were seen.
    owners: BTreeMap<Arc<[u8]>, usize>,
    queue: BTreeMap<(Micros, u64), Event>,
    queued: u64,
    pub(crate) steps: u64,
}

impl World {
    pub(crate) fn new(seed: u64, defect: Option<Defect>, print: bool) -> Self {
        Self::of(seed, defect.and_then(Defect::family), defect, print)
    }

    /// Creates the world of a seed. `only` restricts it to one family of locks.
    pub(crate) fn of(seed: u64, only: Option<Family>, defect: Option<Defect>, print: bool) -> Self {
        let mut random = Random::new(seed);
        let mut plan = Plan::new(&mut random, only);
        if defect == Some(Defect::ClocksTooFarApart) {
            plan.spread_clocks();
        }
        let clients: Vec<Client> = plan
            .clients
            .iter()
            .enumerate()
            .map(|(client, of)| Client::new(&plan, of, Chooser::Session { client }.generator(seed)))
            .collect();
        let calls = Calls::new(clients.iter().map(|client| client.id.as_str()));
        let names = ["alpha", "beta", "gamma"].iter().take(plan.names.len());
        let mut world = Self {
            now: 0,
            nodes: (0..plan.nodes).map(|_| Node::new(&plan.call_limits, defect)).collect(),
            clocks: clients.iter().map(|client| client.clock).collect(),
            clients,
            names: names
                .filter_map(|name| steadlock_protocol::LockName::parse(name).ok())
                .collect(),
            ledger: Ledger::default(),
            trace: Trace::new(print),
            calls,
            faults: FaultCounts::default(),
            operations: OperationCounts::default(),
            exclusion: Exclusion {
                is_promised: plan.tier.is_exclusive(),
            },
            fencing: Fencing::default(),
            renewal: Renewal::default(),
            removals: Removals::default(),
            owned: Owners::default(),
            signals: Signals::default(),
            progress: Progress::default(),
            starvation: Starvation::new(micros(plan.poll.1), 200 * MS + 8 * plan.latency.1),
            fair_queue: FairQueue::default(),
            following: Following::default(),
            wakes: Wakes::default(),
            recorded_messages: RecordedMessages::default(),
            operators: Operators::default(),
            runs: Runs::default(),
            is_rough: true,
            undisturbed_since: 0,
            is_ending: false,
            grants: 0,
            script_runs: 0,
            owners: BTreeMap::new(),
            queue: BTreeMap::new(),
            queued: 0,
            steps: 0,
            plan,
            choices: Choices::new(seed),
        };
        for (node, drift) in world.nodes.iter_mut().zip(&world.plan.drifts) {
            node.set_drift(*drift);
        }
        if world.nodes.len() > 1 {
            for node in &mut world.nodes {
                node.clock_offset = random.between(0, 2_000 * MS).cast_signed();
            }
        }
        // A lock may stay free for the sum of a poll, the pause after an error, the gap between attempts, the pause
        // after a client's turn, some round trips, and the time that the family needs in addition.
        let of_family = world.plan.family.longest_detour(&world.plan.names);
        world.progress.bound = micros(world.plan.poll.1) + 210 * MS + 8 * world.plan.latency.1 + 50 * MS + of_family;
        // The clocks of clients may be slow.
        world.progress.bound += world.progress.bound / 100;
        world.progress.notice_bound = 8 * world.plan.latency.1 + 60 * MS;
        world.wakes.notice_bound = world.progress.notice_bound;
        world.begin();
        world
    }

    fn begin(&mut self) {
        for client in 0..self.clients.len() {
            for node in 0..self.nodes.len() {
                for connection in route::ConnectionKind::ALL {
                    let route = Route {
                        client,
                        node,
                        connection,
                        epoch: 0,
                    };
                    let at = self.choices.connection(route).between(0, 3 * MS);
                    self.schedule(at, Event::Opened { route });
                }
                let at = self.choices.of(Chooser::Client { client }).between(0, LOOK);
                self.schedule(at, Event::Look { client, node });
            }
            for task in 0..self.clients[client].tasks.len() {
                let at = self.choices.task(client, task).between(0, self.plan.think);
                self.schedule(at, Event::Task { client, task });
            }
        }
        for (fault, every) in self.plan.timed.clone() {
            let after = self.choices.of(Chooser::Fault(fault)).between(1, 2 * every);
            self.schedule(after, Event::Strike { fault, every });
        }
        self.schedule(50 * MS, Event::Observe);
    }

    /// Schedules an event after this time.
    pub(crate) fn schedule(&mut self, after: Micros, event: Event) {
        self.schedule_at(self.now + after, event);
    }

    pub(crate) fn schedule_at(&mut self, at: Micros, event: Event) {
        self.queued += 1;
        self.queue.insert((at, self.queued), event);
    }

    /// Removes the events for which `take` is true from the queue. Returns them in order, with their times.
    pub(crate) fn take_queued(&mut self, take: impl Fn(&Event) -> bool) -> Vec<(Micros, Event)> {
        let wanted = self.queue.iter().filter(|(_, event)| take(event));
        let wanted: Vec<(Micros, u64)> = wanted.map(|(key, _)| *key).collect();
        let taken = wanted.into_iter();
        taken
            .filter_map(|key| Some((key.0, self.queue.remove(&key)?)))
            .collect()
    }

    pub(crate) fn note(&mut self, line: trace::Line) {
        self.trace.push(self.now, line);
    }

    /// Notes that a fault has struck.
    pub(crate) fn struck(&mut self, fault: Fault, target: usize) {
        self.faults.count(fault);
        self.note(trace::Line::Faulty { fault, target });
    }

    /// Counts an operation.
    pub(crate) fn did(&mut self, operation: Operation) {
        self.operations.count(operation);
    }

    /// Returns the number of an owner id.
    pub(crate) fn owner(&mut self, id: &[u8]) -> usize {
        if let Some(number) = self.owners.get(id) {
            return *number;
        }
        let number = self.owners.len();
        self.owners.insert(id.into(), number);
        number
    }

    /// Returns the owner id with this number.
    pub(crate) fn owner_id(&self, number: usize) -> Option<Arc<[u8]>> {
        let mut owners = self.owners.iter();
        owners.find(|(_, of)| **of == number).map(|(id, _)| Arc::clone(id))
    }

    /// Runs until `end`, or until `done` is true. Returns whether `done` is true.
    pub(crate) fn run_until(&mut self, end: Micros, done: impl Fn(&Self) -> bool) -> Result<bool, Broken> {
        while !done(self) {
            if !self.step(end)? {
                return Ok(done(self));
            }
        }
        Ok(true)
    }

    /// Advances to the next event. If there is none up to `end`, advances to `end` and returns false.
    fn step(&mut self, end: Micros) -> Result<bool, Broken> {
        let event = self.queue.first_key_value().map(|((at, _), _)| *at);
        let awake = self.clients.iter().enumerate().filter(|(_, client)| !client.paused);
        let timer = awake.filter_map(|(number, client)| Some((client.due?, number))).min();
        let next = [event, timer.map(|(at, _)| at)].into_iter().flatten().min();
        let Some(next) = next.map(|next| next.max(self.now)).filter(|next| *next <= end) else {
            self.now = end;
            return Ok(false);
        };
        self.steps += 1;
        if self.steps > MOST_STEPS {
            broken("I6", "the history does not come to rest")?;
        }
        self.now = next;
        if event.is_some_and(|at| at <= next) {
            if let Some((_, event)) = self.queue.pop_first() {
                self.happen(event)?;
            }
        } else if let Some((_, client)) = timer {
            self.time_passes(client)?;
        }
        for ((client, lease), held) in self.ledger.live() {
            let of = &self.clients[client];
            if !of.paused {
                check_reported(client, lease, held, of.awake_since, of.clock, self.now)?;
            }
        }
        Ok(true)
    }

    /// Calls a client's session because its timer is due.
    pub(crate) fn time_passes(&mut self, client: usize) -> Checked {
        let now = self.clients[client].clock.at(self.now);
        if let Some(session) = &mut self.clients[client].session {
            session.on_timeout(now);
        }
        self.drain(client)
    }

    /// Lets an event happen. The event waits if its target is paused, and is dropped if its target has crashed.
    pub(crate) fn happen(&mut self, event: Event) -> Checked {
        if let Some(client) = event.client() {
            let client = &mut self.clients[client];
            if client.session.is_none() {
                return Ok(());
            }
            if client.paused {
                client.backlog.push_back(event);
                return Ok(());
            }
        }
        if let Some(node) = event.node().filter(|node| self.nodes[*node].stopped) {
            self.nodes[node].backlog.push_back(event);
            return Ok(());
        }
        match event {
            Event::Call { route, call, survives } => self.call_arrives(route, &call, survives),
            Event::Listen { route, channel, on } => {
                self.listen_arrives(route, channel, on);
                Ok(())
            }
            Event::Reply {
                route,
                call,
                result,
                granted,
            } => self.reply_arrives(route, (call, granted), result),
            Event::Listening { route, channel } => self.confirmation_arrives(route, &channel),
            Event::Message {
                route,
                channel,
                payload,
            } => self.message_arrives(route, &channel, &payload),
            Event::Opened { route } => self.opened(route),
            Event::Closed { route } => self.closed(route),
            Event::Overdue { route, call } => self.overdue(route, call),
            Event::Silent { route, call } => self.silent(route, call),
            Event::Look { client, node } => self.look(client, node),
            Event::Task { client, task } => self.task_continues(client, task),
            Event::Impatient { client, task, ticket } => self.task_gives_up(client, task, ticket),
            Event::Write {
                client,
                name,
                hold,
                token,
            } => self.write_arrives(client, name, hold, token),
            Event::Strike { fault, every } => self.strike(fault, every),
            Event::Over { fault, target } => self.strike_over(fault, target),
            Event::Observe => self.observe(),
        }
    }

    /// Returns the id of a node in the protocol.
    pub(crate) fn node_id(node: usize) -> NodeId {
        NodeId(u16::try_from(node).unwrap_or(u16::MAX))
    }
}
