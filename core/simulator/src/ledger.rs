//! The leases as their holders know them: what was granted, until when it may be
//! relied on, and what became of it. The checks compare this with what the
//! sessions and the servers do.

use std::collections::{BTreeMap, BTreeSet};

use steadlock_protocol::{Grant, Instant, Kind, LeaseId, Token};

use crate::records::Record;
use crate::time::Micros;

/// A lease of a client.
pub(crate) type LeaseKey = (usize, LeaseId);

/// A lock: the number of its name, and its kind.
pub(crate) type Lock = (usize, Kind);

/// One lease that was granted and not released.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    /// What it holds: one lock, or several together.
    pub(crate) locks: Vec<Lock>,
    /// The holds that it was taken inside: a write around a read, or several locks around
    /// one of them.
    pub(crate) around: Vec<u64>,
    /// The hold that it is a level of.
    pub(crate) hold: u64,
    pub(crate) token: Option<Token>,
    /// Until when it may be relied on, by its client's clock.
    pub(crate) deadline: Instant,
    pub(crate) lost: bool,
    /// Those of its names that no server granted: there it excludes others of its client alone.
    pub(crate) local: Vec<usize>,
    /// The length by which the watchdog renews its hold, if it does.
    pub(crate) renewed: Option<Micros>,
}

impl Lease {
    /// Whether asking for these locks inside it gives one more level of it. Several locks
    /// are entered again as they were taken; their order does not matter.
    pub(crate) fn is_of(&self, locks: &[Lock]) -> bool {
        match locks {
            [lock] => self.locks.len() == 1 && self.has_part(*lock),
            several => self.locks.len() == several.len() && several.iter().all(|lock| self.locks.contains(lock)),
        }
    }

    /// Whether it holds this lock, by itself or together with others.
    pub(crate) fn has_part(&self, (name, kind): Lock) -> bool {
        let same = |(of, held_as): &Lock| *of == name && Record::of(*held_as) == Record::of(kind);
        self.locks.iter().any(same)
    }

    /// The kind as which it holds a name.
    pub(crate) fn kind_of(&self, name: usize) -> Option<Kind> {
        self.locks.iter().find(|(of, _)| *of == name).map(|(_, kind)| *kind)
    }

    /// Whether no server granted it this name.
    pub(crate) fn is_local(&self, name: usize) -> bool {
        self.local.contains(&name)
    }

    /// Whether one of two leases was taken inside the other, or both inside a third.
    fn is_inside(&self, other: &Self) -> bool {
        let both = self.around.iter().any(|hold| other.around.contains(hold));
        both || self.around.contains(&other.hold) || other.around.contains(&self.hold)
    }

    /// Whether it and another may be relied on without regard to each other.
    pub(crate) fn bears(&self, other: &Self) -> bool {
        self.hold == other.hold || self.is_inside(other)
    }
}

/// The leases of all clients.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    live: BTreeMap<LeaseKey, Lease>,
    released: BTreeSet<LeaseKey>,
    holds: u64,
    /// The holds that the watchdog renews, for one of their levels at least.
    renewed: BTreeSet<u64>,
}

impl Ledger {
    /// A grant: a new hold, perhaps inside another one, or one more level of it. No server granted the names that
    /// are `local`.
    pub(crate) fn granted(
        &mut self,
        client: usize,
        grant: &Grant,
        inside: Option<LeaseId>,
        (locks, local): (Vec<Lock>, Vec<usize>),
        renewed: Option<Micros>,
    ) -> &Lease {
        let inside = inside.and_then(|lease| self.live.get(&(client, lease)));
        let (hold, before, around) = match inside {
            Some(lease) if lease.is_of(&locks) => (lease.hold, lease.renewed, lease.around.clone()),
            _ => {
                self.holds += 1;
                let around = inside.map(|lease| [lease.around.as_slice(), &[lease.hold]].concat());
                (self.holds, None, around.unwrap_or_default())
            }
        };
        // The longest auto-renewed level counts for all of them, also when it is released.
        let renewed = renewed.max(before);
        for ((of, _), other) in &mut self.live {
            if *of == client && other.hold == hold {
                other.renewed = renewed;
            } else if *of == client && around.contains(&other.hold) && other.locks.len() > 1 {
                // Of several locks one is renewed as a level of its own is.
                other.renewed = other.renewed.map(|length| length.max(renewed.unwrap_or_default()));
            }
        }
        let lease = Lease {
            locks,
            around,
            hold,
            token: grant.token,
            deadline: grant.deadline,
            lost: false,
            local,
            renewed,
        };
        if lease.renewed.is_some() {
            self.renewed.insert(hold);
        }
        self.live.entry((client, grant.lease)).or_insert(lease)
    }

    pub(crate) fn get(&self, client: usize, lease: LeaseId) -> Option<&Lease> {
        self.live.get(&(client, lease))
    }

    pub(crate) fn get_mut(&mut self, client: usize, lease: LeaseId) -> Option<&mut Lease> {
        self.live.get_mut(&(client, lease))
    }

    /// The caller gives a lease back: from here on it relies on nothing. The hold, if
    /// that was its last level.
    pub(crate) fn release(&mut self, client: usize, lease: LeaseId) -> Option<u64> {
        let hold = self.live.remove(&(client, lease))?.hold;
        self.released.insert((client, lease));
        self.of(client).all(|(_, lease)| lease.hold != hold).then_some(hold)
    }

    /// Whether the watchdog renews a hold.
    pub(crate) fn is_renewed(&self, hold: u64) -> bool {
        self.renewed.contains(&hold)
    }

    pub(crate) fn was_released(&self, client: usize, lease: LeaseId) -> bool {
        self.released.contains(&(client, lease))
    }

    /// A client is gone, and everything it believed with it.
    pub(crate) fn forget(&mut self, client: usize) {
        self.live.retain(|(of, _), _| *of != client);
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = (LeaseKey, &Lease)> {
        self.live.iter().map(|(key, lease)| (*key, lease))
    }

    /// The leases of a client.
    pub(crate) fn of(&self, client: usize) -> impl Iterator<Item = (LeaseId, &Lease)> {
        let first = (client, LeaseId::from_u64(0));
        let last = (client, LeaseId::from_u64(u64::MAX));
        self.live.range(first..=last).map(|((_, id), lease)| (*id, lease))
    }
}
