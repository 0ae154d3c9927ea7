//! The server's time, which the store takes as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The server's time: microseconds since 1970-01-01 UTC, as `TIME` reports it.
///
/// As in Redis, expiry has a resolution of whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTime(u64);

impl ServerTime {
    /// Creates a time from microseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns whole milliseconds, the unit of expiry.
    pub(crate) const fn as_millis(self) -> i64 {
        // A u64 of microseconds, divided by 1,000, always fits.
        (self.0 / 1_000).cast_signed()
    }
}

/// A clock that starts at the wall clock's time and never goes back or jumps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    wall: Duration,
    anchor: Instant,
}

impl ServerClock {
    pub(crate) fn start() -> Self {
        Self {
            wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            anchor: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> ServerTime {
        let micros = (self.wall + self.anchor.elapsed()).as_micros();
        ServerTime::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}
