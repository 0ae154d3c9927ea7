//! Auto-renewed leases with a length of their own, which differs from the client's.

use std::time::Duration;

use crate::world::*;
use steadlock_protocol::{
    AcquireRequest, ErrorKind, Grant, Instant, Kind, LeaseTerms, LockName, LostReason, Outcome, ReleaseOutcome, Script,
};

/// Returns the request of context 1 for one lock.
fn lasting(lease: LeaseTerms) -> AcquireRequest {
    AcquireRequest { lease, ..from(1, "a") }
}

/// Returns the rest of the TTL of a name's record.
fn left(world: &World, name: &str) -> Duration {
    world.server.records[name].expires.saturating_since(world.now)
}

/// Looks at the record of `a` every 10 ms for this time. Returns the smallest and the largest rest of its TTL.
fn looks(world: &mut World, time: Duration) -> (Duration, Duration) {
    let (mut least, mut most) = (Duration::MAX, Duration::ZERO);
    let end = world.now + time;
    while world.now < end {
        let left = left(world, "a");
        (least, most) = (least.min(left), most.max(left));
        world.run_for(ms(10));
    }
    (least, most)
}

fn lasts(grant: &Grant, now: Instant) -> Duration {
    grant.deadline.saturating_since(now)
}

#[test]
fn an_auto_renewed_lease_of_its_own_length_is_kept_beyond_it_and_never_longer_on_record() {
    for lease in [300, 5_000, 20_000] {
        let mut world = World::new(1);
        let held = world.hold(0, lasting(renewed(lease)));
        let start = world.now;
        let (least, most) = looks(&mut world, ms(12 * lease));
        assert!(most <= ms(lease), "{lease}: {most:?} on record");
        assert!(least > ms(lease / 2), "{lease}: {least:?} on record");
        assert_eq!(world.lost(0), []);
        let took = world.now.saturating_since(start).as_secs_f64();
        let interval = took / (world.calls(Script::LockRenew) as f64);
        let third = lease as f64 / 3_000.0;
        // Each renewal is up to a tenth of its interval early.
        assert!(
            (third * 0.9..third * 1.01).contains(&interval),
            "renewed every {interval} s"
        );
        let ticket = world.release(0, held.lease);
        assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Released));
    }
}

#[test]
fn a_client_that_is_gone_keeps_others_waiting_for_that_length_and_not_the_clients() {
    let mut world = World::new(2);
    world.hold(0, lasting(renewed(2_000)));
    world.run_for(Duration::from_secs(20));
    world.disconnect(0);
    let waiter = world.acquire(1, wants("a"));
    let (_, took) = world.outcome_within(1, waiter, Duration::from_secs(30)).unwrap();
    assert!(took <= ms(2_010), "{took:?}");
    assert_eq!(world.lost(0)[0].2, LostReason::Expired);
}

#[test]
fn a_length_above_the_longest_attempt_is_reached_by_the_first_renewal_and_kept() {
    let mut world = World::new(1);
    world.hold(0, lasting(renewed(60_000)));
    world.run_for(ms(1));
    let (least, most) = looks(&mut world, Duration::from_secs(300));
    assert!(least > Duration::from_secs(39) && most <= Duration::from_secs(60));
    assert_eq!(world.lost(0), []);
}

#[test]
fn a_renewal_without_answer_is_asked_for_again_within_a_sixth_of_its_own_length() {
    let mut world = World::new(1);
    world.hold(0, lasting(renewed(1_200)));
    world.reply_latency = ms(500);
    world.run_for(ms(650));
    assert_eq!(world.calls(Script::LockRenew), 2);
    world.reply_latency = LATENCY;
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.lost(0), []);
}

#[test]
fn max_hold_ends_an_auto_renewed_lease_of_its_own_length() {
    let mut world = World::new(1);
    let start = world.now;
    world.hold(
        0,
        AcquireRequest {
            max_hold: Some(ms(2_000)),
            ..lasting(renewed(500))
        },
    );
    world.run_for(Duration::from_secs(5));
    let (at, _, reason) = world.lost(0)[0];
    assert_eq!(reason, LostReason::MaxHold);
    assert!(at > start + ms(1_900) && at <= start + ms(2_000));
}

#[test]
fn a_re_entry_with_a_longer_auto_renewed_lease_lasts_that_long_and_is_renewed_so() {
    for first in [renewed(5_000), fixed(5_000)] {
        let mut world = World::new(1);
        world.hold(0, lasting(first));
        world.run_for(ms(1_000));
        let inner = world.hold(0, lasting(renewed(30_000)));
        assert!(lasts(&inner, world.now) > Duration::from_secs(29));
        let (least, most) = looks(&mut world, Duration::from_secs(120));
        assert!(least > Duration::from_secs(19), "{least:?} on record");
        assert!(most <= Duration::from_secs(30), "{most:?} on record");
        assert_eq!(world.lost(0), []);
    }
}

#[test]
fn a_re_entry_with_a_longer_auto_renewed_lease_survives_its_client_by_that_length() {
    let mut world = World::new(2);
    world.hold(0, lasting(renewed(5_000)));
    world.hold(0, lasting(renewed(30_000)));
    world.disconnect(0);
    world.run_for(Duration::from_secs(29));
    assert_eq!(world.lost(0), []);
    assert!(world.server.records.contains_key("a"));
}

#[test]
fn a_re_entry_with_a_shorter_auto_renewed_lease_costs_no_call_and_shortens_nothing() {
    for inner in [renewed(1_000), LeaseTerms::CLIENT] {
        let mut world = World::with(1, auto_renewed(3_000));
        let outer = world.hold(0, lasting(renewed(20_000)));
        let inner = world.hold(0, lasting(inner));
        assert_eq!(inner.deadline, outer.deadline);
        assert_eq!(world.server.calls.len(), 1);
        let (least, _) = looks(&mut world, Duration::from_secs(60));
        assert!(least > Duration::from_secs(13), "{least:?} on record");
        world.release(0, inner.lease);
        let (least, _) = looks(&mut world, Duration::from_secs(60));
        assert!(least > Duration::from_secs(13), "{least:?} on record");
        assert_eq!(world.lost(0), []);
    }
}

#[test]
fn a_long_fixed_lease_that_is_re_entered_auto_renewed_is_not_shortened_and_renewed_at_its_end() {
    let mut world = World::new(1);
    let outer = world.hold(0, lasting(fixed(25_000)));
    let inner = world.hold(0, lasting(renewed(5_000)));
    assert_eq!(inner.deadline, outer.deadline);
    world.run_for(Duration::from_secs(10));
    assert!(left(&world, "a") > Duration::from_secs(14));
    world.run_for(Duration::from_secs(60));
    assert!(left(&world, "a") <= Duration::from_secs(5));
    assert_eq!(world.lost(0), []);
}

#[test]
fn an_auto_renewed_lease_that_is_re_entered_with_a_longer_fixed_one_lasts_that_long_and_stays_renewed() {
    let mut world = World::new(1);
    world.hold(0, lasting(renewed(5_000)));
    let end = world.now + Duration::from_secs(20);
    let inner = world.hold(0, lasting(fixed(20_000)));
    assert!(lasts(&inner, world.now) > Duration::from_secs(19));
    while world.now < end {
        assert!(world.now + left(&world, "a") >= end);
        world.run_for(ms(100));
    }
    let (least, most) = looks(&mut world, Duration::from_secs(60));
    assert!(least > Duration::from_secs(3) && most <= Duration::from_secs(5));
    assert_eq!(world.lost(0), []);
}

#[test]
fn a_re_entry_that_the_server_does_not_confirm_leaves_the_lease_as_it_was() {
    let mut world = World::new(1);
    world.hold(0, lasting(renewed(6_000)));
    world.server.stopped = true;
    let ticket = world.acquire(0, lasting(renewed(30_000)));
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::Unavailable);
    world.server.stopped = false;
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.lost(0), []);
    assert!(left(&world, "a") <= ms(6_000));
}

/// Returns the requests of one context for two locks together.
fn both(lease: LeaseTerms) -> Vec<AcquireRequest> {
    let one = |name| AcquireRequest {
        name: LockName::parse(name).unwrap(),
        kind: Kind::Lock,
        ..lasting(lease)
    };
    vec![one("a"), one("b")]
}

fn hold_both(world: &mut World, lease: LeaseTerms) -> Grant {
    let now = world.now;
    let ticket = world.clients[0].session.acquire_all(both(lease), now);
    world.drain(0);
    granted(world.outcome(0, ticket))
}

#[test]
fn several_locks_together_are_renewed_by_the_length_of_the_whole() {
    let mut world = World::new(1);
    hold_both(&mut world, renewed(3_000));
    let (least, most) = looks(&mut world, Duration::from_secs(60));
    assert!(least > ms(1_900) && most <= ms(3_000), "{least:?} to {most:?}");
    assert_eq!(world.lost(0), []);
}

#[test]
fn several_locks_that_are_entered_again_with_a_longer_auto_renewed_lease_last_that_long() {
    let mut world = World::new(1);
    hold_both(&mut world, renewed(3_000));
    world.run_for(ms(500));
    let inner = hold_both(&mut world, renewed(30_000));
    assert!(lasts(&inner, world.now) > Duration::from_secs(29));
    let (least, _) = looks(&mut world, Duration::from_secs(120));
    assert!(least > Duration::from_secs(19), "{least:?} on record");
    assert!(left(&world, "b") > Duration::from_secs(19));
    assert_eq!(world.lost(0), []);
}

#[test]
fn a_lease_that_is_too_short_to_be_renewed_is_refused_and_says_so() {
    for millis in [0, 99, 100, 299] {
        let error = LeaseTerms::renewed(ms(millis)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(&format!("{:?}", ms(millis))), "{error}");
        assert!(error.message().contains("300ms"), "{error}");
    }
    assert!(LeaseTerms::renewed(ms(300)).unwrap().is_renewed());
    assert!(!LeaseTerms::fixed(ms(300)).unwrap().is_renewed());
    let day = Duration::from_secs(24 * 60 * 60);
    assert!(LeaseTerms::renewed(day).is_ok());
    assert!(LeaseTerms::renewed(day + ms(1)).is_err());
}
