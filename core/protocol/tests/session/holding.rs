//! The owner of a hold: re-entry, levels, releases.

use std::time::Duration;

use crate::world::*;
use steadlock_protocol::{
    AcquireRequest, Context, ErrorKind, Kind, LockName, LostReason, Outcome, ReleaseOutcome, Script,
};

fn unlock(world: &mut World, context: u64, name: &str) -> Outcome {
    let now = world.now;
    let name = LockName::parse(name).unwrap();
    let session = &mut world.clients[0].session;
    let ticket = session.release_innermost(&(Kind::Lock, name).into(), Context::from_u64(context), now);
    world.drain(0);
    world.outcome(0, ticket)
}

#[test]
fn a_re_entry_costs_no_call_and_only_the_last_release_goes_out() {
    let mut world = World::new(1);
    let outer = world.hold(0, from(1, "a"));
    let inner = world.hold(0, from(1, "a"));
    assert_ne!(outer.lease, inner.lease);
    assert_eq!(outer.token, inner.token);
    assert_eq!(inner.levels, 2);
    assert_eq!(world.server.calls.len(), 1);
    assert_eq!(unlock(&mut world, 1, "a"), Outcome::Released(ReleaseOutcome::Released));
    assert!(world.server.records.contains_key("a"));
    assert_eq!(unlock(&mut world, 1, "a"), Outcome::Released(ReleaseOutcome::Released));
    assert!(world.server.records.is_empty());
    assert_eq!(world.server.calls.len(), 2);
}

#[test]
fn another_context_is_not_let_in_and_may_not_release() {
    let mut world = World::new(1);
    world.hold(0, from(1, "a"));
    let other = world.acquire(
        0,
        AcquireRequest {
            wait: Some(ms(100)),
            ..from(2, "a")
        },
    );
    assert_eq!(error(world.outcome(0, other)).kind(), ErrorKind::LockTimeout);
    assert_eq!(error(unlock(&mut world, 2, "a")).kind(), ErrorKind::NotOwner);
    assert!(world.server.records.contains_key("a"));
}

#[test]
fn a_caller_that_waits_twice_enters_with_both_waits() {
    let mut world = World::new(2);
    let other = world.hold(1, wants("a"));
    let waits = [from(1, "a"), from(2, "a"), from(1, "a")].map(|request| world.acquire(0, request));
    assert_eq!(world.outcome_within(0, waits[0], ms(100)), None);
    world.release(1, other.lease);
    let [first, second] = [waits[0], waits[2]].map(|ticket| granted(world.outcome(0, ticket)));
    assert_eq!(first.token, second.token);
    assert_eq!((first.levels, second.levels), (1, 2));
    for lease in [second.lease, first.lease] {
        world.release(0, lease);
    }
    let next = granted(world.outcome(0, waits[1]));
    assert_ne!(next.token, first.token);
    world.release(0, next.lease);
    world.run_for(ms(100));
    assert!(world.server.records.is_empty());
}

#[test]
fn without_a_context_two_callers_exclude_each_other() {
    let mut world = World::new(1);
    let first = world.hold(0, wants("a"));
    let second = world.acquire(0, wants("a"));
    assert_eq!(world.outcome_within(0, second, Duration::from_secs(5)), None);
    world.release(0, first.lease);
    granted(world.outcome(0, second));
}

#[test]
fn a_lease_passed_explicitly_re_enters() {
    let mut world = World::new(1);
    let outer = world.hold(0, wants("a"));
    let inner = world.hold(
        0,
        AcquireRequest {
            within: Some(outer.lease),
            ..wants("a")
        },
    );
    assert_eq!(inner.levels, 2);
    assert_eq!(world.server.calls.len(), 1);
    let foreign = world.acquire(
        0,
        AcquireRequest {
            within: Some(outer.lease),
            ..wants("b")
        },
    );
    assert_eq!(error(world.outcome(0, foreign)).kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_lease_released_twice_frees_nothing_twice() {
    let mut world = World::new(1);
    let outer = world.hold(0, from(1, "a"));
    let inner = world.hold(0, from(1, "a"));
    let ticket = world.release(0, inner.lease);
    assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Released));
    for _ in 0..2 {
        let ticket = world.release(0, inner.lease);
        assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::NotOwner);
    }
    assert!(world.server.records.contains_key("a"));
    let ticket = world.release(0, outer.lease);
    world.outcome(0, ticket);
    assert!(world.server.records.is_empty());
}

#[test]
fn a_re_entry_with_a_shorter_lease_does_not_shorten() {
    let mut world = World::new(1);
    let outer = world.hold(
        0,
        AcquireRequest {
            lease: fixed(10_000),
            ..from(1, "a")
        },
    );
    let inner = world.hold(
        0,
        AcquireRequest {
            lease: fixed(200),
            ..from(1, "a")
        },
    );
    assert_eq!(inner.deadline, outer.deadline);
    assert_eq!(world.server.calls.len(), 1);
}

#[test]
fn a_re_entry_with_a_longer_lease_extends_with_one_call() {
    let mut world = World::new(1);
    let outer = world.hold(
        0,
        AcquireRequest {
            lease: fixed(1_000),
            ..from(1, "a")
        },
    );
    let inner = world.hold(
        0,
        AcquireRequest {
            lease: fixed(10_000),
            ..from(1, "a")
        },
    );
    assert!(inner.deadline > outer.deadline + ms(8_000));
    assert_eq!(world.calls(Script::LockRenew), 1);
}

#[test]
fn a_re_entry_without_a_lease_turns_the_watchdog_on() {
    let mut world = World::with(1, auto_renewed(1_000));
    world.hold(
        0,
        AcquireRequest {
            lease: fixed(500),
            ..from(1, "a")
        },
    );
    world.hold(0, from(1, "a"));
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.lost(0), []);
}

#[test]
fn a_re_entry_fails_when_its_extension_is_refused() {
    let mut world = World::new(1);
    world.hold(
        0,
        AcquireRequest {
            lease: fixed(1_000),
            ..from(1, "a")
        },
    );
    world.server.records.clear();
    let ticket = world.acquire(
        0,
        AcquireRequest {
            lease: fixed(10_000),
            ..from(1, "a")
        },
    );
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::LockLost);
}

#[test]
fn a_lost_hold_that_was_renewed_is_not_re_entered_until_its_outermost_level_is_released() {
    let mut world = World::with(1, auto_renewed(1_000));
    let outer = world.hold(0, from(1, "a"));
    world.server.records.clear();
    world.run_for(ms(500));
    let again = world.acquire(0, from(1, "a"));
    assert_eq!(why_lost(world.outcome(0, again)), Some(LostReason::Removed));
    let other = world.hold(0, from(2, "a"));
    let ticket = world.release(0, outer.lease);
    assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Expired));
    world.run_for(ms(10));
    assert!(world.server.records.contains_key("a"), "the new holder's record stays");
    let ticket = world.release(0, other.lease);
    assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Released));
    granted({
        let ticket = world.acquire(0, from(1, "a"));
        world.outcome(0, ticket)
    });
}

#[test]
fn re_entry_does_not_reset_max_hold() {
    let mut world = World::with(1, auto_renewed(1_000));
    let start = world.now;
    world.hold(
        0,
        AcquireRequest {
            max_hold: Some(ms(2_000)),
            ..from(1, "a")
        },
    );
    world.run_for(ms(1_500));
    world.hold(
        0,
        AcquireRequest {
            max_hold: Some(ms(2_000)),
            ..from(1, "a")
        },
    );
    world.run_for(Duration::from_secs(3));
    let lost = world.lost(0);
    assert_eq!(lost.len(), 2, "each level is reported once");
    assert!(lost[0].0 < start + ms(2_000));
}

#[test]
fn tokens_rise_with_every_grant() {
    let mut world = World::new(2);
    let mut last = 0;
    for round in 0..100 {
        let client = round % 2;
        let grant = world.hold(client, wants("a"));
        let token = grant.token.expect("tokens are on").get();
        assert!(token > last);
        last = token;
        let ticket = world.release(client, grant.lease);
        world.outcome(client, ticket);
    }
}

#[test]
fn levels_may_be_released_in_any_order() {
    let mut world = World::new(1);
    let outer = world.hold(0, from(1, "a"));
    let inner = world.hold(0, from(1, "a"));
    let ticket = world.release(0, outer.lease);
    world.outcome(0, ticket);
    let name = LockName::parse("a").unwrap();
    let context = Context::from_u64(1);
    assert_eq!(
        world.clients[0].session.innermost(&(Kind::Lock, name).into(), context),
        Some(inner.lease)
    );
    assert!(world.server.records.contains_key("a"));
    let ticket = world.release(0, inner.lease);
    world.outcome(0, ticket);
    assert!(world.server.records.is_empty());
}
