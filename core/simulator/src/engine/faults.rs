//! What goes wrong, one after another or several at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::simulation::Path;
use tokio::time::{Instant, sleep};

use super::clock::Clock;
use super::ledger::Ledger;
use super::network::{Door, Network, Way};
use super::plan::Plan;
use super::trace::Trace;
use crate::random::Random;
use crate::snapshot::Snapshot;

/// How often a server in use is asked what it is.
const LOOK: Duration = Duration::from_secs(5);
/// What the question and its answer take.
const ANSWER: Duration = Duration::from_millis(300);

/// An outage that no lease is too short for.
const SHORT: Duration = Duration::from_millis(500);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineFault {
    /// A client's connection for one thing is reset, and perhaps it gets none for a while.
    Cut(Path),
    /// All that is sent on it vanishes, and perhaps it gets none for a while.
    Silence(Path),
    /// A server stands still.
    Pause,
    /// A server forgets its scripts.
    ScriptsGone,
    /// A server starts again, with its data and without scripts.
    Restart,
    /// A server becomes a replica in place, and its address leads to another one.
    Demotion,
    /// The same, and the other one has not heard the last of what the first one had.
    LossyDemotion,
    /// A server crashes, and another one takes over that has not heard the last of it.
    Failover,
}

impl EngineFault {
    /// Every kind.
    pub const ALL: [Self; 12] = [
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
    ];
}

/// A machine that is no primary any more.
struct Demoted {
    machine: u64,
    at: Instant,
    /// Since when its address leads elsewhere.
    led_away: Instant,
}

pub(super) struct Faults {
    plan: Plan,
    clock: Clock,
    network: Arc<Network>,
    ledger: Arc<Ledger>,
    trace: Arc<Trace>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counts: BTreeMap<EngineFault, u64>,
    demoted: Vec<Demoted>,
    next_machine: u64,
    /// How many that take renewals their way are under way.
    excusing: usize,
}

impl Faults {
    pub(super) fn new(
        plan: &Plan,
        clock: Clock,
        network: &Arc<Network>,
        ledger: &Arc<Ledger>,
        trace: &Arc<Trace>,
    ) -> Arc<Self> {
        Arc::new(Self {
            plan: plan.clone(),
            clock,
            network: Arc::clone(network),
            ledger: Arc::clone(ledger),
            trace: Arc::clone(trace),
            state: Mutex::new(State {
                next_machine: plan.servers as u64,
                ..State::default()
            }),
        })
    }

    pub(super) fn counts(&self) -> BTreeMap<EngineFault, u64> {
        self.lock().counts.clone()
    }

    /// Strikes until then.
    pub(super) async fn run(self: Arc<Self>, mut random: Random, until: Instant) {
        if self.plan.is_rough || self.plan.is_lossy {
            self.ledger.excuse();
        }
        let mut under_way = Vec::new();
        loop {
            // What one leaves behind is over before the next begins.
            let rest = match self.plan.is_rough {
                true => random.between(0, 2_000),
                false => {
                    let longest = self.plan.lease + 2 * self.plan.command_timeout;
                    u64::try_from(longest.as_millis()).unwrap_or(0) + random.between(200, 3_000)
                }
            };
            sleep(Duration::from_millis(rest)).await;
            if Instant::now() >= until {
                break;
            }
            // The last two of them lose data.
            let kinds = EngineFault::ALL.len() - if self.plan.is_lossy { 0 } else { 2 };
            let fault = random.pick(&EngineFault::ALL[..kinds]);
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
        let address = random.index(self.plan.servers);
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
                let machine = self.network.machine(address);
                machine.forget_scripts();
                self.network.cut_machine(machine.id());
            }
            EngineFault::Demotion => self.demote(address, None, random).await,
            EngineFault::LossyDemotion => {
                let heard = self.lag(address, &mut random).await;
                self.demote(address, Some(heard), random).await;
            }
            EngineFault::Failover => {
                let heard = self.lag(address, &mut random).await;
                self.trace
                    .note(format_args!("server {address} crashes, and a replica takes over"));
                let machine = self.network.machine(address);
                machine.forget_scripts();
                self.network.cut_machine(machine.id());
                machine.data().restore(heard, self.clock.server_time());
            }
        }
    }

    async fn on_one_path(&self, way: Way, is_silent: bool, mut random: Random) {
        let door = random.pick(&[None, Some(Door::Shut), Some(Door::Silent)]);
        let lasts = Duration::from_millis(random.between(0, 15_000));
        self.trace.note(format_args!(
            "{way:?} fails: silent {is_silent}, door {door:?} for {lasts:?}"
        ));
        self.network.set_door(way, door);
        if is_silent {
            self.network.silence(way);
        } else {
            self.network.cut(way);
        }
        sleep(lasts).await;
        self.trace.note(format_args!("{way:?} works again"));
        self.network.set_door(way, None);
        if is_silent {
            self.network.cut(way);
        }
    }

    async fn pause(&self, address: usize, mut random: Random) {
        let longest = random.pick(&[300, 2_000, 12_000]);
        let lasts = Duration::from_millis(random.between(10, longest));
        let machine = self.network.machine(address);
        self.trace
            .note(format_args!("server {address} stands still for {lasts:?}"));
        let is_excuse = self.excuse(lasts);
        machine.set_paused(true);
        sleep(lasts).await;
        self.trace.note(format_args!("server {address} goes on"));
        machine.set_paused(false);
        sleep(self.plan.lease + self.plan.command_timeout).await;
        self.excuse_no_more(is_excuse);
    }

    /// What a replica has heard, some time ago.
    async fn lag(&self, address: usize, random: &mut Random) -> Snapshot {
        let heard = self.network.machine(address).data().snapshot(self.clock.server_time());
        sleep(Duration::from_millis(random.between(0, 2_000))).await;
        heard
    }

    async fn demote(&self, address: usize, heard: Option<Snapshot>, mut random: Random) {
        let old = self.network.machine(address);
        let id = {
            let mut state = self.lock();
            state.next_machine += 1;
            state.next_machine
        };
        self.trace.note(format_args!(
            "server {address} is demoted, machine {} to {id}",
            old.id()
        ));
        let longest = random.pick(&[0, 2_000]);
        let lasts = Duration::from_millis(random.between(0, longest));
        let is_excuse = self.excuse(lasts);
        let at = Instant::now();
        old.demote();
        if let Some(heard) = heard {
            old.data().restore(heard, self.clock.server_time());
        }
        if random.chance(500) {
            old.data().deafen(&old);
        }
        sleep(lasts).await;
        self.trace.note(format_args!("server {address} is machine {id}"));
        self.network.lead(address, old.successor(id));
        self.lock().demoted.push(Demoted {
            machine: old.id(),
            at,
            led_away: Instant::now(),
        });
        sleep(2 * LOOK).await;
        self.excuse_no_more(is_excuse);
    }

    /// Who has something there leaves a demoted server in time.
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

    /// For so long, a server cannot be asked. What is renewed may be lost, if that is too long
    /// for the shortest lease: of several servers a lock may have no more than a majority.
    fn excuse(&self, outage: Duration) -> bool {
        let is_one = outage >= SHORT;
        if is_one {
            self.lock().excusing += 1;
            self.ledger.excuse();
        }
        is_one
    }

    fn excuse_no_more(&self, was_one: bool) {
        let left = {
            let mut state = self.lock();
            state.excusing -= usize::from(was_one);
            state.excusing
        };
        if left == 0 && was_one && !self.plan.is_rough && !self.plan.is_lossy {
            self.ledger.excuse_no_more();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
