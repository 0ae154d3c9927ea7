//! Single attempts, while other callers of the client are asking or waiting.

use std::time::Duration;

use steadlock_protocol::{AcquireRequest, Call, ErrorKind, Event, Kind, Outcome, Permits, Reply, Session, Ticket};

use crate::world::{NODE, at, connected, error, granted, sent, wants};

fn permits() -> Kind {
    Kind::Semaphore(Permits::new(1, 2).unwrap())
}

fn of_kind(kind: Kind, wait: Option<Duration>) -> AcquireRequest {
    AcquireRequest {
        kind,
        wait,
        ..wants("x")
    }
}

fn single_attempt(session: &mut Session, kind: Kind, millis: u64) -> (Ticket, Vec<Call>) {
    let ticket = session.acquire(of_kind(kind, Some(Duration::ZERO)), at(millis));
    (ticket, sent(session, at(millis)).0)
}

/// Returns the reply that another client holds everything.
pub(crate) fn held() -> Reply {
    Reply::Array(vec![
        Reply::Int(0),
        Reply::Int(9_000),
        Reply::Bytes(b"other:1".to_vec()),
    ])
}

pub(crate) fn yours(token: &str) -> Reply {
    Reply::Array(vec![Reply::Int(1), Reply::Bytes(token.as_bytes().to_vec())])
}

pub(crate) fn outcomes(session: &mut Session) -> Vec<(Ticket, Outcome)> {
    let reported = std::iter::from_fn(|| session.poll_event());
    let outcome = |event| match event {
        Event::Completed { ticket, outcome } => Some((ticket, outcome)),
        _ => None,
    };
    reported.filter_map(outcome).collect()
}

/// Returns a session with a waiter, which another client's hold has refused.
fn with_a_waiter(kind: Kind) -> Session {
    let mut session = connected();
    session.acquire(of_kind(kind, None), at(0));
    let (calls, _) = sent(&mut session, at(0));
    session.on_reply(calls[0].id, Ok(held()), at(1));
    sent(&mut session, at(1));
    session
}

#[test]
fn single_attempts_for_a_shared_lock_are_sent_side_by_side() {
    for kind in [permits(), Kind::Read] {
        let mut session = connected();
        let (first, first_call) = single_attempt(&mut session, kind, 0);
        let (second, second_call) = single_attempt(&mut session, kind, 0);
        assert_eq!((first_call.len(), second_call.len()), (1, 1), "{kind:?}");
        assert_ne!(
            first_call[0].args, second_call[0].args,
            "each asks under an owner id of its own"
        );
        session.on_reply(first_call[0].id, Ok(yours("1")), at(1));
        session.on_reply(second_call[0].id, Ok(yours("2")), at(1));
        let reported: Vec<Ticket> = outcomes(&mut session)
            .into_iter()
            .map(|(ticket, outcome)| {
                granted(outcome);
                ticket
            })
            .collect();
        assert_eq!(reported, [first, second], "{kind:?}");
    }
}

#[test]
fn single_attempts_for_a_shared_lock_are_sent_beside_an_unanswered_waiter() {
    for kind in [permits(), Kind::Read] {
        let mut session = connected();
        session.acquire(of_kind(kind, None), at(0));
        let (first, _) = sent(&mut session, at(0));
        let (_, calls) = single_attempt(&mut session, kind, 0);
        session.on_reply(first[0].id, Ok(yours("1")), at(1));
        session.on_reply(calls[0].id, Ok(yours("2")), at(1));
        let reported = outcomes(&mut session);
        assert!(
            matches!(&reported[..], [(_, Outcome::Granted(_)), (_, Outcome::Granted(_))]),
            "{kind:?}: {reported:?}"
        );
    }
}

#[test]
fn a_single_attempt_to_read_is_sent_beside_waiting_readers() {
    let mut session = with_a_waiter(Kind::Read);
    let (one, calls) = single_attempt(&mut session, Kind::Read, 2);
    session.on_reply(calls[0].id, Ok(yours("1")), at(3));
    let reported = outcomes(&mut session);
    assert!(
        matches!(&reported[..], [(ticket, Outcome::Granted(_))] if *ticket == one),
        "{reported:?}"
    );

    // A refused attempt gets the refusal of the server.
    let (_, calls) = single_attempt(&mut session, Kind::Read, 4);
    session.on_reply(calls[0].id, Ok(held()), at(5));
    let (_, outcome) = outcomes(&mut session).remove(0);
    let refused = error(outcome);
    assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
    assert_eq!(refused.holder().map(|holder| holder.owner.as_str()), Some("other:1"));
}

#[test]
fn a_single_attempt_does_not_overtake_waiters() {
    // The waiters may need more permits than are free.
    for kind in [permits(), Kind::Lock, Kind::Mutex, Kind::Write] {
        let mut session = with_a_waiter(kind);
        let (_, calls) = single_attempt(&mut session, kind, 2);
        assert_eq!(calls, [], "{kind:?}");
        let (_, outcome) = outcomes(&mut session).remove(0);
        assert_eq!(error(outcome).kind(), ErrorKind::LockTimeout, "{kind:?}");
    }
}

#[test]
fn a_single_attempt_beside_a_waiter_is_sent_after_a_reconnect() {
    let mut session = with_a_waiter(Kind::Read);
    session.on_disconnected(NODE, "cut", at(2));
    let (one, calls) = single_attempt(&mut session, Kind::Read, 3);
    assert_eq!(calls, []);
    session.on_connected(NODE, at(10));
    session.on_timeout(at(10));
    let (calls, _) = sent(&mut session, at(10));
    for call in &calls {
        session.on_reply(call.id, Ok(yours("1")), at(11));
    }
    let reported = outcomes(&mut session);
    let is_granted = |(ticket, outcome): &(Ticket, Outcome)| *ticket == one && matches!(outcome, Outcome::Granted(_));
    assert!(reported.iter().any(is_granted), "{reported:?}");
}

#[test]
fn ended_single_attempts_leave_nothing() {
    for kind in [permits(), Kind::Read] {
        let mut session = connected();
        let (cancelled, first) = single_attempt(&mut session, kind, 0);
        let (_, second) = single_attempt(&mut session, kind, 0);
        session.cancel(cancelled, at(1));
        for call in first.iter().chain(&second) {
            session.on_reply(call.id, Ok(held()), at(2));
        }
        // The late grant that the cancelled attempt may have had is released.
        for call in sent(&mut session, at(2)).0 {
            session.on_reply(call.id, Ok(Reply::Array(vec![Reply::Int(0)])), at(3));
        }
        assert_eq!(outcomes(&mut session).len(), 1, "{kind:?}");
        assert!(session.is_empty(), "{kind:?}: {}", session.len());
    }
}

#[test]
fn permits_are_left_to_waiters_even_after_an_outage() {
    let mut session = with_a_waiter(permits());
    session.on_disconnected(NODE, "cut", at(2));
    // The session forgets the server's answer, but not that a caller had to wait.
    let (_, calls) = single_attempt(&mut session, permits(), 3);
    assert_eq!(calls, []);
    let (_, outcome) = outcomes(&mut session).remove(0);
    assert_eq!(error(outcome).kind(), ErrorKind::Unavailable);
}

#[test]
fn the_answer_to_a_single_attempt_is_not_one_to_a_waiter() {
    let mut session = connected();
    let (_, first) = single_attempt(&mut session, permits(), 0);
    session.acquire(of_kind(permits(), None), at(0));
    sent(&mut session, at(0));
    session.on_reply(first[0].id, Ok(held()), at(1));
    outcomes(&mut session);
    // The waiter has no answer yet.
    let (_, calls) = single_attempt(&mut session, permits(), 1);
    assert_eq!(calls.len(), 1);
}
