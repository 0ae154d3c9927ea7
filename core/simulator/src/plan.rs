//! What a seed decides before a history begins: its tier, its lock, its clients
//! and which faults may strike how often.

use std::time::Duration;

use steadlock_protocol::{Breaker, Kind, LeaseDuration};

use crate::fault::Fault;
use crate::kinds::{Crowd, FAMILIES, Family};
use crate::random::Random;
use crate::time::{Clock, MS, Micros, Rates, SECOND};

/// Under which conditions a history runs. What is promised depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tier {
    /// One primary that keeps what it was told: at most one holder, whatever
    /// becomes of clients, connections and messages.
    Sound,
    /// Strangers delete records or empty the server.
    Tampered,
    /// The server's clock is put forward and back.
    Stepped,
    /// A replica takes over that has not heard the last of it.
    Failover,
}

impl Tier {
    /// Whether at most one holder is promised.
    pub(crate) const fn is_exclusive(self) -> bool {
        matches!(self, Self::Sound)
    }

    /// Whether a record that was released may come back, or outlive its TTL by
    /// clients' clocks.
    pub(crate) const fn keeps_records(self) -> bool {
        matches!(self, Self::Stepped | Self::Failover)
    }

    /// The faults that only this tier has.
    const fn faults(self) -> &'static [Fault] {
        match self {
            Self::Sound => &[],
            Self::Tampered => &[Fault::RecordRemoved, Fault::Flush],
            Self::Stepped => &[Fault::ClockForward, Fault::ClockBack],
            Self::Failover => &[Fault::Failover],
        }
    }
}

/// Faults that every tier has and that come at times of their own.
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

/// How often what is sent meets a fault, in a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Odds {
    pub(crate) lost_call: u64,
    pub(crate) lost_reply: u64,
    pub(crate) delayed_call: u64,
    pub(crate) delayed_reply: u64,
    pub(crate) dropped_message: u64,
    /// How often a caller that waits goes away.
    pub(crate) cancel: u64,
}

/// How often a caller that holds nothing does what operators do, in a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operators {
    pub(crate) inspect: u64,
    pub(crate) force: u64,
    /// Only of semaphores.
    pub(crate) set_limit: u64,
}

/// One client.
#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    pub(crate) clock: Clock,
    /// The watchdog's lease.
    pub(crate) lease: LeaseDuration,
    /// For each task, whether it has a context.
    pub(crate) tasks: Vec<bool>,
}

/// How much one call does at most. Users have more; with little, histories meet the limits.
#[derive(Clone, Debug)]
pub(crate) struct Most {
    /// Dead waiters that a script of the fair lock passes over.
    pub(crate) dead: u64,
    /// Holds that have ended and that a script clears away.
    pub(crate) ended: u64,
    /// Waiters that a poll speaks for.
    pub(crate) waiters: usize,
}

impl Most {
    fn new(random: &mut Random) -> Self {
        Self {
            dead: random.pick(&[1, 2, 32]),
            ended: random.pick(&[1, 64]),
            waiters: random.pick(&[1, 2, 128]),
        }
    }
}

/// With circuit breakers or without.
fn breaker(random: &mut Random) -> Option<Breaker> {
    random.chance(350).then(|| Breaker {
        failures: random.pick(&[1, 2, 5]),
        pause: Duration::from_millis(random.pick(&[50, 300, 1_000])),
    })
}

/// In some histories many wait at each client for the fair lock.
fn add_waiters(clients: &mut [ClientPlan], family: Family, random: &mut Random) {
    if family == Family::Fair && random.chance(250) {
        for client in clients {
            let more = random.between(2, 8);
            client.tasks.extend((0..more).map(|_| random.chance(600)));
        }
    }
}

/// A history before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) tier: Tier,
    pub(crate) family: Family,
    /// The locks that tasks contend for: for each name, the kinds that callers choose from.
    pub(crate) names: Vec<Vec<Kind>>,
    /// Whether many are to keep one waiting.
    pub(crate) crowd: Option<Crowd>,
    /// How many servers there are.
    pub(crate) nodes: usize,
    /// By how much the clock of each runs too fast or too slow, in millionths.
    pub(crate) drifts: Vec<i64>,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) command_timeout: Duration,
    pub(crate) poll: (Duration, Duration),
    /// How much one call does at most.
    pub(crate) most: Most,
    /// How long a message takes if nothing is wrong.
    pub(crate) latency: (Micros, Micros),
    pub(crate) odds: Odds,
    pub(crate) operators: Operators,
    /// No message ever reaches anybody, also when all else is calm.
    pub(crate) is_deaf: bool,
    /// Faults that strike at times of their own, and the mean time between two.
    pub(crate) timed: Vec<(Fault, Micros)>,
    /// When the last fault may strike.
    pub(crate) faults_until: Micros,
    /// When tasks start nothing new.
    pub(crate) work_until: Micros,
    /// The longest pause between two things that a task does.
    pub(crate) think: Micros,
    /// The circuit breakers of clients, in some histories.
    pub(crate) breaker: Option<Breaker>,
    /// Whether clients say which programs they are.
    pub(crate) are_named: bool,
}

impl Plan {
    /// The plan of a seed, perhaps for locks of one family only.
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
                lease: LeaseDuration::watched(Duration::from_millis(random.pick(leases)))
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
        let longer = crowd.map_or(0, |_| Crowd::CALM);
        Self {
            tier,
            family,
            names,
            crowd,
            nodes,
            drifts: (0..nodes).map(|_| rates.draw(random)).collect(),
            is_deaf: random.chance(60),
            clients,
            command_timeout,
            most: Most::new(random),
            poll: (Duration::from_millis(500), Duration::from_millis(750)),
            latency: (50, random.pick(latencies)),
            odds,
            operators,
            timed,
            faults_until,
            work_until: faults_until + 3 * micros(command_timeout) + 2 * SECOND + longer,
            think: random.pick(thoughts) * MS,
            breaker: breaker(random),
            are_named: random.chance(500),
        }
    }

    /// Makes the rates of clocks differ by twice as much, which is more than is promised.
    pub(crate) fn spread_clocks(&mut self) {
        for client in &mut self.clients {
            client.clock.drift_ppm *= 2;
        }
        for drift in &mut self.drifts {
            *drift *= 2;
        }
    }

    /// How long after the last fault it is felt: what was delayed may take three
    /// timeouts, and a connection that is lost a while.
    pub(crate) fn settles_in(&self) -> Micros {
        3 * self.timeout() + 500 * MS
    }

    /// How long after that the circuit breakers are closed: a probe follows the last one that failed.
    pub(crate) fn breakers_settle_in(&self) -> Micros {
        self.breaker
            .map_or(0, |breaker| micros(breaker.pause) + 2 * self.timeout())
    }

    /// The command timeout in true time.
    pub(crate) fn timeout(&self) -> Micros {
        micros(self.command_timeout)
    }
}

/// A duration in true time.
pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
