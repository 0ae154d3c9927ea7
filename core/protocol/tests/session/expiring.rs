//! Fixed leases that expire: the loss is reported, and the lease is forgotten.

use std::time::Duration;

use crate::world::*;
use steadlock_protocol::{
    AcquireRequest, Context, ErrorKind, Event, Kind, LeaseId, LockName, LostReason, Outcome, ReleaseOutcome, Reply,
    Script, Ticket,
};

/// Returns a request of context 1 with a fixed lease of 200 ms.
fn short(name: &str) -> AcquireRequest {
    AcquireRequest {
        lease: fixed(200),
        ..from(1, name)
    }
}

fn extend(world: &mut World, lease: LeaseId, millis: u64) -> Ticket {
    let now = world.now;
    let ticket = world.clients[0].session.extend(lease, fixed(millis).length(), now);
    world.drain(0);
    ticket
}

fn unlock(world: &mut World, name: &str) -> Outcome {
    let now = world.now;
    let name = LockName::parse(name).unwrap();
    let session = &mut world.clients[0].session;
    let ticket = session.release_innermost(&(Kind::Lock, name).into(), Context::from_u64(1), now);
    world.drain(0);
    world.outcome(0, ticket)
}

fn acquire_all(world: &mut World, requests: Vec<AcquireRequest>) -> Ticket {
    let now = world.now;
    let ticket = world.clients[0].session.acquire_all(requests, now);
    world.drain(0);
    ticket
}

#[test]
fn a_fixed_lease_that_expired_is_forgotten_once_its_loss_was_reported() {
    let mut world = World::new(1);
    let grant = world.hold(0, short("a"));
    world.run_for(ms(300));
    assert_eq!(world.lost(0).len(), 1);
    assert_eq!(world.lost(0)[0].1, grant.lease);
    assert!(!world.clients[0].session.has_lease(grant.lease));
    assert!(world.clients[0].session.is_empty());
    assert_eq!(world.calls(Script::LockRelease), 1, "in case its record lasts longer");
}

/// The extension comes after the deadline, but before its timer has fired.
#[test]
fn an_extension_after_a_deadline_says_whether_the_lease_was_fixed() {
    for (plan, cause) in [
        (fixed(300), "its fixed length passed before its release"),
        (renewed(300), "its deadline passed without a confirmed renewal"),
    ] {
        let mut world = World::new(1);
        let request = AcquireRequest {
            lease: plan,
            ..from(1, "a")
        };
        let grant = world.hold(0, request);
        let late = world.now + Duration::from_secs(1);
        let ticket = world.clients[0].session.extend(grant.lease, by_ms(500), late);
        world.drain(0);
        match world.outcome(0, ticket) {
            Outcome::Failed(error) => assert_eq!(error.cause(), Some(cause), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

/// The client's clock is set forward, and the server's clock is not.
#[test]
fn a_fixed_lease_that_ended_by_a_leap_of_the_clock_leaves_no_record() {
    let mut world = World::new(1);
    let ten_seconds = AcquireRequest {
        lease: fixed(10_000),
        ..from(1, "a")
    };
    world.hold(0, ten_seconds);
    let leapt = world.now + Duration::from_secs(20);
    world.clients[0].session.on_timeout(leapt);
    world.drain(0);
    world.run_for(ms(50));
    assert_eq!(world.lost(0)[0].2, LostReason::Expired);
    assert!(world.server.records.is_empty());
}

#[test]
fn its_context_acquires_the_lock_again_without_the_old_lease() {
    let mut world = World::new(1);
    let old = world.hold(0, short("a"));
    world.run_for(ms(300));
    let new = world.hold(0, short("a"));
    assert_eq!(new.levels, 1);
    assert!(new.token > old.token);
    assert_eq!(unlock(&mut world, "a"), Outcome::Released(ReleaseOutcome::Released));
    assert_eq!(error(unlock(&mut world, "a")).kind(), ErrorKind::NotOwner);
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn its_context_acquires_the_lock_again_at_the_deadline_before_any_timer_has_run() {
    let mut world = World::new(1);
    let old = world.hold(0, short("a"));
    let both = vec![short("b"), short("c")];
    let whole = acquire_all(&mut world, both.clone());
    let whole = granted(world.outcome(0, whole));
    world.server.stopped = true;
    let now = old.deadline.max(whole.deadline);
    let again = world.clients[0].session.acquire(short("a"), now);
    let all_again = world.clients[0].session.acquire_all(both, now);
    world.now = now;
    world.drain(0);
    world.server.stopped = false;
    granted(world.outcome(0, again));
    granted(world.outcome(0, all_again));
    assert!(world.lost(0).iter().any(|lost| lost.1 == old.lease));
    assert!(world.lost(0).iter().any(|lost| lost.1 == whole.lease));
}

/// Hundreds of leases are held at a time. Each caller gets the answer for its own lock while other leases expire.
#[test]
fn callers_are_answered_while_many_leases_expire() {
    let mut world = World::new(1);
    for number in 0..1_000 {
        world.hold(0, short(&format!("door-{number}")));
        let seat = world.hold(0, from(2, "seat"));
        let seat = world.release(0, seat.lease);
        assert_eq!(world.outcome(0, seat), Outcome::Released(ReleaseOutcome::Released));
        world.run_for(Duration::from_micros(200));
    }
    for _ in 0..300 {
        let seat = world.hold(0, from(2, "seat"));
        let seat = world.release(0, seat.lease);
        assert_eq!(world.outcome(0, seat), Outcome::Released(ReleaseOutcome::Released));
        world.run_for(ms(1));
    }
    assert_eq!(world.lost(0).len(), 1_000);
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_later_release_or_extension_is_not_owner() {
    let mut world = World::new(1);
    let grant = world.hold(0, short("a"));
    world.run_for(ms(300));
    let other = world.hold(0, from(2, "a"));
    let ticket = world.release(0, grant.lease);
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::NotOwner);
    let ticket = extend(&mut world, grant.lease, 5_000);
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::NotOwner);
    assert_eq!(error(unlock(&mut world, "a")).kind(), ErrorKind::NotOwner);
    world.run_for(ms(10));
    assert!(world.server.records.contains_key("a"), "the new holder's record stays");
    assert!(world.clients[0].session.has_lease(other.lease));
}

#[test]
fn every_level_of_a_fixed_hold_is_reported_lost_and_forgotten() {
    let mut world = World::new(1);
    let outer = world.hold(0, short("a"));
    let inner = world.hold(0, short("a"));
    world.run_for(ms(300));
    let lost_leases: Vec<_> = world.lost(0).iter().map(|lost| lost.1).collect();
    assert_eq!(lost_leases, [outer.lease, inner.lease]);
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_hold_that_is_renewed_for_one_of_its_levels_is_kept_until_it_is_left() {
    let mut world = World::with(1, auto_renewed(1_000));
    let outer = world.hold(0, short("a"));
    let inner = world.hold(0, from(1, "a"));
    world.run_for(ms(600));
    assert_eq!(world.lost(0), []);
    world.server.records.clear();
    world.run_for(ms(500));
    assert_eq!(world.lost(0).len(), 2);
    let again = world.acquire(0, short("a"));
    assert_eq!(error(world.outcome(0, again)).kind(), ErrorKind::LockLost);
    for lease in [inner.lease, outer.lease] {
        let ticket = world.release(0, lease);
        assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Expired));
    }
    world.hold(0, short("a"));
}

#[test]
fn max_hold_ends_a_fixed_lease_for_good_too() {
    let mut world = World::new(1);
    let request = AcquireRequest {
        lease: fixed(5_000),
        max_hold: Some(ms(300)),
        ..from(1, "a")
    };
    world.hold(0, request);
    world.run_for(ms(400));
    assert_eq!(world.lost(0)[0].2, LostReason::MaxHold);
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_removed_or_stolen_fixed_lease_is_forgotten_when_an_extension_finds_out() {
    for (steal, reason) in [(false, LostReason::Removed), (true, LostReason::Stolen)] {
        let mut world = World::new(1);
        let grant = world.hold(0, short("a"));
        world.server.records.clear();
        if steal {
            let thief = Record {
                owner: "thief".into(),
                expires: world.now + Duration::from_secs(60),
            };
            world.server.records.insert("a".into(), thief);
        }
        let ticket = extend(&mut world, grant.lease, 5_000);
        assert_eq!(why_lost(world.outcome(0, ticket)), Some(reason));
        assert_eq!(world.lost(0)[0].2, reason);
        world.run_for(ms(100));
        assert!(world.clients[0].session.is_empty());
        assert_eq!(world.server.records.contains_key("a"), steal);
    }
}

#[test]
fn an_unconfirmed_extension_is_released_when_the_lease_has_expired() {
    let mut world = World::new(1);
    let start = world.now;
    let grant = world.hold(0, short("a"));
    world.cut_after_execution = 1;
    extend(&mut world, grant.lease, 3_600_000);
    world.run_for(ms(50));
    assert!(world.server.records["a"].expires > start + Duration::from_secs(3_000));
    // The connection for renewals stays closed.
    world.run_for(ms(150));
    assert_eq!(world.lost(0)[0].2, LostReason::Expired);
    world.connect(0);
    world.run_for(ms(100));
    assert!(!world.server.records.contains_key("a"), "it would stay for an hour");
    assert!(world.clients[0].session.is_empty());
    world.hold(0, short("a"));
}

#[test]
fn a_record_that_may_outlast_its_expired_lease_is_released_only_after_the_ttl_of_the_lease() {
    let mut world = World::new(1);
    let start = world.now;
    let grant = world.hold(
        0,
        AcquireRequest {
            lease: fixed(20_000),
            ..from(1, "a")
        },
    );
    world.server.stopped = true;
    extend(&mut world, grant.lease, 30_000);
    world.run_for(ms(19_800));
    assert_eq!(world.lost(0)[0].0, start + ms(19_780));
    world.server.stopped = false;
    world.run_for(ms(150));
    assert_eq!(world.calls(Script::LockRelease), 0, "the program may still be inside");
    world.run_for(ms(100));
    assert_eq!(world.calls(Script::LockRelease), 1);
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_client_that_closes_does_not_wait_to_release_expired_leases() {
    let mut world = World::new(1);
    let request = AcquireRequest {
        lease: fixed(20_000),
        ..from(1, "a")
    };
    let grant = world.hold(0, request);
    world.server.stopped = true;
    extend(&mut world, grant.lease, 30_000);
    world.run_for(ms(19_800));
    world.server.stopped = false;
    let now = world.now;
    world.clients[0].session.close(now);
    world.drain(0);
    world.run_for(ms(1));
    assert!(world.clients[0].session.is_drained());
    assert!(world.server.records.is_empty());
}

#[test]
fn several_fixed_leases_are_forgotten_as_one() {
    let mut world = World::new(1);
    let both = || vec![short("a"), short("b")];
    let outer = acquire_all(&mut world, both());
    let outer = granted(world.outcome(0, outer));
    let inner = acquire_all(&mut world, both());
    let inner = granted(world.outcome(0, inner));
    world.run_for(ms(300));
    let lost_leases: Vec<_> = world.lost(0).iter().map(|lost| lost.1).collect();
    assert_eq!(lost_leases, [outer.lease, inner.lease]);
    assert!(world.clients[0].session.is_empty());
    let ticket = world.release(0, inner.lease);
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::NotOwner);
    let again = acquire_all(&mut world, both());
    assert_eq!(granted(world.outcome(0, again)).levels, 1);
}

#[test]
fn a_hold_around_a_fixed_multi_lock_stays_when_that_expires() {
    let mut world = World::with(1, auto_renewed(1_000));
    let around = world.hold(0, from(1, "a"));
    let both = acquire_all(&mut world, vec![short("a"), short("b")]);
    let both = granted(world.outcome(0, both));
    world.run_for(ms(3_000));
    let lost_leases: Vec<_> = world.lost(0).iter().map(|lost| lost.1).collect();
    assert_eq!(lost_leases, [both.lease]);
    assert!(world.server.records.contains_key("a"));
    let ticket = world.release(0, around.lease);
    assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Released));
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_fixed_lease_around_several_stays_fixed_whether_they_are_granted_or_not() {
    for is_granted in [true, false] {
        let mut world = World::new(2);
        let around = AcquireRequest {
            lease: fixed(1_000),
            ..from(1, "a")
        };
        let around = world.hold(0, around);
        if !is_granted {
            world.hold(1, wants("b"));
        }
        let once = |name| AcquireRequest {
            wait: Some(Duration::ZERO),
            ..short(name)
        };
        let both = acquire_all(&mut world, vec![once("a"), once("b")]);
        match world.outcome(0, both) {
            Outcome::Granted(both) if is_granted => drop(world.release(0, both.lease)),
            Outcome::NotGranted(_) if !is_granted => {}
            other => panic!("{other:?}"),
        }
        world.run_for(ms(3_000));
        let lost: Vec<LeaseId> = world.lost(0).iter().map(|lost| lost.1).collect();
        assert_eq!(lost, [around.lease]);
        assert!(!world.server.records.contains_key("a"));
    }
}

#[test]
fn several_that_are_renewed_are_kept_until_they_are_left() {
    let mut world = World::with(1, auto_renewed(1_000));
    let both = || vec![from(1, "a"), from(1, "b")];
    let held = acquire_all(&mut world, both());
    let held = granted(world.outcome(0, held));
    world.server.records.clear();
    world.run_for(ms(500));
    let again = acquire_all(&mut world, both());
    assert_eq!(why_lost(world.outcome(0, again)), Some(LostReason::Removed));
    let ticket = world.release(0, held.lease);
    assert_eq!(world.outcome(0, ticket), Outcome::Released(ReleaseOutcome::Expired));
    let again = acquire_all(&mut world, both());
    granted(world.outcome(0, again));
}

#[test]
fn the_other_members_of_a_fixed_multi_lock_are_released_when_one_is_lost() {
    let mut world = World::new(1);
    let long = |name| AcquireRequest {
        lease: fixed(20_000),
        ..from(1, name)
    };
    let held = acquire_all(&mut world, vec![long("a"), long("b")]);
    let held = granted(world.outcome(0, held));
    world.server.records.remove("b");
    let ticket = extend(&mut world, held.lease, 25_000);
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::LockLost);
    assert_eq!(world.lost(0)[0].2, LostReason::Removed);
    world.run_for(ms(10));
    assert!(world.server.records.is_empty(), "nobody else would release it for 20 s");
    assert!(world.clients[0].session.is_empty());
}

/// The program was paused, and handles the answer before its timers.
#[test]
fn a_renewal_that_is_answered_when_it_is_over_lets_nobody_in_again_and_extends_nothing() {
    for enters in [true, false] {
        let mut session = connected();
        let mine = |millis| AcquireRequest {
            lease: fixed(millis),
            ..from(1, "a")
        };
        session.acquire(mine(300), at(0));
        let (calls, _) = sent(&mut session, at(0));
        let granted = Reply::Array(vec![Reply::Int(1), Reply::Bytes(b"7".to_vec())]);
        session.on_reply(calls[0].id, Ok(granted), at(1));
        let Some(Event::Completed {
            outcome: Outcome::Granted(grant),
            ..
        }) = session.poll_event()
        else {
            panic!("it is granted");
        };
        let ticket = match enters {
            true => session.acquire(mine(500), at(100)),
            false => session.extend(grant.lease, by_ms(500), at(100)),
        };
        let (calls, _) = sent(&mut session, at(100));
        session.on_reply(calls[0].id, Ok(Reply::Array(vec![Reply::Int(1)])), at(2_000));
        let events: Vec<Event> = std::iter::from_fn(|| session.poll_event()).collect();
        let is_lost = |event: &Event| {
            matches!(
                event,
                Event::Lost {
                    reason: LostReason::Expired,
                    ..
                }
            )
        };
        assert_eq!(events.iter().filter(|event| is_lost(event)).count(), 1, "{events:?}");
        let refused = events.into_iter().find_map(|event| match event {
            Event::Completed { ticket: of, outcome } if of == ticket => Some(outcome),
            Event::Renewed { .. } => panic!("the lease has expired"),
            _ => None,
        });
        assert_eq!(why_lost(refused.expect("it is refused")), Some(LostReason::Expired));
    }
}
