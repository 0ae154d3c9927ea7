//! A point in time that the driver supplies.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Microseconds since an origin that the driver chose and keeps.
///
/// `std::time::Instant` cannot be made on wasm32, and can stop while the machine sleeps. A driver therefore reads a
/// clock that also counts while the machine is suspended, and passes the count in. The count never decreases, and can
/// jump forward after a pause. Arithmetic saturates: it never panics or wraps.
///
/// The field is one more than the count, so that an `Option<Instant>` needs no extra memory: a client may have many
/// leases, and each has several instants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(NonZeroU64::MIN);
    /// An instant that never comes.
    pub const FAR_FUTURE: Self = Self(NonZeroU64::MAX);

    /// Returns the instant `micros` microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(micros))
    }

    /// Returns the microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0.get().saturating_sub(1)
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self::from_micros(self.as_micros().saturating_sub(micros(duration)))
    }
}

/// Returns a duration in microseconds, limited to the largest number.
pub(crate) fn micros(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000);
    whole.saturating_add(u64::from(duration.subsec_micros()))
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({})", self.as_micros())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} µs", self.as_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_what_it_was_made_of_and_saturates_at_both_ends() {
        for micros in [0, 1, 1_000_000, u64::MAX - 1] {
            let at = Instant::from_micros(micros);
            assert_eq!(at.as_micros(), micros);
            assert_eq!(
                (at.to_string(), format!("{at:?}")),
                (format!("{micros} µs"), format!("Instant({micros})"))
            );
        }
        let hour = Duration::from_secs(3_600);
        assert_eq!(Instant::from_micros(u64::MAX), Instant::FAR_FUTURE);
        assert_eq!(Instant::FAR_FUTURE + hour, Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - hour, Instant::ZERO);
        assert_eq!((Instant::ZERO + hour).saturating_since(Instant::ZERO), hour);
        assert_eq!(Instant::ZERO.saturating_since(Instant::ZERO + hour), Duration::ZERO);
        assert_eq!(size_of::<Option<Instant>>(), size_of::<Instant>());
    }
}
