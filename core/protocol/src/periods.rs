//! Periods that several files use.

use std::time::Duration;

/// The shortest time between two attempts of one waiter.
pub(crate) const MIN_GAP: Duration = Duration::from_millis(2);
/// The longest TTL that an attempt sets. A record whose attempt nobody waits for any more lives no longer.
pub(crate) const MAX_ATTEMPT: Duration = Duration::from_secs(30);
/// How long a grant to a waiter in a fair lock's queue lasts. Must equal `PROVISIONAL` in `parts/fair.lua`.
pub(crate) const PROVISIONAL: Duration = Duration::from_secs(3);
/// The longest time by which the wait of a caller is prolonged, for the first answer or for the name of the holder.
pub(crate) const FIRST_ANSWER_GRACE: Duration = Duration::from_millis(40);
