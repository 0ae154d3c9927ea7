//! Leases: how long a hold lasts.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Operation};
use crate::instant::Instant;

/// The length of a lease that a caller may request: 100 ms to 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseDuration(Duration);

impl LeaseDuration {
    /// The default lease of a client.
    pub const DEFAULT: Self = Self(Duration::from_secs(30));
    /// The shortest lease.
    pub const MIN: Self = Self(Duration::from_millis(100));
    /// The shortest lease that the watchdog renews.
    pub const MIN_AUTO_RENEWED: Self = Self(Duration::from_millis(300));
    /// The length of a leader's term whose request names none.
    pub const TERM: Self = Self(Duration::from_secs(10));
    /// The longest lease.
    pub const MAX: Self = Self(Duration::from_secs(24 * 60 * 60));

    /// Makes a fixed lease of `duration`, in whole milliseconds.
    ///
    /// # Errors
    /// `InvalidArgument` below 100 ms or above 24 h.
    pub fn fixed(duration: Duration) -> Result<Self, Error> {
        Self::between(duration, Self::MIN)
    }

    /// Makes an auto-renewed lease, in whole milliseconds.
    ///
    /// # Errors
    /// `InvalidArgument` below 300 ms or above 24 h.
    pub fn auto_renewed(duration: Duration) -> Result<Self, Error> {
        Self::between(duration, Self::MIN_AUTO_RENEWED)
    }

    fn between(duration: Duration, min: Self) -> Result<Self, Error> {
        if duration < min.0 || duration > Self::MAX.0 {
            return Err(out_of_range(&format!(
                "a lease of {duration:?} is out of range; give {:?} to 24 h",
                min.0
            )));
        }
        // The server counts whole milliseconds.
        Ok(Self(Duration::from_millis(
            u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        )))
    }

    /// Returns the lease as a duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// Returns the lease in whole milliseconds, as on the wire.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The lease that a caller requests: its length, and whether the watchdog renews it.
///
/// ```
/// use steadlock_protocol::LeaseTerms;
/// use std::time::Duration;
///
/// assert!(LeaseTerms::fixed(Duration::from_millis(200)).is_ok());
/// assert!(LeaseTerms::renewed(Duration::from_millis(200)).is_err());
/// assert_eq!(LeaseTerms::default(), LeaseTerms::CLIENT);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseTerms(Terms);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Terms {
    #[default]
    Client,
    Fixed(LeaseDuration),
    Renewed(LeaseDuration),
}

impl LeaseTerms {
    /// An auto-renewed lease of the client's length.
    pub const CLIENT: Self = Self(Terms::Client);

    /// Makes a fixed lease, which nothing renews.
    ///
    /// # Errors
    /// `InvalidArgument` below 100 ms or above 24 h.
    pub fn fixed(length: Duration) -> Result<Self, Error> {
        Ok(Self(Terms::Fixed(LeaseDuration::fixed(length)?)))
    }

    /// Makes an auto-renewed lease with a length of its own.
    ///
    /// # Errors
    /// `InvalidArgument` below 300 ms or above 24 h.
    pub fn renewed(length: Duration) -> Result<Self, Error> {
        if length < LeaseDuration::MIN_AUTO_RENEWED.0 {
            // A fixed lease may be shorter than this (from 100 ms), so the message says that only a renewed one must be
            // longer.
            return Err(out_of_range(&format!(
                "a lease of {length:?} is too short to be renewed; give {:?} to 24 h, or a fixed lease, which is not renewed",
                LeaseDuration::MIN_AUTO_RENEWED.0
            )));
        }
        Ok(Self(Terms::Renewed(LeaseDuration::auto_renewed(length)?)))
    }

    /// Returns the length, if the lease has one of its own.
    #[must_use]
    pub const fn length(self) -> Option<LeaseDuration> {
        match self.0 {
            Terms::Client => None,
            Terms::Fixed(length) | Terms::Renewed(length) => Some(length),
        }
    }

    /// Whether the watchdog renews the lease.
    #[must_use]
    pub const fn is_renewed(self) -> bool {
        !matches!(self.0, Terms::Fixed(_))
    }
}

fn out_of_range(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message)
}

/// Returns the instant until which the holder may rely on a record that a call sent at `sent` has set.
///
/// The time counts from before the call was sent. It is shorter than the TTL by 1 % (for clocks that run at different
/// rates) and by 20 ms (for late timers), so that the holder stops before the server removes the record.
#[must_use]
pub(crate) fn deadline(sent: Instant, ttl: Duration) -> Instant {
    sent + reliable(ttl)
}

/// Returns how long the holder may rely on a record of this TTL, counted from before the call that set it was sent.
#[must_use]
pub(crate) fn reliable(ttl: Duration) -> Duration {
    let margin = ttl.checked_div(100).unwrap_or_default().saturating_add(LATE_TIMERS);
    ttl.saturating_sub(margin)
}

/// Returns the TTL whose `reliable` time is this long. If the answer takes this long, a grant with no longer TTL is
/// unusable when it arrives.
#[must_use]
pub(crate) fn used_up_by(answer: Duration) -> Duration {
    let hundredths = answer.saturating_add(LATE_TIMERS).saturating_mul(100);
    hundredths.checked_div(99).unwrap_or_default()
}

/// How late a timer may fire.
const LATE_TIMERS: Duration = Duration::from_millis(20);

/// The length of the lease of a hold, and whether the lease is renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeasePlan {
    /// The length of the lease.
    pub(crate) length: Duration,
    /// Whether the watchdog renews the lease.
    pub(crate) renewed: bool,
}

impl LeasePlan {
    /// Returns the plan for these terms, with the client's length if the terms have none.
    pub(crate) fn of(terms: LeaseTerms, client: LeaseDuration) -> Self {
        Self {
            length: terms.length().unwrap_or(client).get(),
            renewed: terms.is_renewed(),
        }
    }

    /// Whether both plans are renewed, and this one is at least as long as the other. The renewals of this plan are
    /// then enough for both.
    pub(crate) fn renews_for(&self, other: Self) -> bool {
        self.renewed && other.renewed && self.length >= other.length
    }
}
