//! In one client, degraded leases of a lock and leases that a server granted exclude each other. Each test tries one
//! way in which a caller could be granted a lock of which another caller has a degraded lease.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Breaker, Call, Config, ErrorKind, Event, Grant, Kind, LeaseTerms, NodeId, OnUnavailable, Outcome,
    Primary, Reply, Script, Session, Ticket,
};

use crate::world::{NODE, Seeded, at, by_ms, config, error, from, ms, renewed, sent, wants};

/// The server's clock at `at(0)`, in µs.
const EPOCH: u64 = 1_795_000_000_000_000;
const SERVER: Primary = Primary { node: NODE, number: 0 };

fn client_with(change: impl Fn(&mut Config)) -> Session {
    let mut seed = Seeded(7);
    let mut config = config(&mut seed);
    config.breaker = Some(Breaker::DEFAULT);
    change(&mut config);
    let mut session = Session::new(config, Box::new(seed));
    session.on_connected(NODE, at(0));
    session
}

fn client() -> Session {
    client_with(|_| {})
}

fn local(kind: Kind) -> AcquireRequest {
    AcquireRequest {
        kind,
        on_unavailable: OnUnavailable::Local,
        ..wants("x")
    }
}

/// Opens the breaker of a primary.
fn outage(session: &mut Session, primary: Primary, now: u64) {
    for _ in 0..Breaker::DEFAULT.failures {
        session.on_primary(primary, Some(&"refused".into()), at(now));
    }
}

/// Closes the breaker of the server: a connection opens, and the server answers the probe.
fn is_back(session: &mut Session, now: u64) {
    session.on_primary(SERVER, None, at(now));
    let probes: Vec<Call> = calls(session, now);
    let probe = probes
        .iter()
        .find(|call| call.script == Script::LockInspect || call.script == Script::MutexInspect);
    session.on_reply(
        probe.expect("a probe").id,
        Ok(Reply::Array(vec![Reply::Int(1)])),
        at(now),
    );
}

fn calls(session: &mut Session, now: u64) -> Vec<Call> {
    sent(session, at(now)).0
}

fn asks(call: &Call) -> bool {
    use Script::{FairAcquire, FairPoll, LockAcquire, MutexAcquire};
    matches!(call.script, FairAcquire | FairPoll | LockAcquire | MutexAcquire)
}

fn text(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

/// Returns the server's clock, in µs.
fn shown(millis: u64) -> String {
    (EPOCH + millis * 1_000).to_string()
}

fn yes(millis: u64) -> Reply {
    Reply::Array(vec![Reply::Int(1), text(&shown(millis))])
}

/// Returns the reply to an attempt for a fair lock: another owner holds it.
fn held(millis: u64) -> Reply {
    Reply::Array(vec![
        Reply::Int(0),
        Reply::Int(30_000),
        text("other:1"),
        text(&shown(millis)),
    ])
}

/// Returns the reply to a poll: this owner holds the lock.
fn polled(owner: &str, millis: u64) -> Reply {
    let token = shown(millis - 10);
    Reply::Array(vec![Reply::Int(2_900), text(owner), text(&token), text(&shown(millis))])
}

fn owner(attempt: &Call) -> String {
    String::from_utf8_lossy(&attempt.args[1]).into_owned()
}

/// Returns the owner ids of the releases among these calls.
fn released(calls: &[Call]) -> Vec<String> {
    let releases = calls
        .iter()
        .filter(|call| matches!(call.script, Script::FairRelease | Script::LockRelease));
    releases
        .map(|call| String::from_utf8_lossy(&call.args[0]).into_owned())
        .collect()
}

/// Returns the grants since the last call of this function.
fn grants(session: &mut Session) -> Vec<(Ticket, Grant)> {
    let events = std::iter::from_fn(|| session.poll_event());
    let grants = events.filter_map(|event| match event {
        Event::Completed {
            ticket,
            outcome: Outcome::Granted(grant),
        } => Some((ticket, grant)),
        _ => None,
    });
    grants.collect()
}

/// Returns the only grant since the last call of `grants`, which is a degraded one to this ticket.
fn degraded(session: &mut Session, wanted: Ticket) -> Grant {
    let grants = grants(session);
    let [(ticket, grant)] = grants.as_slice() else {
        panic!("{grants:?}")
    };
    assert!(*ticket == wanted && grant.degraded, "{grants:?}");
    grant.clone()
}

/// Adds a waiter for the fair lock, which is in the server's queue. Returns its ticket, its owner id and the channel of
/// grants.
fn queued(session: &mut Session, request: AcquireRequest) -> (Ticket, String, Option<Arc<[u8]>>) {
    let ticket = session.acquire(request, at(0));
    let attempt = calls(session, 0).remove(0);
    session.on_reply(attempt.id, Ok(held(0)), at(1));
    let (_, channels) = sent(session, at(1));
    for channel in &channels {
        session.on_subscribed(NODE, channel, at(2));
    }
    for poll in calls(session, 2) {
        session.on_reply(poll.id, Ok(polled("other:1", 20)), at(2));
    }
    (ticket, owner(&attempt), channels.first().cloned())
}

#[test]
fn late_grants_of_a_fair_queue_are_released_and_no_waiter_relies_on_them() {
    let mut session = client();
    let (first, one, channel) = queued(&mut session, local(Kind::Fair));
    let (second, two, _) = queued(&mut session, local(Kind::Fair));
    session.on_timeout(at(760));
    let polls = calls(&mut session, 760);
    assert_eq!((polls.len(), polls[0].script), (1, Script::FairPoll));
    outage(&mut session, SERVER, 800);
    let here = degraded(&mut session, first);
    assert_eq!(released(&calls(&mut session, 800)), [one.clone(), two.clone()]);
    // The server grants the lock to both, one after the other: by messages, and by the reply to the poll.
    for owner in [&one, &two] {
        let message = format!("{owner} {} {}", shown(760), shown(790));
        session.on_message(NODE, channel.as_ref().unwrap(), message.as_bytes(), at(810));
    }
    session.on_reply(polls[0].id, Ok(polled(&two, 780)), at(820));
    assert_eq!(grants(&mut session), []);
    // The reply has closed the breaker. The second waiter asks only after the degraded lease is released.
    assert!(!calls(&mut session, 820).iter().any(asks));
    session.on_timeout(at(3_000));
    assert!(!calls(&mut session, 3_000).iter().any(asks));
    session.release(here.lease, at(3_001));
    let asked = calls(&mut session, 3_001);
    let attempt = asked.iter().find(|call| call.script == Script::FairAcquire).unwrap();
    assert!(owner(attempt) != one && owner(attempt) != two);
    session.on_reply(attempt.id, Ok(yes(3_001)), at(3_002));
    let granted = grants(&mut session);
    assert!(
        granted.len() == 1 && granted[0].0 == second && !granted[0].1.degraded,
        "{granted:?}"
    );
}

#[test]
fn an_attempt_that_is_granted_after_the_outage_began_is_released() {
    for kind in [Kind::Lock, Kind::Fair] {
        let mut session = client();
        let tickets = [0, 1].map(|_| session.acquire(local(kind), at(0)));
        let attempts = calls(&mut session, 0);
        outage(&mut session, SERVER, 10);
        degraded(&mut session, tickets[0]);
        let owners: Vec<String> = attempts.iter().map(owner).collect();
        assert_eq!(released(&calls(&mut session, 10)), owners, "{kind:?}");
        for attempt in attempts {
            session.on_reply(attempt.id, Ok(yes(20)), at(20));
        }
        assert_eq!(grants(&mut session), [], "{kind:?}");
        session.on_timeout(at(5_000));
        assert!(!calls(&mut session, 5_000).iter().any(asks), "{kind:?}");
    }
}

#[test]
fn callers_that_come_when_the_server_is_back_wait_for_a_degraded_lease_whatever_the_kind() {
    for kind in [Kind::Lock, Kind::Mutex, Kind::Fair] {
        let mut session = client();
        outage(&mut session, SERVER, 10);
        let ticket = session.acquire(local(kind), at(11));
        let here = degraded(&mut session, ticket);
        // The lock would be forgotten by now if it were not in use.
        session.on_timeout(at(9_000));
        is_back(&mut session, 9_001);
        session.on_disconnected(NODE, "gone", at(9_002));
        session.on_connected(NODE, at(9_003));
        let next = session.acquire(local(kind), at(9_004));
        let once = AcquireRequest {
            wait: Some(Duration::ZERO),
            ..local(kind)
        };
        session.acquire(once, at(9_005));
        let refused: Vec<Event> = std::iter::from_fn(|| session.poll_event()).collect();
        let [Event::Completed { outcome, .. }] = refused.as_slice() else {
            panic!("{kind:?}: {refused:?}")
        };
        assert_eq!(error(outcome.clone()).kind(), ErrorKind::LockTimeout, "{kind:?}");
        session.on_timeout(at(12_000));
        assert!(!calls(&mut session, 12_000).iter().any(asks), "{kind:?}");
        session.release(here.lease, at(12_001));
        let asked = calls(&mut session, 12_001);
        session.on_reply(asked[0].id, Ok(yes(12_001)), at(12_002));
        let granted = grants(&mut session);
        assert!(
            granted.len() == 1 && granted[0].0 == next && !granted[0].1.degraded,
            "{kind:?}: {granted:?}"
        );
    }
}

#[test]
fn a_holder_that_enters_again_has_the_hold_that_it_had_before() {
    let mine = |lease| AcquireRequest {
        lease,
        on_unavailable: OnUnavailable::Local,
        ..from(1, "x")
    };
    let mut session = client();
    outage(&mut session, SERVER, 10);
    let outer = session.acquire(mine(LeaseTerms::fixed(ms(60_000)).unwrap()), at(11));
    let outer = degraded(&mut session, outer);
    is_back(&mut session, 12);
    // A degraded lease stays degraded, even if it is extended.
    session.extend(outer.lease, by_ms(120_000), at(13));
    let reported: Vec<Event> = std::iter::from_fn(|| session.poll_event()).collect();
    let is_extended = |event: &Event| {
        matches!(
            event,
            Event::Completed {
                outcome: Outcome::Extended(_),
                ..
            }
        )
    };
    assert!(reported.iter().any(is_extended), "{reported:?}");
    let inner = session.acquire(mine(renewed(90_000)), at(14));
    assert_eq!(degraded(&mut session, inner).levels, 2);
    session.on_timeout(at(60_000));
    assert_eq!(calls(&mut session, 60_000), []);
    // A lease that the server granted does not become degraded in an outage.
    let mut session = client();
    session.acquire(mine(renewed(60_000)), at(0));
    let attempt = calls(&mut session, 0).remove(0);
    session.on_reply(attempt.id, Ok(yes(1)), at(1));
    assert_eq!(grants(&mut session).len(), 1);
    outage(&mut session, SERVER, 10);
    session.acquire(mine(renewed(60_000)), at(11));
    let again = grants(&mut session);
    assert!(again[0].1.levels == 2 && !again[0].1.degraded, "{again:?}");
}

/// A signal handler runs during a wait of its thread, and requests the same lock.
#[test]
fn two_waits_of_one_caller_get_two_levels_of_one_degraded_lease() {
    let mut session = client();
    let mine = AcquireRequest {
        kind: Kind::Fair,
        on_unavailable: OnUnavailable::Local,
        ..from(1, "x")
    };
    queued(&mut session, mine.clone());
    queued(&mut session, mine);
    outage(&mut session, SERVER, 10);
    let granted = grants(&mut session);
    let levels: Vec<_> = granted
        .iter()
        .map(|(_, grant)| (grant.levels, grant.degraded))
        .collect();
    assert_eq!(levels, [(1, true), (2, true)]);
}

#[test]
fn a_multi_lock_and_a_caller_of_one_of_its_locks_wait_for_each_others_degraded_leases() {
    let named = |name: &str| AcquireRequest {
        on_unavailable: OnUnavailable::Local,
        ..wants(name)
    };
    let both = || vec![named("x"), named("y")];
    let mut session = client();
    outage(&mut session, SERVER, 10);
    let ticket = session.acquire_all(both(), at(11));
    let all = degraded(&mut session, ticket);
    is_back(&mut session, 12);
    let one = session.acquire(named("y"), at(13));
    session.on_timeout(at(5_000));
    assert!(grants(&mut session).is_empty() && !calls(&mut session, 5_000).iter().any(asks));
    session.release(all.lease, at(5_001));
    let attempt = calls(&mut session, 5_001).remove(0);
    session.on_reply(attempt.id, Ok(yes(5_001)), at(5_002));
    let granted = grants(&mut session);
    assert!(
        granted.len() == 1 && granted[0].0 == one && !granted[0].1.degraded,
        "{granted:?}"
    );
    // The multi-lock waits for a lock that another caller of this client holds, even if the server could grant the
    // other one.
    let mut session = client();
    outage(&mut session, SERVER, 10);
    let ticket = session.acquire(named("x"), at(11));
    degraded(&mut session, ticket);
    is_back(&mut session, 12);
    session.acquire_all(both(), at(13));
    session.on_timeout(at(5_000));
    let asked = calls(&mut session, 5_000);
    assert!(
        !asked.iter().any(|call| asks(call) && *call.keys[0] == *b"x"),
        "{asked:?}"
    );
    assert_eq!(grants(&mut session), []);
}

#[test]
fn a_redlock_that_wants_degraded_leases_gets_none() {
    let mut session = client_with(|config| config.primaries = 3);
    for number in 0..3 {
        let node = NodeId(number);
        session.on_connected(node, at(0));
        outage(&mut session, Primary { node, number: 0 }, 10);
    }
    session.acquire(local(Kind::Lock), at(11));
    let Some(Event::Completed { outcome, .. }) = session.poll_event() else {
        panic!("it fails at once")
    };
    assert_eq!(error(outcome).kind(), ErrorKind::Unavailable);
}

#[test]
fn an_attempt_is_released_if_its_slot_moves_to_a_primary_that_is_silent() {
    for kind in [Kind::Lock, Kind::Fair] {
        let mut session = client();
        session.on_slots(NODE, vec![1_u16; 16_384].into(), at(0));
        outage(&mut session, Primary { node: NODE, number: 2 }, 1);
        let first = session.acquire(local(kind), at(2));
        session.acquire(local(kind), at(2));
        let attempts = calls(&mut session, 2);
        session.on_slots(NODE, vec![2_u16; 16_384].into(), at(3));
        degraded(&mut session, first);
        let owners: Vec<String> = attempts.iter().map(owner).collect();
        assert_eq!(released(&calls(&mut session, 3)), owners, "{kind:?}");
        for attempt in attempts {
            session.on_reply(attempt.id, Ok(yes(4)), at(4));
        }
        assert_eq!(grants(&mut session), [], "{kind:?}");
    }
}
