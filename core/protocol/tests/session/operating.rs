//! The operations of operators: changing the limit of a semaphore.

use std::time::Duration;

use crate::world::*;
use steadlock_protocol::{CallError, ErrorKind, LockName, Operation, Outcome, Permits, Script, Ticket};

const RECORD: &str = "steadlock:{s}:semaphore";

fn set_limit(world: &mut World, limit: u32) -> Ticket {
    let (now, name) = (world.now, LockName::parse("s").unwrap());
    let permits = Permits::new(1, limit).unwrap();
    let ticket = world.clients[0].session.set_limit(permits, &name, now);
    world.drain(0);
    ticket
}

#[test]
fn a_limit_is_changed_by_one_call_where_permits_are_held() {
    let mut world = World::new(1);
    let ticket = set_limit(&mut world, 5);
    assert_eq!(world.outcome(0, ticket), Outcome::Forced(false));
    world.server.limits.insert(RECORD.into(), 3);
    let ticket = set_limit(&mut world, 5);
    assert_eq!(world.outcome(0, ticket), Outcome::Forced(true));
    assert_eq!(world.server.limits[RECORD], 5);
    assert_eq!(world.calls(Script::SemaphoreLimit), 2);
    assert!(world.clients[0].session.is_empty());
}

#[test]
fn a_change_whose_answer_was_cut_off_is_sent_again() {
    let mut world = World::new(1);
    world.server.limits.insert(RECORD.into(), 3);
    world.cut_after_execution = 1;
    let ticket = set_limit(&mut world, 5);
    world.run_for(Duration::from_millis(10));
    world.connect(0);
    assert_eq!(world.outcome(0, ticket), Outcome::Forced(true));
    assert_eq!(world.calls(Script::SemaphoreLimit), 2);
}

#[test]
fn a_change_without_an_answer_is_unavailable_after_the_command_timeout() {
    let mut world = World::new(1);
    world.server.stopped = true;
    let start = world.now;
    let ticket = set_limit(&mut world, 5);
    let failed = error(world.outcome(0, ticket));
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    assert_eq!(failed.operation(), Operation::SetLimit);
    assert_eq!(failed.lock_name(), Some("s"));
    assert_eq!(world.now.saturating_since(start), Duration::from_secs(3));
}

#[test]
fn a_key_of_another_type_is_misconfigured() {
    let mut world = World::new(1);
    world.server.errors.push_back(CallError::Server {
        code: "WRONGTYPE".into(),
        message: "Operation against a key holding the wrong kind of value".into(),
    });
    let ticket = set_limit(&mut world, 5);
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::Misconfigured);
}
