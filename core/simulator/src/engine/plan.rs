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

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) clients: usize,
    /// Of each client.
    pub(super) tasks: usize,
    /// Servers; of several, a majority keeps each lock, if they are no cluster.
    pub(super) servers: usize,
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
            tasks: if is_quiet { 1 } else { random.index(3) + 1 },
            servers,
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
        if servers == 1 && random.chance(400) {
            plan.of_cluster(random)
        } else {
            plan
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
        if self.shards > 0 { 1 } else { self.servers / 2 + 1 }
    }

    /// How a lock is called.
    pub(super) fn name(number: usize) -> String {
        format!("stock:{number}")
    }
}
