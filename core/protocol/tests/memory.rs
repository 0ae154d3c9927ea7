//! The number of entries of a session does not grow with the work that it has done.
//!
//! With `STEADLOCK_LONG=1` the tests use a million names and 100,000 leases (`./ci/just test-long`).
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

use std::time::Duration;

use steadlock_protocol::{AcquireRequest, Context, Kind, LockName};
use support::{Client, wants};

fn count(long: usize) -> usize {
    if std::env::var_os("STEADLOCK_LONG").is_some() {
        long
    } else {
        50_000
    }
}

#[test]
fn names_in_turn_leave_nothing() {
    let mut client = Client::new();
    for number in 0..count(1_000_000) {
        let grant = client.hold(wants(&format!("name-{number}"), None));
        client.session.release(grant.lease, client.now);
        client.answer(None);
    }
    assert!(client.most < 16, "{} entries at a time", client.most);
    assert!(client.session.is_empty(), "{} entries at the end", client.session.len());
}

#[test]
fn leases_that_expire_leave_nothing() {
    let mut client = Client::new();
    let leases = count(100_000);
    for number in 0..leases {
        // The same context acquires every third name once more.
        client.hold(wants(&format!("name-{}", number - number % 3), Some(100)));
        client.run_for(Duration::from_millis(if number % 3 == 0 { 10 } else { 110 }));
    }
    client.run_for(Duration::from_secs(1));
    assert_eq!(client.lost, leases);
    assert!(client.most < 200, "{} entries at a time", client.most);
    assert!(client.session.is_empty(), "{} entries at the end", client.session.len());
}

#[test]
fn members_that_expire_together_leave_nothing() {
    let mut client = Client::new();
    for number in 0..1_000 {
        let names = [format!("a-{number}"), format!("b-{number}")];
        let both: Vec<AcquireRequest> = names.iter().map(|name| wants(name, Some(100))).collect();
        client.session.acquire_all(both, client.now);
        client.answer(None);
        client.run_for(Duration::from_millis(110));
    }
    assert_eq!(client.lost, 1_000);
    assert!(client.most < 64, "{} entries at a time", client.most);
    assert!(client.session.is_empty(), "{} entries at the end", client.session.len());
}

#[test]
fn attempts_that_are_cancelled_leave_nothing() {
    let mut client = Client::new();
    for number in 0..10_000 {
        let ticket = client
            .session
            .acquire(wants(&format!("name-{number}"), None), client.now);
        client.drain(None);
        client.session.cancel(ticket, client.now);
        client.answer(None);
    }
    client.run_for(Duration::from_secs(10));
    assert!(client.session.is_empty(), "{} entries at the end", client.session.len());
}

#[test]
fn a_context_that_holds_nothing_any_more_has_no_levels() {
    let mut client = Client::new();
    client.hold(wants("a", Some(100)));
    client.run_for(Duration::from_millis(110));
    let name = LockName::parse("a").unwrap();
    assert_eq!(
        client.session.levels(&(Kind::Lock, name).into(), Context::from_u64(1)),
        0
    );
}
