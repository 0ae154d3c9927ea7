//! Periods that several rules count with.

use std::time::Duration;

/// The shortest time between two attempts of one waiter.
pub(crate) const MIN_GAP: Duration = Duration::from_millis(2);
/// The longest TTL that an attempt sets; an orphan lives no longer.
pub(crate) const MAX_ATTEMPT: Duration = Duration::from_secs(30);
/// How long a fair lock's grant lasts that the server made of its own accord.
pub(crate) const PROVISIONAL: Duration = Duration::from_secs(3);
/// How much longer than its wait a caller is kept while the first answer is due, or the name of the holder.
pub(crate) const FIRST_ANSWER_GRACE: Duration = Duration::from_millis(40);
