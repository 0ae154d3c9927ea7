//! The leases as their holders know them: what was granted, until when a holder may rely on it, and how it ended. The
//! checks compare this with the sessions and the servers.

use std::collections::{BTreeMap, BTreeSet};

use steadlock_protocol::{Grant, Instant, Kind, LeaseId, Token};

use crate::records::Record;
use crate::time::Micros;

/// The client and the id of a lease.
pub(crate) type LeaseKey = (usize, LeaseId);

/// A lock: the number of its name, and its kind.
pub(crate) type Lock = (usize, Kind);

/// A lease that was granted and not released.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    /// The locks of the lease: one lock, or the members of a composite lock.
    pub(crate) locks: Vec<Lock>,
    /// The holds inside which the lease was acquired: for example a write around a read, or a composite lock around one
    /// of its members.
    pub(crate) around: Vec<u64>,
    /// The hold that the lease is a level of.
    pub(crate) hold: u64,
    pub(crate) token: Option<Token>,
    /// The deadline, on the client's clock.
    pub(crate) deadline: Instant,
    pub(crate) lost: bool,
    /// The names that no server granted. For these the lease excludes only other callers of its client.
    pub(crate) local: Vec<usize>,
    /// The length of the auto-renewed lease, if the client renews the hold.
    pub(crate) renewed: Option<Micros>,
}

impl Lease {
    /// Returns whether a request for these locks inside the lease adds a level to its hold. A composite lock is
    /// re-entered with the same members in any order.
    pub(crate) fn is_of(&self, locks: &[Lock]) -> bool {
        match locks {
            [lock] => self.locks.len() == 1 && self.has_lock(*lock),
            several => self.locks.len() == several.len() && several.iter().all(|lock| self.locks.contains(lock)),
        }
    }

    /// Returns whether the lease holds this lock, by itself or as a member.
    pub(crate) fn has_lock(&self, (name, kind): Lock) -> bool {
        let same = |(of, held_as): &Lock| *of == name && Record::of(*held_as) == Record::of(kind);
        self.locks.iter().any(same)
    }

    /// Returns the kind of the lock that the lease holds under a name.
    pub(crate) fn kind_of(&self, name: usize) -> Option<Kind> {
        self.locks.iter().find(|(of, _)| *of == name).map(|(_, kind)| *kind)
    }

    /// Returns whether no server granted this name.
    pub(crate) fn is_local(&self, name: usize) -> bool {
        self.local.contains(&name)
    }

    /// Returns whether one of two leases was acquired inside the other, or both inside a third.
    fn is_inside(&self, other: &Self) -> bool {
        let both = self.around.iter().any(|hold| other.around.contains(hold));
        both || self.around.contains(&other.hold) || other.around.contains(&self.hold)
    }

    /// Returns whether two leases may be valid at the same time even if their kinds exclude each other.
    pub(crate) fn tolerates(&self, other: &Self) -> bool {
        self.hold == other.hold || self.is_inside(other)
    }
}

/// The leases of all clients.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    live: BTreeMap<LeaseKey, Lease>,
    released: BTreeSet<LeaseKey>,
    holds: u64,
    /// The holds that the client renews because of at least one of their levels.
    renewed: BTreeSet<u64>,
}

impl Ledger {
    /// Adds a grant: a new hold, perhaps inside another one, or one more level of a hold. `local` has the names that no
    /// server granted.
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
        // The longest auto-renewed level determines the renewal of all levels, even after its release.
        let renewed = renewed.max(before);
        for ((of, _), other) in &mut self.live {
            if *of == client && other.hold == hold {
                other.renewed = renewed;
            } else if *of == client && around.contains(&other.hold) && other.locks.len() > 1 {
                // A composite lock around a re-entered member is renewed with the longer of the two lengths.
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

    /// Removes a lease that its caller begins to release. Returns the hold if this was its last level.
    pub(crate) fn release(&mut self, client: usize, lease: LeaseId) -> Option<u64> {
        let hold = self.live.remove(&(client, lease))?.hold;
        self.released.insert((client, lease));
        self.of(client).all(|(_, lease)| lease.hold != hold).then_some(hold)
    }

    /// Returns whether the client renews a hold.
    pub(crate) fn is_renewed(&self, hold: u64) -> bool {
        self.renewed.contains(&hold)
    }

    pub(crate) fn was_released(&self, client: usize, lease: LeaseId) -> bool {
        self.released.contains(&(client, lease))
    }

    /// Removes the leases of a client that is gone.
    pub(crate) fn forget(&mut self, client: usize) {
        self.live.retain(|(of, _), _| *of != client);
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = (LeaseKey, &Lease)> {
        self.live.iter().map(|(key, lease)| (*key, lease))
    }

    /// Returns the leases of a client.
    pub(crate) fn of(&self, client: usize) -> impl Iterator<Item = (LeaseId, &Lease)> {
        let first = (client, LeaseId::from_u64(0));
        let last = (client, LeaseId::from_u64(u64::MAX));
        self.live.range(first..=last).map(|((_, id), lease)| (*id, lease))
    }
}
