//! Everything that a seed decides before a history begins: its tier, its locks, its clients, its possible faults, and
//! how often each of them strikes.

use std::time::Duration;

use steadlock_protocol::{Breaker, Kind, LeaseDuration};

use crate::fault::Fault;
use crate::kinds::{Crowd, FAMILIES, Family};
use crate::random::Random;
use crate::time::{Clock, MS, Micros, Rates, SECOND};

/// The conditions of a history, which determine what is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tier {
    /// The servers keep their data, and their clocks are not set. Mutual exclusion is promised, whatever happens to
    /// clients, connections and messages.
    Sound,
    /// Other programs delete records or empty the server.
    Tampered,
    /// The server's clock is set forward and back.
    Stepped,
    /// A replica takes over without the primary's last writes.
    Failover,
}

impl Tier {
    /// Returns whether mutual exclusion is promised.
    pub(crate) const fn is_exclusive(self) -> bool {
        matches!(self, Self::Sound)
    }

    /// Returns whether a released record can come back, or whether a record can last longer than its TTL as clients
    /// measure it.
    pub(crate) const fn keeps_records(self) -> bool {
        matches!(self, Self::Stepped | Self::Failover)
    }

    /// Returns the faults that only this tier has.
    const fn faults(self) -> &'static [Fault] {
        match self {
            Self::Sound => &[],
            Self::Tampered => &[Fault::RecordRemoved, Fault::Flush],
            Self::Stepped => &[Fault::ClockForward, Fault::ClockBack],
            Self::Failover => &[Fault::Failover],
        }
    }
}

/// Faults of every tier that strike at random times.
const TIMED: &[Fault] = &[
    Fault::Disconnect,
    Fault::NodeStop,
    Fault::TemporaryError,
    Fault::ClientPause,
    Fault::ClientCrash,
    Fault::ClientClose,
    Fault::LaneCut,
    Fault::Demotion,
    Fault::Invention,
];

/// How often calls, replies and messages meet a fault, in a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Odds {
    pub(crate) lost_call: u64,
    pub(crate) lost_reply: u64,
    pub(crate) delayed_call: u64,
    pub(crate) delayed_reply: u64,
    pub(crate) dropped_message: u64,
    /// How often a waiting caller gives up.
    pub(crate) cancel: u64,
}

/// How often a caller that holds nothing acts as an operator, in a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operators {
    pub(crate) inspect: u64,
    pub(crate) force: u64,
    /// Only for semaphores.
    pub(crate) set_limit: u64,
}

/// The plan of one client.
#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    pub(crate) clock: Clock,
    /// The length of the client's auto-renewed leases.
    pub(crate) lease: LeaseDuration,
    /// For each task, whether it has a context: the identity by which it re-enters a lock that it holds.
    pub(crate) tasks: Vec<bool>,
}

/// The limits on the size of one call. Some are lower than the shipped ones, so that histories reach them.
#[derive(Clone, Debug)]
pub(crate) struct CallLimits {
    /// The most dead waiters that one script of the fair lock skips.
    pub(crate) dead: u64,
    /// The most expired holds that one script removes.
    pub(crate) ended: u64,
    /// The most waiters that one poll lists.
    pub(crate) waiters: usize,
}

impl CallLimits {
    fn new(random: &mut Random) -> Self {
        Self {
            dead: random.pick(&[1, 2, 32]),
            ended: random.pick(&[1, 64]),
            waiters: random.pick(&[1, 2, 128]),
        }
    }
}

/// Draws whether the clients have circuit breakers, and their settings.
fn breaker(random: &mut Random) -> Option<Breaker> {
    random.chance(350).then(|| Breaker {
        failures: random.pick(&[1, 2, 5]),
        pause: Duration::from_millis(random.pick(&[50, 300, 1_000])),
    })
}

/// In some histories, adds many waiters for the fair lock to each client.
fn add_waiters(clients: &mut [ClientPlan], family: Family, random: &mut Random) {
    if family == Family::Fair && random.chance(250) {
        for client in clients {
            let more = random.between(2, 8);
            client.tasks.extend((0..more).map(|_| random.chance(600)));
        }
    }
}

/// The plan of a history.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) tier: Tier,
    pub(crate) family: Family,
    /// For each name, the kinds that callers choose from.
    pub(crate) names: Vec<Vec<Kind>>,
    /// In a history in which many callers of one side of a read-write lock keep one caller of the other side waiting:
    /// these sides.
    pub(crate) crowd: Option<Crowd>,
    /// The number of servers.
    pub(crate) nodes: usize,
    /// The rate error of each server's clock, in millionths.
    pub(crate) drifts: Vec<i64>,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) command_timeout: Duration,
    pub(crate) poll: (Duration, Duration),
    pub(crate) call_limits: CallLimits,
    /// The shortest and the longest time that a message takes without a fault.
    pub(crate) latency: (Micros, Micros),
    pub(crate) odds: Odds,
    pub(crate) operators: Operators,
    /// Whether every message is lost, even when no other fault strikes.
    pub(crate) loses_all_messages: bool,
    /// The faults that strike at random times. The time between two strikes is from half to twice the given one.
    pub(crate) timed: Vec<(Fault, Micros)>,
    /// The time of the last possible fault, apart from those that external clients cause.
    pub(crate) faults_until: Micros,
    /// The time after which tasks start nothing new.
    pub(crate) work_until: Micros,
    /// The longest usual pause between two actions of a task. A few pauses are longer.
    pub(crate) think: Micros,
    /// The circuit breakers of the clients, if they have them.
    pub(crate) breaker: Option<Breaker>,
    /// Whether clients write their identity to the servers.
    pub(crate) write_identities: bool,
}

impl Plan {
    /// Draws the plan of a seed. `only` restricts it to one family of locks.
    pub(crate) fn new(random: &mut Random, only: Option<Family>) -> Self {
        let tier = match random.between(0, 9) {
            0..=5 => Tier::Sound,
            6 | 7 => Tier::Tampered,
            8 => Tier::Stepped,
            _ => Tier::Failover,
        };
        let drawn = random.pick(FAMILIES);
        let family = only.unwrap_or(drawn);
        let rates = Rates::new(random);
        let mut names = family.names(random);
        let crowd = family.crowd(random);
        if crowd.is_some() {
            names.truncate(1);
        }
        let command_timeout = Duration::from_millis(random.pick(&[60, 150, 400]));
        let leases: &[u64] = &[300, 300, 500, 1_000, 2_500];
        let (most_clients, most_tasks) = (4, 3);
        let (least_clients, least_tasks) = if crowd.is_some() { (3, 3) } else { (2, 1) };
        let mut clients: Vec<ClientPlan> = (0..random.between(least_clients, most_clients))
            .map(|_| ClientPlan {
                clock: Clock {
                    origin: random.between(0, 1_000) * SECOND,
                    drift_ppm: rates.draw(random),
                },
                lease: LeaseDuration::auto_renewed(Duration::from_millis(random.pick(leases)))
                    .unwrap_or(LeaseDuration::DEFAULT),
                tasks: (0..random.between(least_tasks, most_tasks))
                    .map(|_| random.chance(600))
                    .collect(),
            })
            .collect();
        let faults_until = random.between(1_000, 3_000) * MS;
        let mut often = |of: &[u64]| if random.chance(500) { random.pick(of) } else { 0 };
        let odds = Odds {
            lost_call: often(&[5, 20, 60]),
            lost_reply: often(&[5, 20, 60]),
            delayed_call: often(&[5, 30, 100]),
            delayed_reply: often(&[5, 30, 100]),
            dropped_message: often(&[100, 500, 1_000]),
            cancel: often(&[30, 100, 300]),
        };
        let operators = Operators {
            inspect: often(&[20, 100]),
            force: if crowd.is_some() { 0 } else { often(&[10, 40]) },
            set_limit: often(&[50, 150]),
        };
        let cancel = if crowd.is_some() { 0 } else { odds.cancel };
        let odds = Odds { cancel, ..odds };
        let (latencies, thoughts): (&[u64], &[u64]) = match crowd {
            Some(_) => (&[200, 2_000], &[10, 40]),
            None => (&[200, 2_000, 10_000], &[10, 50, 200]),
        };
        let mut timed = Vec::new();
        for fault in TIMED {
            if random.chance(300) {
                timed.push((*fault, random.between(400, 3_000) * MS));
            }
        }
        for fault in tier.faults() {
            timed.push((*fault, random.between(300, 2_000) * MS));
        }
        add_waiters(&mut clients, family, random);
        let nodes = family.nodes(random);
        let longer = crowd.map_or(0, |_| Crowd::UNDISTURBED);
        Self {
            tier,
            family,
            names,
            crowd,
            nodes,
            drifts: (0..nodes).map(|_| rates.draw(random)).collect(),
            loses_all_messages: random.chance(60),
            clients,
            command_timeout,
            call_limits: CallLimits::new(random),
            poll: (Duration::from_millis(500), Duration::from_millis(750)),
            latency: (50, random.pick(latencies)),
            odds,
            operators,
            timed,
            faults_until,
            work_until: faults_until + 3 * micros(command_timeout) + 2 * SECOND + longer,
            think: random.pick(thoughts) * MS,
            breaker: breaker(random),
            write_identities: random.chance(500),
        }
    }

    /// Doubles the differences between the rates of clocks, so that they exceed the drift that the promises allow.
    pub(crate) fn spread_clocks(&mut self) {
        for client in &mut self.clients {
            client.clock.drift_ppm *= 2;
        }
        for drift in &mut self.drifts {
            *drift *= 2;
        }
    }

    /// Returns how long after the last fault its effects can still be seen. Delayed calls can take three timeouts, and
    /// a lost connection needs some time to be replaced.
    pub(crate) fn settles_in(&self) -> Micros {
        3 * self.timeout() + 500 * MS
    }

    /// Returns the time after [`settles_in`](Self::settles_in) until all circuit breakers are closed: the last failed
    /// probe, the pause after it, and the next probe.
    pub(crate) fn breakers_settle_in(&self) -> Micros {
        self.breaker
            .map_or(0, |breaker| micros(breaker.pause) + 2 * self.timeout())
    }

    /// Returns the command timeout in microseconds.
    pub(crate) fn timeout(&self) -> Micros {
        micros(self.command_timeout)
    }
}

/// Returns a duration in microseconds.
pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
