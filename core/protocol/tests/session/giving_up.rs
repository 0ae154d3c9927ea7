//! Cancelled attempts, replies that never come, and releases that are sent again.

use std::time::Duration;

use crate::world::*;
use steadlock_protocol::{AcquireRequest, CallError, ErrorKind, Operation, Outcome, ReleaseOutcome};

#[test]
fn cancelling_at_any_instant_leaves_no_key_one_round_trip_later() {
    for micros in (0..2_000).step_by(10) {
        let mut world = World::new(1);
        let ticket = world.acquire(0, wants("a"));
        world.run_for(Duration::from_micros(micros));
        if world.clients[0].events.is_empty() {
            world.cancel(0, ticket);
            world.run_for(2 * LATENCY);
            assert!(world.server.records.is_empty(), "cancelled after {micros} µs");
            assert!(world.clients[0].events.is_empty(), "a cancelled ticket has no event");
            world.run_for(Duration::from_secs(5));
            assert!(world.clients[0].session.is_empty(), "cancelled after {micros} µs");
        }
    }
}

#[test]
fn cancelling_a_waiter_keeps_the_others_in_the_queue() {
    let mut world = World::new(2);
    let held = world.hold(0, wants("a"));
    let first = world.acquire(1, wants("a"));
    let second = world.acquire(1, wants("a"));
    world.run_for(ms(30));
    world.cancel(1, first);
    world.release(0, held.lease);
    granted(world.outcome_within(1, second, ms(10)).expect("its turn").0);
}

#[test]
fn a_reply_cut_after_execution_is_found_again_by_the_same_owner() {
    let mut world = World::new(1);
    world.cut_after_execution = 1;
    let ticket = world.acquire(0, wants("a"));
    world.run_for(ms(1));
    let owner = world.server.records["a"].owner.clone();
    world.connect(0);
    let grant = granted(world.outcome(0, ticket));
    assert_eq!(world.server.records["a"].owner, owner, "a resend is not a second hold");
    world.release(0, grant.lease);
    world.run_for(ms(1));
    assert!(world.server.records.is_empty());
}

#[test]
fn an_attempt_given_up_during_an_outage_is_compensated_on_the_next_connection() {
    let mut world = World::new(1);
    world.cut_after_execution = 1;
    let ticket = world.acquire(
        0,
        AcquireRequest {
            lease: fixed(3_600_000),
            wait: Some(ms(50)),
            ..wants("a")
        },
    );
    world.run_for(ms(200));
    error(world.outcome(0, ticket));
    assert!(world.server.records.contains_key("a"));
    world.connect(0);
    world.run_for(ms(1));
    assert!(world.server.records.is_empty());
    world.run_for(Duration::from_secs(4));
    let releases = world.calls(steadlock_protocol::Script::LockRelease);
    assert_eq!(releases, 2, "once more a command timeout later");
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_release_that_is_to_be_sent_once_more_is_not_hurried_by_a_reconnect() {
    let mut world = World::new(1);
    world.cut_after_execution = 1;
    let ticket = world.acquire(
        0,
        AcquireRequest {
            wait: Some(ms(50)),
            ..wants("a")
        },
    );
    world.run_for(ms(200));
    error(world.outcome(0, ticket));
    world.connect(0);
    world.run_for(ms(5));
    world.disconnect(0);
    world.connect(0);
    world.run_for(ms(5));
    let release = steadlock_protocol::Script::LockRelease;
    assert_eq!(world.calls(release), 1, "the first release may still arrive");
    world.run_for(Duration::from_secs(4));
    assert_eq!(world.calls(release), 2, "once more a command timeout later");
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_late_grant_without_any_time_left_is_requested_again() {
    let mut world = World::new(1);
    world.server.stopped = true;
    let ticket = world.acquire(
        0,
        AcquireRequest {
            lease: fixed(100),
            ..wants("a")
        },
    );
    world.run_for(ms(50));
    world.server.stopped = false;
    // The reply arrives 50 ms after the call was sent, when 29 of the lease's 79 ms are left. In the second world it
    // arrives after 100 ms, so the client asks again.
    granted(world.outcome(0, ticket));
    let mut world = World::new(1);
    world.server.stopped = true;
    let ticket = world.acquire(
        0,
        AcquireRequest {
            lease: fixed(100),
            ..wants("a")
        },
    );
    world.run_for(ms(100));
    world.server.stopped = false;
    let start = world.now;
    let grant = granted(world.outcome(0, ticket));
    assert!(grant.deadline > start + ms(70), "a fresh grant, not the stale one");
}

#[test]
fn an_answer_to_an_owner_that_was_given_up_grants_nothing() {
    let mut world = World::with(1, |config| config.command_timeout = ms(60));
    world.server.stopped = true;
    let ticket = world.acquire(
        0,
        AcquireRequest {
            lease: fixed(100),
            ..wants("a")
        },
    );
    // Both attempts use the same owner id, and both are granted. The first grant comes too late, so the client gives up
    // the owner id and releases it. The second grant comes in time, but belongs to that owner id.
    world.run_for(ms(100));
    world.server.stopped = false;
    let grant = granted(world.outcome(0, ticket));
    world.run_for(2 * LATENCY);
    assert_eq!(grant.token.map(|token| token.get()), Some(world.server.tokens["a"]));
}

#[test]
fn a_wait_without_bound_ends_as_unavailable_though_the_last_answer_was_held() {
    let mut world = World::with(2, auto_renewed(1_000));
    world.hold(0, wants("a"));
    let waiter = world.acquire(1, wants("a"));
    world.run_for(ms(10));
    world.server.stopped = true;
    match world.outcome(1, waiter) {
        Outcome::Failed(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_from_before_a_disconnect_does_not_name_the_holder() {
    let mut world = World::new(2);
    let bounded = || AcquireRequest {
        wait: Some(ms(700)),
        ..wants("a")
    };
    world.hold(0, wants("a"));
    let waiter = world.acquire(1, bounded());
    world.run_for(ms(10));
    // No call is in flight that could fail.
    world.disconnect(1);
    let refused = error(world.outcome(1, waiter));
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(refused.message().contains("cut"), "{refused}");

    // On the next connection the server names the holder again.
    world.connect(1);
    let waiter = world.acquire(1, bounded());
    world.run_for(ms(10));
    world.disconnect(1);
    world.run_for(ms(600));
    world.connect(1);
    let refused = error(world.outcome(1, waiter));
    assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
}

#[test]
fn a_waiter_behind_others_of_its_client_times_out_between_two_of_their_holds() {
    let mut world = World::new(1);
    let held = world.hold(0, from(1, "a"));
    let first = world.acquire(0, from(2, "a"));
    let bounded = AcquireRequest {
        wait: Some(ms(500)),
        ..from(3, "a")
    };
    let second = world.acquire(0, bounded);
    world.reply_latency = ms(20);
    world.run_for(ms(490));
    // When the wait of the second caller ends, the attempt of the first caller is in flight.
    world.release(0, held.lease);
    let refused = error(world.outcome(0, second));
    assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
    granted(world.outcome(0, first));
}

#[test]
fn an_answer_from_before_a_local_hold_is_not_reported() {
    for (blip, said) in [(false, "held"), (true, "cut")] {
        let mut world = World::new(2);
        let theirs = world.hold(1, wants("a"));
        let first = world.acquire(0, from(1, "a"));
        world.run_for(ms(10));
        if blip {
            world.disconnect(0);
        }
        world.release(1, theirs.lease);
        world.run_for(ms(10));
        if blip {
            world.connect(0);
        }
        let held = granted(world.outcome(0, first));

        world.acquire(0, from(2, "a"));
        let waits = |wait| AcquireRequest { wait, ..from(3, "a") };
        let bounded = world.acquire(0, waits(Some(ms(500))));
        world.reply_latency = ms(20);
        world.run_for(ms(490));
        world.release(0, held.lease);
        let once = world.acquire(0, waits(Some(Duration::ZERO)));
        for ticket in [once, bounded] {
            let refused = error(world.outcome(0, ticket));
            assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{said}: {refused}");
            assert_eq!(refused.holder(), None, "{said}: {refused}");
        }
    }
}

#[test]
fn a_single_attempt_beside_a_waiter_reports_a_silent_server() {
    let mut world = World::new(2);
    world.hold(1, wants("a"));
    world.acquire(0, from(1, "a"));
    world.run_for(ms(10));
    let once = || AcquireRequest {
        wait: Some(Duration::ZERO),
        ..from(2, "a")
    };
    let ticket = world.acquire(0, once());
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::LockTimeout);
    world.disconnect(0);
    let ticket = world.acquire(0, once());
    let refused = error(world.outcome(0, ticket));
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(refused.message().contains("cut"), "{refused}");
}

#[test]
fn a_wait_without_bound_outlasts_the_poll_when_the_lease_is_shorter() {
    let mut world = World::with(2, auto_renewed(300));
    let held = world.hold(0, wants("a"));
    let waiter = world.acquire(1, wants("a"));
    world.run_for(Duration::from_secs(10));
    assert!(world.clients[1].events.is_empty(), "{:?}", world.clients[1].events);
    world.release(0, held.lease);
    granted(world.outcome_within(1, waiter, ms(10)).expect("its turn").0);
}

#[test]
fn an_unbounded_wait_continues_between_two_holders_of_its_own_client() {
    // The silence timeout of 3,750 ms ends once before, and a second time while the next attempt is in flight.
    let mut world = World::with(1, auto_renewed(300));
    let first = world.hold(0, wants("a"));
    let second = world.acquire(0, wants("a"));
    let third = world.acquire(0, wants("a"));
    world.run_for(2 * (ms(3_750) - LATENCY));
    world.release(0, first.lease);
    let second = granted(world.outcome_within(0, second, ms(10)).expect("its turn").0);
    world.release(0, second.lease);
    granted(world.outcome_within(0, third, ms(10)).expect("its turn").0);
}

#[test]
fn a_release_outlasts_an_extension_that_was_not_confirmed() {
    let mut world = World::with(1, |config| config.command_timeout = ms(60));
    let request = AcquireRequest {
        lease: fixed(300),
        ..wants("a")
    };
    let held = world.hold(0, request);
    world.cut_after_execution = 1;
    let now = world.now;
    world.clients[0].session.extend(held.lease, by_ms(5_000), now);
    world.drain(0);
    world.run_for(ms(1));
    world.release(0, held.lease);
    world.run_for(ms(2_000));
    assert!(world.server.records.contains_key("a"));
    world.connect(0);
    world.run_for(ms(1));
    assert!(world.server.records.is_empty());
}

#[test]
fn a_release_that_no_server_ever_answers_leaves_nothing_in_the_client() {
    let mut world = World::with(1, auto_renewed(300));
    world.hold(0, from(7, "a"));
    world.disconnect(0);
    let now = world.now;
    world.clients[0].session.close(now);
    world.drain(0);
    world.run_for(Duration::from_secs(10));
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_new_connection_does_not_send_the_second_compensation_early() {
    let mut world = World::new(1);
    world.cut_after_execution = 1;
    let ticket = world.acquire(
        0,
        AcquireRequest {
            wait: Some(ms(50)),
            ..wants("a")
        },
    );
    world.run_for(ms(200));
    error(world.outcome(0, ticket));
    world.connect(0);
    world.run_for(ms(10));
    world.disconnect(0);
    world.connect(0);
    world.run_for(ms(10));
    assert_eq!(world.calls(steadlock_protocol::Script::LockRelease), 1);
    world.run_for(Duration::from_secs(4));
    assert_eq!(world.calls(steadlock_protocol::Script::LockRelease), 2);
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_timed_out_attempt_that_was_applied_is_removed() {
    let mut world = World::new(1);
    world.server.stopped = true;
    let ticket = world.acquire(
        0,
        AcquireRequest {
            wait: Some(ms(500)),
            ..wants("a")
        },
    );
    error(world.outcome(0, ticket));
    world.server.stopped = false;
    world.run_for(2 * LATENCY);
    assert!(world.server.records.is_empty());
}

#[test]
fn an_error_reply_counts_as_granted_until_released() {
    let mut world = World::new(1);
    let oom = CallError::Server {
        code: "OOM".into(),
        message: "command not allowed".into(),
    };
    world.server.errors.push_back(oom);
    let ticket = world.acquire(
        0,
        AcquireRequest {
            wait: Some(Duration::ZERO),
            ..wants("a")
        },
    );
    error(world.outcome(0, ticket));
    world.run_for(ms(10));
    assert_eq!(world.calls(steadlock_protocol::Script::LockRelease), 1);
}

#[test]
fn a_release_cut_after_execution_is_still_released() {
    let mut world = World::new(1);
    let grant = world.hold(0, wants("a"));
    world.cut_after_execution = 1;
    let ticket = world.release(0, grant.lease);
    world.run_for(ms(100));
    world.connect(0);
    assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Released));
}

#[test]
fn a_release_without_permission_fails_at_once_and_continues() {
    let mut world = World::new(1);
    let grant = world.hold(0, wants("a"));
    world.server.errors.push_back(CallError::Server {
        code: "NOPERM".into(),
        message: "its user may not run HDEL".into(),
    });
    let start = world.now;
    let ticket = world.release(0, grant.lease);
    let failed = error(world.outcome(0, ticket));
    assert_eq!(failed.kind(), ErrorKind::Misconfigured);
    assert_eq!(
        (failed.operation(), failed.lock_name()),
        (Operation::Release, Some("a"))
    );
    assert!(failed.message().contains("HDEL"), "{failed}");
    assert!(world.now.saturating_since(start) < ms(100));
    // The user now gets the missing right.
    world.run_for(Duration::from_secs(4));
    assert!(world.server.records.is_empty());
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_release_without_an_answer_returns_unknown_and_continues() {
    let mut world = World::new(1);
    let grant = world.hold(0, wants("a"));
    world.server.stopped = true;
    let ticket = world.release(0, grant.lease);
    let (outcome, took) = world.outcome_within(0, ticket, Duration::from_secs(9)).unwrap();
    assert_eq!(outcome, Outcome::Released(ReleaseOutcome::Unknown));
    assert_eq!(took, Duration::from_secs(3));
    world.run_for(Duration::from_secs(2));
    world.server.stopped = false;
    world.run_for(ms(1));
    assert!(world.server.records.is_empty());
    world.run_for(Duration::from_secs(10));
    assert!(
        world.clients[0].session.is_empty(),
        "{}",
        world.clients[0].session.len()
    );
}

#[test]
fn a_release_during_an_outage_follows_on_the_next_connection() {
    let mut world = World::new(1);
    let grant = world.hold(0, wants("a"));
    world.disconnect(0);
    world.release(0, grant.lease);
    world.run_for(Duration::from_secs(5));
    world.connect(0);
    world.run_for(ms(1));
    assert!(world.server.records.is_empty());
}

#[test]
fn one_seed_gives_one_trace() {
    let trace = || {
        let mut world = World::with(3, auto_renewed(1_000));
        for round in 0..60 {
            let ticket = world.acquire(
                round % 3,
                AcquireRequest {
                    wait: Some(ms(40)),
                    ..wants("a")
                },
            );
            world.run_for(ms(7));
            if round % 5 == 0 {
                world.cancel(round % 3, ticket);
            }
            if round % 11 == 0 {
                world.disconnect(round % 3);
                world.run_for(ms(3));
                world.connect(round % 3);
            }
        }
        let events: Vec<_> = world
            .clients
            .iter()
            .map(|client| format!("{:?}", client.events))
            .collect();
        (events, format!("{:?}", world.server.calls))
    };
    assert_eq!(trace(), trace());
}
