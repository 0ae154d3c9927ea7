//! The waiters of the fair lock, and the calls that are sent for them.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Call, CallError, ErrorKind, Event, Instant, Kind, Outcome, Reply, Script, Session, Ticket, Transmit,
};

use crate::world::{NODE, at, connected, fixed, sent, wants};

fn fair(name: &str, wait: Option<Duration>) -> AcquireRequest {
    AcquireRequest {
        kind: Kind::Fair,
        wait,
        ..wants(name)
    }
}

/// Returns the reply that another owner holds the lock. A caller that waits is in the queue.
fn held(server_now: &str) -> Reply {
    Reply::Array(vec![
        Reply::Int(0),
        Reply::Int(9_000),
        text("other:1"),
        text(server_now),
    ])
}

/// Returns the reply to a poll: the holder, and the last token.
fn polled(holder: &str, token: &str, server_now: &str) -> Reply {
    Reply::Array(vec![Reply::Int(3_000), text(holder), text(token), text(server_now)])
}

fn text(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

/// Returns the owner id of an attempt.
fn owner(attempt: &Call) -> String {
    String::from_utf8_lossy(&attempt.args[1]).into_owned()
}

/// Confirms all subscriptions of the session. Returns the channel of grants.
fn listens(session: &mut Session, asked: Instant, confirmed: Instant) -> Arc<[u8]> {
    let (_, channels) = sent(session, asked);
    for channel in &channels {
        session.on_subscribed(NODE, channel, confirmed);
    }
    let is_it = |channel: &Arc<[u8]>| channel.starts_with(b"steadlock:{x}:grants:");
    channels.into_iter().find(is_it).expect("the channel of grants")
}

#[test]
fn a_refused_single_attempt_subscribes_to_nothing() {
    let mut session = connected();
    session.acquire(fair("x", Some(Duration::ZERO)), at(0));
    let (calls, _) = sent(&mut session, at(0));
    session.on_reply(calls[0].id, Ok(held("1000000")), at(1));
    assert!(session.poll_event().is_some(), "refused");
    let (calls, channels) = sent(&mut session, at(1));
    assert!(calls.is_empty() && channels.is_empty(), "{calls:?} {channels:?}");
    assert_eq!(session.len(), 0);
}

/// Lets a caller ask next to another waiter, whose channel of grants is confirmed. A grant message for the caller
/// overtakes the answer that it is queued. Returns the calls that the session sends next.
fn overtaken(session: &mut Session, request: AcquireRequest) -> Vec<Call> {
    session.acquire(fair("x", None), at(0));
    let (calls, _) = sent(session, at(0));
    session.on_reply(calls[0].id, Ok(held("1000000")), at(1));
    let grants = listens(session, at(1), at(2));
    sent(session, at(2));

    session.acquire(request, at(200));
    let (calls, _) = sent(session, at(200));
    let message = format!("{} 2000000 2000000", owner(&calls[0]));
    session.on_message(NODE, &grants, message.as_bytes(), at(201));
    session.on_reply(calls[0].id, Ok(held("2000000")), at(202));
    sent(session, at(202)).0
}

/// A release has granted the lock to a waiter for 3 s, and the waiter's next attempt discovers the grant.
#[test]
fn a_queued_grant_that_outlasts_a_fixed_lease_is_released_at_the_end_of_the_lease() {
    let mut session = connected();
    let short = AcquireRequest {
        lease: fixed(500),
        ..fair("x", None)
    };
    let calls = overtaken(&mut session, short);
    let granted = Reply::Array(vec![Reply::Int(1), text("2000000")]);
    session.on_reply(calls[0].id, Ok(granted), at(203));
    session.on_timeout(at(750));
    let (calls, _) = sent(&mut session, at(750));
    let released = calls.iter().filter(|call| call.script == Script::FairRelease);
    assert_eq!(released.count(), 1);
}

/// A poll that named the owner ran after another owner had acquired the lock, and put the owner into the queue again.
#[test]
fn a_fixed_lease_of_the_fair_lock_that_was_taken_away_leaves_the_queue() {
    let mut session = connected();
    let short = AcquireRequest {
        lease: fixed(5_000),
        ..fair("x", None)
    };
    session.acquire(short, at(0));
    let (calls, _) = sent(&mut session, at(0));
    let granted = Reply::Array(vec![Reply::Int(1), text("7")]);
    session.on_reply(calls[0].id, Ok(granted), at(1));
    let Some(Event::Completed {
        outcome: Outcome::Granted(grant),
        ..
    }) = session.poll_event()
    else {
        panic!("not granted")
    };
    session.extend(grant.lease, None, at(100));
    let (calls, _) = sent(&mut session, at(100));
    session.on_reply(calls[0].id, Ok(Reply::Array(vec![Reply::Int(2)])), at(101));
    let (calls, _) = sent(&mut session, at(101));
    let scripts: Vec<Script> = calls.iter().map(|call| call.script).collect();
    assert_eq!(scripts, [Script::FairRelease]);
}

#[test]
fn a_grant_that_overtakes_the_answer_queued_is_asked_for_at_once() {
    let calls = overtaken(&mut connected(), fair("x", None));
    assert_eq!((calls.len(), calls[0].script), (1, Script::FairAcquire));
}

#[test]
fn a_grant_from_before_its_channel_was_confirmed_is_found_at_once() {
    let mut session = connected();
    session.acquire(fair("x", None), at(0));
    let (asked, _) = sent(&mut session, at(0));
    session.on_reply(asked[0].id, Ok(held("1000000")), at(1));
    let (calls, channels) = sent(&mut session, at(1));
    assert_eq!((calls.len(), channels.len()), (0, 2), "{calls:?} {channels:?}");
    session.on_subscribed(NODE, &channels[0], at(2));
    let (calls, _) = sent(&mut session, at(2));
    assert_eq!((calls.len(), calls[0].script), (1, Script::FairPoll));
    session.on_reply(calls[0].id, Ok(polled(&owner(&asked[0]), "76", "1001000")), at(3));
    assert!(session.poll_event().is_some(), "the waiter has the lock");
}

#[test]
fn a_lock_with_one_waiter_after_another_stays_subscribed_until_it_is_idle() {
    let mut session = connected();
    let mut subscribed = Vec::new();
    for turn in 0..5 {
        // The lock was unused for most of a second.
        let start = turn * 900;
        session.on_timeout(at(start));
        let ticket = session.acquire(fair("x", None), at(start));
        let (asked, channels) = sent(&mut session, at(start));
        subscribed.extend(channels);
        session.on_reply(asked[0].id, Ok(held(&format!("{}", turn + 1))), at(start));
        let (calls, channels) = sent(&mut session, at(start));
        assert!(calls.is_empty(), "{calls:?}");
        for channel in &channels {
            session.on_subscribed(NODE, channel, at(start));
        }
        subscribed.extend(channels);
        session.cancel(ticket, at(start + 10));
        let (calls, _) = sent(&mut session, at(start + 10));
        for call in calls {
            let reply = match call.script {
                Script::FairPoll => polled("other:1", "0", "6"),
                _ => Reply::Array(vec![Reply::Int(2)]),
            };
            session.on_reply(call.id, Ok(reply), at(start + 10));
        }
    }
    let (grants, plain) = (subscribed[0].clone(), subscribed[1].clone());
    assert!(grants.starts_with(b"steadlock:{x}:grants:"), "{grants:?}");
    assert_eq!(*plain, *b"redisson_lock__channel:{x}");
    assert_eq!(subscribed.len(), 2, "{subscribed:?}");

    session.on_timeout(at(9_000));
    let mut left = Vec::new();
    while let Some(item) = session.poll_transmit() {
        match item {
            Transmit::Unsubscribe { channel, .. } => left.push(channel),
            other => panic!("{other:?}"),
        }
    }
    left.sort();
    assert_eq!(left, [plain, grants]);
    assert_eq!(session.len(), 0);
}

#[test]
fn a_grant_message_concerns_only_the_lock_of_its_channel() {
    let mut session = connected();
    session.acquire(fair("x", None), at(0));
    session.acquire(fair("y", None), at(0));
    let (asked, _) = sent(&mut session, at(0));
    for call in &asked {
        session.on_reply(call.id, Ok(held("1000000")), at(1));
    }
    let of_x = listens(&mut session, at(1), at(2));
    sent(&mut session, at(2));
    let message = format!("{} 1000000 1000000", owner(&asked[1]));
    session.on_message(NODE, &of_x, message.as_bytes(), at(3));
    assert!(session.poll_event().is_none(), "y is not granted");
    let of_y = of_x.to_vec();
    let of_y = String::from_utf8(of_y).unwrap().replace("{x}", "{y}");
    session.on_message(NODE, of_y.as_bytes(), message.as_bytes(), at(4));
    assert!(session.poll_event().is_some());
}

#[test]
fn a_poll_says_nothing_of_a_waiter_whose_answer_came_after_it_was_sent() {
    let mut session = connected();
    session.acquire(fair("x", None), at(0));
    let (first, _) = sent(&mut session, at(0));
    session.acquire(fair("x", None), at(1));
    let (second, _) = sent(&mut session, at(1));
    // The first waiter is known to be in the queue. The answer to the second is in transit.
    session.on_reply(first[0].id, Ok(held("1000000")), at(2));
    let own = listens(&mut session, at(2), at(3));
    let (poll, _) = sent(&mut session, at(3));
    assert_eq!(
        (poll.len(), poll[0].script, poll[0].args.len()),
        (1, Script::FairPoll, 2)
    );
    session.on_reply(second[0].id, Ok(held("1000500")), at(4));
    session.on_reply(poll[0].id, Ok(polled("other:1", "0", "1001000")), at(4));
    assert!(session.poll_event().is_none());

    // The server last saw the second waiter when its attempt arrived.
    let message = format!("{} 1000500 1000500", owner(&second[0]));
    session.on_message(NODE, &own, message.as_bytes(), at(5));
    let granted = session.poll_event();
    assert!(granted.is_some(), "granted without another poll");
}

#[test]
fn a_poll_that_says_whose_turn_it_is_speaks_of_those_behind_it_too() {
    let mut session = connected();
    session.acquire(fair("x", None), at(0));
    session.acquire(fair("x", None), at(0));
    let (asked, _) = sent(&mut session, at(0));
    for call in &asked {
        session.on_reply(call.id, Ok(held("5000000")), at(1));
    }
    let own = listens(&mut session, at(1), at(2));
    let (poll, _) = sent(&mut session, at(2));
    // The server's clock was set back, and the first waiter was granted the lock.
    let turn = polled(&owner(&asked[0]), "76", "1000000");
    session.on_reply(poll[0].id, Ok(turn), at(3));
    assert!(session.poll_event().is_some(), "the first waiter has the lock");

    let message = format!("{} 1000000 1000000", owner(&asked[1]));
    session.on_message(NODE, &own, message.as_bytes(), at(4));
    assert!(session.poll_event().is_some(), "granted without another poll");
}

#[test]
fn queued_waiters_fail_when_the_key_holds_another_kind() {
    let mut session = connected();
    let first = session.acquire(fair("x", None), at(0));
    let second = session.acquire(fair("x", None), at(0));
    let (asked, _) = sent(&mut session, at(0));
    for call in &asked {
        session.on_reply(call.id, Ok(held("1000000")), at(1));
    }
    listens(&mut session, at(1), at(2));
    let (poll, _) = sent(&mut session, at(2));
    assert_eq!((poll.len(), poll[0].script), (1, Script::FairPoll));
    let wrong = CallError::Server {
        code: "WRONGTYPE".into(),
        message: "Operation against a key".into(),
    };
    session.on_reply(poll[0].id, Err(wrong), at(3));
    let failures: Vec<(Ticket, ErrorKind)> = std::iter::from_fn(|| session.poll_event())
        .map(|event| match event {
            Event::Completed {
                ticket,
                outcome: Outcome::Failed(error),
            } => (ticket, error.kind()),
            other => panic!("{other:?}"),
        })
        .collect();
    let misconfigured = |ticket| (ticket, ErrorKind::Misconfigured);
    assert_eq!(failures, [misconfigured(first), misconfigured(second)]);
    // Both waiters leave the queue.
    let (calls, _) = sent(&mut session, at(3));
    let scripts: Vec<Script> = calls.iter().map(|call| call.script).collect();
    assert_eq!(scripts, [Script::FairRelease; 2]);
}
