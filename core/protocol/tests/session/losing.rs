//! Leases that are kept, and leases that are lost.

use std::time::Duration;

use crate::world::*;
use steadlock_protocol::{
    AcquireRequest, CallError, ErrorKind, Event, LostReason, Operation, Outcome, ReleaseOutcome, Script,
};

#[test]
fn the_watchdog_keeps_a_lock_while_it_is_held_and_not_longer() {
    let mut world = World::with(1, auto_renewed(1_000));
    let grant = world.hold(0, wants("a"));
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.lost(0), []);
    assert!(world.server.records.contains_key("a"));
    let renewals = world.calls(Script::LockRenew);
    // A renewal comes after a third of the lease, or up to a tenth of that time earlier.
    assert!((180..=200).contains(&renewals), "{renewals}");
    world.release(0, grant.lease);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.calls(Script::LockRenew), renewals);
    assert!(world.server.records.is_empty());
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn locks_that_are_taken_together_are_not_renewed_together_nor_later_than_after_a_third() {
    let mut world = World::with(1, auto_renewed(3_000));
    let tickets: Vec<_> = (0..100)
        .map(|number| world.acquire(0, wants(&format!("name-{number}"))))
        .collect();
    let start = world.now;
    for ticket in tickets {
        granted(world.outcome(0, ticket));
    }
    world.run_for(ms(899) - world.now.saturating_since(start));
    assert_eq!(world.calls(Script::LockRenew), 0);
    let mut before = 0;
    for _ in 0..21 {
        world.run_for(ms(5));
        let sent = world.calls(Script::LockRenew);
        assert!(sent - before < 20, "{} within 5 ms", sent - before);
        before = sent;
    }
    assert_eq!(before, 100);
}

#[test]
fn a_removed_record_is_reported_within_a_third_of_the_lease() {
    let mut world = World::with(1, auto_renewed(3_000));
    let grant = world.hold(0, wants("a"));
    world.run_for(ms(100));
    world.server.records.clear();
    world.run_for(ms(1_500));
    assert_eq!(
        world.lost(0).iter().map(|lost| (lost.1, lost.2)).collect::<Vec<_>>(),
        [(grant.lease, LostReason::Removed)]
    );
    let ticket = world.release(0, grant.lease);
    assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Expired));
}

#[test]
fn a_stolen_record_is_reported_and_left_alone() {
    let mut world = World::with(1, auto_renewed(3_000));
    let grant = world.hold(0, wants("a"));
    let thief = Record {
        owner: "thief".into(),
        expires: world.now + Duration::from_secs(60),
    };
    world.server.records.insert("a".into(), thief);
    world.run_for(ms(1_500));
    assert_eq!(world.lost(0)[0].2, LostReason::Stolen);
    let ticket = world.release(0, grant.lease);
    assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Stolen));
    world.run_for(ms(100));
    assert_eq!(world.server.records["a"].owner, "thief");
}

#[test]
fn silence_is_reported_before_the_record_can_expire() {
    for disconnected in [false, true] {
        let mut world = World::with(1, auto_renewed(1_000));
        world.hold(0, wants("a"));
        world.run_for(ms(2_123));
        if disconnected {
            world.disconnect(0);
        } else {
            world.server.stopped = true;
        }
        let expires = world.server.records["a"].expires;
        world.run_for(Duration::from_secs(5));
        let lost = world.lost(0);
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].2, LostReason::Expired);
        assert!(lost[0].0 < expires, "{} {}", lost[0].0, expires);
    }
}

#[test]
fn a_short_outage_costs_no_lease() {
    let mut world = World::with(1, auto_renewed(3_000));
    world.hold(0, wants("a"));
    for _ in 0..10 {
        world.run_for(ms(900));
        world.disconnect(0);
        world.run_for(ms(900));
        world.connect(0);
    }
    assert_eq!(world.lost(0), []);
}

#[test]
fn a_fixed_lease_ends_at_its_deadline_without_renewal() {
    let mut world = World::new(1);
    let start = world.now;
    let grant = world.hold(
        0,
        AcquireRequest {
            lease: fixed(1_000),
            ..wants("a")
        },
    );
    assert_eq!(grant.deadline, start + ms(970));
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.calls(Script::LockRenew), 0);
    assert_eq!(world.lost(0), [(start + ms(970), grant.lease, LostReason::Expired)]);
}

#[test]
fn a_long_fixed_lease_is_asked_for_in_steps_so_that_an_orphan_lives_thirty_seconds() {
    let mut world = World::new(1);
    let start = world.now;
    world.acquire(
        0,
        AcquireRequest {
            lease: fixed(3_600_000),
            ..wants("a")
        },
    );
    world.run_for(LATENCY);
    assert_eq!(
        world.server.records["a"].expires,
        start + LATENCY + Duration::from_secs(30)
    );
    world.run_for(ms(10));
    assert!(world.server.records["a"].expires >= start + Duration::from_secs(3_600));
    world.run_for(Duration::from_secs(3_000));
    assert_eq!(world.lost(0), []);
    assert_eq!(world.calls(Script::LockRenew), 1);
}

#[test]
fn max_hold_ends_an_auto_renewed_lease_and_its_record_together() {
    let mut world = World::with(1, auto_renewed(1_000));
    let start = world.now;
    world.hold(
        0,
        AcquireRequest {
            max_hold: Some(ms(5_000)),
            ..wants("a")
        },
    );
    world.run_for(Duration::from_secs(10));
    let lost = world.lost(0);
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].2, LostReason::MaxHold);
    assert!(
        lost[0].0 > start + ms(4_900) && lost[0].0 < start + ms(5_000),
        "{}",
        lost[0].0
    );
    assert!(!world.server.records.contains_key("a") || world.server.records["a"].expires <= start + ms(5_002));
}

#[test]
fn a_thousand_auto_renewed_leases_are_all_kept() {
    let mut world = World::with(1, auto_renewed(1_000));
    for n in 0..1_000 {
        world.hold(0, wants(&format!("lock-{n}")));
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.lost(0), []);
    assert_eq!(world.server.records.len(), 1_000);
}

#[test]
fn extending_makes_a_lease_longer_and_never_shorter() {
    let mut world = World::new(1);
    let start = world.now;
    let grant = world.hold(
        0,
        AcquireRequest {
            lease: fixed(1_000),
            ..wants("a")
        },
    );
    for (by, record) in [(5_000, 5_000), (2_000, 5_000)] {
        let now = world.now;
        let ticket = world.clients[0].session.extend(grant.lease, by_ms(by), now);
        world.drain(0);
        let Outcome::Extended(deadline) = world.outcome(0, ticket) else {
            panic!()
        };
        assert!(deadline > start + ms(record - 100));
    }
    assert_eq!(world.calls(Script::LockRenew), 1);
}

#[test]
fn an_extension_right_behind_another_is_confirmed_with_it() {
    let mut world = World::new(1);
    let request = AcquireRequest {
        lease: fixed(1_000),
        ..wants("a")
    };
    let grant = world.hold(0, request);
    let now = world.now;
    let first = world.clients[0].session.extend(grant.lease, by_ms(5_000), now);
    world.drain(0);
    world.run_for(Duration::from_micros(50));
    let now = world.now;
    let second = world.clients[0].session.extend(grant.lease, by_ms(5_000), now);
    world.drain(0);
    for ticket in [first, second] {
        let outcome = world.outcome(0, ticket);
        assert!(matches!(outcome, Outcome::Extended(_)), "{outcome:?}");
    }
    assert_eq!(world.calls(Script::LockRenew), 1);
}

#[test]
fn extending_a_lost_lease_fails() {
    let mut world = World::with(1, auto_renewed(1_000));
    let grant = world.hold(0, wants("a"));
    world.server.records.clear();
    world.run_for(ms(500));
    let now = world.now;
    let ticket = world.clients[0].session.extend(grant.lease, by_ms(5_000), now);
    world.drain(0);
    assert_eq!(why_lost(world.outcome(0, ticket)), Some(LostReason::Removed));
}

#[test]
fn a_record_that_is_taken_away_is_noticed_also_when_it_lasts_to_the_end_of_max_hold() {
    let mut world = World::with(1, auto_renewed(3_000));
    let request = AcquireRequest {
        max_hold: Some(ms(2_500)),
        ..wants("a")
    };
    world.hold(0, request);
    world.server.records.clear();
    world.run_for(ms(1_500));
    assert_eq!(world.lost(0)[0].2, LostReason::Removed);
}

#[test]
fn closing_loses_and_then_releases_what_is_held() {
    let mut world = World::new(2);
    world.hold(0, wants("a"));
    let waiter = world.acquire(0, wants("a"));
    let now = world.now;
    world.clients[0].session.close(now);
    world.drain(0);
    assert_eq!(error(world.outcome(0, waiter)).kind(), ErrorKind::Closed);
    assert_eq!(world.lost(0)[0].2, LostReason::Closed);
    world.run_for(ms(1));
    assert!(world.clients[0].session.is_drained());
    assert!(world.server.records.is_empty());
    let ticket = world.acquire(0, wants("b"));
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::Closed);
}

#[test]
fn closing_with_several_waiters_asks_for_nothing_more() {
    let mut world = World::new(2);
    world.hold(1, wants("a"));
    let waiters: Vec<_> = (0..3).map(|_| world.acquire(0, wants("a"))).collect();
    world.run_for(ms(10));
    let before = world.calls(Script::LockAcquire);
    let now = world.now;
    world.clients[0].session.close(now);
    world.drain(0);
    for waiter in waiters {
        assert_eq!(error(world.outcome(0, waiter)).kind(), ErrorKind::Closed);
    }
    world.run_for(ms(10));
    assert_eq!(world.calls(Script::LockAcquire), before);
}

#[test]
fn a_deadline_counts_from_before_the_request_not_from_its_answer() {
    let mut world = World::with(1, auto_renewed(3_000));
    world.reply_latency = ms(200);
    let start = world.now;
    let grant = world.hold(0, wants("a"));
    assert_eq!(grant.deadline, start + ms(2_950));
    world.run_for(ms(1_500));
    let renewed = |event: &(_, Event)| match event.1 {
        Event::Renewed { deadline, .. } => Some(deadline),
        _ => None,
    };
    let deadlines: Vec<_> = world.clients[0].events.iter().filter_map(renewed).collect();
    let asked: Vec<_> = deadlines
        .iter()
        .map(|deadline| deadline.saturating_since(start) - ms(2_950))
        .collect();
    assert!(
        matches!(asked[..], [once] if once >= ms(900) && once <= ms(1_000)),
        "{asked:?}"
    );
}

fn refusal(code: &str) -> CallError {
    CallError::Server {
        code: code.into(),
        message: "the server's words.".into(),
    }
}

#[test]
fn an_extension_that_a_server_refuses_for_now_says_what_it_said() {
    for code in ["OOM", "READONLY", "NOREPLICAS", "LOADING"] {
        let mut world = World::with(1, auto_renewed(9_000));
        let grant = world.hold(0, wants("a"));
        for _ in 0..200 {
            world.server.errors.push_back(refusal(code));
        }
        let now = world.now;
        let ticket = world.clients[0].session.extend(grant.lease, by_ms(60_000), now);
        world.drain(0);
        let failed = error(world.outcome(0, ticket));
        assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
        assert!(failed.message().contains(code), "{failed}");
        assert!(!failed.message().contains("did not answer"), "{failed}");
        assert_eq!(world.now.saturating_since(now), Duration::from_secs(3));
        assert!(world.lost(0).is_empty());
        // The server serves again.
        world.server.errors.clear();
        world.run_for(Duration::from_secs(9));
        assert!(world.lost(0).is_empty());
    }
}

#[test]
fn an_extension_that_a_server_refuses_for_good_fails_at_once_and_the_lease_lasts() {
    let mut world = World::with(1, auto_renewed(9_000));
    let grant = world.hold(0, wants("a"));
    world.server.errors.push_back(refusal("NOPERM"));
    let now = world.now;
    let ticket = world.clients[0].session.extend(grant.lease, by_ms(60_000), now);
    world.drain(0);
    let failed = error(world.outcome(0, ticket));
    assert_eq!(failed.kind(), ErrorKind::Misconfigured, "{failed}");
    assert_eq!((failed.operation(), failed.lock_name()), (Operation::Extend, Some("a")));
    assert!(world.now.saturating_since(now) < ms(100));
    world.run_for(Duration::from_secs(9));
    assert!(world.lost(0).is_empty());
}

#[test]
fn an_extension_without_a_connection_says_so() {
    let mut world = World::with(1, auto_renewed(9_000));
    let grant = world.hold(0, wants("a"));
    world.disconnect(0);
    let now = world.now;
    let ticket = world.clients[0].session.extend(grant.lease, by_ms(60_000), now);
    world.drain(0);
    let failed = error(world.outcome(0, ticket));
    assert!(failed.message().contains("not connected"), "{failed}");
    assert!(!failed.message().contains("did not answer"), "{failed}");
}
