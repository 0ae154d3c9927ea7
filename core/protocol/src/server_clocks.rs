//! The clocks of servers, as far as their grants tell them: a new token is the clock of the server that drew it, unless
//! an earlier one was higher.
//!
//! Where another server takes over whose clock is ahead, the records that it took over end early. A client has no
//! connection to the one before any more, but it knows when that one's last token came.

use std::time::Duration;

use crate::ids::NodeId;
use crate::instant::Instant;
use crate::lease::{LeaseDuration, reliable};
use crate::sorted::SortedMap;
use crate::token::Token;

/// A server, or a slot of a cluster, which another server may take over.
type Place = (NodeId, Option<u16>);

/// The last token of each place.
#[derive(Debug, Default)]
pub(crate) struct ServerClocks(SortedMap<Place, Seen>);

/// The last token of a place.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// By how many microseconds the server's clock was ahead of ours, at the most.
    most: i64,
    at: Instant,
}

impl ServerClocks {
    /// A token came of a call that was sent at `sent`. Gives how far the clock is ahead of what the tokens before
    /// showed, at the least, if that may end a record of this lease before its holder's deadline.
    pub(crate) fn told(
        &mut self,
        place: Place,
        token: Token,
        (sent, now): (Instant, Instant),
        lease: LeaseDuration,
    ) -> Option<Duration> {
        let ahead_of = |ours: Instant| micros_of(token.get()).saturating_sub(micros_of(ours.as_micros()));
        let (most, at) = (ahead_of(sent), now);
        let before = self.0.insert(place, Seen { most, at })?;
        let step = u64::try_from(ahead_of(now).saturating_sub(before.most)).ok()?;
        // The two clocks may run unevenly meanwhile.
        let drift = now.saturating_since(before.at).checked_div(100).unwrap_or_default();
        let margin = lease.get().saturating_sub(reliable(lease.get())).saturating_add(drift);
        Some(Duration::from_micros(step)).filter(|step| *step > margin)
    }
}

/// A clock's time with a sign: no clock gets as far as the largest.
fn micros_of(clock: u64) -> i64 {
    i64::try_from(clock).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (NodeId(0), None);
    /// The time on a server's clock when ours begins.
    const AHEAD: u64 = 1_795_000_000_000_000;

    /// The calls that were sent at such times, in milliseconds, took so long, and were answered by a clock that was so
    /// far ahead of that of the first; and what is told of each.
    fn told(calls: &[(u64, u64, i64)]) -> Vec<Option<Duration>> {
        let mut clocks = ServerClocks::default();
        let lease = LeaseDuration::DEFAULT;
        let mut answers = Vec::new();
        for &(sent, took, step) in calls {
            let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
            let (begun, ended) = (at(sent), at(sent) + Duration::from_millis(took));
            let run = begun + Duration::from_millis(took.div_euclid(2));
            let clock = AHEAD.saturating_add(run.as_micros());
            let token = clock.saturating_add_signed(step.saturating_mul(1_000));
            let token = Token::parse(token.to_string().as_bytes()).unwrap();
            answers.push(clocks.told(PLACE, token, (begun, ended), lease));
        }
        answers
    }

    fn ms(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn a_clock_that_is_ahead_of_the_one_before_is_told_once() {
        assert_eq!(
            told(&[(0, 2, 0), (1_000, 2, 1_000), (2_000, 2, 1_000)]),
            [None, ms(998), None]
        );
        // The margin of 30 s is 320 ms, and 10 ms for the second between the two.
        assert_eq!(told(&[(0, 0, 0), (1_000, 0, 330)]), [None, None]);
        assert_eq!(told(&[(0, 0, 0), (1_000, 0, 331)]), [None, ms(331)]);
    }

    #[test]
    fn what_may_be_the_time_of_the_calls_or_of_uneven_clocks_is_not_told() {
        assert_eq!(told(&[(0, 800, 0), (1_000, 800, 1_000)]), [None, None]);
        assert_eq!(told(&[(0, 2, 0), (200_000, 2, 2_000)]), [None, None]);
        assert_eq!(told(&[(0, 2, 0), (200_000, 2, 2_400)]), [None, ms(2_398)]);
    }

    #[test]
    fn a_clock_that_is_behind_is_not_told() {
        assert_eq!(told(&[(0, 2, 0), (1_000, 2, -5_000), (2_000, 2, -5_000)]), [None; 3]);
        // It is as far ahead again as it was.
        assert_eq!(told(&[(0, 2, 0), (1_000, 2, -500), (2_000, 2, 0)])[2], ms(498));
    }

    #[test]
    fn each_slot_of_a_cluster_has_its_own() {
        let mut clocks = ServerClocks::default();
        let lease = LeaseDuration::DEFAULT;
        let now = (Instant::ZERO, Instant::ZERO);
        let token = |number: u64| Token::parse(number.to_string().as_bytes()).unwrap();
        assert_eq!(clocks.told((NodeId(0), Some(1)), token(0), now, lease), None);
        assert_eq!(clocks.told((NodeId(0), Some(2)), token(9_000_000), now, lease), None);
        assert_eq!(
            clocks.told((NodeId(0), Some(1)), token(9_000_000), now, lease),
            Some(Duration::from_secs(9))
        );
    }
}
