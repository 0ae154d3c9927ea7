//! Acquiring a lock: waits, wake-ups, refusals, timeouts.

use std::time::Duration;

use crate::world::*;
use steadlock_protocol::{AcquireRequest, CallError, ErrorKind, Outcome, Script};

#[test]
fn an_uncontended_lock_and_unlock_is_two_calls() {
    let mut world = World::new(1);
    let grant = world.hold(0, wants("a"));
    let ticket = world.release(0, grant.lease);
    assert_eq!(
        world.outcome(0, ticket),
        Outcome::Released(steadlock_protocol::ReleaseOutcome::Released)
    );
    assert_eq!(world.server.calls.len(), 2);
    assert!(
        world.clients[0].session.is_empty(),
        "{}",
        world.clients[0].session.len()
    );
}

#[test]
fn a_release_wakes_the_waiter_of_another_client_by_message() {
    let mut world = World::new(2);
    let grant = world.hold(0, wants("a"));
    let ticket = world.acquire(1, wants("a"));
    world.run_for(ms(20));
    world.release(0, grant.lease);
    let (outcome, took) = world.outcome_within(1, ticket, ms(5)).expect("woken by the message");
    granted(outcome);
    assert!(took <= 4 * LATENCY, "{took:?}");
}

#[test]
fn a_lost_message_costs_at_most_one_poll() {
    let mut world = World::new(2);
    world.drop_messages = true;
    let grant = world.hold(0, wants("a"));
    let ticket = world.acquire(1, wants("a"));
    world.run_for(ms(20));
    world.release(0, grant.lease);
    let (_, took) = world.outcome_within(1, ticket, Duration::from_secs(60)).unwrap();
    assert!(took < ms(760), "{took:?}");
}

#[test]
fn an_idle_waiter_asks_at_most_twice_a_second_however_many_wait_beside_it() {
    let mut world = World::new(2);
    world.hold(0, wants("a"));
    for _ in 0..50 {
        world.acquire(1, wants("a"));
    }
    world.run_for(Duration::from_secs(1));
    let before = world.calls(Script::LockAcquire);
    world.run_for(Duration::from_secs(9));
    let asked = world.calls(Script::LockAcquire) - before;
    assert!(asked <= 18, "{asked}");
}

#[test]
fn the_holders_ttl_ends_the_sleep_of_a_waiter() {
    let mut world = World::new(2);
    world.hold(
        0,
        AcquireRequest {
            lease: fixed(200),
            ..wants("a")
        },
    );
    let ticket = world.acquire(1, wants("a"));
    let (_, took) = world.outcome_within(1, ticket, Duration::from_secs(5)).unwrap();
    assert!(took >= ms(198) && took < ms(210), "{took:?}");
}

#[test]
fn waiters_of_one_client_are_served_in_order_of_arrival() {
    let mut world = World::new(1);
    let first = world.hold(0, wants("a"));
    let tickets: Vec<_> = (0..5).map(|_| world.acquire(0, wants("a"))).collect();
    let mut lease = first.lease;
    for ticket in tickets {
        world.release(0, lease);
        lease = granted(world.outcome(0, ticket)).lease;
    }
}

#[test]
fn the_next_local_waiter_asks_right_behind_the_release() {
    let mut world = World::new(1);
    let first = world.hold(0, wants("a"));
    let ticket = world.acquire(0, wants("a"));
    world.release(0, first.lease);
    let (_, took) = world.outcome_within(0, ticket, ms(5)).unwrap();
    assert_eq!(took, 2 * LATENCY);
}

#[test]
fn two_busy_clients_share_a_lock() {
    let mut world = World::new(2);
    let mut grants = [0_u32; 2];
    let mut pending: Vec<_> = (0..16).map(|n| (n % 2, world.acquire(n % 2, wants("a")))).collect();
    let end = world.now + Duration::from_secs(5);
    let mut seen = [0; 2];
    while world.now < end {
        world.run_for(LATENCY);
        for client in 0..2 {
            let fresh: Vec<_> = world.clients[client].events[seen[client]..].to_vec();
            seen[client] = world.clients[client].events.len();
            for (_, event) in fresh {
                if let steadlock_protocol::Event::Completed {
                    ticket,
                    outcome: Outcome::Granted(grant),
                } = event
                {
                    grants[client] += 1;
                    pending.retain(|(_, waiting)| *waiting != ticket);
                    world.release(client, grant.lease);
                    pending.push((client, world.acquire(client, wants("a"))));
                }
            }
        }
    }
    let share = f64::from(grants[0]) / f64::from(grants[0] + grants[1]);
    assert!((0.35..=0.65).contains(&share), "{grants:?}");
    assert!(grants[0] + grants[1] > 5_000, "{grants:?}");
}

#[test]
fn trying_once_is_one_call_and_says_who_holds_it() {
    let mut world = World::new(2);
    world.hold(0, wants("a"));
    let before = world.server.calls.len();
    let ticket = world.acquire(
        1,
        AcquireRequest {
            wait: Some(Duration::ZERO),
            ..wants("a")
        },
    );
    let error = error(world.outcome(1, ticket));
    assert_eq!(error.kind(), ErrorKind::LockTimeout);
    let holder = error.holder().expect("the holder is known");
    assert_eq!(holder.owner, world.server.records["a"].owner);
    assert_eq!(world.server.calls.len(), before + 1);
    assert!(world.clients[1].session.is_empty());
}

#[test]
fn a_single_attempt_behind_a_local_hold_sends_no_call() {
    let mut world = World::new(1);
    world.hold(0, wants("a"));
    let before = world.server.calls.len();
    let ticket = world.acquire(
        0,
        AcquireRequest {
            wait: Some(Duration::ZERO),
            ..wants("a")
        },
    );
    let (outcome, took) = world.outcome_within(0, ticket, ms(1)).unwrap();
    let error = error(outcome);
    assert_eq!(error.kind(), ErrorKind::LockTimeout);
    assert!(error.message().starts_with("not granted: held by"), "{error}");
    assert_eq!(took, Duration::ZERO);
    assert_eq!(world.server.calls.len(), before);
}

#[test]
fn a_bounded_wait_ends_in_lock_timeout_when_the_lock_is_held() {
    let mut world = World::new(2);
    world.hold(0, wants("a"));
    let ticket = world.acquire(
        1,
        AcquireRequest {
            wait: Some(ms(1_300)),
            ..wants("a")
        },
    );
    let (outcome, took) = world.outcome_within(1, ticket, Duration::from_secs(5)).unwrap();
    assert_eq!(error(outcome).kind(), ErrorKind::LockTimeout);
    assert_eq!(took, ms(1_300));
}

#[test]
fn a_bounded_wait_ends_in_unavailable_when_the_server_is_stopped() {
    for wait in [0, 5, 100, 5_000] {
        let mut world = World::new(1);
        world.server.stopped = true;
        let ticket = world.acquire(
            0,
            AcquireRequest {
                wait: Some(ms(wait)),
                ..wants("a")
            },
        );
        let (outcome, took) = world.outcome_within(0, ticket, Duration::from_secs(9)).unwrap();
        assert_eq!(error(outcome).kind(), ErrorKind::Unavailable);
        let bound = if wait == 0 { ms(3_000) } else { ms(wait + 50) };
        assert!(took <= bound, "{wait}: {took:?}");
    }
}

#[test]
fn a_wait_without_bound_ends_in_unavailable_after_one_lease_of_silence() {
    let mut world = World::new(1);
    world.server.stopped = true;
    let ticket = world.acquire(0, wants("a"));
    let (outcome, took) = world.outcome_within(0, ticket, Duration::from_secs(60)).unwrap();
    assert_eq!(error(outcome).kind(), ErrorKind::Unavailable);
    assert_eq!(took, Duration::from_secs(30));
}

#[test]
fn an_unbounded_wait_continues_while_the_server_answers() {
    let mut world = World::new(2);
    world.hold(0, wants("a"));
    let ticket = world.acquire(1, wants("a"));
    assert_eq!(world.outcome_within(1, ticket, Duration::from_secs(600)), None);
}

#[test]
fn a_waiter_gets_the_lock_of_a_dead_holder_when_its_ttl_ends() {
    let mut world = World::with(2, auto_renewed(1_000));
    world.hold(0, wants("a"));
    world.disconnect(0);
    let ticket = world.acquire(1, wants("a"));
    let (_, took) = world.outcome_within(1, ticket, Duration::from_secs(5)).unwrap();
    assert!(took <= ms(1_010), "{took:?}");
}

#[test]
fn a_key_of_the_wrong_type_is_misconfigured_and_nothing_is_owed() {
    let mut world = World::new(1);
    let wrong = CallError::Server {
        code: "WRONGTYPE".into(),
        message: "Operation against a key".into(),
    };
    world.server.errors.push_back(wrong);
    let ticket = world.acquire(0, wants("a"));
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::Misconfigured);
    world.run_for(ms(10));
    assert_eq!(world.server.calls.len(), 1);
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_server_that_is_loading_is_asked_again_until_the_wait_ends() {
    let mut world = World::new(1);
    for _ in 0..4 {
        let loading = CallError::Server {
            code: "LOADING".into(),
            message: "Redis is loading".into(),
        };
        world.server.errors.push_back(loading);
    }
    let ticket = world.acquire(
        0,
        AcquireRequest {
            wait: Some(ms(5_000)),
            ..wants("a")
        },
    );
    granted(world.outcome(0, ticket));
}

#[test]
fn an_outage_during_a_wait_is_survived() {
    let mut world = World::new(2);
    let grant = world.hold(0, wants("a"));
    let ticket = world.acquire(1, wants("a"));
    world.run_for(ms(50));
    world.disconnect(1);
    world.run_for(ms(200));
    world.release(0, grant.lease);
    world.run_for(ms(50));
    world.connect(1);
    let (_, took) = world
        .outcome_within(1, ticket, ms(20))
        .expect("asked at once on the new connection");
    assert!(took <= 3 * LATENCY, "{took:?}");
}

#[test]
fn a_release_before_the_subscription_was_confirmed_is_found_at_once() {
    let mut world = World::new(2);
    let grant = world.hold(0, wants("a"));
    let ticket = world.acquire(1, wants("a"));
    // The waiter is refused after 100 µs and subscribed after 300 µs, so it does not receive the message of this
    // release.
    world.run_for(LATENCY);
    world.release(0, grant.lease);
    let (_, took) = world.outcome_within(1, ticket, Duration::from_secs(2)).unwrap();
    assert!(took < ms(4), "{took:?}");
}

#[test]
fn a_message_that_overtakes_a_refusal_repeats_the_attempt() {
    let mut world = World::new(2);
    let grant = world.hold(0, wants("a"));
    let ticket = world.acquire(1, wants("a"));
    world.run_for(ms(20));
    world.reply_latency = ms(10);
    while world.calls(Script::LockAcquire) < 4 {
        world.run_for(LATENCY);
    }
    // The poll has just been refused, and the reply is in transit.
    world.release(0, grant.lease);
    let (_, took) = world.outcome_within(1, ticket, Duration::from_secs(2)).unwrap();
    assert!(took < ms(30), "{took:?}");
}
