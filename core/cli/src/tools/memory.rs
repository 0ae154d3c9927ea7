//! The memory of `steadlock top` about the locks that it has seen. The server forgets after a minute when a lock was
//! granted.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::records::{Listing, Locked};

/// The time since when each lock is held.
#[derive(Debug, Default)]
pub(super) struct Memory {
    since: BTreeMap<Hold, Option<Instant>>,
    has_looked: bool,
}

/// A hold of an exclusive lock: name, kind and owner id.
type Hold = (String, &'static str, String);

impl Memory {
    /// Stores what was found at `now`, and fills in the holding times that earlier listings had.
    pub(super) fn recall(&mut self, listing: &mut Listing, now: Instant) {
        let mut since = BTreeMap::new();
        for lock in &mut listing.locks {
            if !is_exclusive(lock) {
                continue;
            }
            // A fair lock has the same record as a lock, whether or not it has waiters.
            let kind = if lock.kind == "fair_lock" { "lock" } else { lock.kind };
            let hold = (lock.name.clone(), kind, lock.owner.id().to_owned());
            let told = lock.held.and_then(|held| now.checked_sub(held));
            let known = match self.since.get(&hold) {
                Some(known) => known.or(told),
                // The lock was acquired between two listings.
                None if self.has_looked => told.or(Some(now)),
                None => told,
            };
            lock.held = known.map(|since| now.saturating_duration_since(since));
            since.insert(hold, known);
        }
        self.since = since;
        self.has_looked = true;
    }
}

fn is_exclusive(lock: &Locked) -> bool {
    !matches!(lock.kind, "read_lock" | "semaphore")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::records::Owner;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn listing(locks: &[(&str, Option<Duration>)]) -> Listing {
        let lock = |(name, held): &(&str, Option<Duration>)| Locked {
            name: (*name).into(),
            kind: "lock",
            owner: Owner::new("owner"),
            holders: 1,
            limit: None,
            left: None,
            held: *held,
            token: None,
            waiters: None,
            server: "h:1".into(),
            primaries: None,
        };
        Listing {
            locks: locks.iter().map(lock).collect(),
            ..Listing::default()
        }
    }

    fn recalled(memory: &mut Memory, locks: &[(&str, Option<Duration>)], now: Instant) -> Vec<Option<Duration>> {
        let mut listing = listing(locks);
        memory.recall(&mut listing, now);
        listing.locks.into_iter().map(|lock| lock.held).collect()
    }

    #[test]
    fn what_was_told_once_is_known_for_as_long_as_the_lock_is_held() {
        let start = Instant::now() + seconds(1_000);
        let mut memory = Memory::default();
        let first = [("told", Some(seconds(5))), ("old", None)];
        assert_eq!(recalled(&mut memory, &first, start), [Some(seconds(5)), None]);
        let later = [("told", None), ("old", None), ("new", None)];
        let now = start + seconds(60);
        assert_eq!(
            recalled(&mut memory, &later, now),
            [Some(seconds(65)), None, Some(seconds(0))]
        );
        assert_eq!(recalled(&mut memory, &[], now + seconds(1)), []);
        let again = recalled(&mut memory, &[("told", None)], now + seconds(2));
        assert_eq!(again, [Some(seconds(0))], "another hold");
    }
}
