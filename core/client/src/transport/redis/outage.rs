//! How the client connects again after it lost a connection: after what pause, and how long an attempt may take.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadlock_protocol::{Instant, brief};

use super::failure::Failure;
use crate::sleep::{sleep, timeout_at};
use crate::world::World;

/// A connection that lived so long was good.
const GOOD: Duration = Duration::from_secs(1);
/// The pause before the first attempt after a connection was good is at most so long; before every
/// further attempt it doubles.
const BACK_OFF: Duration = Duration::from_millis(50);
/// Up to so long, with most servers.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// A handshake with TLS over a slow network may take so long; no attempt is cut off before.
const SLOW: Duration = Duration::from_millis(500);

/// Since when a connection is missing, and how many attempts failed.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
    /// Since one proved good.
    failures: u32,
}

/// What limits the time of an attempt.
#[derive(Debug)]
pub(super) struct Limits {
    connect_timeout: Duration,
    /// The client's.
    lease: Duration,
    /// In microseconds: the shortest one that is renewed.
    shortest: AtomicU64,
}

impl Outage {
    /// A connection is gone that was open since `opened`.
    pub(super) fn began(&mut self, opened: Instant, now: Instant) {
        if now >= opened + GOOD {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.since = Some(now);
    }

    /// There is still none.
    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.since.get_or_insert(now);
    }

    /// The server is to be found elsewhere: the next try is like the first after a connection was good.
    pub(super) const fn moved(&mut self) {
        self.failures = 1;
    }

    /// How long to wait before the next attempt, never more than `longest`. At random, from the first one on: many
    /// clients that lost one server do not come back in step.
    pub(super) fn pause(&self, world: &World, longest: Duration) -> Duration {
        let Some(failures) = self.failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let Some(doublings) = failures.checked_sub(1) else {
            return up_to(world, BACK_OFF);
        };
        let longest = BACK_OFF.saturating_mul(1 << doublings.min(10)).min(longest);
        longest / 2 + up_to(world, longest / 2)
    }
}

impl Limits {
    pub(super) fn new(connect_timeout: Duration, lease: Duration) -> Self {
        Self {
            connect_timeout,
            lease,
            shortest: AtomicU64::new(micros(lease)),
        }
    }

    /// The shortest lease that is renewed, if it has a length of its own.
    pub(super) fn set_shortest_lease(&self, lease: Option<Duration>) {
        let shortest = lease.map_or(self.lease, |lease| lease.min(self.lease));
        self.shortest.store(micros(shortest), Ordering::Relaxed);
    }

    /// How long one attempt may take. While a lease may still be held that another attempt can
    /// save, no attempt takes more than a third of it, or half a second if that is more. After
    /// that, an attempt may take the whole connect timeout, as on a slow network.
    pub(super) fn of(&self, outage: &Outage, now: Instant) -> Duration {
        let shortest = Duration::from_micros(self.shortest.load(Ordering::Relaxed));
        let may_be_held = |lease: &Duration| outage.since.is_some_and(|since| now < since + *lease);
        let lease = [shortest, self.lease].into_iter().find(may_be_held);
        lease.map_or(self.connect_timeout, |lease| {
            self.connect_timeout.min((lease / 3).max(SLOW))
        })
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// The end of the time that an attempt has.
pub(super) struct Until {
    at: tokio::time::Instant,
    limit: Duration,
}

impl Until {
    pub(super) fn after(limit: Duration) -> Self {
        Self {
            at: tokio::time::Instant::now() + limit,
            limit,
        }
    }

    /// Waits for a step of the attempt, no longer than there is time.
    pub(super) async fn wait<T>(&self, step: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let late = |limit| Failure::unavailable(format!("no answer within {}", brief(limit)));
        self.wait_or(step, late).await
    }

    /// Waits for a part of the attempt within which time runs out for a reason of its own.
    pub(super) async fn wait_or<T>(
        &self,
        step: impl Future<Output = Result<T, Failure>>,
        late: impl FnOnce(Duration) -> Failure,
    ) -> Result<T, Failure> {
        let in_time = timeout_at(self.at, step).await;
        in_time.unwrap_or_else(|| Err(late(self.limit)))
    }
}

/// A time of at most so long, at random.
pub(super) fn up_to(world: &World, longest: Duration) -> Duration {
    let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(world.below(micros.saturating_add(1)))
}

pub(super) async fn wait(pause: Duration) {
    // The first connection does not wait for a tick of the timer.
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
    fn many_that_lost_one_server_do_not_come_back_in_step() {
        assert_eq!(
            Outage::default().pause(&World::default(), LONGEST),
            Duration::ZERO,
            "nobody has lost anything yet"
        );
        let pauses: Vec<Duration> = (0..200)
            .map(|_| {
                let mut outage = Outage::default();
                outage.began(at(0), at(60_000));
                outage.pause(&World::default(), LONGEST)
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
            let pause = outage.pause(&World::default(), LONGEST);
            let range = Duration::from_millis(least)..=Duration::from_millis(most);
            assert!(range.contains(&pause), "{pause:?} is not in {range:?}");
        }
        // What closes at once was not good.
        outage.began(at(61_000), at(61_900));
        assert!(outage.pause(&World::default(), LONGEST) >= Duration::from_millis(500));
        outage.began(at(70_000), at(71_000));
        assert!(outage.pause(&World::default(), LONGEST) <= BACK_OFF);
    }

    #[test]
    fn no_try_costs_more_than_a_third_of_what_may_still_be_held() {
        let limits = |millis| Limits::new(Duration::from_secs(5), Duration::from_millis(millis));
        let mut outage = Outage::default();
        assert_eq!(
            limits(3_000).of(&outage, at(0)),
            Duration::from_secs(5),
            "the first time"
        );
        outage.began(at(0), at(60_000));
        outage.failed(at(61_000));
        assert_eq!(limits(3_000).of(&outage, at(62_999)), Duration::from_secs(1));
        assert_eq!(
            limits(3_000).of(&outage, at(63_000)),
            Duration::from_secs(5),
            "all is lost"
        );
        assert_eq!(limits(30_000).of(&outage, at(62_999)), Duration::from_secs(5));
        let short = limits(900).of(&outage, at(60_500));
        assert_eq!(short, SLOW, "a handshake needs its time");
    }

    #[test]
    fn a_lock_with_a_shorter_lease_than_the_clients_shortens_the_tries() {
        let limits = Limits::new(Duration::from_secs(5), Duration::from_secs(30));
        limits.set_shortest_lease(Some(Duration::from_secs(3)));
        let mut outage = Outage::default();
        outage.began(at(0), at(60_000));
        assert_eq!(limits.of(&outage, at(62_999)), Duration::from_secs(1));
        let later = limits.of(&outage, at(63_000));
        assert_eq!(
            later,
            Duration::from_secs(5),
            "the short one is lost, the client's is not"
        );
    }

    #[test]
    fn once_no_shorter_lease_is_held_a_try_takes_as_long_as_before() {
        let limits = Limits::new(Duration::from_secs(5), Duration::from_secs(30));
        let mut outage = Outage::default();
        outage.began(at(0), at(60_000));
        limits.set_shortest_lease(Some(Duration::from_secs(3)));
        assert_eq!(limits.of(&outage, at(60_000)), Duration::from_secs(1));
        limits.set_shortest_lease(None);
        assert_eq!(limits.of(&outage, at(60_000)), Duration::from_secs(5));
        limits.set_shortest_lease(Some(Duration::from_secs(90)));
        assert_eq!(
            limits.of(&outage, at(60_000)),
            Duration::from_secs(5),
            "the client's is shorter"
        );
    }
}
