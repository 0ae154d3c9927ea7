//! The reconnection after a lost connection: the pause before an attempt, and the time limit of an attempt.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadlock_protocol::{Instant, brief};

use super::failure::Failure;
use crate::sleep::{sleep, timeout_at};
use crate::world::World;

/// A connection that lived at least this long was good: the count of failures begins again.
const GOOD_LIFETIME: Duration = Duration::from_secs(1);
/// The longest pause before each of the first two attempts after a good connection. It doubles with every further
/// attempt.
const BACK_OFF: Duration = Duration::from_millis(50);
/// The limit of the pause, for most servers.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The smallest limit that a lease can set for an attempt: a TLS handshake over a slow network can take this long.
const SHORTEST_LIMIT: Duration = Duration::from_millis(500);

/// The time since when a connection is missing, and the number of failures.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
    /// The number of failures since the last good connection.
    failures: u32,
}

/// The limits on the time of an attempt.
#[derive(Debug)]
pub(super) struct AttemptLimits {
    connect_timeout: Duration,
    /// The lease of the client's settings.
    lease: Duration,
    /// The length of the shortest auto-renewed lease, in microseconds.
    shortest_lease: AtomicU64,
}

impl Outage {
    /// Notes the loss of a connection that was open since `opened`.
    pub(super) fn began(&mut self, opened: Instant, now: Instant) {
        if now >= opened + GOOD_LIFETIME {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.since = Some(now);
    }

    /// Notes a failed attempt.
    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.since.get_or_insert(now);
    }

    /// Notes that the server has moved. The next attempt counts as the first after a good connection.
    pub(super) const fn moved(&mut self) {
        self.failures = 1;
    }

    /// Returns the pause before the next attempt, at most `longest`. Even the first pause is random, so that many
    /// clients that lost the same server do not reconnect at the same moment.
    pub(super) fn pause(&self, world: &World, longest: Duration) -> Duration {
        let Some(failures) = self.failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let Some(doublings) = failures.checked_sub(1) else {
            return random_up_to(world, BACK_OFF);
        };
        let longest = BACK_OFF.saturating_mul(1 << doublings.min(10)).min(longest);
        longest / 2 + random_up_to(world, longest / 2)
    }
}

impl AttemptLimits {
    pub(super) fn new(connect_timeout: Duration, lease: Duration) -> Self {
        Self {
            connect_timeout,
            lease,
            shortest_lease: AtomicU64::new(micros(lease)),
        }
    }

    /// Sets the length of the shortest auto-renewed lease among those whose length is not the client's; `None` if there
    /// are none.
    pub(super) fn set_shortest_lease(&self, lease: Option<Duration>) {
        let shortest = lease.map_or(self.lease, |lease| lease.min(self.lease));
        self.shortest_lease.store(micros(shortest), Ordering::Relaxed);
    }

    /// Returns the time limit of one attempt. While an auto-renewed lease may still be held, the limit is a third of
    /// its length, but at least half a second: a later attempt can then still save the lease. The connect timeout is
    /// the limit in all other cases, and never exceeded.
    pub(super) fn limit(&self, outage: &Outage, now: Instant) -> Duration {
        let shortest = Duration::from_micros(self.shortest_lease.load(Ordering::Relaxed));
        let may_be_held = |lease: &Duration| outage.since.is_some_and(|since| now < since + *lease);
        let lease = [shortest, self.lease].into_iter().find(may_be_held);
        lease.map_or(self.connect_timeout, |lease| {
            self.connect_timeout.min((lease / 3).max(SHORTEST_LIMIT))
        })
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// The end of an attempt's time.
pub(super) struct Deadline {
    at: tokio::time::Instant,
    limit: Duration,
}

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self {
            at: tokio::time::Instant::now() + limit,
            limit,
        }
    }

    /// Returns the moment that is this long before the end.
    pub(super) fn before_end(&self, time: Duration) -> tokio::time::Instant {
        self.at.checked_sub(time).unwrap_or(self.at)
    }

    /// Waits for a step of the attempt until the time is up.
    pub(super) async fn wait<T>(&self, step: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let timeout_error = |limit| Failure::unavailable(format!("no answer within {}", brief(limit)));
        self.wait_or(step, timeout_error).await
    }

    /// Waits for a step of the attempt until the time is up. `timeout_error` gives the failure in that case.
    pub(super) async fn wait_or<T>(
        &self,
        step: impl Future<Output = Result<T, Failure>>,
        timeout_error: impl FnOnce(Duration) -> Failure,
    ) -> Result<T, Failure> {
        let result = timeout_at(self.at, step).await;
        result.unwrap_or_else(|| Err(timeout_error(self.limit)))
    }
}

/// Returns a random time of at most `longest`.
pub(super) fn random_up_to(world: &World, longest: Duration) -> Duration {
    Duration::from_micros(world.below(micros(longest).saturating_add(1)))
}

pub(super) async fn wait(pause: Duration) {
    // The first connection must not wait for a tick of the timer.
    if !pause.is_zero() {
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn clients_that_lost_one_server_reconnect_at_different_times() {
        assert_eq!(
            Outage::default().pause(&World::default(), LONGEST_PAUSE),
            Duration::ZERO,
            "no connection was lost yet"
        );
        let pauses: Vec<Duration> = (0..200)
            .map(|_| {
                let mut outage = Outage::default();
                outage.began(at(0), at(60_000));
                outage.pause(&World::default(), LONGEST_PAUSE)
            })
            .collect();
        let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*most <= BACK_OFF, "{most:?}");
        assert!(*most - *least > BACK_OFF / 2, "{least:?} to {most:?}");
    }

    #[test]
    fn the_pause_grows_with_each_failure_up_to_a_second() {
        let mut outage = Outage::default();
        outage.began(at(0), at(60_000));
        for (least, most) in [
            (25, 50),
            (50, 100),
            (100, 200),
            (200, 400),
            (400, 800),
            (500, 1_000),
            (500, 1_000),
        ] {
            outage.failed(at(60_000));
            let pause = outage.pause(&World::default(), LONGEST_PAUSE);
            let range = Duration::from_millis(least)..=Duration::from_millis(most);
            assert!(range.contains(&pause), "{pause:?} is not in {range:?}");
        }
        // A connection that closes at once was not good.
        outage.began(at(61_000), at(61_900));
        assert!(outage.pause(&World::default(), LONGEST_PAUSE) >= Duration::from_millis(500));
        outage.began(at(70_000), at(71_000));
        assert!(outage.pause(&World::default(), LONGEST_PAUSE) <= BACK_OFF);
    }

    #[test]
    fn no_attempt_takes_longer_than_a_third_of_a_lease_that_may_still_be_held() {
        let limits = |millis| AttemptLimits::new(Duration::from_secs(5), Duration::from_millis(millis));
        let mut outage = Outage::default();
        assert_eq!(
            limits(3_000).limit(&outage, at(0)),
            Duration::from_secs(5),
            "the first attempt"
        );
        outage.began(at(0), at(60_000));
        outage.failed(at(61_000));
        assert_eq!(limits(3_000).limit(&outage, at(62_999)), Duration::from_secs(1));
        assert_eq!(
            limits(3_000).limit(&outage, at(63_000)),
            Duration::from_secs(5),
            "the lease has expired"
        );
        assert_eq!(limits(30_000).limit(&outage, at(62_999)), Duration::from_secs(5));
        let short = limits(900).limit(&outage, at(60_500));
        assert_eq!(short, SHORTEST_LIMIT, "a handshake can take this long");
    }

    #[test]
    fn a_lock_with_a_shorter_lease_than_the_clients_shortens_the_attempts() {
        let limits = AttemptLimits::new(Duration::from_secs(5), Duration::from_secs(30));
        limits.set_shortest_lease(Some(Duration::from_secs(3)));
        let mut outage = Outage::default();
        outage.began(at(0), at(60_000));
        assert_eq!(limits.limit(&outage, at(62_999)), Duration::from_secs(1));
        let later = limits.limit(&outage, at(63_000));
        assert_eq!(
            later,
            Duration::from_secs(5),
            "the short lease has expired, the client's has not"
        );
    }

    #[test]
    fn once_no_shorter_lease_is_held_attempts_have_the_connect_timeout_again() {
        let limits = AttemptLimits::new(Duration::from_secs(5), Duration::from_secs(30));
        let mut outage = Outage::default();
        outage.began(at(0), at(60_000));
        limits.set_shortest_lease(Some(Duration::from_secs(3)));
        assert_eq!(limits.limit(&outage, at(60_000)), Duration::from_secs(1));
        limits.set_shortest_lease(None);
        assert_eq!(limits.limit(&outage, at(60_000)), Duration::from_secs(5));
        limits.set_shortest_lease(Some(Duration::from_secs(90)));
        assert_eq!(
            limits.limit(&outage, at(60_000)),
            Duration::from_secs(5),
            "the client's is shorter"
        );
    }
}
