//! The clocks of servers, as far as fencing tokens show them. A new token is the time of the server that drew it,
//! unless an earlier token was higher.
//!
//! If another server takes over and its clock is ahead, its copies of the records end early. The client has no
//! connection to the former server any more, but knows the last token of that server and when that token arrived.

use std::time::Duration;

use steadlock_collections::SortedMap;

use crate::ids::NodeId;
use crate::instant::Instant;
use crate::lease::{LeaseDuration, reliable};
use crate::token::Token;

/// The place of a lock: a node, or a slot of a cluster. Another server can take over either.
type Place = (NodeId, Option<u16>);

/// The last token of each place.
#[derive(Debug, Default)]
pub(crate) struct ServerClocks(SortedMap<Place, Seen>);

/// The last token of a place.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// How far the server's clock was ahead of this client's clock, at the most, in µs.
    most: i64,
    at: Instant,
}

impl ServerClocks {
    /// Notes the token of a call that was sent at `sent`. Returns how far the server's clock has jumped ahead since the
    /// last token, at the least; `None` for the first token, or if the jump cannot end a record of this lease before
    /// its holder's deadline.
    pub(crate) fn note_token(
        &mut self,
        place: Place,
        token: Token,
        lease: LeaseDuration,
        sent: Instant,
        now: Instant,
    ) -> Option<Duration> {
        let ahead_of = |ours: Instant| micros_of(token.get()).saturating_sub(micros_of(ours.as_micros()));
        let (most, at) = (ahead_of(sent), now);
        let before = self.0.insert(place, Seen { most, at })?;
        let step = u64::try_from(ahead_of(now).saturating_sub(before.most)).ok()?;
        // The rates of the two clocks may differ by up to 1 %.
        let drift = now.saturating_since(before.at).checked_div(100).unwrap_or_default();
        let margin = lease.get().saturating_sub(reliable(lease.get())).saturating_add(drift);
        Some(Duration::from_micros(step)).filter(|step| *step > margin)
    }
}

/// Returns a clock's time as a signed number. No real clock reaches the maximum.
fn micros_of(clock: u64) -> i64 {
    i64::try_from(clock).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (NodeId(0), None);
    /// The time of the server's clock when the client's clock is zero, in µs.
    const AHEAD: u64 = 1_795_000_000_000_000;

    /// Notes the tokens of these calls. For each call: when it was sent and how long it took, and how far the server's
    /// clock had moved ahead since the first call, all in ms. Returns the report for each call.
    fn reported_steps(calls: &[(u64, u64, i64)]) -> Vec<Option<Duration>> {
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
            answers.push(clocks.note_token(PLACE, token, lease, begun, ended));
        }
        answers
    }

    fn ms(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn a_clock_that_is_ahead_of_the_one_before_is_reported_once() {
        assert_eq!(
            reported_steps(&[(0, 2, 0), (1_000, 2, 1_000), (2_000, 2, 1_000)]),
            [None, ms(998), None]
        );
        // The margin of a lease of 30 s is 320 ms, and the drift in the second between the calls is 10 ms.
        assert_eq!(reported_steps(&[(0, 0, 0), (1_000, 0, 330)]), [None, None]);
        assert_eq!(reported_steps(&[(0, 0, 0), (1_000, 0, 331)]), [None, ms(331)]);
    }

    #[test]
    fn a_step_within_the_time_of_the_calls_or_the_drift_is_not_reported() {
        assert_eq!(reported_steps(&[(0, 800, 0), (1_000, 800, 1_000)]), [None, None]);
        assert_eq!(reported_steps(&[(0, 2, 0), (200_000, 2, 2_000)]), [None, None]);
        assert_eq!(reported_steps(&[(0, 2, 0), (200_000, 2, 2_400)]), [None, ms(2_398)]);
    }

    #[test]
    fn a_clock_that_is_behind_is_not_reported() {
        assert_eq!(
            reported_steps(&[(0, 2, 0), (1_000, 2, -5_000), (2_000, 2, -5_000)]),
            [None; 3]
        );
        // The third clock is as far ahead as the first, but ahead of the second.
        assert_eq!(
            reported_steps(&[(0, 2, 0), (1_000, 2, -500), (2_000, 2, 0)])[2],
            ms(498)
        );
    }

    #[test]
    fn each_slot_of_a_cluster_has_a_clock_of_its_own() {
        let mut clocks = ServerClocks::default();
        let lease = LeaseDuration::DEFAULT;
        let now = Instant::ZERO;
        let token = |number: u64| Token::parse(number.to_string().as_bytes()).unwrap();
        assert_eq!(clocks.note_token((NodeId(0), Some(1)), token(0), lease, now, now), None);
        assert_eq!(
            clocks.note_token((NodeId(0), Some(2)), token(9_000_000), lease, now, now),
            None
        );
        assert_eq!(
            clocks.note_token((NodeId(0), Some(1)), token(9_000_000), lease, now, now),
            Some(Duration::from_secs(9))
        );
    }
}
