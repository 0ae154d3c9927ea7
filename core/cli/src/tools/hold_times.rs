//! Remembers for `steadlock top` when each exclusive lock was acquired, because the server remembers this only for a
//! minute.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::records::{Listing, Locked};

/// The times at which exclusive locks were acquired; `None` for a time that is not known.
#[derive(Debug, Default)]
pub(super) struct HoldTimes {
    since: BTreeMap<Hold, Option<Instant>>,
    has_listing: bool,
}

/// A hold of an exclusive lock: name, kind and owner id.
type Hold = (String, &'static str, String);

impl HoldTimes {
    /// Stores when the exclusive locks of a listing were acquired, and fills in the times that are known from earlier
    /// listings.
    pub(super) fn fill_in(&mut self, listing: &mut Listing, now: Instant) {
        let mut since = BTreeMap::new();
        for lock in &mut listing.locks {
            if !is_exclusive(lock) {
                continue;
            }
            // A fair lock has the same record as a lock, whether or not it has waiters.
            let kind = if lock.kind == "fair_lock" { "lock" } else { lock.kind };
            let hold = (lock.name.clone(), kind, lock.owner.id().to_owned());
            let reported = lock.held.and_then(|held| now.checked_sub(held));
            let known = match self.since.get(&hold) {
                Some(known) => known.or(reported),
                // The lock was acquired between two listings.
                None if self.has_listing => reported.or(Some(now)),
                None => reported,
            };
            lock.held = known.map(|since| now.saturating_duration_since(since));
            since.insert(hold, known);
        }
        self.since = since;
        self.has_listing = true;
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

    fn filled_in(
        hold_times: &mut HoldTimes,
        locks: &[(&str, Option<Duration>)],
        now: Instant,
    ) -> Vec<Option<Duration>> {
        let mut listing = listing(locks);
        hold_times.fill_in(&mut listing, now);
        listing.locks.into_iter().map(|lock| lock.held).collect()
    }

    #[test]
    fn a_reported_hold_time_is_kept_for_as_long_as_the_lock_is_held() {
        let start = Instant::now() + seconds(1_000);
        let mut hold_times = HoldTimes::default();
        let first = [("reported", Some(seconds(5))), ("old", None)];
        assert_eq!(filled_in(&mut hold_times, &first, start), [Some(seconds(5)), None]);
        let later = [("reported", None), ("old", None), ("new", None)];
        let now = start + seconds(60);
        assert_eq!(
            filled_in(&mut hold_times, &later, now),
            [Some(seconds(65)), None, Some(seconds(0))]
        );
        assert_eq!(filled_in(&mut hold_times, &[], now + seconds(1)), []);
        let again = filled_in(&mut hold_times, &[("reported", None)], now + seconds(2));
        assert_eq!(again, [Some(seconds(0))], "another hold");
    }
}
