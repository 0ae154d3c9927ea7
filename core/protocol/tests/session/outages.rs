//! Acquisitions while a primary does not answer.

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Breaker, CallError, ErrorKind, Kind, OnUnavailable, Outcome, ReleaseOutcome, Session,
};

use crate::world::{NODE, Seeded, World, at, by_ms, config, error, first_answer, fixed, from, granted, ms, wants};

/// The time until a probe.
const PAUSE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(5);

fn with_breakers(clients: usize) -> World {
    World::with(clients, |config| config.breaker = Some(Breaker::DEFAULT))
}

fn policy(on_unavailable: OnUnavailable, name: &str) -> AcquireRequest {
    AcquireRequest {
        on_unavailable,
        ..wants(name)
    }
}

fn local(name: &str) -> AcquireRequest {
    policy(OnUnavailable::Local, name)
}

/// Stops the server, and lets so many callers fail that the breaker opens.
fn outage(world: &mut World, client: usize) {
    world.server.stopped = true;
    let tickets: Vec<_> = (0..5)
        .map(|n| world.acquire(client, wants(&format!("canary {n}"))))
        .collect();
    for ticket in tickets {
        let refusal = error(world.outcome(client, ticket));
        assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal}");
    }
}

/// Starts the server again, and waits until the breaker has closed.
fn is_back(world: &mut World) {
    world.server.stopped = false;
    world.run_for(PAUSE);
}

/// Returns the immediate outcome of a request.
fn immediate_outcome(world: &mut World, client: usize, request: AcquireRequest) -> Outcome {
    let ticket = world.acquire(client, request);
    let (outcome, took) = world.outcome_within(client, ticket, Duration::ZERO).expect("at once");
    assert_eq!(took, Duration::ZERO);
    outcome
}

fn state(world: &mut World, client: usize, name: &str) -> Outcome {
    let now = world.now;
    let name = wants(name).name;
    let ticket = world.clients[client].session.inspect(Kind::Lock, &name, now);
    world.drain(client);
    world.outcome(client, ticket)
}

fn released(world: &mut World, client: usize, lease: steadlock_protocol::LeaseId) -> Outcome {
    let ticket = world.release(client, lease);
    world.outcome(client, ticket)
}

#[test]
fn with_the_breaker_open_an_acquisition_fails_at_once_and_says_since_when_and_why() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    world.run_for(ms(1_500));
    for wait in [None, Some(Duration::ZERO), Some(Duration::from_secs(60))] {
        let refusal = error(immediate_outcome(&mut world, 0, AcquireRequest { wait, ..wants("a") }));
        assert_eq!(refusal.kind(), ErrorKind::Unavailable);
        assert!(refusal.is_retryable() && !refusal.is_skipped());
        assert_eq!(
            refusal.message(),
            "not attempted: the circuit breaker has been open for 1.5s: the server did not answer within 3s; \
             check that it is up and reachable"
        );
    }
    let refusal = error(state(&mut world, 0, "a"));
    assert!(
        refusal.message().starts_with("the circuit breaker has been open"),
        "{refusal}"
    );
}

#[test]
fn without_a_breaker_everybody_waits() {
    let mut world = World::new(1);
    outage(&mut world, 0);
    let ticket = world.acquire(0, wants("a"));
    assert!(world.outcome_within(0, ticket, ms(2_900)).is_none());
}

#[test]
fn waiters_fail_when_the_breaker_opens() {
    let mut world = with_breakers(2);
    world.hold(1, wants("held"));
    let waiting = world.acquire(0, wants("held"));
    world.run_for(ms(20));
    outage(&mut world, 0);
    let (outcome, _) = world
        .outcome_within(0, waiting, Duration::ZERO)
        .expect("with the others");
    assert!(error(outcome).message().contains("the circuit breaker has been open"));
}

#[test]
fn all_waiters_of_a_fair_lock_fail_when_the_breaker_opens() {
    let mut world = with_breakers(1);
    world.server.stopped = true;
    let canaries: Vec<_> = (0..5)
        .map(|n| world.acquire(0, wants(&format!("canary {n}"))))
        .collect();
    world.run_for(ms(20));
    let fair = AcquireRequest {
        kind: Kind::Fair,
        ..wants("held")
    };
    let waiting = [world.acquire(0, fair.clone()), world.acquire(0, fair)];
    for ticket in canaries {
        error(world.outcome(0, ticket));
    }
    for ticket in waiting {
        let (outcome, _) = world
            .outcome_within(0, ticket, Duration::ZERO)
            .expect("with the others");
        assert!(error(outcome).message().contains("the circuit breaker has been open"));
    }
}

#[test]
fn a_server_that_is_back_is_found_within_one_probe() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    world.server.calls.clear();
    is_back(&mut world);
    let grant = world.hold(0, wants("a"));
    assert!(grant.token.is_some() && !grant.degraded);
    assert!(world.clients[0].session.poll_timeout().is_some());
}

#[test]
fn a_connection_that_opens_is_a_reason_to_probe() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    world.disconnect(0);
    world.server.stopped = false;
    world.connect(0);
    world.run_for(SOON);
    assert!(!world.hold(0, local("a")).degraded);
}

#[test]
fn failed_attempts_to_connect_open_the_breaker() {
    let mut world = with_breakers(1);
    for _ in 0..5 {
        world.disconnect(0);
    }
    let refusal = error(immediate_outcome(&mut world, 0, wants("a")));
    assert!(refusal.message().ends_with(": cut"), "{refusal}");
}

#[test]
fn one_answer_between_failures_keeps_it_closed() {
    let mut world = with_breakers(1);
    for round in 0..3 {
        for _ in 0..4 {
            world.server.errors.push_back(CallError::Server {
                code: "LOADING".into(),
                message: "not yet".into(),
            });
        }
        assert!(world.hold(0, wants(&format!("a {round}"))).token.is_some());
    }
}

#[test]
fn releases_and_renewals_are_tried_throughout() {
    let mut world = with_breakers(1);
    let short = AcquireRequest {
        lease: crate::world::renewed(60_000),
        ..wants("kept")
    };
    let kept = world.hold(0, short.clone());
    let left = world.hold(
        0,
        AcquireRequest {
            name: wants("left").name,
            ..short
        },
    );
    outage(&mut world, 0);
    let ticket = world.release(0, left.lease);
    world.run_for(Duration::from_secs(20));
    assert!(world.lost(0).is_empty());
    is_back(&mut world);
    world.outcome(0, ticket);
    assert!(!world.server.records.contains_key("left"), "it was released");
    assert!(world.server.records.contains_key("kept"));
    world.run_for(Duration::from_secs(100));
    assert!(world.lost(0).is_empty(), "it was renewed");
    assert_eq!(
        released(&mut world, 0, kept.lease),
        Outcome::Released(ReleaseOutcome::Released)
    );
}

#[test]
fn any_answer_closes_it_so_a_renewal_does() {
    let mut world = with_breakers(1);
    let lease = crate::world::renewed(3_000);
    world.hold(
        0,
        AcquireRequest {
            lease,
            ..wants("renewed")
        },
    );
    world.server.errors.extend((0..5).map(|_| CallError::Server {
        code: "READONLY".into(),
        message: "a replica".into(),
    }));
    let ticket = world.acquire(0, wants("a"));
    let refusal = error(world.outcome(0, ticket));
    assert!(refusal.message().contains("READONLY"), "{refusal}");
    world.run_for(ms(1_500));
    assert!(!world.hold(0, local("a")).degraded);
}

#[test]
fn a_local_lease_excludes_others_of_its_client_and_has_no_token() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    let first = granted(immediate_outcome(&mut world, 0, local("a")));
    assert!(first.degraded && first.token.is_none());
    let once = AcquireRequest {
        wait: Some(Duration::ZERO),
        ..local("a")
    };
    assert_eq!(
        error(immediate_outcome(&mut world, 0, once)).kind(),
        ErrorKind::LockTimeout
    );
    let second = world.acquire(0, local("a"));
    assert!(world.outcome_within(0, second, Duration::from_secs(60)).is_none());
    assert_eq!(
        released(&mut world, 0, first.lease),
        Outcome::Released(ReleaseOutcome::Released)
    );
    let second = granted(world.outcome_within(0, second, Duration::ZERO).expect("at once").0);
    assert!(second.degraded);
    // The lease is auto-renewed, so it lasts until its release.
    world.run_for(Duration::from_secs(3_600));
    assert!(world.lost(0).is_empty());
    assert!(granted(immediate_outcome(&mut world, 0, local("b"))).degraded);
}

#[test]
fn a_fixed_local_lease_ends_at_its_deadline_unless_it_is_extended() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    let lease = fixed(1_000);
    let grant = granted(immediate_outcome(&mut world, 0, AcquireRequest { lease, ..local("a") }));
    let now = world.now;
    let ticket = world.clients[0].session.extend(grant.lease, by_ms(2_000), now);
    world.drain(0);
    assert!(matches!(
        world.outcome_within(0, ticket, Duration::ZERO),
        Some((Outcome::Extended(_), _))
    ));
    let next = world.acquire(0, local("a"));
    assert!(world.outcome_within(0, next, ms(1_900)).is_none());
    let (next, took) = world.outcome_within(0, next, ms(200)).expect("it has ended");
    assert!(granted(next).degraded && took <= ms(110), "{took:?}");
    assert_eq!(world.lost(0).len(), 1);
    assert_eq!(error(released(&mut world, 0, grant.lease)).kind(), ErrorKind::NotOwner);
}

#[test]
fn its_context_reenters_a_degraded_lease() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    let mine = |lease| AcquireRequest {
        lease,
        on_unavailable: OnUnavailable::Local,
        ..from(1, "a")
    };
    let outer = granted(immediate_outcome(&mut world, 0, mine(fixed(1_000))));
    let inner = granted(immediate_outcome(
        &mut world,
        0,
        mine(steadlock_protocol::LeaseTerms::CLIENT),
    ));
    assert_eq!((inner.levels, inner.degraded), (2, true));
    // The inner lease is auto-renewed, so the hold lasts.
    world.run_for(Duration::from_secs(60));
    assert!(world.lost(0).is_empty());
    for lease in [inner.lease, outer.lease] {
        assert_eq!(
            released(&mut world, 0, lease),
            Outcome::Released(ReleaseOutcome::Released)
        );
    }
    assert!(granted(immediate_outcome(&mut world, 0, local("a"))).degraded);
}

#[test]
fn a_lease_of_the_server_keeps_local_ones_waiting_until_it_ends() {
    let mut world = with_breakers(1);
    let lease = fixed(8_000);
    let held = world.hold(0, AcquireRequest { lease, ..wants("a") });
    outage(&mut world, 0);
    let once = AcquireRequest {
        wait: Some(Duration::ZERO),
        ..local("a")
    };
    assert_eq!(
        error(immediate_outcome(&mut world, 0, once)).kind(),
        ErrorKind::LockTimeout
    );
    let next = world.acquire(0, local("a"));
    let next = granted(world.outcome(0, next));
    assert!(next.degraded && world.now >= held.deadline);
    assert_eq!(world.lost(0).len(), 1);
}

/// A server that has lost the record of a fair lock grants the lock to the next caller of this client.
#[test]
fn a_lease_that_the_server_granted_beside_another_keeps_local_ones_waiting_when_the_other_is_released() {
    let mut world = with_breakers(1);
    world.server.says_yes = true;
    let fair = || AcquireRequest {
        kind: Kind::Fair,
        lease: fixed(20_000),
        ..local("a")
    };
    let first = world.hold(0, fair());
    let second = world.hold(0, fair());
    released(&mut world, 0, second.lease);
    // An unused lock would be forgotten by now.
    world.run_for(Duration::from_secs(2));
    outage(&mut world, 0);
    let next = world.acquire(0, fair());
    let next = granted(world.outcome(0, next));
    assert!(next.degraded && world.now >= first.deadline);
    assert_eq!(world.lost(0).len(), 1);
}

#[test]
fn a_local_lease_keeps_those_waiting_that_come_when_the_server_is_back() {
    let mut world = with_breakers(2);
    outage(&mut world, 0);
    let here = granted(immediate_outcome(&mut world, 0, local("a")));
    is_back(&mut world);
    let next = world.acquire(0, local("a"));
    assert!(world.outcome_within(0, next, Duration::from_secs(5)).is_none());
    assert!(!world.server.records.contains_key("a"));
    let elsewhere = world.hold(
        1,
        AcquireRequest {
            lease: fixed(500),
            ..wants("a")
        },
    );
    assert!(elsewhere.token.is_some(), "it excludes nobody elsewhere");
    released(&mut world, 0, here.lease);
    let next = granted(world.outcome(0, next));
    assert!(!next.degraded && next.token > elsewhere.token);
}

#[test]
fn a_late_grant_is_released_and_the_degraded_lease_stays() {
    let mut world = with_breakers(1);
    world.server.stopped = true;
    let tickets: Vec<_> = (0..5).map(|n| world.acquire(0, local(&format!("a {n}")))).collect();
    for ticket in &tickets {
        let grant = granted(world.outcome(0, *ticket));
        assert!(grant.degraded);
    }
    // The server now runs all calls that were sent during the outage.
    is_back(&mut world);
    world.run_for(Duration::from_secs(10));
    assert!(world.server.records.is_empty(), "{:?}", world.server.records);
    assert!(world.lost(0).is_empty());
}

#[test]
fn the_skip_policy_reports_a_skipped_acquisition() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    let Outcome::NotGranted(refusal) = immediate_outcome(&mut world, 0, policy(OnUnavailable::Skip, "a")) else {
        panic!("it is no failure");
    };
    assert!(refusal.is_skipped() && refusal.kind() == ErrorKind::Unavailable);
    assert!(
        refusal
            .to_string()
            .starts_with("acquire of lock \"a\": skipped: the circuit breaker"),
        "{refusal}"
    );
}

#[test]
fn several_locks_are_local_if_one_of_them_is() {
    let mut world = with_breakers(1);
    let lease = crate::world::renewed(60_000);
    let mine = |name| AcquireRequest {
        lease,
        context: from(1, name).context,
        ..local(name)
    };
    world.hold(0, mine("a"));
    outage(&mut world, 0);
    let now = world.now;
    let ticket = world.clients[0].session.acquire_all(vec![mine("a"), mine("b")], now);
    world.drain(0);
    let grant = granted(world.outcome(0, ticket));
    assert!(grant.degraded);
    assert_eq!(
        released(&mut world, 0, grant.lease),
        Outcome::Released(ReleaseOutcome::Released)
    );
    let all = [policy(OnUnavailable::Skip, "c"), policy(OnUnavailable::Skip, "d")];
    let ticket = world.clients[0].session.acquire_all(all.to_vec(), now);
    world.drain(0);
    assert!(error(world.outcome(0, ticket)).is_skipped());
}

#[test]
fn kinds_that_only_the_server_can_count_get_no_degraded_lease() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    let permits = steadlock_protocol::Permits::new(1, 2).unwrap();
    for kind in [Kind::Read, Kind::Write, Kind::Semaphore(permits)] {
        let refusal = error(immediate_outcome(&mut world, 0, AcquireRequest { kind, ..local("a") }));
        assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{kind:?}: {refusal}");
    }
    for kind in [Kind::Mutex, Kind::Fair] {
        let name = if kind == Kind::Fair { "fair" } else { "mutex" };
        assert!(granted(immediate_outcome(&mut world, 0, AcquireRequest { kind, ..local(name) })).degraded);
    }
}

#[test]
fn a_breaker_does_not_close_before_it_has_an_answer_though_all_want_local_leases() {
    let mut world = with_breakers(1);
    let lease = crate::world::renewed(60_000);
    for n in 0..5 {
        world.hold(
            0,
            AcquireRequest {
                lease,
                ..wants(&format!("renewed {n}"))
            },
        );
    }
    world.server.stopped = true;
    // Failed renewals open the breaker.
    world.run_for(Duration::from_secs(30));
    for n in 0..5 {
        let lease = granted(immediate_outcome(&mut world, 0, local("a"))).lease;
        released(&mut world, 0, lease);
        world.run_for(Duration::from_secs(7));
        assert!(granted(immediate_outcome(&mut world, 0, local(&format!("a {n}")))).degraded);
    }
}

#[test]
fn fixed_local_leases_of_several_locks_end_at_their_deadline() {
    let mut world = with_breakers(1);
    outage(&mut world, 0);
    let mine = |name| AcquireRequest {
        lease: fixed(1_000),
        ..local(name)
    };
    let now = world.now;
    let ticket = world.clients[0].session.acquire_all(vec![mine("a"), mine("b")], now);
    world.drain(0);
    let grant = granted(world.outcome(0, ticket));
    assert!(grant.degraded && grant.deadline <= now + ms(1_000), "{grant:?}");
    let next = world.acquire(0, local("a"));
    let (next, took) = world.outcome_within(0, next, ms(1_100)).expect("they have ended");
    assert!(granted(next).degraded && took >= ms(900), "{took:?}");
    assert_eq!(world.lost(0).len(), 1);
}

#[test]
fn several_locks_of_which_the_server_granted_one_before_it_fell_silent_are_granted_with_it() {
    let mut world = with_breakers(1);
    world.hold(
        0,
        AcquireRequest {
            lease: fixed(1_000),
            ..wants("b")
        },
    );
    let lease = crate::world::renewed(30_000);
    let mine = |name| AcquireRequest { lease, ..local(name) };
    let now = world.now;
    let ticket = world.clients[0].session.acquire_all(vec![mine("a"), mine("b")], now);
    world.drain(0);
    world.run_for(ms(20));
    outage(&mut world, 0);
    let (all, took) = world
        .outcome_within(0, ticket, Duration::from_secs(2))
        .expect("at once");
    assert!(granted(all).degraded && took <= ms(1_100), "{took:?}");
}

#[test]
fn a_server_that_answers_in_time_keeps_its_breaker_closed() {
    // Renewals of short leases are repeated before the command timeout. This does not count as a failure of the server.
    let mut world = with_breakers(1);
    for n in 0..8 {
        let lease = crate::world::renewed(600);
        world.hold(
            0,
            AcquireRequest {
                lease,
                ..wants(&format!("short {n}"))
            },
        );
    }
    world.server.stopped = true;
    world.run_for(ms(350));
    world.server.stopped = false;
    assert!(!world.hold(0, local("a")).degraded);
    // A full server still answers.
    let mut world = with_breakers(1);
    for _ in 0..8 {
        world.server.errors.push_back(CallError::Server {
            code: "OOM".into(),
            message: "full".into(),
        });
    }
    assert!(!world.hold(0, local("a")).degraded);
}

#[test]
fn short_waits_before_the_connection_is_there_are_no_failures() {
    let mut seed = Seeded(7);
    let mut config = config(&mut seed);
    config.breaker = Some(Breaker::DEFAULT);
    let mut session = Session::new(config, Box::new(seed));
    for n in 0..8 {
        let wait = Some(ms(5));
        session.acquire(AcquireRequest { wait, ..wants("a") }, at(n));
    }
    session.on_timeout(at(60));
    while session.poll_event().is_some() {}
    session.on_connected(NODE, at(61));
    assert_eq!(first_answer(&mut session, local("a"), 62), None);
}
