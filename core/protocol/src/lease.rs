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

/// The lease that a caller asks for: how long, and whether the watchdog renews it.
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
    /// No lease of its own: the client's, auto-renewed.
    pub const CLIENT: Self = Self(Terms::Client);

    /// A fixed lease, which nothing renews.
    ///
    /// # Errors
    /// `InvalidArgument` below 100 ms or above 24 h.
    pub fn fixed(length: Duration) -> Result<Self, Error> {
        Ok(Self(Terms::Fixed(LeaseDuration::fixed(length)?)))
    }

    /// An auto-renewed lease of a length of its own.
    ///
    /// # Errors
    /// `InvalidArgument` below 300 ms or above 24 h.
    pub fn renewed(length: Duration) -> Result<Self, Error> {
        if length < LeaseDuration::MIN_WATCHED.0 {
            // Shorter ones are for fixed leases, so the caller is told what was wrong with this one.
            return Err(out_of_range(&format!(
                "a lease of {length:?} is too short to be renewed; give {:?} to 24 h, or a fixed lease, which is not renewed",
                LeaseDuration::MIN_WATCHED.0
            )));
        }
        Ok(Self(Terms::Renewed(LeaseDuration::watched(length)?)))
    }

    /// The length that was given, if any was.
    #[must_use]
    pub const fn length(self) -> Option<LeaseDuration> {
        match self.0 {
            Terms::Client => None,
            Terms::Fixed(length) | Terms::Renewed(length) => Some(length),
        }
    }

    /// Whether the watchdog renews it.
    #[must_use]
    pub const fn is_renewed(self) -> bool {
        !matches!(self.0, Terms::Fixed(_))
    }
}

fn out_of_range(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message)
}

/// The instant until which a record set by a call sent at `sent` may be relied on.
///
/// Counted from before the request, and shorter than the TTL by 1 % (clocks
/// that run at different rates) and 20 ms (the timer's own lateness), so that
/// the holder stops before the server does.
#[must_use]
pub(crate) fn deadline(sent: Instant, ttl: Duration) -> Instant {
    sent + reliable(ttl)
}

/// For how long a record of this TTL may be relied on, from before the call was sent that set it.
#[must_use]
pub(crate) fn reliable(ttl: Duration) -> Duration {
    let margin = ttl.checked_div(100).unwrap_or_default().saturating_add(LATE_TIMERS);
    ttl.saturating_sub(margin)
}

/// The TTL of which nothing is left when the answer takes so long.
#[must_use]
pub(crate) fn used_up_by(answer: Duration) -> Duration {
    let hundredths = answer.saturating_add(LATE_TIMERS).saturating_mul(100);
    hundredths.checked_div(99).unwrap_or_default()
}

/// How late a timer may be.
const LATE_TIMERS: Duration = Duration::from_millis(20);

/// How long a hold is to last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeasePlan {
    /// The lease.
    pub(crate) length: Duration,
    /// Whether the watchdog renews it.
    pub(crate) renewed: bool,
}

impl LeasePlan {
    /// What a caller asks for, of the client's length where it names none.
    pub(crate) fn of(terms: LeaseTerms, client: LeaseDuration) -> Self {
        Self {
            length: terms.length().unwrap_or(client).get(),
            renewed: terms.is_renewed(),
        }
    }

    /// Whether both are renewed, and this one for at least as long: then the other needs nothing more.
    pub(crate) fn renews_for(&self, other: Self) -> bool {
        self.renewed && other.renewed && self.length >= other.length
    }
}
