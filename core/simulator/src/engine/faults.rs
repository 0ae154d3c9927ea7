//! The faults of a history, one after another or several at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steadlock::simulation::Path;
use tokio::time::{Instant, sleep};

use super::clock::Clock;
use super::ledger::Ledger;
use super::network::{ConnectOutcome, Network, Way};
use super::plan::{Naming, Plan};
use super::sentinels::Sentinels;
use super::shards::Shards;
use super::trace::Trace;
use crate::random::Random;
use crate::snapshot::Snapshot;

/// The interval at which a client in use checks the role of its server.
const LOOK: Duration = Duration::from_secs(5);
/// The longest time for the check of a role and its answer.
const ANSWER: Duration = Duration::from_millis(300);

/// Every auto-renewed lease survives outages shorter than this.
const SHORT: Duration = Duration::from_millis(500);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineFault {
    /// One connection of a client is reset. By chance, none can replace it for a while.
    Cut(Path),
    /// Everything sent on one connection vanishes. By chance, no other can replace it for a while.
    Silence(Path),
    /// A server is paused.
    Pause,
    /// A server forgets its scripts.
    ScriptsGone,
    /// A server restarts, with its data and without scripts.
    Restart,
    /// A primary becomes a replica without a restart. Another server becomes the primary of its address or name.
    Demotion,
    /// A demotion after which the new primary does not have the last writes of the old one.
    LossyDemotion,
    /// A server crashes, and another one takes over without its last writes.
    Failover,
    /// A slot of a cluster moves to another node.
    SlotMove,
    /// One node of a cluster refuses every call, or all nodes do.
    Refusal,
    /// The sentinels promote a replica of a failed primary, and learn of the change one after another. The old primary
    /// may return as a primary, until it is demoted.
    SentinelFailover,
    /// A sentinel answers no client.
    SentinelSilence,
    /// A name leads to another server.
    NameMove,
    /// A primary of a cluster dies or is paused, and its replica takes over.
    Takeover,
    /// A takeover by a replica that does not have the last writes.
    LossyTakeover,
}

impl EngineFault {
    /// Every kind of fault.
    pub const ALL: [Self; 19] = [
        Self::Cut(Path::Commands),
        Self::Cut(Path::Renewals),
        Self::Cut(Path::Subscriptions),
        Self::Silence(Path::Commands),
        Self::Silence(Path::Renewals),
        Self::Silence(Path::Subscriptions),
        Self::Pause,
        Self::ScriptsGone,
        Self::Restart,
        Self::Demotion,
        Self::LossyDemotion,
        Self::Failover,
        Self::SentinelFailover,
        Self::SentinelSilence,
        Self::NameMove,
        Self::SlotMove,
        Self::Refusal,
        Self::Takeover,
        Self::LossyTakeover,
    ];

    /// Returns the faults that a history with this plan can have.
    fn of(plan: &Plan) -> Vec<Self> {
        let mut kinds = Self::ALL.to_vec();
        kinds.retain(|kind| match kind {
            Self::SlotMove => plan.shards > 0,
            _ if plan.has_only_moves => false,
            Self::Refusal | Self::Takeover => plan.shards > 0,
            Self::LossyTakeover => plan.shards > 0 && plan.is_lossy,
            Self::LossyDemotion | Self::Failover => plan.shards == 0 && plan.is_lossy,
            Self::Demotion => plan.shards == 0 && plan.sentinels == 0,
            Self::SentinelFailover => plan.sentinels > 0,
            // If sentinels hide their epochs, a client cannot see that an answer is old. All sentinels must then
            // answer.
            Self::SentinelSilence => plan.sentinels > 0 && !plan.hides_epochs,
            Self::NameMove => plan.naming == Naming::Moving,
            Self::Cut(_) | Self::Silence(_) | Self::Pause | Self::ScriptsGone | Self::Restart => true,
        });
        kinds
    }
}

/// Draws a time of at most `longest` milliseconds.
pub(super) fn up_to(random: &mut Random, longest: u64) -> Duration {
    Duration::from_millis(random.between(0, longest))
}

/// The excuses that apply while a fault lasts.
pub(super) struct Excuse {
    losses: Option<usize>,
    errors: usize,
}

/// A server (`Machine`) that is not a primary any more.
struct Demoted {
    machine: u64,
    at: Instant,
    /// The time since which another server is the primary in its place.
    led_away: Instant,
}

pub(super) struct Faults {
    plan: Plan,
    clock: Clock,
    network: Arc<Network>,
    ledger: Arc<Ledger>,
    trace: Arc<Trace>,
    shards: Option<Arc<Shards>>,
    sentinels: Option<Arc<Sentinels>>,
    /// Locked by a fault while it changes the slots of nodes or the answers of sentinels.
    reshaping: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counts: BTreeMap<EngineFault, u64>,
    demoted: Vec<Demoted>,
    next_machine: u64,
}

impl Faults {
    pub(super) fn new(
        plan: &Plan,
        clock: Clock,
        network: &Arc<Network>,
        ledger: &Arc<Ledger>,
        trace: &Arc<Trace>,
        shards: Option<Arc<Shards>>,
        sentinels: Option<Arc<Sentinels>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            plan: plan.clone(),
            clock,
            network: Arc::clone(network),
            ledger: Arc::clone(ledger),
            trace: Arc::clone(trace),
            shards,
            sentinels,
            reshaping: tokio::sync::Mutex::default(),
            state: Mutex::new(State {
                next_machine: plan.servers as u64,
                ..State::default()
            }),
        })
    }

    pub(super) fn counts(&self) -> BTreeMap<EngineFault, u64> {
        self.lock().counts.clone()
    }

    /// Lets faults strike until `until`.
    pub(super) async fn run(self: Arc<Self>, mut random: Random, until: Instant) {
        if self.plan.is_rough || self.plan.is_lossy && self.plan.shards == 0 {
            self.ledger.excuse_losses(None);
        }
        if self.plan.is_rough || self.plan.shards == 0 {
            self.ledger.excuse_errors(None);
        }
        let kinds = EngineFault::of(&self.plan);
        let mut under_way = Vec::new();
        loop {
            // Unless faults may overlap (`is_rough`) or slots only move, the effects of one fault are over before the
            // next one strikes.
            let rest = match self.plan.is_rough || self.plan.has_only_moves {
                true => random.between(0, 2_000),
                // In a cluster each fault excuses only the locks that it affects, so a shorter pause is enough.
                false if self.plan.shards > 0 => {
                    let timeout = u64::try_from(self.plan.command_timeout.as_millis()).unwrap_or(0);
                    timeout + random.between(1_000, 4_000)
                }
                false => {
                    let longest = self.plan.lease + 2 * self.plan.command_timeout;
                    u64::try_from(longest.as_millis()).unwrap_or(0) + random.between(200, 3_000)
                }
            };
            sleep(Duration::from_millis(rest)).await;
            if Instant::now() >= until {
                break;
            }
            let fault = random.pick(&kinds);
            *self.lock().counts.entry(fault).or_default() += 1;
            let strike = Arc::clone(&self).strike(fault, random.fork());
            if self.plan.is_rough {
                under_way.push(tokio::spawn(strike));
            } else {
                strike.await;
            }
        }
        for fault in under_way {
            let _ = fault.await;
        }
    }

    async fn strike(self: Arc<Self>, fault: EngineFault, mut random: Random) {
        let shards = self.shards.clone();
        let address = match (&shards, &self.sentinels) {
            (Some(shards), _) => random.pick(&shards.primaries()),
            (None, Some(sentinels)) => sentinels.primary(),
            (None, None) => random.index(self.plan.servers),
        };
        let way = |path, random: &mut Random| Way {
            client: random.index(self.plan.clients),
            address,
            path,
        };
        match fault {
            EngineFault::Cut(path) => {
                let way = way(path, &mut random);
                self.on_one_path(way, false, random).await;
            }
            EngineFault::Silence(path) => {
                let way = way(path, &mut random);
                self.on_one_path(way, true, random).await;
            }
            EngineFault::Pause => self.pause(address, random).await,
            EngineFault::ScriptsGone => {
                self.trace.note(format_args!("server {address} forgets its scripts"));
                self.network.machine(address).forget_scripts();
            }
            EngineFault::Restart => {
                self.trace.note(format_args!("server {address} starts again"));
                let excuse = self.excuse(Duration::ZERO, self.names_of(address));
                let machine = self.network.machine(address);
                machine.forget_scripts();
                self.network.cut_machine(machine.id());
                self.end_excuse(excuse);
            }
            EngineFault::Demotion => self.demote(address, None, random).await,
            EngineFault::LossyDemotion => {
                let replicated = self.lag(address, &mut random).await;
                self.demote(address, Some(replicated), random).await;
            }
            EngineFault::Failover => {
                let replicated = self.lag(address, &mut random).await;
                self.trace
                    .note(format_args!("server {address} crashes, and a replica takes over"));
                let machine = self.network.machine(address);
                machine.forget_scripts();
                self.network.cut_machine(machine.id());
                machine.data().restore(replicated, self.clock.server_time());
            }
            EngineFault::SentinelFailover | EngineFault::SentinelSilence => {
                let Some(sentinels) = self.sentinels.clone() else {
                    return;
                };
                match fault {
                    EngineFault::SentinelFailover => self.sentinel_failover(&sentinels, random).await,
                    _ => self.silence_sentinel(random).await,
                }
            }
            EngineFault::NameMove => {
                self.trace.note(format_args!("the name leads to server {address}"));
                self.network.name(vec![address]);
            }
            EngineFault::SlotMove | EngineFault::Refusal | EngineFault::Takeover | EngineFault::LossyTakeover => {
                let Some(shards) = shards else { return };
                match fault {
                    EngineFault::SlotMove => self.move_slot(&shards, random).await,
                    EngineFault::Refusal => self.refuse(&shards, random).await,
                    _ => {
                        let is_lossy = fault == EngineFault::LossyTakeover;
                        self.take_over(&shards, is_lossy, random).await;
                    }
                }
            }
        }
    }

    async fn on_one_path(&self, way: Way, is_silent: bool, mut random: Random) {
        let outcome = random.pick(&[None, Some(ConnectOutcome::Refused), Some(ConnectOutcome::Unanswered)]);
        let duration = Duration::from_millis(random.between(0, 15_000));
        self.trace.note(format_args!(
            "{way:?} fails: silent {is_silent}, new connections {outcome:?} for {duration:?}"
        ));
        // The client's other connection is enough for renewals, so the loss of a lease has no excuse.
        let excuse = self.excuse(Duration::ZERO, self.names_of(way.address));
        self.network.set_outcome(way, outcome);
        if is_silent {
            self.network.silence(way);
        } else {
            self.network.cut(way);
        }
        sleep(duration).await;
        self.trace.note(format_args!("{way:?} works again"));
        self.network.set_outcome(way, None);
        if is_silent {
            self.network.cut(way);
        }
        self.end_excuse(excuse);
    }

    async fn pause(&self, address: usize, mut random: Random) {
        let longest = random.pick(&[300, 2_000, 12_000]);
        let duration = Duration::from_millis(random.between(10, longest));
        let machine = self.network.machine(address);
        self.trace
            .note(format_args!("server {address} stands still for {duration:?}"));
        let excuse = self.excuse(duration, self.names_of(address));
        machine.set_paused(true);
        sleep(duration).await;
        self.trace.note(format_args!("server {address} goes on"));
        machine.set_paused(false);
        sleep(self.plan.lease + self.plan.command_timeout).await;
        self.end_excuse(excuse);
    }

    /// Takes a snapshot, waits for up to two seconds, and returns it: the state of a replica that lacks the last
    /// writes.
    pub(super) async fn lag(&self, address: usize, random: &mut Random) -> Snapshot {
        let replicated = self.network.machine(address).data().snapshot(self.clock.server_time());
        sleep(Duration::from_millis(random.between(0, 2_000))).await;
        replicated
    }

    async fn demote(&self, address: usize, replicated: Option<Snapshot>, mut random: Random) {
        let (mut old, mut replica) = (self.network.machine(address), None);
        if self.plan.naming == Naming::WithReplica {
            let mut other = self.network.machine(1 - address);
            if old.is_replica() {
                std::mem::swap(&mut old, &mut other);
            }
            replica = Some(other);
        }
        if old.is_replica() {
            return;
        }
        let id = replica
            .as_ref()
            .map_or_else(|| self.next_machine(), |replica| replica.id());
        self.trace.note(format_args!(
            "server {address} is demoted, machine {} to {id}",
            old.id()
        ));
        let longest = random.pick(&[0, 2_000]);
        let duration = Duration::from_millis(random.between(0, longest));
        let excuse = self.excuse(duration, None);
        let at = Instant::now();
        old.demote();
        if let Some(replicated) = replicated {
            old.data().restore(replicated, self.clock.server_time());
        }
        if random.chance(500) {
            old.data().stop_delivery(old.id());
        }
        sleep(duration).await;
        if let Some(replica) = replica {
            self.trace.note(format_args!("machine {id} is a primary"));
            replica.promote();
            self.lock().demoted.retain(|demoted| demoted.machine != id);
        } else {
            self.trace.note(format_args!("server {address} is machine {id}"));
            self.network.replace(old.id(), &old.successor(id));
        }
        self.lock().demoted.push(Demoted {
            machine: old.id(),
            at,
            led_away: Instant::now(),
        });
        sleep(2 * LOOK).await;
        self.end_excuse(excuse);
    }

    fn next_machine(&self) -> u64 {
        let mut state = self.lock();
        state.next_machine += 1;
        state.next_machine
    }

    /// Checks that clients that hold or request a lock leave a demoted server in time, unless faults may overlap.
    pub(super) fn check_demoted(&self) {
        if self.plan.is_rough {
            return;
        }
        let now = Instant::now();
        let state = self.lock();
        for demoted in &state.demoted {
            let latest = (demoted.at + LOOK).max(demoted.led_away) + ANSWER;
            for client in (0..self.plan.clients).filter(|_| now > latest) {
                let was_busy = self.ledger.busy_since(client).is_some_and(|since| since <= demoted.at);
                let paths = self.network.paths_to(client, demoted.machine);
                if was_busy && !paths.is_empty() {
                    let what = format!("client {client} is at machine {} still: {paths:?}", demoted.machine);
                    self.ledger.break_promise("a demoted server is left", what);
                }
            }
        }
    }

    /// Returns the locks of an address, if it belongs to a cluster.
    fn names_of(&self, address: usize) -> Option<Vec<usize>> {
        let shards = self.shards.as_ref()?;
        Some(self.names_meant_for(shards, address))
    }

    /// Excuses an outage of a server, for these locks or for all. If the outage is too long for the shortest lease,
    /// auto-renewed leases may be lost, even with several servers: a lock may have only a bare majority.
    pub(super) fn excuse(&self, outage: Duration, names: Option<Vec<usize>>) -> Excuse {
        let losses = (outage >= SHORT).then(|| self.ledger.excuse_losses(names.clone()));
        Excuse {
            losses,
            errors: self.ledger.excuse_errors(names),
        }
    }

    pub(super) fn end_excuse(&self, excuse: Excuse) {
        if let Some(losses) = excuse.losses {
            self.ledger.end_loss_excuse(losses);
        }
        self.ledger.end_error_excuse(excuse.errors);
    }

    /// Keeps other faults from changing the slots of nodes or the answers of sentinels. `None` if another fault is
    /// changing them now.
    pub(super) fn reshape(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.reshaping.try_lock().ok()
    }

    pub(super) const fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    pub(super) fn note(&self, what: std::fmt::Arguments<'_>) {
        self.trace.note(what);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
