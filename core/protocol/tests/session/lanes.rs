//! The lanes of a node. A lane is a connection that opens and closes on its own.

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Call, CallError, CallId, Event, Instant, Kind, Lane, LeaseDuration, LeaseId, Outcome,
    ReleaseOutcome, Reply, Script, Session, Ticket, Transmit,
};

use crate::world::{NODE, Seeded, at, config, fixed, ms, wants};

/// The client's lease.
const LEASE: Duration = Duration::from_secs(30);

fn connected() -> Session {
    let mut seed = Seeded(7);
    let mut session = Session::new(config(&mut seed), Box::new(seed));
    session.on_lane_opened(NODE, Lane::Renewal, at(0));
    session.on_lane_opened(NODE, Lane::Command, at(0));
    session
}

/// Returns the calls that the session hands out.
fn handed_out(session: &mut Session) -> Vec<Call> {
    let items = std::iter::from_fn(|| session.poll_transmit());
    items
        .filter_map(|item| match item {
            Transmit::Call(call) => Some(call),
            _ => None,
        })
        .collect()
}

/// Returns the calls that the session hands out, and reports them as sent.
fn sent(session: &mut Session, now: Instant) -> Vec<Call> {
    let calls = handed_out(session);
    for call in &calls {
        session.on_sent(call.id, now);
    }
    calls
}

fn lanes(calls: &[Call]) -> Vec<(Script, Lane)> {
    calls.iter().map(|call| (call.script, call.lane)).collect()
}

fn yes() -> Result<Reply, CallError> {
    let token = Reply::Bytes(b"7".to_vec());
    Ok(Reply::Array(vec![Reply::Int(1), token]))
}

/// Returns the reply to a renewal.
fn kept() -> Result<Reply, CallError> {
    Ok(Reply::Array(vec![Reply::Int(1)]))
}

fn cut() -> Result<Reply, CallError> {
    Err(CallError::Disconnected("cut".into()))
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.poll_event()).collect()
}

/// Acquires a lock.
fn hold(session: &mut Session, request: AcquireRequest, now: Instant) -> LeaseId {
    session.acquire(request, now);
    let calls = sent(session, now);
    session.on_reply(calls[0].id, yes(), now);
    match events(session).as_slice() {
        [
            Event::Completed {
                outcome: Outcome::Granted(grant),
                ..
            },
        ] => grant.lease,
        other => panic!("{other:?}"),
    }
}

/// Lets time pass until the session hands out calls.
fn next(session: &mut Session) -> (Instant, Vec<Call>) {
    loop {
        let due = session.poll_timeout().expect("something to do");
        session.on_timeout(due);
        let calls = sent(session, due);
        if !calls.is_empty() {
            return (due, calls);
        }
    }
}

fn is_lost(session: &mut Session) -> bool {
    events(session).iter().any(|event| matches!(event, Event::Lost { .. }))
}

#[test]
fn a_renewal_takes_the_lane_that_is_open() {
    for closed in [Lane::Command, Lane::Renewal] {
        let open = match closed {
            Lane::Command => Lane::Renewal,
            Lane::Renewal => Lane::Command,
        };
        let mut session = connected();
        hold(&mut session, wants("a"), at(0));
        session.on_lane_closed(NODE, closed, "full", at(1));
        let mut last = at(1);
        for _ in 0..10 {
            let (now, calls) = next(&mut session);
            assert_eq!(lanes(&calls), [(Script::LockRenew, open)]);
            last = now + ms(1);
            session.on_reply(calls[0].id, kept(), last);
        }
        assert!(!is_lost(&mut session));
        session.on_lane_opened(NODE, closed, last);
        let again = sent(&mut session, last);
        // The lane that has opened may lead to another server, which has no record.
        assert_eq!(lanes(&again), [(Script::LockRenew, closed)]);
        let gone = Ok(Reply::Array(vec![Reply::Int(0)]));
        session.on_reply(again[0].id, gone, last + ms(1));
        assert!(is_lost(&mut session));
    }
}

#[test]
fn a_renewal_that_is_not_answered_is_asked_for_on_the_other_lane() {
    let mut session = connected();
    hold(&mut session, wants("a"), at(0));
    let (first, calls) = next(&mut session);
    assert_eq!(lanes(&calls), [(Script::LockRenew, Lane::Renewal)]);
    // The connection is dead, but the client has not noticed.
    let (second, calls) = next(&mut session);
    assert_eq!(lanes(&calls), [(Script::LockRenew, Lane::Command)]);
    assert!(second <= first + LEASE / 6, "{second:?}");
    session.on_reply(calls[0].id, kept(), second + ms(1));
    let (_, calls) = next(&mut session);
    assert_eq!(lanes(&calls), [(Script::LockRenew, Lane::Renewal)], "it is tried again");
    assert!(!is_lost(&mut session));
}

#[test]
fn a_renewal_that_was_cut_off_goes_by_the_other_lane_though_its_own_is_back() {
    let mut session = connected();
    hold(&mut session, wants("a"), at(0));
    let (now, calls) = next(&mut session);
    assert_eq!(lanes(&calls), [(Script::LockRenew, Lane::Renewal)]);
    session.on_lane_closed(NODE, Lane::Renewal, "cut", now);
    session.on_reply(calls[0].id, cut(), now);
    session.on_lane_opened(NODE, Lane::Renewal, now + ms(1));
    assert_eq!(
        lanes(&sent(&mut session, now + ms(1))),
        [(Script::LockRenew, Lane::Command)]
    );
}

#[test]
fn a_renewal_does_not_wait_for_a_lane_that_closed_before_it_was_sent() {
    let mut session = connected();
    hold(&mut session, wants("a"), at(0));
    let due = session.poll_timeout().unwrap();
    session.on_timeout(due);
    assert_eq!(lanes(&handed_out(&mut session)), [(Script::LockRenew, Lane::Renewal)]);
    session.on_lane_closed(NODE, Lane::Renewal, "cut", due);
    let (then, calls) = next(&mut session);
    assert_eq!(lanes(&calls), [(Script::LockRenew, Lane::Command)]);
    assert!(then <= due + ms(50), "{then:?}");
}

#[test]
fn with_both_lanes_closed_a_lock_is_renewed_as_soon_as_one_opens() {
    for opened in [Lane::Command, Lane::Renewal] {
        let mut session = connected();
        hold(&mut session, wants("a"), at(0));
        session.on_disconnected(NODE, "cut", at(1));
        while session.poll_timeout().unwrap() < at(20_000) {
            let due = session.poll_timeout().unwrap();
            session.on_timeout(due);
        }
        assert!(handed_out(&mut session).is_empty());
        session.on_lane_opened(NODE, opened, at(20_000));
        assert_eq!(lanes(&sent(&mut session, at(20_000))), [(Script::LockRenew, opened)]);
    }
}

#[test]
fn callers_wait_for_the_command_lane_and_their_error_says_why_it_is_closed() {
    let mut session = connected();
    session.on_lane_closed(NODE, Lane::Command, "h:1: max number of clients reached", at(1));
    let bounded = AcquireRequest {
        wait: Some(ms(100)),
        ..wants("a")
    };
    session.acquire(bounded, at(2));
    assert!(handed_out(&mut session).is_empty(), "an attempt takes no other lane");
    session.on_timeout(at(102));
    match events(&mut session).as_slice() {
        [
            Event::Completed {
                outcome: Outcome::Failed(error),
                ..
            },
        ] => assert!(error.message().contains("max number of clients reached"), "{error}"),
        other => panic!("{other:?}"),
    }
    session.acquire(wants("a"), at(200));
    session.on_lane_opened(NODE, Lane::Command, at(300));
    assert_eq!(
        lanes(&sent(&mut session, at(300))),
        [(Script::LockAcquire, Lane::Command)]
    );
}

#[test]
fn a_settled_hold_is_released_on_either_lane() {
    let mut session = connected();
    let lease = hold(&mut session, wants("a"), at(0));
    session.on_lane_closed(NODE, Lane::Command, "cut", at(1));
    session.release(lease, at(2));
    assert_eq!(
        lanes(&sent(&mut session, at(2))),
        [(Script::LockRelease, Lane::Renewal)]
    );
}

/// Returns a session with a release that was sent twice: on the renewal lane while the command lane was closed, and on
/// the command lane when that was open again. Also returns the ticket, and the two calls, which are not answered.
fn released_by_both_lanes() -> (Session, Ticket, [CallId; 2]) {
    let mut session = connected();
    let lease = hold(&mut session, wants("a"), at(0));
    session.on_lane_closed(NODE, Lane::Command, "silent", at(1));
    let ticket = session.release(lease, at(2));
    let first = sent(&mut session, at(2));
    session.on_lane_opened(NODE, Lane::Command, at(50));
    let again = sent(&mut session, at(50));
    assert_eq!(lanes(&again), [(Script::LockRelease, Lane::Command)]);
    (session, ticket, [first[0].id, again[0].id])
}

/// Returns the reply to a release that found no record (0) or that of another owner (2).
fn found(what: i64) -> Result<Reply, CallError> {
    Ok(Reply::Array(vec![Reply::Int(what)]))
}

fn release_events(ticket: Ticket, outcome: ReleaseOutcome) -> [Event; 1] {
    let outcome = Outcome::Released(outcome);
    [Event::Completed { ticket, outcome }]
}

#[test]
fn a_release_on_a_lane_that_may_be_dead_is_sent_again_when_the_other_is_back() {
    let (mut session, ticket, [first, again]) = released_by_both_lanes();
    session.on_reply(again, kept(), at(51));
    assert_eq!(events(&mut session), release_events(ticket, ReleaseOutcome::Released));
    session.on_lane_closed(NODE, Lane::Renewal, "silent", at(6_000));
    session.on_reply(first, cut(), at(6_000));
    assert!(session.is_drained() && sent(&mut session, at(6_000)).is_empty());
}

#[test]
fn a_release_that_may_have_run_on_the_other_lane_is_no_loss() {
    // The record is gone by then, or belongs to another owner that the first release woke.
    for what in [0, 2] {
        let (mut session, ticket, [_, again]) = released_by_both_lanes();
        session.on_reply(again, found(what), at(51));
        assert_eq!(events(&mut session), release_events(ticket, ReleaseOutcome::Released));
    }
}

#[test]
fn a_release_that_found_nothing_on_either_lane_tells_of_the_loss() {
    for (what, outcome) in [(0, ReleaseOutcome::Expired), (2, ReleaseOutcome::Stolen)] {
        let (mut session, ticket, [first, again]) = released_by_both_lanes();
        session.on_reply(first, found(what), at(51));
        assert_eq!(events(&mut session), []);
        session.on_reply(again, found(what), at(52));
        assert_eq!(events(&mut session), release_events(ticket, outcome));
    }
}

#[test]
fn a_release_does_not_overtake_what_may_still_run() {
    // An attempt was cut off, and may run on the server after everything else.
    let mut session = connected();
    let ticket = session.acquire(wants("a"), at(0));
    let calls = sent(&mut session, at(0));
    session.on_lane_closed(NODE, Lane::Command, "cut", at(1));
    session.on_reply(calls[0].id, cut(), at(1));
    session.cancel(ticket, at(2));
    assert!(handed_out(&mut session).is_empty(), "its compensation waits");
    session.on_lane_opened(NODE, Lane::Command, at(3));
    assert_eq!(
        lanes(&sent(&mut session, at(3))),
        [(Script::LockRelease, Lane::Command)]
    );

    // A poll that was cut off may also run later, and would put its waiter into the queue again.
    let mut session = connected();
    let fair = AcquireRequest {
        kind: Kind::Fair,
        ..wants("a")
    };
    let lease = hold(&mut session, fair, at(0));
    session.on_lane_closed(NODE, Lane::Command, "cut", at(1));
    session.release(lease, at(2));
    assert!(handed_out(&mut session).is_empty());
}

#[test]
fn a_lost_lane_takes_no_subscription_with_it() {
    let held = || {
        Ok(Reply::Array(vec![
            Reply::Int(0),
            Reply::Int(60_000),
            Reply::Bytes(b"other:1".to_vec()),
        ]))
    };
    for is_silent in [false, true] {
        let mut session = connected();
        session.acquire(wants("a"), at(0));
        let call = loop {
            match session.poll_transmit() {
                Some(Transmit::Call(call)) => break call,
                Some(_) => {}
                None => panic!("no attempt"),
            }
        };
        session.on_sent(call.id, at(0));
        session.on_reply(call.id, held(), at(1));
        let channel = std::iter::from_fn(|| session.poll_transmit()).find_map(|item| match item {
            Transmit::Subscribe { channel, .. } => Some(channel),
            _ => None,
        });
        session.on_subscribed(NODE, &channel.expect("it listens"), at(2));
        let calls = sent(&mut session, at(2));
        session.on_reply(calls[0].id, held(), at(4));
        if is_silent {
            session.on_subscriptions_lost(NODE);
        }
        session.on_lane_closed(NODE, Lane::Command, "cut", at(5));
        session.on_lane_opened(NODE, Lane::Command, at(6));
        let calls = sent(&mut session, at(10));
        session.on_reply(calls[0].id, yes(), at(11));
        let lease = match events(&mut session).pop() {
            Some(Event::Completed {
                outcome: Outcome::Granted(grant),
                ..
            }) => grant.lease,
            other => panic!("{other:?}"),
        };
        // The reply says that one connection received the message. If the client is still subscribed, that is its own
        // connection, so no other client waits and the next waiter of this client need not pause.
        session.release(lease, at(12));
        let calls = sent(&mut session, at(12));
        session.on_reply(
            calls[0].id,
            Ok(Reply::Array(vec![Reply::Int(1), Reply::Int(1)])),
            at(13),
        );
        let mut pauses = false;
        for grant in 0..17 {
            let now = at(13 + grant);
            session.acquire(wants("a"), now);
            let calls = sent(&mut session, now);
            let Some(call) = calls.first() else {
                pauses = true;
                break;
            };
            session.on_reply(call.id, yes(), now);
            let granted = events(&mut session);
            let lease = granted.iter().find_map(|event| match event {
                Event::Completed {
                    outcome: Outcome::Granted(grant),
                    ..
                } => Some(grant.lease),
                _ => None,
            });
            session.release(lease.expect("granted"), now);
            let calls = sent(&mut session, now);
            session.on_reply(calls[0].id, Ok(Reply::Array(vec![Reply::Int(1), Reply::Int(1)])), now);
            events(&mut session);
        }
        assert_eq!(pauses, is_silent);
    }
}

#[test]
fn a_record_that_an_unanswered_renewal_may_extend_is_released_when_its_fixed_lease_expires() {
    let mut session = connected();
    let short = AcquireRequest {
        lease: fixed(500),
        ..wants("a")
    };
    let lease = hold(&mut session, short, at(0));
    session.extend(lease, Some(LeaseDuration::fixed(ms(1_000)).unwrap()), at(100));
    let unanswered = sent(&mut session, at(100));
    assert_eq!(unanswered.len(), 1);
    let mut released = 0;
    for now in (110..1_500).step_by(10).map(at) {
        session.on_timeout(now);
        for call in sent(&mut session, now) {
            match call.script {
                Script::LockRenew => session.on_reply(call.id, kept(), now),
                _ => released += usize::from(call.script == Script::LockRelease),
            }
        }
    }
    let lost = events(&mut session)
        .into_iter()
        .any(|event| matches!(event, Event::Lost { .. }));
    assert!(lost, "1,000 ms are over");
    assert_eq!(released, 1);
}
