//! Defects of renewal: a lease is not renewed although it should be, or is renewed although it should not be.

use steadlock_protocol::defects::Defect;
use steadlock_protocol::{Kind, Lane, LostReason, Script};

use crate::known::{Known, Mistake, Switch, ensure};
use crate::world::{Way, World, ms, seconds, wants, wants_for};

pub(crate) const STUCK_NODE: Known = Known {
    what: "healthy nodes not renewed while one is stuck",
    switches: &[(Switch::Patch(Defect::StuckNodeStopsRenewals), "is stuck")],
    check: a_stuck_node_keeps_nobody_from_the_others,
};

fn a_stuck_node_keeps_nobody_from_the_others(mistake: Mistake) -> Result<(), String> {
    let mut world = World::of_a_majority(mistake, 3, seconds(3));
    world.hold(0, wants(Kind::Mutex, "door"))?;
    world.run_for(seconds(10));
    world.stop(0, true);
    world.run_for(seconds(60));
    let healthy = [1, 2].map(|node| world.left(node, "door").is_some());
    ensure(world.lost(0).is_empty() && healthy == [true; 2], || {
        format!(
            "node 0 is stuck; held on 1 and 2: {healthy:?}; lost: {:?}",
            world.lost(0)
        )
    })
}

pub(crate) const ONE_LANE: Known = Known {
    what: "one lost connection stops renewals",
    switches: &[
        (Switch::Patch(Defect::LaneLossIsOutage), "Command was cut"),
        (Switch::Patch(Defect::RenewalsHaveOneLane), "Renewal was cut"),
    ],
    check: each_lane_is_lost_by_itself,
};

fn each_lane_is_lost_by_itself(mistake: Mistake) -> Result<(), String> {
    for lane in [Lane::Command, Lane::Renewal] {
        let mut world = World::auto_renewed(mistake, 1, seconds(3));
        for kind in [Kind::Lock, Kind::Mutex, Kind::Fair, Kind::Read] {
            world.hold(0, wants(kind, &format!("door-{kind:?}")))?;
        }
        world.run_for(ms(1_700));
        world.cut(0, lane);
        world.run_for(seconds(60));
        ensure(world.lost(0).is_empty(), || {
            format!("{lane:?} was cut; lost: {:?}", world.lost(0))
        })?;
    }
    Ok(())
}

pub(crate) const OUTLIVES: Known = Known {
    what: "renewal outlives unlock",
    switches: &[(Switch::Patch(Defect::RenewalOutlivesUnlock), "is renewed")],
    check: nothing_renews_what_was_released,
};

/// The release is delayed on its way. Until it arrives the record may last for one lease, but must not be renewed.
fn nothing_renews_what_was_released(mistake: Mistake) -> Result<(), String> {
    let lease = seconds(3);
    let mut world = World::auto_renewed(mistake, 2, lease);
    let held = world.hold(0, wants(Kind::Lock, "door"))?;
    let waiter = world.acquire(1, wants(Kind::Lock, "door"));
    world.run_for(ms(10_500));
    world.hold_up(Script::LockRelease, Way::There, seconds(60));
    world.release(0, held.lease);
    let released = world.now;
    let granted = world.granted(1, waiter, lease + ms(800));
    let renewals = world.ran(Script::LockRenew, 0, released);
    ensure(granted.is_ok() && renewals == 0, || {
        format!("the released lease is renewed {renewals} times, and {granted:?}")
    })
}

pub(crate) const RE_CREATED: Known = Known {
    what: "refresh re-creates another owner's key",
    switches: &[
        (
            Switch::Scripts(&[(
                Script::LockRenew,
                "return {0}",
                "redis.call('HSET', lock, owner, '1')\nredis.call('PEXPIRE', lock, lease)\nreturn {1}",
            )]),
            "is there again",
        ),
        (
            Switch::Scripts(&[(
                Script::MutexRenew,
                "if not holder then\n  return {0}",
                "if not holder then\n  redis.call('SET', lock, owner, 'PX', lease)\n  return {1}",
            )]),
            "is there again",
        ),
        (
            Switch::Scripts(&[(
                Script::LockRenew,
                "return {2}",
                "redis.call('DEL', lock)\n  redis.call('HSET', lock, owner, '1')
  redis.call('PEXPIRE', lock, lease)\n  return {1}",
            )]),
            "was overwritten",
        ),
        (
            Switch::Scripts(&[(
                Script::MutexRenew,
                "return {2}",
                "redis.call('SET', lock, owner, 'PX', lease)\n  return {1}",
            )]),
            "was overwritten",
        ),
    ],
    check: a_renewal_creates_nothing,
};

fn a_renewal_creates_nothing(mistake: Mistake) -> Result<(), String> {
    for kind in [Kind::Lock, Kind::Mutex] {
        let mut world = World::auto_renewed(mistake, 2, seconds(3));
        let held = world.hold(0, wants(kind, "door"))?;
        world.command(0, &["DEL", "door"]);
        world.run_for(seconds(2));
        ensure(world.owners(kind, "door").is_empty(), || {
            format!("{kind:?}: the record that was removed is there again")
        })?;
        let reason = world.lost(0).get(&held.lease).copied();
        ensure(reason == Some(LostReason::Removed), || {
            format!("{kind:?}: the holder got {reason:?}")
        })?;

        let mut world = World::auto_renewed(mistake, 2, seconds(3));
        let held = world.hold(0, wants(kind, "door"))?;
        world.command(0, &["DEL", "door"]);
        world.hold(1, wants_for(seconds(60), kind, "door"))?;
        let others = world.owners(kind, "door");
        world.run_for(seconds(2));
        ensure(world.owners(kind, "door") == others && world.lost(1).is_empty(), || {
            format!("{kind:?}: the next holder's record was overwritten")
        })?;
        let reason = world.lost(0).get(&held.lease).copied();
        ensure(reason == Some(LostReason::Stolen), || {
            format!("{kind:?}: the holder got {reason:?}")
        })?;
    }
    Ok(())
}
