//! How long a hold lasts.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Operation};
use crate::instant::Instant;

/// A lease that the server accepts: 100 ms to 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseDuration(Duration);

impl LeaseDuration {
    /// The client's lease unless it is configured.
    pub const DEFAULT: Self = Self(Duration::from_secs(30));
    /// The shortest lease.
    pub const MIN: Self = Self(Duration::from_millis(100));
    /// The shortest lease that the watchdog renews.
    pub const MIN_WATCHED: Self = Self(Duration::from_millis(300));
    /// The longest lease.
    pub const MAX: Self = Self(Duration::from_secs(24 * 60 * 60));

    /// A fixed lease of `duration`.
    ///
    /// # Errors
    /// `InvalidArgument` below 100 ms or above 24 h.
    pub fn fixed(duration: Duration) -> Result<Self, Error> {
        Self::between(duration, Self::MIN)
    }

    /// A lease that the watchdog renews.
    ///
    /// # Errors
    /// `InvalidArgument` below 300 ms or above 24 h.
    pub fn watched(duration: Duration) -> Result<Self, Error> {
        Self::between(duration, Self::MIN_WATCHED)
    }

    fn between(duration: Duration, min: Self) -> Result<Self, Error> {
        if duration < min.0 || duration > Self::MAX.0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Acquire,
                format!("a lease of {duration:?} is out of range; give {:?} to 24 h", min.0),
            ));
        }
        // The server counts whole milliseconds.
        Ok(Self(Duration::from_millis(
            u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        )))
    }

    /// A length that was one before.
    pub(crate) const fn of(length: Duration) -> Self {
        Self(length)
    }

    /// The lease as a duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The lease in whole milliseconds, as the wire has it.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The instant until which a record set by a call sent at `sent` may be relied on.
///
/// Counted from before the request, and shorter than the TTL by 1 % (clocks
/// that run at different rates) and 20 ms (the timer's own lateness), so that
/// the holder stops before the server does.
#[must_use]
pub(crate) fn deadline(sent: Instant, ttl: Duration) -> Instant {
    let margin = ttl
        .checked_div(100)
        .unwrap_or_default()
        .saturating_add(Duration::from_millis(20));
    sent + ttl.saturating_sub(margin)
}
