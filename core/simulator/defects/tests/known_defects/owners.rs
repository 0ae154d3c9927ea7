//! Defects of ownership: one acquisition counts as two holds, a caller holds a lock that it should not hold, or a
//! record stays although the lock is not held.

use steadlock_protocol::defects::Defect;
use steadlock_protocol::{AcquireRequest, Context, Kind, Outcome, ReleaseOutcome, Script};

use crate::known::{Known, Mistake, Switch, ensure};
use crate::world::{Way, World, ms, seconds, wants};

pub(crate) const DOUBLE_HOLD: Known = Known {
    what: "double hold after a resent acquire",
    switches: &[(
        // The record counts the attempts and the releases of its owner.
        Switch::Scripts(&[
            (
                Script::LockAcquire,
                "if not mine then\n  redis.call('HSET', lock, owner, '1')\nend",
                "redis.call('HINCRBY', lock, owner, 1)",
            ),
            (
                Script::LockRelease,
                "if redis.call('HDEL', lock, owner) == 0 then",
                "if redis.call('HEXISTS', lock, owner) == 1 and redis.call('HINCRBY', lock, owner, -1) > 0 then
  return {1, 0}
end
if redis.call('HDEL', lock, owner) == 0 then",
            ),
        ]),
        "is not free",
    )],
    check: asking_again_gives_one_hold,
};

fn asking_again_gives_one_hold(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    // The delay is longer than the command timeout, so the session sends the attempt again.
    world.hold_up(Script::LockAcquire, Way::Back, seconds(4));
    let start = world.now;
    let held = world.hold(0, wants(Kind::Lock, "door"))?;
    let asked = world.ran(Script::LockAcquire, 0, start);
    ensure(asked == 2, || format!("asked {asked} times"))?;
    world.release(0, held.lease);
    world.run_for(ms(10));
    ensure(world.is_free(1, wants(Kind::Lock, "door")), || {
        "asked twice, granted once, released once, and the lock is not free".into()
    })
}

pub(crate) const ONE_THREAD: Known = Known {
    what: "thread-id ownership crosses coroutines",
    switches: &[(Switch::Patch(Defect::OwnerIsTheThread), "beside the holder")],
    check: tasks_of_one_thread_exclude_each_other,
};

fn tasks_of_one_thread_exclude_each_other(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    let task = |number| AcquireRequest {
        context: Some(Context::from_u64(number)),
        ..wants(Kind::Lock, "door")
    };
    let first = world.hold(0, task(1))?;
    let again = world.hold(0, task(1))?;
    ensure(again.levels == 2, || "the task cannot re-enter its lock".into())?;
    let other = world.acquire(0, task(2));
    world.run_for(seconds(1));
    ensure(world.outcome(0, other, ms(0)).is_none(), || {
        "another task of the thread was granted the lock beside the holder".into()
    })?;
    world.release(0, again.lease);
    world.release(0, first.lease);
    world.granted(0, other, seconds(1))?;
    Ok(())
}

pub(crate) const RELEASE_FAILS: Known = Known {
    what: "release error masks the program's own",
    switches: &[(Switch::Patch(Defect::ReleaseFails), "the release says")],
    check: releasing_what_was_lost_is_no_error,
};

/// The core's part of leaving a scope: the release reports no error that could replace an error of the program. How a
/// scope uses the result is up to each language, and tested there.
fn releasing_what_was_lost_is_no_error(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    let held = world.lose(0, wants(Kind::Lock, "door"))?;
    let release = world.release(0, held.lease);
    match world.outcome(0, release, seconds(1)) {
        Some((Outcome::Released(ReleaseOutcome::Expired), _)) => Ok(()),
        Some((Outcome::Failed(error), _)) => Err(format!("the release says: {error}")),
        other => Err(format!("the release came to {other:?}")),
    }
}

pub(crate) const LEFT_BEHIND: Known = Known {
    what: "hold record left by a cancelled acquire",
    switches: &[(Switch::Patch(Defect::CancelLeavesRecord), "is left")],
    check: a_cancelled_acquire_leaves_nothing,
};

fn a_cancelled_acquire_leaves_nothing(mistake: Mistake) -> Result<(), String> {
    // The caller gives up before the server has run the call, or before the reply has arrived.
    for way in [Way::There, Way::Back] {
        let mut world = World::new(mistake, 2);
        world.hold_up(Script::LockAcquire, way, ms(500));
        let ticket = world.acquire(0, wants(Kind::Lock, "door"));
        world.run_for(ms(100));
        world.cancel(0, ticket);
        world.run_for(seconds(1));
        let left = world.left(0, "door");
        ensure(left.is_none() && world.is_free(1, wants(Kind::Lock, "door")), || {
            format!("the caller gave up, and its record is left for {left:?}")
        })?;
    }
    Ok(())
}

pub(crate) const OTHER_OWNER: Known = Known {
    what: "unlock deletes another owner's lock",
    switches: &[
        (
            Switch::Scripts(&[(
                Script::LockRelease,
                "redis.call('HDEL', lock, owner) == 0",
                "redis.call('DEL', lock) == 0",
            )]),
            "Lock: the next holder's",
        ),
        (
            Switch::Scripts(&[(Script::MutexRelease, "if holder ~= owner then", "if false then")]),
            "Mutex: the next holder's",
        ),
        (
            Switch::Scripts(&[(
                Script::FairRelease,
                "redis.pcall('HDEL', lock, owner)",
                "redis.pcall('DEL', lock)",
            )]),
            "Fair: the next holder's",
        ),
    ],
    check: a_late_release_takes_only_its_own,
};

fn a_late_release_takes_only_its_own(mistake: Mistake) -> Result<(), String> {
    for kind in [Kind::Lock, Kind::Mutex, Kind::Fair] {
        let mut world = World::new(mistake, 2);
        let held = world.lose(0, wants(kind, "door"))?;
        world.hold(1, wants(kind, "door"))?;
        let others = world.owners(kind, "door");
        ensure(others.len() == 1, || format!("{kind:?}: held by {others:?}"))?;
        world.release(0, held.lease);
        world.run_for(ms(100));
        ensure(world.owners(kind, "door") == others, || {
            format!("{kind:?}: the next holder's record was removed by a late release")
        })?;
    }
    Ok(())
}
