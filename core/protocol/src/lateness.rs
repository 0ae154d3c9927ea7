//! Grants that come too late: when callers stop asking, and the errors that they get.
//!
//! A lease counts from before its call was sent. If the answer takes nearly as long as the lease, nothing usable of the
//! lease is left, and the client releases the lock. One late answer may be an accident, so the caller asks again.
//! Several in a row show that the lease is too short for the network, and that the caller would ask forever.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::Cause;
use crate::instant::micros;
use crate::lease::{reliable, used_up_by};
use crate::periods::MAX_ATTEMPT;
use crate::wording::brief;

/// After this many late grants in a row, callers whose wait has no bound stop asking.
const MOST: u32 = 5;
/// The bounds of the random pause after the second late grant in a row. The pause doubles with each that follows.
const PAUSE: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_millis(100);
/// The maximum number of doublings.
const MOST_DOUBLINGS: u32 = 4;

/// The number of late grants in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness(u32);

impl Lateness {
    /// Counts one more late grant.
    pub(crate) const fn again(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// Resets the number, because the answers are fast enough for a grant.
    pub(crate) const fn over(&mut self) {
        self.0 = 0;
    }

    /// Whether the last grant came too late.
    pub(crate) const fn is_any(self) -> bool {
        self.0 > 0
    }

    /// Whether more attempts would be useless.
    pub(crate) const fn is_lasting(self) -> bool {
        self.0 >= MOST
    }

    /// Returns the bounds of the pause before the next attempt; `None` to ask at once.
    pub(crate) fn pause(self) -> Option<RangeInclusive<Duration>> {
        let doublings = self.0.checked_sub(2)?.min(MOST_DOUBLINGS);
        let times = |pause: Duration| pause.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(1));
        let (shortest, longest) = PAUSE.into_inner();
        Some(times(shortest)..=times(longest))
    }
}

/// A grant of which nothing is left when its answer arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateGrant {
    /// The time that the answer took.
    pub(crate) took: Duration,
    /// The TTL that the attempt asked for.
    pub(crate) ttl: Duration,
    /// Whether the caller wanted a longer lease, but `max_hold` limits it.
    pub(crate) is_cut: bool,
}

impl LateGrant {
    /// Returns the cause for the error of the caller.
    pub(crate) fn cause(self) -> Cause {
        let (took, usable) = (whole_millis(self.took), reliable(self.ttl));
        let cause = Cause::new(format!(
            "it was granted too late to be relied on: the answer took {took:?}, and a lease of {} may be relied on for {}",
            brief(self.ttl),
            brief(usable)
        ));
        let least = whole_millis(used_up_by(took));
        cause.with_advice(match least {
            // An attempt asks for at most `MAX_ATTEMPT`, so a longer lease would not help.
            least if least >= MAX_ATTEMPT => "the server has to answer sooner".into(),
            least if self.is_cut => format!("max_hold must be longer than {least:?}"),
            least => format!("the lease must be longer than {least:?}"),
        })
    }
}

/// Rounds a time up to whole milliseconds.
pub(crate) fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(micros(time).div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_second_late_grant_in_a_row_is_the_first_with_a_pause() {
        let mut lateness = Lateness::default();
        let pauses = (0..8).map(|_| {
            lateness.again();
            lateness.pause().map(|pause| pause.start().as_millis())
        });
        let expected = [
            None,
            Some(50),
            Some(100),
            Some(200),
            Some(400),
            Some(800),
            Some(800),
            Some(800),
        ];
        assert!(pauses.eq(expected));
        assert!(lateness.is_lasting());
        lateness.over();
        assert!(!lateness.is_lasting());
        assert_eq!(lateness.pause(), None);
    }

    #[test]
    fn a_lease_as_long_as_the_message_says_is_long_enough() {
        for answer in [1, 79, 101, 999, 29_000] {
            let least = whole_millis(used_up_by(ms(answer)));
            assert!(reliable(least + ms(1)) > ms(answer), "{answer} ms: {least:?}");
            assert!(
                reliable(least.saturating_sub(ms(2))) <= ms(answer),
                "{answer} ms: {least:?}"
            );
        }
    }

    #[test]
    fn the_message_has_the_times_and_what_to_change() {
        let message = |took, ttl, is_cut| {
            let (took, ttl) = (ms(took), ms(ttl));
            LateGrant { took, ttl, is_cut }.cause().to_string()
        };
        assert_eq!(
            message(101, 100, false),
            "it was granted too late to be relied on: the answer took 101ms, and a lease of 100ms may be relied on \
             for 79ms; the lease must be longer than 123ms"
        );
        assert!(message(101, 100, true).ends_with("max_hold must be longer than 123ms"));
        assert!(message(31_000, 30_000, false).ends_with("the server has to answer sooner"));
    }
}
