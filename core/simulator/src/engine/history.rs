//! A history of the engine, from its seed to its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steadlock::Client;
use steadlock_store::Reply;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::clock::Clock;
use super::data::Data;
use super::faults::{EngineFault, Faults};
use super::ledger::Ledger;
use super::network::Network;
use super::plan::{Naming, Plan};
use super::processes::Processes;
use super::sentinels::Sentinels;
use super::server::{Around, Machine};
use super::server_per_client::ServerPerClient;
use super::shards::Shards;
use super::trace::Trace;
use super::world::ClientWorld;
use crate::checks::Broken;
use crate::defect::Defect;
use crate::random::Random;
use crate::records::{Record, history, texts};

/// The interval between two checks.
const LOOK: Duration = Duration::from_millis(50);
/// The time after the end of the work within which the last waits and holds must end.
const LAST_CALLS: Duration = Duration::from_secs(200);
/// The longest lease that an attempt requests (30 s), plus the time for which a token is kept (60 s), and some slack.
const LONGEST_TTL: Duration = Duration::from_secs(32 + 61);

/// The result of an engine history.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// The seed.
    pub seed: u64,
    /// The promise that was broken, if any.
    pub broken: Option<Broken>,
    /// The last lines of the trace.
    pub trace: Vec<String>,
    /// The hash of everything that happened; the same in every run of the seed.
    pub trace_hash: u64,
    /// The number of lines of the whole trace.
    pub steps: u64,
    /// The number of granted leases.
    pub grants: u64,
    /// The number of auto-renewed leases that were lost.
    pub lost: u64,
    /// How often each fault has struck.
    pub faults: BTreeMap<EngineFault, u64>,
    /// The virtual time that passed.
    pub virtual_time: Duration,
}

/// Runs the history of a seed, with the shipped scripts or with a defect in one of them.
///
/// # Panics
/// Panics if there is no memory for a runtime.
#[must_use]
pub fn run_engine(seed: u64, defect: Option<Defect>, print: bool) -> EngineReport {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| panic!("there is no runtime: {error}"));
    runtime.block_on(async {
        let history = History::begin(seed, defect, print);
        if print {
            println!("{:#?}", history.plan);
        }
        history.play().await;
        history.report(seed)
    })
}

struct History {
    plan: Plan,
    clock: Clock,
    trace: Arc<Trace>,
    network: Arc<Network>,
    data: Vec<Arc<Data>>,
    ledger: Arc<Ledger>,
    faults: Arc<Faults>,
    sentinels: Option<Arc<Sentinels>>,
    worlds: Vec<Arc<ClientWorld>>,
    random: Random,
}

impl History {
    fn begin(seed: u64, defect: Option<Defect>, print: bool) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&mut random.fork());
        let clock = Clock::start();
        let trace = Trace::new(clock, print);
        let data: Vec<Arc<Data>> = (0..plan.stores()).map(|_| Data::new(defect)).collect();
        let ledger = Ledger::new(&trace, plan.is_lossy && plan.shards == 0);
        let shards = (plan.shards > 0).then(|| Shards::new(plan.shards, plan.has_only_moves, &ledger));
        let uses_one_server = plan.shards == 0 && !plan.has_primaries();
        let around = Arc::new(Around {
            clock,
            trace: Arc::clone(&trace),
            shards: shards.clone(),
            server_per_client: uses_one_server.then(|| ServerPerClient::new(&ledger)),
            hides_run_id: plan.hides_run_id,
        });
        let mut machines: Vec<Arc<Machine>> = (0..)
            .zip(data.iter().cycle().take(plan.servers))
            .map(|(id, data)| Machine::new(id, &around, data))
            .collect();
        if plan.naming == Naming::Twice {
            machines[1] = Arc::clone(&machines[0]);
        }
        for replica in plan.replicas() {
            machines[replica].demote();
        }
        let sentinels = (plan.sentinels > 0).then(|| Sentinels::new(&plan, &mut random, &trace));
        let network = Network::new(random.fork(), plan.slowest, &trace, machines, sentinels.clone());
        if plan.naming == Naming::Moving {
            network.name(vec![0]);
        }
        let faults = Faults::new(&plan, clock, &network, &ledger, &trace, shards, sentinels.clone());
        let worlds = (0..plan.clients)
            .map(|client| ClientWorld::new(client, clock, random.fork(), &network, &ledger))
            .collect();
        Self {
            plan,
            clock,
            trace,
            network,
            data,
            ledger,
            faults,
            sentinels,
            worlds,
            random,
        }
    }

    async fn play(&self) {
        let mut random = self.random.clone();
        let until = Instant::now() + self.plan.work;
        let open = Arc::new(Mutex::default());
        let mut work = vec![tokio::spawn(Arc::clone(&self.faults).run(random.fork(), until))];
        for (client, world) in self.worlds.iter().enumerate() {
            let processes = Processes {
                client,
                world: Arc::clone(world),
                plan: self.plan.clone(),
                random: random.fork(),
                ledger: Arc::clone(&self.ledger),
                trace: Arc::clone(&self.trace),
                open: Arc::clone(&open),
            };
            work.push(tokio::spawn(processes.run(until)));
        }
        self.watch(&work, until + LAST_CALLS).await;
        for part in work.into_iter().filter(JoinHandle::is_finished) {
            if let Err(error) = part.await {
                self.ledger.break_promise("every call ends", error.to_string());
            }
        }
        if self.ledger.broken().is_none() {
            let clients = std::mem::take(&mut *open.lock().unwrap_or_else(PoisonError::into_inner));
            self.end(clients).await;
        }
    }

    /// Checks everything again and again, until all tasks have ended or a promise is broken.
    async fn watch(&self, work: &[JoinHandle<()>], latest: Instant) {
        let mut looks = 0_u32;
        while !work.iter().all(JoinHandle::is_finished) && self.ledger.broken().is_none() {
            sleep(LOOK).await;
            self.ledger.check();
            self.ledger
                .check_wakes(self.plan.names.len(), |name| self.records(name) > 0);
            if !(self.plan.is_lossy && self.plan.is_rough) {
                self.ledger
                    .check_backing(|name| self.records(name) >= self.plan.quorum());
            }
            self.faults.check_demoted();
            looks += 1;
            if looks.is_multiple_of(20) {
                self.check_ttl();
            }
            if Instant::now() > latest {
                self.ledger
                    .break_promise("every call ends", "some task does not end".into());
            }
        }
    }

    /// Checks that nothing is left after all releases, closes the clients, and checks again.
    async fn end(&self, clients: Vec<Client>) {
        // Owed releases are sent again after a timeout, perhaps twice.
        sleep(4 * self.plan.command_timeout + Duration::from_secs(1)).await;
        if self.plan.naming == Naming::Moving {
            // Records on a server that the client has left end by their TTL.
            sleep(LONGEST_TTL).await;
        }
        for name in 0..self.plan.names.len() {
            let holders = self.records(name);
            if holders > 0 {
                let what = format!("{holders} servers have lock {name} on record, and nobody holds it");
                self.ledger.break_promise("nothing is left", what);
            }
        }
        for client in clients {
            client.close().await;
        }
        self.trace.note(format_args!("all are closed"));
        sleep(Duration::from_secs(1)).await;
        let connections = self.network.connections();
        if connections > 0 {
            let what = format!("{connections} connections of closed clients");
            self.ledger.break_promise("nothing is left", what);
        }
        sleep(LONGEST_TTL).await;
        // The histories of jobs last longer.
        let histories = (0..self.plan.names.len()).map(|name| history(&Plan::name(name)).into_bytes());
        let histories: Vec<Vec<u8>> = histories.collect();
        for (server, data) in self.data.iter().enumerate() {
            let mut keys = texts(data.execute(&["KEYS", "*"], self.clock.server_time()));
            keys.retain(|key| !histories.contains(key));
            if !keys.is_empty() {
                let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
                let what = format!("server {server} keeps {keys:?}");
                self.ledger.break_promise("nothing is left", what);
            }
        }
    }

    /// Returns the number of servers that have a record of the lock. Only the primary counts if sentinels watch it.
    fn records(&self, name: usize) -> usize {
        let (is_job, full) = (self.plan.is_job(name), Plan::name(name));
        let key = if is_job { Record::Run.key(&full) } else { full };
        let now = self.clock.server_time();
        // The record of a job also says that the job is done. It then has a field more.
        let is_done = |data: &Data| is_job && data.execute(&["HEXISTS", &key, "took"], now) == Reply::Int(1);
        let has_it = |data: &&Arc<Data>| data.execute(&["EXISTS", &key], now) == Reply::Int(1) && !is_done(data);
        match &self.sentinels {
            Some(sentinels) => usize::from(has_it(&&self.data[sentinels.primary()])),
            None => self.data.iter().filter(has_it).count(),
        }
    }

    fn check_ttl(&self) {
        let now = self.clock.server_time();
        for data in &self.data {
            let Reply::Array(keys) = data.execute(&["KEYS", "*"], now) else {
                continue;
            };
            for key in keys {
                if let Reply::Bytes(key) = key
                    && data.execute(&[b"PTTL".as_slice(), &key], now) == Reply::Int(-1)
                {
                    let what = format!("{} has none", String::from_utf8_lossy(&key));
                    self.ledger.break_promise("every key has a TTL", what);
                }
            }
        }
    }

    fn report(&self, seed: u64) -> EngineReport {
        EngineReport {
            seed,
            broken: self.ledger.broken(),
            trace: self.trace.last(),
            trace_hash: self.trace.hash(),
            steps: self.trace.steps(),
            grants: self.ledger.grants(),
            lost: self.ledger.lost(),
            faults: self.faults.counts(),
            virtual_time: Duration::from_micros(self.clock.micros()),
        }
    }
}

impl EngineReport {
    /// Returns a broken promise as text, with the command that reproduces it.
    #[must_use]
    pub fn violation(&self) -> Option<String> {
        let broken = self.broken.as_ref()?;
        Some(format!(
            "seed {} of the engine: {} is broken: {}\n{}\nagain: cargo run --release --package \
             steadlock-simulator -- --engine --seed {} --trace",
            self.seed,
            broken.invariant,
            broken.what,
            self.trace.join("\n"),
            self.seed
        ))
    }
}
