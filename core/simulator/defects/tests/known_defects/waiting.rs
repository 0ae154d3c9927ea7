//! Defects of waiting: a lock is free, and its waiter is not granted it.

use std::time::Duration;

use steadlock_protocol::defects::Defect;
use steadlock_protocol::{AcquireRequest, Context, Kind, Permits, Script};

use crate::known::{Known, Mistake, Switch, ensure};
use crate::world::{World, ms, seconds, wants};

/// A poll, and the way to the server and back.
const POLL: Duration = ms(800);

pub(crate) const STALL: Known = Known {
    what: "stall after a lost message",
    switches: &[(Switch::Patch(Defect::WaiterTrustsMessages), "the message was lost")],
    check: a_lost_message_costs_one_poll,
};

fn a_lost_message_costs_one_poll(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    let held = world.hold(0, wants(Kind::Lock, "door"))?;
    let waiter = world.acquire(1, wants(Kind::Lock, "door"));
    world.run_for(seconds(2));
    world.loses_messages = true;
    world.release(0, held.lease);
    let granted = world.granted(1, waiter, POLL);
    granted.map_err(|waiting| format!("the message was lost, and the free lock is {waiting}"))?;
    Ok(())
}

pub(crate) const PARKED: Known = Known {
    what: "semaphore waiter parked for ever",
    switches: &[(Switch::Patch(Defect::WaiterParks), "the holder is dead")],
    check: the_permit_of_a_dead_holder_is_taken,
};

fn the_permit_of_a_dead_holder_is_taken(mistake: Mistake) -> Result<(), String> {
    let lease = seconds(3);
    let mut world = World::auto_renewed(mistake, 2, lease);
    let only_one = AcquireRequest {
        wait: Some(seconds(3_600)),
        ..wants(Kind::Semaphore(Permits::new(1, 1).unwrap()), "desk")
    };
    world.hold(0, only_one.clone())?;
    let waiter = world.acquire(1, only_one);
    world.run_for(seconds(10));
    // No message is published when a permit expires.
    world.kill(0);
    let granted = world.granted(1, waiter, lease + POLL);
    granted.map_err(|waiting| format!("the holder is dead, and its permit is {waiting}"))?;
    Ok(())
}

pub(crate) const BESIDE: Known = Known {
    what: "attempt refused though there is room",
    switches: &[(Switch::Patch(Defect::SharedAttemptQueues), "there was room for all")],
    check: simultaneous_attempts_are_granted_all_that_is_free,
};

fn simultaneous_attempts_are_granted_all_that_is_free(mistake: Mistake) -> Result<(), String> {
    let permits = Kind::Semaphore(Permits::new(1, 8).unwrap());
    for (kind, room) in [(permits, 8), (Kind::Read, 12)] {
        let mut world = World::new(mistake, 1);
        let once = || AcquireRequest {
            wait: Some(Duration::ZERO),
            ..wants(kind, "hall")
        };
        let attempts: Vec<_> = (0..12).map(|_| world.acquire(0, once())).collect();
        let granted = attempts
            .into_iter()
            .filter(|ticket| world.granted(0, *ticket, seconds(1)).is_ok());
        let granted = granted.count();
        ensure(granted == room, || {
            format!("{kind:?}: of 12 at once {granted} were granted, and there was room for all {room}")
        })?;
    }
    Ok(())
}

pub(crate) const DEAD_HEAD: Known = Known {
    what: "dead fair head blocks",
    switches: &[(
        Switch::Scripts(&[
            (Script::FairAcquire, HEAD, HEAD_IS_KEPT),
            (Script::FairPoll, HEAD, HEAD_IS_KEPT),
            (Script::FairRelease, HEAD, HEAD_IS_KEPT),
            (Script::FairForce, HEAD, HEAD_IS_KEPT),
        ]),
        "behind a dead waiter",
    )],
    check: a_dead_head_is_passed_over,
};

const HEAD: &str = "    redis.call('HDEL', KEYS[4], owner)\n    if seen and";
const HEAD_IS_KEPT: &str = "    if not seen or now - tonumber(seen) > WAITER_LIFE then
      redis.call('ZADD', KEYS[3], 0, owner)
      return nil
    end
    redis.call('HDEL', KEYS[4], owner)\n    if seen and";

fn a_dead_head_is_passed_over(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 3);
    let held = world.hold(0, wants(Kind::Fair, "desk"))?;
    world.acquire(1, wants(Kind::Fair, "desk"));
    world.run_for(ms(100));
    let second = world.acquire(2, wants(Kind::Fair, "desk"));
    world.run_for(seconds(2));
    world.kill(1);
    world.run_for(seconds(10));
    world.release(0, held.lease);
    let granted = world.granted(2, second, POLL);
    granted.map_err(|waiting| format!("the free lock, behind a dead waiter in the queue, is {waiting}"))?;
    Ok(())
}

pub(crate) const DOWNGRADE: Known = Known {
    what: "downgrade wakes nobody",
    switches: &[(
        Switch::Scripts(&[(
            Script::WriteRelease,
            "local listeners = changed and publish",
            "local is_read = redis.call('EXISTS', (string.gsub(state, ':rw$', ':rw-readers'))) == 1
local listeners = changed and not is_read and publish",
        )]),
        "may read again",
    )],
    check: a_downgrade_wakes_the_readers,
};

fn a_downgrade_wakes_the_readers(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    let by_one = |kind| AcquireRequest {
        context: Some(Context::from_u64(1)),
        ..wants(kind, "plan")
    };
    let write = world.hold(0, by_one(Kind::Write))?;
    let reader = world.acquire(1, wants(Kind::Read, "plan"));
    world.run_for(seconds(2));
    world.hold(0, by_one(Kind::Read))?;
    world.release(0, write.lease);
    let granted = world.granted(1, reader, ms(10));
    granted.map_err(|waiting| format!("anybody may read again, and the read side is {waiting}"))?;
    ensure(world.lost(0).is_empty(), || "the read inside the write was lost".into())
}

pub(crate) const SILENT_RELEASE: Known = Known {
    what: "release wakes nobody",
    switches: &[
        (
            Switch::Scripts(&[(Script::LockRelease, "publish_to_all(channel, '0')", "0")]),
            "Lock was released",
        ),
        (
            Switch::Scripts(&[(Script::MutexRelease, "publish(channel, '0')", "0")]),
            "Mutex was released",
        ),
        (
            Switch::Scripts(&[(Script::SemaphoreRelease, "publish(channel, '0')", "0")]),
            "was released",
        ),
        (
            Switch::Scripts(&[(Script::ReadRelease, "publish(channel, '0')", "0")]),
            "Read was released",
        ),
        (
            Switch::Scripts(&[(Script::WriteRelease, "publish(channel, '0')", "0")]),
            "Write was released",
        ),
        (
            Switch::Scripts(&[(Script::FairRelease, "publish_to_all(channel, '0')", "0")]),
            "Fair was released",
        ),
    ],
    check: a_release_wakes_waiters,
};

fn a_release_wakes_waiters(mistake: Mistake) -> Result<(), String> {
    let permit = Kind::Semaphore(Permits::new(1, 2).unwrap());
    let kinds = [
        (Kind::Lock, Kind::Lock, 1),
        (Kind::Lock, Kind::Fair, 1),
        (Kind::Fair, Kind::Lock, 1),
        (Kind::Mutex, Kind::Mutex, 1),
        (permit, permit, 2),
        // The release of the last reader frees the lock for a writer.
        (Kind::Read, Kind::Write, 2),
        (Kind::Write, Kind::Write, 1),
        (Kind::Write, Kind::Read, 1),
    ];
    for (held, wanted, holders) in kinds {
        let mut world = World::new(mistake, 2);
        let mut leases = Vec::new();
        for _ in 0..holders {
            leases.push(world.hold(0, wants(held, "door"))?.lease);
        }
        let waiter = world.acquire(1, wants(wanted, "door"));
        world.run_for(seconds(2));
        for lease in leases {
            world.release(0, lease);
        }
        let granted = world.granted(1, waiter, ms(10));
        granted.map_err(|waiting| format!("{held:?} was released, and {wanted:?} is {waiting}"))?;
    }
    Ok(())
}
