//! Measures the round trip to a server, and the difference between the server's clock and this machine's.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use steadlock::admin::{Reply, Server};

use super::asking::{fact, no_answer_reason, number};
use crate::doctor::facts::{Clock, Fact, RoundTrip};

/// The number of round trips that are measured.
const SAMPLES: usize = 21;

/// Asks the server for its time, [`SAMPLES`] times. The shortest round trip gives the most exact difference of the
/// clocks.
pub(super) async fn measure(server: &mut Server) -> (Fact<Clock>, Fact<RoundTrip>) {
    let mut trips: Vec<Duration> = Vec::new();
    let mut best: Option<(Duration, Clock)> = None;
    let mut unknown = "TIME is answered by no time".to_owned();
    for _ in 0..SAMPLES {
        let before = unix_micros();
        let sent = Instant::now();
        let answer = match server.ask(&["TIME"]).await {
            Ok(answer) => answer,
            Err(error) => {
                let why = no_answer_reason(&error);
                return (Fact::Unknown(why.clone()), Fact::Unknown(why));
            }
        };
        let trip = sent.elapsed();
        trips.push(trip);
        match fact(answer, &["TIME"]) {
            Fact::Unknown(why) => unknown = why,
            Fact::Known(reply) => {
                if let Some(server_time) = micros(&reply)
                    && best.is_none_or(|(shortest, _)| trip < shortest)
                {
                    best = Some((trip, clock_difference(server_time, before, trip)));
                }
            }
        }
    }
    trips.sort_unstable();
    let trips = RoundTrip {
        median: trips[trips.len() / 2],
        worst: trips[trips.len() - 1],
    };
    let clock = best.map_or(Fact::Unknown(unknown), |(_, clock)| Fact::Known(clock));
    (clock, Fact::Known(trips))
}

/// Returns the difference of the clocks. The server read its clock at some time between `before` and the end of the
/// round trip. The middle is taken as that time, so half of the trip is the possible error.
fn clock_difference(server_time: i64, before: i64, trip: Duration) -> Clock {
    let half = i64::try_from(trip.as_micros() / 2).unwrap_or(i64::MAX);
    Clock {
        ahead: server_time.saturating_sub(before.saturating_add(half)),
        uncertainty: half,
    }
}

/// Returns the time in a reply to TIME, in microseconds since 1970.
fn micros(reply: &Reply) -> Option<i64> {
    let Reply::Array(parts) = reply else { return None };
    let seconds = number(parts.first()?)?;
    seconds.checked_mul(1_000_000)?.checked_add(number(parts.get(1)?)?)
}

fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_round_trip() {
        let clock = clock_difference(10_002_000, 10_000_000, Duration::from_millis(4));
        assert_eq!(
            clock,
            Clock {
                ahead: 0,
                uncertainty: 2_000
            }
        );
        let behind = clock_difference(7_002_000, 10_000_000, Duration::from_millis(4));
        assert_eq!(behind.ahead, -3_000_000);
    }

    #[test]
    fn a_time_is_seconds_and_microseconds() {
        let reply = Reply::Array(vec![Reply::Bytes(b"12".to_vec()), Reply::Bytes(b"345".to_vec())]);
        assert_eq!(micros(&reply), Some(12_000_345));
        assert_eq!(micros(&Reply::Nil), None);
    }
}
