//! The cost of an operation does not grow with the other locks that the client holds. The tests compare times of one
//! run. Run them alone, because a busy machine distorts the times.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    missing_docs,
    dead_code,
    reason = "a test states what must hold, and panics when it does not"
)]

mod support;

use std::time::{Duration, Instant};

use support::{Client, wants};

/// The numbers of holds whose times are compared.
const FEW: usize = 100;
const MANY: usize = 10_000;
/// The maximum ratio of the times with many and with few holds. Larger maps and cache misses make it greater than 1.
const FLAT: f64 = 6.0;

/// Returns a client with this many holds.
fn holding(count: usize) -> Client {
    let mut client = Client::new();
    for number in 0..count {
        client.hold(wants(&format!("held-{number}"), None));
    }
    client
}

/// Returns the shortest time of several rounds of an operation.
fn shortest(client: &mut Client, operation: impl Fn(&mut Client)) -> Duration {
    let round = |client: &mut Client| {
        let start = Instant::now();
        for _ in 0..200 {
            operation(client);
        }
        start.elapsed()
    };
    (0..15).map(|_| round(client)).min().expect("some rounds")
}

fn is_flat(operation: impl Fn(&mut Client)) {
    let few = shortest(&mut holding(FEW), &operation);
    let many = shortest(&mut holding(MANY), &operation);
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    println!("{few:?} with {FEW} holds, {many:?} with {MANY}: {ratio:.2}");
    assert!(ratio < FLAT, "{few:?} with {FEW} holds, {many:?} with {MANY}");
}

#[test]
fn a_cancelled_attempt_costs_the_same_however_much_is_held() {
    is_flat(|client| {
        let ticket = client.session.acquire(wants("wanted", None), client.now);
        client.drain(None);
        client.session.cancel(ticket, client.now);
        client.answer(None);
    });
}

#[test]
fn a_cancelled_release_costs_the_same_however_much_is_owed() {
    let owing = |count: usize| {
        let mut client = holding(count);
        for number in 0..count {
            let name = steadlock_protocol::LockName::parse(&format!("held-{number}")).unwrap();
            let context = steadlock_protocol::Context::from_u64(1);
            client.session.release_innermost(
                &(steadlock_protocol::Kind::Lock, name.clone()).into(),
                context,
                client.now,
            );
        }
        client.drain(None);
        client.calls.clear();
        client
    };
    let operation = |client: &mut Client| {
        let ticket = client.session.acquire(wants("wanted", None), client.now);
        client.drain(None);
        client.session.cancel(ticket, client.now);
        client.answer(None);
    };
    let few = shortest(&mut owing(FEW), operation);
    let many = shortest(&mut owing(MANY), operation);
    assert!(many.as_secs_f64() / few.as_secs_f64() < FLAT, "{few:?}, {many:?}");
}

#[test]
fn a_pair_costs_the_same_however_much_is_held() {
    is_flat(|client| {
        let grant = client.hold(wants("wanted", None));
        client.session.release(grant.lease, client.now);
        client.answer(None);
    });
}

#[test]
fn several_locks_cost_the_same_however_many_are_held_as_one() {
    let several = |count: usize| {
        let mut client = Client::new();
        for number in 0..count {
            let names = [format!("a-{number}"), format!("b-{number}")];
            let both = names.iter().map(|name| wants(name, None)).collect();
            client.session.acquire_all(both, client.now);
            client.answer(None);
        }
        client
    };
    let operation = |client: &mut Client| {
        let both = ["a", "b"].map(|name| wants(name, None)).into();
        let ticket = client.session.acquire_all(both, client.now);
        let Some(steadlock_protocol::Outcome::Granted(grant)) = client.answer(Some(ticket)) else {
            panic!("not granted")
        };
        client.session.release(grant.lease, client.now);
        client.answer(None);
    };
    let few = shortest(&mut several(FEW), operation);
    let many = shortest(&mut several(MANY / 2), operation);
    assert!(many.as_secs_f64() / few.as_secs_f64() < FLAT, "{few:?}, {many:?}");
}
