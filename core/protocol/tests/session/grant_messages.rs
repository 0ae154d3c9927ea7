//! Messages about the fair lock and other locks: which ones a client trusts, which ones make it ask, and how often.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Call, CallError, ErrorKind, Event, Kind, Outcome, Permits, Reply, Script, Session, Ticket,
};

use crate::world::{NODE, at, connected, fixed, ms, sent, wants};

/// The server's clock at `at(0)`, in µs.
const EPOCH: u64 = 1_795_000_000_000_000;

/// Returns the server's clock, in µs.
fn shown(millis: u64) -> u64 {
    EPOCH + millis * 1_000
}

fn of_kind(kind: Kind, wait: Option<Duration>) -> AcquireRequest {
    AcquireRequest {
        kind,
        wait,
        ..wants("x")
    }
}

fn text(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

/// Returns the rest of the holder's TTL in ms. Another owner's hold has 30 s at `at(0)`, and is not renewed.
fn left(owner: &str, millis: u64) -> i64 {
    match owner {
        "" => -2,
        owner if owner.starts_with("other:") => 30_000 - i64::try_from(millis).unwrap(),
        _ => 2_900,
    }
}

/// Returns the reply to an attempt: this owner holds the lock.
fn held(kind: Kind, owner: &str, millis: u64) -> Reply {
    let ttl = left(owner, millis);
    let mut parts = vec![Reply::Int(0), Reply::Int(ttl), text(owner)];
    if kind == Kind::Fair {
        parts.push(text(&shown(millis).to_string()));
    }
    Reply::Array(parts)
}

/// Returns the reply to a poll.
fn polled(owner: &str, token: u64, millis: u64) -> Reply {
    let ttl = left(owner, millis);
    Reply::Array(vec![
        Reply::Int(ttl),
        text(owner),
        text(&token.to_string()),
        text(&shown(millis).to_string()),
    ])
}

/// Returns the owner id of an attempt.
fn owner(attempt: &Call) -> String {
    String::from_utf8_lossy(&attempt.args[1]).into_owned()
}

/// Returns the owner id of a release.
fn released(release: &Call) -> String {
    String::from_utf8_lossy(&release.args[0]).into_owned()
}

/// Adds a waiter for the fair lock that has been in the server's queue since `at(0)`, and confirms its channels.
/// Returns its ticket, its owner id, the channel of grants, and the channel of releases.
fn waiting(session: &mut Session) -> (Ticket, String, Arc<[u8]>, Arc<[u8]>) {
    let ticket = session.acquire(of_kind(Kind::Fair, None), at(0));
    let (calls, _) = sent(session, at(0));
    session.on_reply(calls[0].id, Ok(held(Kind::Fair, "other:1", 0)), at(1));
    let (_, channels) = sent(session, at(1));
    for channel in &channels {
        session.on_subscribed(NODE, channel, at(2));
    }
    settle(session, "other:1", 2);
    let [grants, plain] = channels.as_slice() else {
        panic!("{channels:?}")
    };
    (ticket, owner(&calls[0]), Arc::clone(grants), Arc::clone(plain))
}

/// Answers all calls in flight: this owner holds the lock. Returns the number of calls.
fn settle(session: &mut Session, holder: &str, millis: u64) -> usize {
    let mut count = 0;
    loop {
        let (calls, _) = sent(session, at(millis));
        if calls.is_empty() {
            return count;
        }
        for call in calls {
            count += 1;
            let reply = match call.script {
                Script::FairPoll => polled(holder, 0, millis),
                Script::FairAcquire => held(Kind::Fair, holder, millis),
                Script::FairRelease => Reply::Array(vec![Reply::Int(2)]),
                _ => held(Kind::Lock, holder, millis),
            };
            session.on_reply(call.id, Ok(reply), at(millis));
        }
    }
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.poll_event()).collect()
}

#[test]
fn a_grant_that_cannot_be_true_is_asked_about_and_not_believed() {
    let now = 300;
    let future = shown(now + 1_000);
    for (seen, token) in [
        // The server saw the waiter before the last call that found it, or drew the token before it saw the waiter.
        (shown(0) - 1, shown(100)),
        (shown(2), shown(1)),
        (0, 1),
        // The times are in the future.
        (future, future),
        (shown(100), future),
        (shown(100), (1 << 53) - 2),
    ] {
        let mut session = connected();
        let (_, owner, grants, _) = waiting(&mut session);
        let forged = format!("{owner} {seen} {token}");
        session.on_message(NODE, &grants, forged.as_bytes(), at(now));
        assert_eq!(events(&mut session), [], "{forged}");
        let (calls, _) = sent(&mut session, at(now));
        let polls: Vec<Script> = calls.iter().map(|call| call.script).collect();
        assert_eq!(polls, [Script::FairPoll], "{forged}");
    }
}

#[test]
fn a_grant_message_in_time_needs_no_further_call() {
    let mut session = connected();
    let (_, owner, grants, _) = waiting(&mut session);
    let message = format!("{owner} {} {}", shown(2), shown(299));
    session.on_message(NODE, &grants, message.as_bytes(), at(300));
    let reported = events(&mut session);
    let [
        Event::Completed {
            outcome: Outcome::Granted(grant),
            ..
        },
    ] = reported.as_slice()
    else {
        panic!("{reported:?}")
    };
    assert_eq!(grant.token.map(|token| token.get()), Some(shown(299)));
    assert_eq!(settle(&mut session, "other:1", 300), 0);
}

/// Returns a message that is not true, for any channel.
fn inventions(owner: &str, number: u64) -> Vec<u8> {
    let now = shown(number / 10);
    match number % 8 {
        0 => b"0".to_vec(),
        1 => Vec::new(),
        2 => vec![0xff; 300],
        3 => format!("{owner} {} {}", shown(0) - number, now).into_bytes(),
        4 => format!("{owner} {} {}", now, (1_u64 << 53) - 2).into_bytes(),
        5 => format!("{owner} {} {}", now + 10_000_000, now + 10_000_000).into_bytes(),
        6 => format!("{owner} {now}").into_bytes(),
        _ => format!("other:{number} {now} {now}").into_bytes(),
    }
}

#[test]
fn ten_thousand_inventions_grant_nothing_and_cause_few_calls() {
    let permits = Kind::Semaphore(Permits::new(1, 2).unwrap());
    for kind in [Kind::Lock, Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, permits] {
        let mut session = connected();
        session.acquire(of_kind(kind, None), at(0));
        let (calls, _) = sent(&mut session, at(0));
        let owner = owner(&calls[0]);
        session.on_reply(calls[0].id, Ok(held(kind, "other:1", 0)), at(0));
        let (_, channels) = sent(&mut session, at(0));
        for channel in &channels {
            session.on_subscribed(NODE, channel, at(0));
        }
        let mut calls = settle(&mut session, "other:1", 0);
        // Every channel receives ten messages per millisecond, for a second.
        for number in 0..10_000 {
            let now = number / 10;
            for channel in &channels {
                session.on_message(NODE, channel, &inventions(&owner, number), at(now));
            }
            session.on_timeout(at(now));
            calls += settle(&mut session, "other:1", now);
            assert_eq!(events(&mut session), [], "{kind:?}");
        }
        let most = if kind == permits { 75 } else { 20 };
        assert!(calls <= most, "{kind:?}: {calls} calls");
    }
}

#[test]
fn after_a_change_messages_make_waiters_ask_at_once_again() {
    let mut session = connected();
    let ticket = session.acquire(of_kind(Kind::Lock, None), at(0));
    let (calls, _) = sent(&mut session, at(0));
    session.on_reply(calls[0].id, Ok(held(Kind::Lock, "other:1", 0)), at(0));
    let (_, channels) = sent(&mut session, at(0));
    session.on_subscribed(NODE, &channels[0], at(0));
    settle(&mut session, "other:1", 0);
    for now in 0..2_000 {
        session.on_message(NODE, &channels[0], b"0", at(now));
        session.on_timeout(at(now));
        settle(&mut session, "other:1", now);
    }
    // The waiter asks again after at most one poll interval, and finds another holder.
    let mut now = 2_000;
    loop {
        session.on_message(NODE, &channels[0], b"0", at(now));
        session.on_timeout(at(now));
        if settle(&mut session, "other:2", now) > 0 {
            break;
        }
        now += 1;
    }
    assert!(now <= 2_750, "{now}");
    session.on_message(NODE, &channels[0], b"0", at(now + 3));
    let (calls, _) = sent(&mut session, at(now + 3));
    assert_eq!(calls.len(), 1, "a message after a change causes a question");
    session.cancel(ticket, at(now + 3));
}

#[test]
fn a_waiter_that_leaves_while_a_poll_that_names_it_is_cut_off_is_released_twice() {
    let mut session = connected();
    let (ticket, name, ..) = waiting(&mut session);
    session.on_timeout(at(760));
    let (poll, _) = sent(&mut session, at(760));
    assert_eq!((poll.len(), poll[0].script), (1, Script::FairPoll));
    session.cancel(ticket, at(770));
    let (calls, _) = sent(&mut session, at(770));
    assert_eq!(
        (calls.len(), calls[0].script, released(&calls[0])),
        (1, Script::FairRelease, name.clone())
    );
    // The connection closes before both calls are answered. The poll may still run.
    session.on_disconnected(NODE, "gone", at(780));
    for call in [&poll[0], &calls[0]] {
        session.on_reply(call.id, Err(CallError::Disconnected("gone".into())), at(780));
    }
    session.on_connected(NODE, at(800));
    let mut releases = 0;
    let mut now = 800;
    while !session.is_drained() {
        session.on_timeout(at(now));
        for call in sent(&mut session, at(now)).0 {
            assert_eq!((call.script, released(&call)), (Script::FairRelease, name.clone()));
            session.on_reply(call.id, Ok(Reply::Array(vec![Reply::Int(2)])), at(now));
            releases += 1;
        }
        now += 10;
    }
    assert_eq!(releases, 2);
}

#[test]
fn a_waiter_that_leaves_after_its_polls_were_answered_is_released_once() {
    let mut session = connected();
    let (ticket, ..) = waiting(&mut session);
    session.on_timeout(at(760));
    settle(&mut session, "other:1", 760);
    session.cancel(ticket, at(770));
    assert_eq!(settle(&mut session, "other:1", 770), 1);
    assert!(session.is_drained());
}

#[test]
fn a_grant_to_a_waiter_that_has_left_is_released_at_once() {
    let mut session = connected();
    let (ticket, name, grants, _) = waiting(&mut session);
    session.cancel(ticket, at(10));
    settle(&mut session, "other:1", 10);
    // A late call has put the owner id into the queue again, and the server has granted it the lock.
    let message = format!("{name} {} {}", shown(500), shown(600));
    session.on_message(NODE, &grants, message.as_bytes(), at(601));
    let (calls, _) = sent(&mut session, at(601));
    assert_eq!(
        (calls.len(), calls[0].script, released(&calls[0])),
        (1, Script::FairRelease, name)
    );
    // While this release is in flight, another message about the owner id causes no second release.
    session.on_message(NODE, &grants, message.as_bytes(), at(800));
    assert_eq!(sent(&mut session, at(800)).0, []);
}

#[test]
fn a_poll_that_names_one_who_has_left_as_the_holder_releases_it() {
    let mut session = connected();
    let (ticket, name, ..) = waiting(&mut session);
    session.acquire(of_kind(Kind::Fair, None), at(5));
    settle(&mut session, "other:1", 5);
    session.cancel(ticket, at(10));
    settle(&mut session, "other:1", 10);
    session.on_timeout(at(800));
    let (poll, _) = sent(&mut session, at(800));
    session.on_reply(poll[0].id, Ok(polled(&name, shown(700), 800)), at(801));
    let (calls, _) = sent(&mut session, at(801));
    assert_eq!(
        (calls.len(), calls[0].script, released(&calls[0])),
        (1, Script::FairRelease, name)
    );
}

/// A process that was restored from a snapshot has the client id of the original, which may still be running.
#[test]
fn a_grant_to_an_unknown_owner_is_left_alone() {
    let mut session = connected();
    let (_, name, grants, _) = waiting(&mut session);
    let others = format!("{}:4711", name.split(':').next().unwrap());
    let message = format!("{others} {} {}", shown(500), shown(600));
    session.on_message(NODE, &grants, message.as_bytes(), at(601));
    session.on_timeout(at(800));
    for poll in sent(&mut session, at(800)).0 {
        assert_eq!(poll.script, Script::FairPoll);
        session.on_reply(poll.id, Ok(polled(&others, shown(700), 800)), at(801));
    }
    let (calls, _) = sent(&mut session, at(801));
    assert!(calls.iter().all(|call| call.script != Script::FairRelease), "{calls:?}");
}

/// A poll draws tokens only for the waiters that it names, but the client can have more waiters.
#[test]
fn a_grant_that_a_poll_has_no_token_for_makes_its_waiter_ask_for_one() {
    let mut session = connected();
    let (ticket, name, ..) = waiting(&mut session);
    session.on_timeout(at(760));
    let (poll, _) = sent(&mut session, at(760));
    let without = Reply::Array(vec![
        Reply::Int(2_900),
        text(&name),
        text(""),
        text(&shown(760).to_string()),
    ]);
    session.on_reply(poll[0].id, Ok(without), at(761));
    assert_eq!(events(&mut session), []);
    let (calls, _) = sent(&mut session, at(761));
    assert_eq!((calls[0].script, owner(&calls[0])), (Script::FairAcquire, name));
    let granted = Reply::Array(vec![Reply::Int(1), text(&shown(762).to_string())]);
    session.on_reply(calls[0].id, Ok(granted), at(763));
    let [
        Event::Completed {
            ticket: of,
            outcome: Outcome::Granted(grant),
        },
    ] = &events(&mut session)[..]
    else {
        panic!("not granted")
    };
    assert_eq!((*of, grant.token.map(|token| token.get())), (ticket, Some(shown(762))));
}

#[test]
fn ten_thousand_grants_to_nobody_cause_few_releases() {
    let mut session = connected();
    let (_, name, grants, _) = waiting(&mut session);
    let client = name.split(':').next().unwrap();
    let mut calls = 0;
    for number in 0..10_000 {
        let now = 10 + number / 10;
        let forged = format!("{client}:{number} {} {}", shown(now), shown(now));
        session.on_message(NODE, &grants, forged.as_bytes(), at(now));
        session.on_timeout(at(now));
        calls += settle(&mut session, "other:1", now);
        assert_eq!(events(&mut session), []);
    }
    assert!(calls <= 15, "{calls} calls");
}

#[test]
fn a_free_lock_behind_dead_waiters_is_asked_for_at_once() {
    let mut session = connected();
    session.acquire(of_kind(Kind::Fair, None), at(0));
    let (calls, _) = sent(&mut session, at(0));
    let name = owner(&calls[0]);
    // The server has skipped its maximum of dead waiters, and there are more.
    session.on_reply(calls[0].id, Ok(held(Kind::Fair, "", 0)), at(1));
    let mut now = 1;
    for _ in 0..20 {
        let mut polls = Vec::new();
        while polls.is_empty() {
            session.on_timeout(at(now));
            polls = sent(&mut session, at(now)).0;
            now += 1;
        }
        assert_eq!((polls.len(), polls[0].script), (1, Script::FairPoll));
        session.on_reply(polls[0].id, Ok(polled("", 0, now)), at(now));
    }
    assert!(now < 100, "20 polls took {now} ms");
    session.on_timeout(at(now + 2));
    let (polls, _) = sent(&mut session, at(now + 2));
    session.on_reply(polls[0].id, Ok(polled(&name, shown(now + 2), now + 2)), at(now + 3));
    assert!(matches!(
        events(&mut session).as_slice(),
        [Event::Completed {
            outcome: Outcome::Granted(_),
            ..
        }]
    ));
}

#[test]
fn a_single_attempt_continues_while_dead_waiters_are_before_it() {
    let mut session = connected();
    session.acquire(of_kind(Kind::Fair, Some(Duration::ZERO)), at(0));
    let (calls, _) = sent(&mut session, at(0));
    session.on_reply(calls[0].id, Ok(held(Kind::Fair, "", 0)), at(1));
    assert_eq!(events(&mut session), []);
    session.on_timeout(at(3));
    let (calls, _) = sent(&mut session, at(3));
    let granted = Reply::Array(vec![Reply::Int(1), text(&shown(3).to_string())]);
    session.on_reply(calls[0].id, Ok(granted), at(4));
    assert!(matches!(
        events(&mut session).as_slice(),
        [Event::Completed {
            outcome: Outcome::Granted(_),
            ..
        }]
    ));
}

#[test]
fn a_timed_out_waiter_never_reports_a_free_lock() {
    let mut session = connected();
    session.acquire(of_kind(Kind::Fair, Some(ms(100))), at(0));
    let (calls, _) = sent(&mut session, at(0));
    session.on_reply(calls[0].id, Ok(held(Kind::Fair, "", 0)), at(1));
    session.on_timeout(at(100));
    let reported = events(&mut session);
    let [
        Event::Completed {
            outcome: Outcome::NotGranted(error),
            ..
        },
    ] = reported.as_slice()
    else {
        panic!("{reported:?}")
    };
    assert_eq!(error.kind(), ErrorKind::LockTimeout);
    let message = error.to_string();
    assert!(
        !message.contains("held by") && message.contains("others wait"),
        "{message}"
    );
}

#[test]
fn a_message_that_overtakes_the_answer_queued_makes_the_waiter_ask_again() {
    let mut session = connected();
    let (.., plain) = waiting(&mut session);
    session.acquire(of_kind(Kind::Fair, None), at(100));
    let (calls, _) = sent(&mut session, at(100));
    assert_eq!(calls.len(), 1);
    // A holder of the plain lock releases it after the call has run. The message overtakes the answer.
    session.on_message(NODE, &plain, b"0", at(101));
    let (poll, _) = sent(&mut session, at(101));
    session.on_reply(poll[0].id, Ok(polled("other:1", 0, 100)), at(102));
    session.on_reply(calls[0].id, Ok(held(Kind::Fair, "other:1", 100)), at(103));
    let (calls, _) = sent(&mut session, at(103));
    assert_eq!((calls.len(), calls[0].script), (1, Script::FairAcquire));
}

#[test]
fn a_queued_grant_counts_as_a_wait_even_if_it_lasts_about_as_long_as_the_lease() {
    let mut session = connected();
    let wanted = [of_kind(Kind::Fair, None), wants("left")];
    // The server grants the lock to a queued waiter for 3 s.
    let wanted = wanted.map(|request| AcquireRequest {
        lease: fixed(2_999),
        ..request
    });
    session.acquire_all(wanted.to_vec(), at(0));
    let (calls, _) = sent(&mut session, at(0));
    let granted = Reply::Array(vec![Reply::Int(1), text(&shown(0).to_string())]);
    session.on_reply(calls[0].id, Ok(granted), at(0));
    let (calls, _) = sent(&mut session, at(0));
    assert_eq!(calls[0].script, Script::FairAcquire, "the last one");
    session.on_reply(calls[0].id, Ok(held(Kind::Fair, "other:1", 0)), at(1));
    let (_, channels) = sent(&mut session, at(1));
    for channel in &channels {
        session.on_subscribed(NODE, channel, at(1));
    }
    settle(&mut session, "other:1", 1);

    let message = format!("{} {} {}", owner(&calls[0]), shown(2), shown(200));
    session.on_message(NODE, &channels[0], message.as_bytes(), at(201));
    assert_eq!(events(&mut session), [], "a lock held for 200 ms may be lost");
    let (calls, _) = sent(&mut session, at(201));
    let scripts: Vec<Script> = calls.iter().map(|call| call.script).collect();
    assert_eq!(scripts, [Script::LockRenew]);
}
