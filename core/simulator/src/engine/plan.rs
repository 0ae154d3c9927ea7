//! What a history is made of, drawn from its seed.

use std::time::Duration;

use crate::random::Random;

/// A lock's kind, of those that let one holder in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock,
    Mutex,
    Fair,
}

/// Where the name of the server leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// To one address.
    Plain,
    /// To a primary and its replica, which may change places.
    WithReplica,
    /// To one server, by two addresses.
    Twice,
    /// To one of two servers, now to this and now to that: what a lock's server had is not at the other one.
    Moving,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) clients: usize,
    /// Of each client.
    pub(super) tasks: usize,
    /// How often a process ends and another one begins in its place, for each client.
    pub(super) lives: usize,
    /// Addresses of servers. A majority keeps each lock, if they are [`primaries`](Self::has_primaries).
    pub(super) servers: usize,
    /// How many sentinels watch a primary and its replica. Else 0.
    pub(super) sentinels: usize,
    /// How many of them the URL has.
    pub(super) listed: usize,
    /// They do not tell how new what they say is.
    pub(super) hides_epochs: bool,
    pub(super) naming: Naming,
    /// No server tells which one it is.
    pub(super) hides_run_id: bool,
    /// Of a cluster: how many primaries there are, each with a replica. Else 0.
    pub(super) shards: usize,
    pub(super) names: Vec<Kind>,
    pub(super) lease: Duration,
    pub(super) command_timeout: Duration,
    /// How long bytes take at the most, in microseconds.
    pub(super) slowest: u64,
    /// How long tasks begin something new.
    pub(super) work: Duration,
    /// Callers hold locks for a long time, and ask the server for nothing meanwhile.
    pub(super) is_quiet: bool,
    /// Faults come before the last one is over. Then no lease need survive.
    pub(super) is_rough: bool,
    /// Of a cluster: nothing happens but that slots move.
    pub(super) has_only_moves: bool,
    /// Replicas take over that have not heard the last of it. Then two may hold a lock.
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
            lives: 1,
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
        match random.index(10) {
            0..4 => plan.of_cluster(random),
            4..6 => plan.of_sentinels(random),
            6..8 => plan.of_name(random),
            _ => plan,
        }
    }

    /// The same with a primary and a replica that sentinels watch.
    fn of_sentinels(self, random: &mut Random) -> Self {
        let sentinels = random.pick(&[3, 3, 5]);
        Self {
            servers: 2,
            sentinels,
            listed: random.pick(&[1, sentinels, sentinels]),
            hides_epochs: random.chance(250),
            lives: random.index(5) + 1,
            is_lossy: false,
            ..self
        }
    }

    /// The same with a name that has several addresses, or leads to one server after another.
    fn of_name(self, random: &mut Random) -> Self {
        let naming = random.pick(&[Naming::WithReplica, Naming::Twice, Naming::Moving]);
        let is_moving = naming == Naming::Moving;
        Self {
            servers: 2,
            naming,
            hides_run_id: random.chance(300),
            // Two that are at two servers at once would both get a lock.
            clients: if is_moving { 1 } else { self.clients },
            lives: random.index(3) + 1,
            is_lossy: is_moving || self.is_lossy,
            ..self
        }
    }

    /// The same with a cluster in place of a server.
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

    /// How many servers have a lock on record that is held.
    pub(super) const fn quorum(&self) -> usize {
        if self.has_primaries() { self.servers / 2 + 1 } else { 1 }
    }

    /// Whether the servers are primaries of their own, of which most keep each lock.
    pub(super) const fn has_primaries(&self) -> bool {
        self.servers > 1 && self.shards == 0 && !self.has_several_addresses()
    }

    /// Whether one server keeps all locks, at one of several addresses.
    const fn has_several_addresses(&self) -> bool {
        self.sentinels > 0 || !matches!(self.naming, Naming::Plain)
    }

    /// The servers that follow another one at first.
    pub(super) const fn replicas(&self) -> std::ops::Range<usize> {
        match self.naming {
            _ if self.shards > 0 => self.shards..2 * self.shards,
            _ if self.sentinels > 0 => 1..2,
            Naming::WithReplica => 1..2,
            Naming::Plain | Naming::Twice | Naming::Moving => 0..0,
        }
    }

    /// How many of them keep something of their own.
    pub(super) const fn stores(&self) -> usize {
        match self.naming {
            Naming::WithReplica | Naming::Twice => 1,
            Naming::Plain | Naming::Moving => self.servers,
        }
    }

    /// How a lock is called.
    pub(super) fn name(number: usize) -> String {
        format!("stock:{number}")
    }
}
