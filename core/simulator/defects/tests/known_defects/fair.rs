//! Defects of the fair lock's queue and of its messages.

use std::time::Duration;

use steadlock_protocol::Kind;
use steadlock_protocol::defects::Defect;
use steadlock_store::Reply;

use crate::known::{Known, Mistake, Switch, ensure};
use crate::world::{World, ms, seconds, wants};

const QUEUE: &str = "steadlock:{desk}:fair";
const ALIVE: &str = "steadlock:{desk}:alive";

pub(crate) const IGNORED_MESSAGE: Known = Known {
    what: "message wakes nobody",
    switches: &[(Switch::Patch(Defect::MessagesWakeNobody), "got a message")],
    check: a_message_wakes,
};

fn a_message_wakes(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    let held = world.hold(0, wants(Kind::Lock, "door"))?;
    let waiter = world.acquire(1, wants(Kind::Lock, "door"));
    world.run_for(ms(900));
    world.release(0, held.lease);
    let granted = world.granted(1, waiter, ms(20));
    granted.map_err(|waiting| format!("the waiter got a message that the lock is free, and the lock is {waiting}"))?;
    Ok(())
}

pub(crate) const MANY_DEAD: Known = Known {
    what: "many dead fair waiters leave the lock idle",
    switches: &[(Switch::Patch(Defect::DeadEndThePassing), "500 dead")],
    check: many_dead_waiters_are_skipped_at_once,
};

fn many_dead_waiters_are_skipped_at_once(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    let held = world.hold(0, wants(Kind::Fair, "desk"))?;
    let now = world.time();
    for number in 0..500 {
        add_to_queue(&mut world, &format!("dead:{number}"), now);
    }
    let waiter = world.acquire(1, wants(Kind::Fair, "desk"));
    world.run_for(ms(10));
    world.release(0, held.lease);
    let granted = world.granted(1, waiter, seconds(4));
    granted.map_err(|waiting| format!("behind 500 dead waiters the lock is {waiting}"))?;
    Ok(())
}

pub(crate) const RETURNING_WAITER: Known = Known {
    what: "fair waiter comes back after it was cancelled",
    switches: &[(Switch::Patch(Defect::PollsAreNoAttempts), "that is gone")],
    check: a_grant_without_a_waiter_is_released,
};

fn a_grant_without_a_waiter_is_released(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 3);
    let held = world.hold(0, wants(Kind::Fair, "desk"))?;
    let gone = world.acquire(1, wants(Kind::Fair, "desk"));
    world.run_for(ms(100));
    let owner = first_in_queue(&mut world)?;
    world.cancel(1, gone);
    world.run_for(ms(100));
    // The effect of a poll that was cut off and runs late.
    let now = world.time();
    add_to_queue(&mut world, &owner, now);
    let next = world.acquire(2, wants(Kind::Fair, "desk"));
    world.run_for(ms(10));
    world.release(0, held.lease);
    let granted = world.granted(2, next, ms(100));
    granted.map_err(|waiting| format!("the lock was granted to a waiter that is gone, and is {waiting}"))?;
    Ok(())
}

pub(crate) const FORGED: Known = Known {
    what: "forged message grants the fair lock",
    switches: &[(Switch::Patch(Defect::AnyGrantMessageIsBelieved), "beside the holder")],
    check: a_forged_message_grants_nothing,
};

fn a_forged_message_grants_nothing(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    world.hold(0, wants(Kind::Fair, "desk"))?;
    let waiter = world.acquire(1, wants(Kind::Fair, "desk"));
    world.run_for(ms(100));
    let owner = first_in_queue(&mut world)?;
    let client = owner.split(':').next().unwrap_or_default().to_owned();
    let (seen, largest) = (world.time(), (1_u64 << 53) - 2);
    let channel = format!("steadlock:{{desk}}:grants:{client}");
    world.command(0, &["PUBLISH", &channel, &format!("{owner} {seen} {largest}")]);
    let granted = world.outcome(1, waiter, ms(100));
    ensure(granted.is_none(), || {
        format!("a forged message granted the lock beside the holder: {granted:?}")
    })
}

fn first_in_queue(world: &mut World) -> Result<String, String> {
    match world.command(0, &["ZRANGE", QUEUE, "0", "0"]) {
        Reply::Array(owners) => match owners.into_iter().next() {
            Some(Reply::Bytes(owner)) => String::from_utf8(owner).map_err(|error| error.to_string()),
            _ => Err("nobody is in the queue".into()),
        },
        other => Err(format!("ZRANGE replied {other:?}")),
    }
}

/// Adds a waiter to the end of the queue, with a last poll at `seen` on the server's clock.
fn add_to_queue(world: &mut World, owner: &str, seen: u64) {
    let life = Duration::from_secs(30).as_millis().to_string();
    world.command(0, &["ZADD", QUEUE, &seen.to_string(), owner]);
    world.command(0, &["HSET", ALIVE, owner, &format!("{seen} 1")]);
    for key in [QUEUE, ALIVE] {
        world.command(0, &["PEXPIRE", key, &life]);
    }
}
