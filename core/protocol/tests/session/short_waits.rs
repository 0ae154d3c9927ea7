//! Waits that end before the holder can be known. Callers get the error that no server answered only if that is true.

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, ErrorKind, Event, Instant, Kind, Outcome, Permits, Reply, Script, Session, Ticket,
};

use crate::trying::{held, outcomes, yours};
use crate::world::{NODE, Seeded, World, at, config, connected, error, granted, ms, sent, wants};

const KINDS: [Kind; 4] = [Kind::Lock, Kind::Mutex, Kind::Write, Kind::Fair];

fn bounded(kind: Kind, wait: u64) -> AcquireRequest {
    AcquireRequest {
        kind,
        wait: Some(ms(wait)),
        ..wants("x")
    }
}

fn wants_within(session: &mut Session, wait: u64, now: Instant) -> Ticket {
    session.acquire(bounded(Kind::Lock, wait), now)
}

fn kinds_of(reported: Vec<(Ticket, Outcome)>) -> Vec<(Ticket, ErrorKind)> {
    let kind = |(ticket, outcome)| (ticket, error(outcome).kind());
    reported.into_iter().map(kind).collect()
}

/// Returns a session that is connecting for the first time.
fn connecting() -> Session {
    let mut seed = Seeded(7);
    let config = config(&mut seed);
    Session::new(config, Box::new(seed))
}

/// Returns a session whose turn is over: it has just released a lock for which other clients wait.
fn after_its_turn() -> Session {
    let mut session = connected();
    session.acquire(bounded(Kind::Lock, 100), at(0));
    let (calls, _) = sent(&mut session, at(0));
    session.on_reply(calls[0].id, Ok(yours("1")), at(0));
    let first = granted(outcomes(&mut session).remove(0).1).lease;
    session.acquire(bounded(Kind::Lock, 100), at(0));
    session.release(first, at(1));
    let others_listen = || Ok(Reply::Array(vec![Reply::Int(1), Reply::Int(3)]));
    let (calls, _) = sent(&mut session, at(1));
    session.on_reply(calls[0].id, others_listen(), at(1));
    session.on_reply(calls[1].id, Ok(yours("2")), at(1));
    let lease = outcomes(&mut session)
        .into_iter()
        .find_map(|(_, outcome)| match outcome {
            Outcome::Granted(grant) => Some(grant.lease),
            _ => None,
        });
    session.release(lease.unwrap(), at(20));
    let (calls, _) = sent(&mut session, at(20));
    session.on_reply(calls[0].id, others_listen(), at(20));
    outcomes(&mut session);
    session
}

#[test]
fn one_that_lets_others_go_first_asks_before_its_wait_is_over() {
    for (answer, kind) in [(held(), Some(ErrorKind::LockTimeout)), (yours("3"), None)] {
        let mut session = after_its_turn();
        let ticket = wants_within(&mut session, 1, at(21));
        assert_eq!(sent(&mut session, at(21)).0, [], "others go first");
        session.on_timeout(at(22));
        assert_eq!(outcomes(&mut session), []);
        let (calls, _) = sent(&mut session, at(22));
        session.on_reply(calls[0].id, Ok(answer), at(23));
        let reported = outcomes(&mut session);
        match kind {
            Some(kind) => assert_eq!(kinds_of(reported), [(ticket, kind)]),
            None => {
                granted(reported.into_iter().next().unwrap().1);
            }
        }
    }
}

#[test]
fn a_waiter_that_lets_others_go_first_fails_like_one_that_asked_at_once() {
    let mut session = after_its_turn();
    let ticket = wants_within(&mut session, 1, at(21));
    session.on_timeout(at(22));
    assert_eq!(sent(&mut session, at(22)).0.len(), 1);
    session.on_timeout(at(61));
    assert_eq!(outcomes(&mut session), []);
    session.on_timeout(at(62));
    assert_eq!(kinds_of(outcomes(&mut session)), [(ticket, ErrorKind::Unavailable)]);
}

#[test]
fn waiters_behind_an_unanswered_attempt_end_with_its_answer() {
    for answer in [held(), yours("1")] {
        let mut session = connected();
        session.acquire(wants("x"), at(0));
        let (calls, _) = sent(&mut session, at(0));
        let behind = [1, 1, 2].map(|wait| wants_within(&mut session, wait, at(0)));
        session.on_timeout(at(1));
        session.on_timeout(at(2));
        assert_eq!(outcomes(&mut session), []);
        session.on_reply(calls[0].id, Ok(answer), at(5));
        let mut reported = outcomes(&mut session);
        reported.retain(|(_, outcome)| !matches!(outcome, Outcome::Granted(_)));
        let expected = behind.map(|ticket| (ticket, ErrorKind::LockTimeout));
        assert_eq!(kinds_of(reported), expected);
    }
}

#[test]
fn waiters_behind_an_attempt_that_is_never_answered_are_unavailable() {
    let mut session = connected();
    session.acquire(wants("x"), at(0));
    sent(&mut session, at(0));
    let behind = wants_within(&mut session, 1, at(0));
    session.on_timeout(at(1));
    session.on_timeout(at(40));
    assert_eq!(outcomes(&mut session), []);
    session.on_timeout(at(41));
    assert_eq!(kinds_of(outcomes(&mut session)), [(behind, ErrorKind::Unavailable)]);
}

#[test]
fn one_whose_time_is_over_asks_if_it_comes_first_meanwhile() {
    let mut session = connected();
    let first = session.acquire(wants("x"), at(0));
    sent(&mut session, at(0));
    let behind = wants_within(&mut session, 1, at(0));
    session.on_timeout(at(1));
    session.cancel(first, at(3));
    let (calls, _) = sent(&mut session, at(3));
    let attempt = calls.iter().find(|call| call.script == Script::LockAcquire).unwrap();
    session.on_reply(attempt.id, Ok(yours("1")), at(5));
    let reported = outcomes(&mut session);
    assert!(
        matches!(&reported[..], [(ticket, Outcome::Granted(_))] if *ticket == behind),
        "{reported:?}"
    );
}

#[test]
fn a_first_answer_after_the_wait_is_reported_at_once() {
    for kind in KINDS {
        let mut session = connected();
        let ticket = session.acquire(bounded(kind, 1), at(0));
        let (calls, _) = sent(&mut session, at(0));
        session.on_timeout(at(1));
        let mut answer = held();
        if let (Kind::Fair, Reply::Array(parts)) = (kind, &mut answer) {
            parts.push(Reply::Bytes(b"1795000000000000".to_vec()));
        }
        session.on_reply(calls[0].id, Ok(answer), at(5));
        let reported = kinds_of(outcomes(&mut session));
        assert_eq!(reported, [(ticket, ErrorKind::LockTimeout)], "{kind:?}");
    }
}

#[test]
fn single_attempts_wait_for_the_first_connection() {
    for kind in KINDS {
        let mut session = connecting();
        let attempts: Vec<Ticket> = (0..8).map(|_| session.acquire(bounded(kind, 0), at(0))).collect();
        session.on_timeout(at(5));
        assert_eq!(outcomes(&mut session), [], "{kind:?}");
        session.on_connected(NODE, at(10));
        let (calls, _) = sent(&mut session, at(10));
        for (turn, call) in calls.iter().enumerate() {
            let answer = if turn == 0 { yours("1") } else { held() };
            session.on_reply(call.id, Ok(answer), at(11));
        }
        let (lucky, others): (Vec<_>, Vec<_>) = outcomes(&mut session)
            .into_iter()
            .partition(|(_, outcome)| matches!(outcome, Outcome::Granted(_)));
        assert_eq!(lucky.len(), 1, "{kind:?}");
        let reported = kinds_of(others);
        assert_eq!(reported.len(), attempts.len() - 1, "{kind:?}");
        assert!(
            reported.iter().all(|(_, kind)| *kind == ErrorKind::LockTimeout),
            "{reported:?}"
        );
    }
}

#[test]
fn single_attempts_during_the_first_connecting_name_the_holder() {
    let mut session = connecting();
    (0..8).for_each(|_| {
        session.acquire(bounded(Kind::Lock, 0), at(0));
    });
    session.on_connected(NODE, at(10));
    let (calls, _) = sent(&mut session, at(10));
    assert_eq!(calls.len(), 1, "the first one asks for all");
    session.on_reply(calls[0].id, Ok(held()), at(11));
    let reported = outcomes(&mut session);
    assert_eq!(reported.len(), 8);
    for (_, outcome) in reported {
        let refused = error(outcome);
        assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
        assert_eq!(refused.holder().map(|holder| holder.owner.as_str()), Some("other:1"));
    }
}

#[test]
fn single_attempts_wait_for_one_command_timeout_when_the_first_connecting_fails() {
    let mut session = connecting();
    let before: Vec<Ticket> = (0..3).map(|_| session.acquire(bounded(Kind::Lock, 0), at(0))).collect();
    session.on_disconnected(NODE, "refused", at(5));
    assert_eq!(outcomes(&mut session), []);
    // After the failure the session knows that it cannot send an attempt.
    let after = session.acquire(bounded(Kind::Lock, 0), at(6));
    assert_eq!(kinds_of(outcomes(&mut session)), [(after, ErrorKind::Unavailable)]);
    session.on_timeout(at(3_000));
    let reported = kinds_of(outcomes(&mut session));
    assert_eq!(reported.len(), before.len());
    assert!(
        reported.iter().all(|(_, kind)| *kind == ErrorKind::Unavailable),
        "{reported:?}"
    );
    assert!(session.is_empty());
}

#[test]
fn a_short_wait_during_the_first_connecting_is_not_over_before_the_first_answer() {
    for callers in [1, 8] {
        let mut session = connecting();
        (0..callers).for_each(|_| {
            session.acquire(bounded(Kind::Lock, 2), at(0));
        });
        session.on_timeout(at(2));
        assert_eq!(outcomes(&mut session), []);
        session.on_connected(NODE, at(10));
        let (calls, _) = sent(&mut session, at(10));
        session.on_reply(calls[0].id, Ok(held()), at(11));
        let reported = kinds_of(outcomes(&mut session));
        assert_eq!(reported.len(), callers);
        assert!(
            reported.iter().all(|(_, kind)| *kind == ErrorKind::LockTimeout),
            "{reported:?}"
        );
    }
}

#[test]
fn permits_that_several_try_to_get_while_connecting_are_asked_for_by_each() {
    let mut session = connecting();
    let kind = Kind::Semaphore(Permits::new(1, 2).unwrap());
    (0..2).for_each(|_| {
        session.acquire(bounded(kind, 0), at(0));
    });
    session.on_connected(NODE, at(10));
    assert_eq!(sent(&mut session, at(10)).0.len(), 2);
}

/// Many short waits of several clients, on one server that always answers.
#[test]
fn a_server_that_answers_is_never_said_not_to() {
    let mut world = World::new(4);
    world.reply_latency = Duration::from_micros(900);
    let mut held = Vec::new();
    for round in 0..3_000_u64 {
        let client = usize::try_from(round % 4).unwrap();
        world.acquire(client, bounded(Kind::Lock, round % 16));
        world.run_for(Duration::from_micros(150 + round % 7 * 300));
        // Holders keep their locks for a while.
        if round % 3 == 0 {
            for (client, lease) in std::mem::take(&mut held) {
                world.release(client, lease);
            }
        }
        for (client, of) in world.clients.iter_mut().enumerate() {
            for (_, event) in of.events.drain(..) {
                match event {
                    Event::Completed {
                        outcome: Outcome::Granted(grant),
                        ..
                    } => held.push((client, grant.lease)),
                    Event::Completed {
                        outcome: Outcome::Failed(error),
                        ..
                    } => panic!("in round {round}: {error}"),
                    _ => {}
                }
            }
        }
    }
}
