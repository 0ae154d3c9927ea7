//! The identities of clients: what a client stores about itself and when, and how other clients learn of it.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, CallError, ClientInfo, Error, ErrorKind, Identity, KeyPrefix, Kind, LockState, Outcome, Script,
    Ticket,
};

use crate::world::{LATENCY, World, error, ms, wants};

/// The interval at which a client stores its identity again.
const EVERY: Duration = Duration::from_secs(30);

/// Returns a world whose clients have identities: `orders.py, pid 1 on worker`, and so on.
fn world(clients: usize) -> World {
    let pid = std::cell::Cell::new(0);
    World::with(clients, |config| {
        pid.set(pid.get() + 1);
        let mut info = ClientInfo::default();
        (info.host, info.program, info.pid) = ("worker".into(), "orders.py".into(), pid.get());
        config.identity = Some(Identity {
            info: Arc::new(info),
            prefix: KeyPrefix::parse("shop:").unwrap(),
        });
    })
}

/// Returns how many times a client has called a script so far.
fn count(world: &World, client: usize, script: Script) -> usize {
    let calls = world.server.calls.iter();
    calls
        .filter(|(_, of, called)| *of == client && *called == script)
        .count()
}

/// Lets a client ask who holds the lock.
fn ask(world: &mut World, client: usize) -> Ticket {
    let now = world.now;
    let name = wants("a").name;
    let ticket = world.clients[client].session.inspect(Kind::Lock, &name, now);
    world.drain(client);
    ticket
}

/// Lets a client ask, and runs until it has the answer, but not yet the holder's identity.
fn ask_until_answered(world: &mut World, client: usize) -> Ticket {
    let ticket = ask(world, client);
    world.run_for(2 * LATENCY);
    ticket
}

fn state(world: &mut World, client: usize) -> LockState {
    let ticket = ask(world, client);
    match world.outcome(client, ticket) {
        Outcome::State(state) => state,
        other => panic!("{other:?}"),
    }
}

/// Returns the identity of the lock's holder, as the client knows it.
fn holder(world: &mut World, client: usize) -> Option<String> {
    state(world, client)
        .holder
        .unwrap()
        .client
        .map(|client| client.to_string())
}

fn refused_after(wait: Duration) -> AcquireRequest {
    AcquireRequest {
        wait: Some(wait),
        ..wants("a")
    }
}

#[test]
fn a_client_says_it_before_it_first_asks_for_a_lock_and_then_every_thirty_seconds() {
    let mut world = world(1);
    assert_eq!(world.server.calls, []);
    world.hold(0, wants("a"));
    assert_eq!(world.server.calls[0].2, Script::ClientIdentify);
    let (key, (text, until)) = world.server.clients.first_key_value().unwrap();
    assert!(
        key.starts_with("steadlock:{shop:") && key.ends_with("}:client"),
        "{key}"
    );
    assert_eq!(
        ClientInfo::parse(text).unwrap().to_string(),
        "orders.py, pid 1 on worker"
    );
    assert_eq!(until.saturating_since(world.now), Duration::from_secs(90) - LATENCY);
    for number in 0..50 {
        world.hold(0, wants(&format!("{number}")));
    }
    assert_eq!(count(&world, 0, Script::ClientIdentify), 1);
    world.run_for(10 * EVERY);
    assert_eq!(count(&world, 0, Script::ClientIdentify), 11);
}

#[test]
fn one_that_neither_holds_nor_wants_anything_says_nothing_more_and_begins_anew() {
    let mut world = world(1);
    let grant = world.hold(0, wants("a"));
    world.release(0, grant.lease);
    world.run_for(10 * EVERY);
    assert_eq!(count(&world, 0, Script::ClientIdentify), 1);
    assert_eq!(world.clients[0].session.poll_timeout(), None);
    world.hold(0, wants("a"));
    assert_eq!(count(&world, 0, Script::ClientIdentify), 2);
}

#[test]
fn an_identity_is_repeated_where_another_server_may_be() {
    let mut world = world(1);
    world.hold(0, wants("a"));
    world.disconnect(0);
    world.server.clients.clear();
    world.connect(0);
    world.run_for(ms(5));
    assert_eq!(world.server.clients.len(), 1);
}

#[test]
fn without_an_identity_nothing_is_said_and_nobody_is_asked_about() {
    let mut world = World::new(2);
    world.hold(0, wants("a"));
    assert_eq!(state(&mut world, 1).holder.unwrap().client, None);
    for script in [Script::ClientIdentify, Script::ClientInspect] {
        assert_eq!(count(&world, 0, script) + count(&world, 1, script), 0);
    }
}

#[test]
fn an_inspection_names_the_program_of_the_holder() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    assert_eq!(holder(&mut world, 1).unwrap(), "orders.py, pid 1 on worker");
    assert_eq!(holder(&mut world, 0).unwrap(), "orders.py, pid 1 on worker");
    // The identity is used for a minute; after that the client asks again.
    for _ in 0..10 {
        holder(&mut world, 1);
    }
    assert_eq!(count(&world, 0, Script::ClientInspect), 0);
    assert_eq!(count(&world, 1, Script::ClientInspect), 1);
    world.run_for(ms(60_000));
    holder(&mut world, 1);
    assert_eq!(count(&world, 1, Script::ClientInspect), 2);
}

#[test]
fn a_holder_that_has_no_identity_yet_is_asked_about_again_a_second_later() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    let stored = std::mem::take(&mut world.server.clients);
    for _ in 0..5 {
        assert_eq!(holder(&mut world, 1), None);
    }
    assert_eq!(count(&world, 1, Script::ClientInspect), 1);
    world.server.clients = stored;
    world.run_for(ms(1_000));
    assert_eq!(holder(&mut world, 1).unwrap(), "orders.py, pid 1 on worker");
}

#[test]
fn many_who_ask_at_once_ask_once_which_program_it_is() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    let (now, name) = (world.now, wants("a").name);
    let session = &mut world.clients[1].session;
    let tickets: Vec<_> = (0..5).map(|_| session.inspect(Kind::Lock, &name, now)).collect();
    world.drain(1);
    for ticket in tickets {
        let Outcome::State(state) = world.outcome(1, ticket) else {
            panic!()
        };
        assert!(state.holder.unwrap().client.is_some());
    }
    assert_eq!(count(&world, 1, Script::ClientInspect), 1);
}

#[test]
fn a_timeout_names_the_program_that_holds_the_lock() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    let ticket = world.acquire(1, refused_after(ms(100)));
    let Outcome::NotGranted(refusal) = world.outcome(1, ticket) else {
        panic!()
    };
    assert_eq!(refusal.kind(), ErrorKind::LockTimeout);
    let message = refusal.message();
    let named = "not granted after 100ms: held by orders.py, pid 1 on worker for another 29.";
    assert!(message.starts_with(named), "{message}");
    assert_eq!(refusal.holder().unwrap().client.as_ref().unwrap().pid, 1);
    // The name is known by then, so a caller that does not wait gets it at once.
    let ticket = world.acquire(1, refused_after(Duration::ZERO));
    let Outcome::NotGranted(refusal) = world.outcome(1, ticket) else {
        panic!()
    };
    assert!(refusal.message().contains("held by orders.py"), "{refusal}");
    // Another thread of the holder's own client gets the same name.
    let ticket = world.acquire(0, refused_after(Duration::ZERO));
    let Outcome::NotGranted(refusal) = world.outcome(0, ticket) else {
        panic!()
    };
    assert!(refusal.message().contains("held by orders.py, pid 1"), "{refusal}");
}

/// Returns the refusal of a caller that waits this long, and the time until the refusal.
fn refusal(world: &mut World, client: usize, wait: Duration) -> (Error, Duration) {
    let ticket = world.acquire(client, refused_after(wait));
    match world.outcome_within(client, ticket, Duration::from_secs(60)) {
        Some((Outcome::NotGranted(error), took)) => (error, took),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_refusal_of_a_client_names_the_program_that_holds_the_lock() {
    // One caller does not wait. The wait of another ends before the first answer, and that of the last between the
    // first answer and the name.
    for wait in [Duration::ZERO, LATENCY, 3 * LATENCY] {
        let mut world = world(2);
        world.hold(0, wants("a"));
        let (error, took) = refusal(&mut world, 1, wait);
        assert!(
            error.message().contains("held by orders.py, pid 1 on worker for"),
            "{error}"
        );
        assert_eq!(error.holder().unwrap().client.as_ref().unwrap().pid, 1);
        // One round trip for the refusal, and one for the name.
        assert_eq!(took, 4 * LATENCY, "{wait:?}");
        // The name is known now.
        let (error, took) = refusal(&mut world, 1, Duration::ZERO);
        assert!(error.message().contains("held by orders.py"), "{error}");
        assert_eq!(took, 2 * LATENCY);
        assert_eq!(world.clients[1].session.calls_in_flight(), 0);
    }
}

#[test]
fn a_lock_that_is_free_is_granted_without_a_question_about_names() {
    let mut world = world(2);
    world.hold(1, refused_after(Duration::ZERO));
    assert_eq!(count(&world, 1, Script::ClientInspect), 0);
}

#[test]
fn a_refusal_waits_forty_milliseconds_for_a_name_and_no_longer() {
    let grace = ms(40);
    let mut world = world(2);
    world.hold(0, wants("a"));
    world.reply_latency = ms(45);
    let (error, took) = refusal(&mut world, 1, Duration::ZERO);
    assert!(!error.message().contains("orders.py"), "{error}");
    assert_eq!(took, LATENCY + ms(45) + grace);
    // If the wait ends before the answer, the 40 ms are for the answer and the name together.
    let mut world = self::world(2);
    world.hold(0, wants("a"));
    world.reply_latency = ms(25);
    let (error, took) = refusal(&mut world, 1, ms(1));
    assert!(!error.message().contains("orders.py"), "{error}");
    assert_eq!(took, ms(1) + grace);
}

#[test]
fn a_refusal_that_waits_for_a_name_keeps_nobody_else_waiting() {
    let mut world = world(2);
    let grant = world.hold(0, wants("a"));
    let refused = world.acquire(1, refused_after(Duration::ZERO));
    let next = world.acquire(1, wants("a"));
    world.run_for(2 * LATENCY);
    let sent = world.now;
    assert_eq!(count(&world, 1, Script::ClientInspect), 0);
    world.run_for(LATENCY);
    let asked =
        |(at, of, script): &&(_, usize, Script)| (*at, *of, *script) == (sent + LATENCY, 1, Script::LockAcquire);
    assert_eq!(world.server.calls.iter().filter(asked).count(), 1);
    assert!(matches!(world.outcome(1, refused), Outcome::NotGranted(_)));
    world.release(0, grant.lease);
    assert!(matches!(world.outcome(1, next), Outcome::Granted(_)));
}

#[test]
fn a_refusal_is_reported_without_the_name_when_none_will_come() {
    // The connection breaks.
    let mut world = world(2);
    world.hold(0, wants("a"));
    let ticket = world.acquire(1, refused_after(Duration::ZERO));
    world.run_for(2 * LATENCY);
    world.disconnect(1);
    assert!(matches!(
        world.outcome_within(1, ticket, ms(0)),
        Some((Outcome::NotGranted(_), _))
    ));
    // The client is closed.
    let mut world = self::world(2);
    world.hold(0, wants("a"));
    let ticket = world.acquire(1, refused_after(Duration::ZERO));
    world.run_for(2 * LATENCY);
    let now = world.now;
    world.clients[1].session.close(now);
    world.drain(1);
    assert!(matches!(
        world.outcome_within(1, ticket, ms(0)),
        Some((Outcome::NotGranted(_), _))
    ));
    assert_eq!(world.clients[1].session.poll_timeout(), None);
    // The caller cancels.
    let mut world = self::world(2);
    world.hold(0, wants("a"));
    let ticket = world.acquire(1, refused_after(Duration::ZERO));
    world.run_for(2 * LATENCY);
    world.cancel(1, ticket);
    assert!(world.outcome_within(1, ticket, ms(100)).is_none());
}

#[test]
fn a_server_that_refuses_to_tell_names_is_asked_for_one_once_a_minute() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    refusal(&mut world, 1, Duration::ZERO);
    world.run_for(ms(61_000));
    // The server refuses the question about the name, but not the attempt.
    let ticket = world.acquire(1, refused_after(Duration::ZERO));
    world.run_for(2 * LATENCY);
    world.server.errors.extend([CallError::Server {
        code: "NOPERM".into(),
        message: "no".into(),
    }]);
    assert!(matches!(world.outcome(1, ticket), Outcome::NotGranted(_)));
    let asked = count(&world, 1, Script::ClientInspect);
    for _ in 0..5 {
        let (error, took) = refusal(&mut world, 1, Duration::ZERO);
        assert!(!error.message().contains("orders.py"), "{error}");
        assert_eq!(took, 2 * LATENCY);
    }
    assert_eq!(count(&world, 1, Script::ClientInspect), asked);
}

#[test]
fn a_holder_without_an_identity_is_named_by_its_owner_id() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    world.server.clients.clear();
    let state = state(&mut world, 1);
    let owner = state.holder.unwrap().owner;
    let ticket = world.acquire(1, refused_after(ms(100)));
    let Outcome::NotGranted(refusal) = world.outcome(1, ticket) else {
        panic!()
    };
    assert!(refusal.message().contains(&format!("held by {owner} for")), "{refusal}");
    // Redisson's owner ids have the same form, but those of other libraries do not.
    world.server.records.get_mut("a").unwrap().owner = "somebody".into();
    assert_eq!(holder(&mut world, 1), None);
    assert_eq!(count(&world, 1, Script::ClientInspect), 1);
}

#[test]
fn a_name_is_awaited_no_longer_than_an_answer_and_its_refusal_is_not_reported() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    let ticket = ask_until_answered(&mut world, 1);
    // The server stops before the next answer.
    world.server.stopped = true;
    let (outcome, took) = world.outcome_within(1, ticket, Duration::from_secs(60)).unwrap();
    let Outcome::State(state) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(state.holder.unwrap().client, None);
    assert!(took <= Duration::from_secs(3), "{took:?}");
    world.server.stopped = false;
    world.run_for(ms(10));

    let mut world = self::world(2);
    world.server.errors.push_back(CallError::Server {
        code: "NOPERM".into(),
        message: "no".into(),
    });
    world.hold(0, wants("a"));
    assert_eq!(world.server.clients.len(), 0);
    assert_eq!(holder(&mut world, 1), None);
}

#[test]
fn an_inspection_whose_connection_breaks_before_the_name_arrives_completes_without_it() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    let ticket = ask_until_answered(&mut world, 1);
    world.disconnect(1);
    let Outcome::State(state) = world.outcome(1, ticket) else {
        panic!()
    };
    assert_eq!(state.holder.unwrap().client, None);
    world.connect(1);
    assert!(holder(&mut world, 1).is_some());
}

#[test]
fn an_inspection_that_is_cancelled_before_the_name_arrives_reports_nothing() {
    let mut world = world(2);
    world.hold(0, wants("a"));
    let ticket = ask_until_answered(&mut world, 1);
    world.cancel(1, ticket);
    assert!(world.outcome_within(1, ticket, ms(100)).is_none());
}

#[test]
fn with_the_server_gone_nothing_is_sent_that_nobody_reads() {
    let mut world = world(1);
    world.hold(0, wants("a"));
    world.disconnect(0);
    let request = AcquireRequest {
        wait: Some(ms(10)),
        ..wants("b")
    };
    let ticket = world.acquire(0, request);
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::Unavailable);
    world.run_for(3 * EVERY);
    assert_eq!(count(&world, 0, Script::ClientIdentify), 1);
}

#[test]
fn a_client_that_is_closed_says_nothing_more() {
    let mut world = world(1);
    world.hold(0, wants("a"));
    let now = world.now;
    world.clients[0].session.close(now);
    world.drain(0);
    world.run_for(3 * EVERY);
    assert_eq!(count(&world, 0, Script::ClientIdentify), 1);
    assert_eq!(world.clients[0].session.poll_timeout(), None);
}
