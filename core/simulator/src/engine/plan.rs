//! Everything that a seed decides before a history of the engine begins: its clients, servers, locks and times, and
//! which faults can strike.

use std::time::Duration;

use crate::random::Random;

/// A kind of lock that has one holder at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock,
    Mutex,
    Fair,
    /// A job: its holder runs it, and anybody who else asks is skipped.
    Once,
}

/// The servers to which the name in the URL leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// No name: the URL has addresses of single servers, of a cluster or of sentinels.
    Plain,
    /// A primary and its replica, which can change roles.
    WithReplica,
    /// One server at two addresses.
    Twice,
    /// One of two servers, now one and now the other. Neither server knows the locks of the other one.
    Moving,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) clients: usize,
    /// The number of tasks of each client.
    pub(super) tasks: usize,
    /// The number of processes of each client, one after another.
    pub(super) processes: usize,
    /// The number of servers' addresses. If the servers are [independent primaries](Self::has_primaries), a majority of
    /// them grants each lock.
    pub(super) servers: usize,
    /// The number of sentinels that watch a primary and its replica; otherwise 0.
    pub(super) sentinels: usize,
    /// The number of sentinels in the URL.
    pub(super) listed: usize,
    /// Whether sentinels hide the epoch of their answers, a number that grows with each failover.
    pub(super) hides_epochs: bool,
    pub(super) naming: Naming,
    /// Whether servers hide their run id, by which a client tells servers apart.
    pub(super) hides_run_id: bool,
    /// The number of primaries of a cluster, each with a replica; otherwise 0.
    pub(super) shards: usize,
    pub(super) names: Vec<Kind>,
    pub(super) lease: Duration,
    pub(super) command_timeout: Duration,
    /// The longest time that bytes take, in microseconds.
    pub(super) slowest: u64,
    /// The time for which tasks begin new requests.
    pub(super) work: Duration,
    /// Whether callers hold locks for a long time, and few calls are sent meanwhile.
    pub(super) is_quiet: bool,
    /// Whether faults strike before the previous one is over. Then every lease may be lost.
    pub(super) is_rough: bool,
    /// Whether moving slots is the only fault of a cluster.
    pub(super) has_only_moves: bool,
    /// Whether replicas take over without the last writes. Then two callers may hold a lock.
    pub(super) is_lossy: bool,
}

impl Plan {
    pub(super) fn draw(random: &mut Random) -> Self {
        let servers = if random.chance(150) { 3 } else { 1 };
        let kinds: &[Kind] = match servers {
            1 => &[Kind::Lock, Kind::Lock, Kind::Mutex, Kind::Fair],
            _ => &[Kind::Lock],
        };
        let clients = random.index(3) + 1;
        let is_quiet = random.chance(300);
        let plan = Self {
            clients,
            processes: 1,
            tasks: if is_quiet { 1 } else { random.index(3) + 1 },
            servers,
            sentinels: 0,
            listed: 0,
            hides_epochs: false,
            naming: Naming::Plain,
            hides_run_id: false,
            shards: 0,
            names: (0..=random.index(2)).map(|_| random.pick(kinds)).collect(),
            lease: Duration::from_millis(random.between(3_000, 9_000)),
            command_timeout: Duration::from_millis(random.between(500, 3_000)),
            slowest: random.pick(&[500, 2_000, 10_000]),
            work: Duration::from_secs(random.between(40, 120)),
            is_quiet,
            is_rough: random.chance(200),
            has_only_moves: false,
            is_lossy: random.chance(150),
        };
        if servers > 1 {
            return plan;
        }
        let plan = match random.index(10) {
            0..4 => plan.of_cluster(random),
            4..6 => plan.of_sentinels(random),
            6..8 => plan.of_name(random),
            _ => plan,
        };
        plan.with_job(random)
    }

    /// Returns the plan, in some histories with a job in place of one of the locks.
    fn with_job(mut self, random: &mut Random) -> Self {
        if random.chance(350) {
            let name = random.index(self.names.len());
            self.names[name] = Kind::Once;
        }
        self
    }

    /// Returns the plan with a primary and a replica that sentinels watch.
    fn of_sentinels(self, random: &mut Random) -> Self {
        let sentinels = random.pick(&[3, 3, 5]);
        Self {
            servers: 2,
            sentinels,
            listed: random.pick(&[1, sentinels, sentinels]),
            hides_epochs: random.chance(250),
            processes: random.index(5) + 1,
            is_lossy: false,
            ..self
        }
    }

    /// Returns the plan with a name that has several addresses, or leads to different servers over time.
    fn of_name(self, random: &mut Random) -> Self {
        let naming = random.pick(&[Naming::WithReplica, Naming::Twice, Naming::Moving]);
        let is_moving = naming == Naming::Moving;
        Self {
            servers: 2,
            naming,
            hides_run_id: random.chance(300),
            // Two clients at two servers would both be granted a lock.
            clients: if is_moving { 1 } else { self.clients },
            processes: random.index(3) + 1,
            is_lossy: is_moving || self.is_lossy,
            ..self
        }
    }

    /// Returns the plan with a cluster in place of a server.
    fn of_cluster(self, random: &mut Random) -> Self {
        let shards = random.index(2) + 2;
        let has_only_moves = random.chance(350);
        let kinds = [Kind::Lock, Kind::Lock, Kind::Mutex, Kind::Fair];
        Self {
            servers: 2 * shards,
            shards,
            tasks: self.tasks + random.index(2),
            names: (0..=random.index(4) + 1).map(|_| random.pick(&kinds)).collect(),
            has_only_moves,
            is_rough: self.is_rough && !has_only_moves,
            is_lossy: !has_only_moves && (self.is_lossy || random.chance(150)),
            ..self
        }
    }

    /// Returns the number of servers that must have a record of a held lock.
    pub(super) const fn quorum(&self) -> usize {
        if self.has_primaries() { self.servers / 2 + 1 } else { 1 }
    }

    /// Returns whether the servers are independent primaries. A majority of them must then grant each lock.
    pub(super) const fn has_primaries(&self) -> bool {
        self.servers > 1 && self.shards == 0 && !self.has_several_addresses()
    }

    /// Returns whether one server at a time keeps all locks, at one or several of the addresses.
    const fn has_several_addresses(&self) -> bool {
        self.sentinels > 0 || !matches!(self.naming, Naming::Plain)
    }

    /// Returns the servers that are replicas at first.
    pub(super) const fn replicas(&self) -> std::ops::Range<usize> {
        match self.naming {
            _ if self.shards > 0 => self.shards..2 * self.shards,
            _ if self.sentinels > 0 => 1..2,
            Naming::WithReplica => 1..2,
            Naming::Plain | Naming::Twice | Naming::Moving => 0..0,
        }
    }

    /// Returns how many servers have data of their own.
    pub(super) const fn stores(&self) -> usize {
        match self.naming {
            Naming::WithReplica | Naming::Twice => 1,
            Naming::Plain | Naming::Moving => self.servers,
        }
    }

    /// Returns the name of a lock.
    pub(super) fn name(number: usize) -> String {
        format!("stock:{number}")
    }

    /// Returns whether the lock is a job.
    pub(super) fn is_job(&self, name: usize) -> bool {
        self.names[name] == Kind::Once
    }
}
