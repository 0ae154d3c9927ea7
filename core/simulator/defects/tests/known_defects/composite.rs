//! Defects of composite locks: multi-locks and the lock of a majority.

use steadlock_protocol::defects::Defect;
use steadlock_protocol::{AcquireRequest, Context, ErrorKind, Kind, Outcome, Script};

use crate::known::{Known, Mistake, Switch, ensure};
use crate::world::{Way, World, ms, seconds, wants, wants_for};

/// Adds the context of the only caller, which may re-enter its locks.
fn own(request: AcquireRequest) -> AcquireRequest {
    AcquireRequest {
        context: Some(Context::from_u64(1)),
        ..request
    }
}

pub(crate) const REENTRY: Known = Known {
    what: "re-entered multi-lock not renewed",
    switches: &[(Switch::Patch(Defect::ReentryLeavesMembers), "Expired")],
    check: several_locks_that_are_entered_again_without_a_lease_are_renewed,
};

/// The first lease is fixed at 0.7 s. The re-entry must make the locks last until the longest hold time of 0.9 s,
/// although they last for nearly as long already.
fn several_locks_that_are_entered_again_without_a_lease_are_renewed(mistake: Mistake) -> Result<(), String> {
    let mut world = World::auto_renewed(mistake, 1, ms(2_500));
    let request = |name| AcquireRequest {
        max_hold: Some(ms(900)),
        ..own(wants_for(ms(700), Kind::Lock, name))
    };
    let first = world.acquire_all(0, ["left", "right"].map(request).into());
    world.granted(0, first, ms(10))?;
    let again = ["left", "right"].map(|name| own(wants(Kind::Lock, name)));
    let again = world.acquire_all(0, again.into());
    world.granted(0, again, ms(10))?;
    world.run_for(ms(800));
    ensure(world.lost(0).is_empty(), || {
        format!("it may last for 0.9 s, and after 0.8 s it is lost: {:?}", world.lost(0))
    })
}

pub(crate) const LOST_MEMBER: Known = Known {
    what: "multi-lock granted with a lost member",
    switches: &[(Switch::Patch(Defect::LostMemberIsGranted), "granted with it")],
    check: several_locks_are_not_granted_when_one_was_lost_meanwhile,
};

fn several_locks_are_not_granted_when_one_was_lost_meanwhile(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    let right = world.hold(1, wants(Kind::Lock, "right"))?;
    let ticket = world.acquire_all(0, ["left", "right"].map(|name| wants(Kind::Lock, name)).into());
    world.run_for(seconds(2));
    world.command(0, &["DEL", "left"]);
    let left = world.hold(1, wants(Kind::Lock, "left"))?;
    world.release(1, right.lease);
    ensure(world.outcome(0, ticket, seconds(5)).is_none(), || {
        "another client holds one of the locks, and the multi-lock is granted with it".into()
    })?;
    world.release(1, left.lease);
    world.granted(0, ticket, seconds(2)).map(|_| ())
}

pub(crate) const EXTENSION: Known = Known {
    what: "extension of a majority counts lost members",
    switches: &[(Switch::Patch(Defect::ExtensionOfMembers), "last so long on 1")],
    check: an_extension_tells_what_a_majority_keeps,
};

/// The first primary extends its record and then loses it. The calls to the other two arrive late.
fn an_extension_tells_what_a_majority_keeps(mistake: Mistake) -> Result<(), String> {
    let mut world = World::of_a_majority(mistake, 3, seconds(30));
    let held = world.hold(0, wants_for(seconds(20), Kind::Mutex, "door"))?;
    world.run_for(ms(100));
    for late in [0, 2_000, 2_800] {
        world.hold_up(Script::MutexRenew, Way::There, ms(late));
    }
    let extension = world.extend(0, held.lease, seconds(60));
    world.run_for(ms(500));
    world.command(0, &["DEL", "door"]);
    // The refusal of this extension shows that the record is gone.
    world.extend(0, held.lease, seconds(61));
    let Some((Outcome::Extended(until), at)) = world.outcome(0, extension, seconds(4)) else {
        return Err("it was not extended".into());
    };
    let promised = until.saturating_since(at);
    let kept = (0..3).filter(|node| world.left(*node, "door").is_some_and(|left| left >= promised));
    let kept = kept.count();
    ensure(kept >= 2, || {
        format!("it is extended to {promised:?} from now, and records last so long on {kept} of 3")
    })
}

pub(crate) const SILENCE: Known = Known {
    what: "waiter counts its holder's time as silence",
    switches: &[(Switch::Patch(Defect::SilenceOfTheHolder), "gets the answer")],
    check: silence_counts_from_the_first_question,
};

fn silence_counts_from_the_first_question(mistake: Mistake) -> Result<(), String> {
    let mut world = World::of_a_majority(mistake, 3, seconds(3));
    let held = world.hold(0, wants(Kind::Mutex, "door"))?;
    let waiter = world.acquire(0, wants(Kind::Mutex, "door"));
    world.run_for(seconds(30));
    (0..3).for_each(|node| world.stop(node, true));
    world.release(0, held.lease);
    // From here on the waiter sends requests.
    ensure(world.outcome(0, waiter, seconds(3)).is_none(), || {
        "a caller that has asked for less time than a lease lasts gets the answer that the servers are silent".into()
    })?;
    let outcome = world.outcome(0, waiter, seconds(2));
    ensure(
        matches!(&outcome, Some((Outcome::Failed(error), _)) if error.kind() == ErrorKind::Unavailable),
        || format!("a caller without an answer for longer than a lease got {outcome:?}"),
    )
}

pub(crate) const SELF_WAIT: Known = Known {
    what: "composite lock waits for its own caller",
    switches: &[(Switch::Patch(Defect::CompositeWaitsForItself), "waits for itself")],
    check: nobody_waits_for_a_composite_lock_that_it_keeps_from_itself,
};

fn nobody_waits_for_a_composite_lock_that_it_keeps_from_itself(mistake: Mistake) -> Result<(), String> {
    let is_refused = |outcome: &Option<(Outcome, _)>| matches!(outcome, Some((Outcome::Failed(error), _)) if error.kind() == ErrorKind::InvalidArgument);
    let both = || vec![own(wants(Kind::Lock, "left")), own(wants(Kind::Mutex, "right"))];
    let mut world = World::new(mistake, 1);
    let alone = world.hold(0, own(wants(Kind::Mutex, "right")))?;
    let whole = world.acquire_all(0, both());
    let outcome = world.outcome(0, whole, seconds(10));
    ensure(is_refused(&outcome), || {
        format!("a caller that holds one of them and wants both waits for itself: {outcome:?}")
    })?;
    world.release(0, alone.lease);
    let whole = world.acquire_all(0, both());
    world.granted(0, whole, seconds(1))?;
    let member = world.acquire(0, own(wants(Kind::Mutex, "right")));
    let outcome = world.outcome(0, member, seconds(10));
    ensure(is_refused(&outcome), || {
        format!("a caller that holds both and wants one waits for itself: {outcome:?}")
    })?;

    let mut world = World::of_a_majority(mistake, 3, seconds(3));
    world.hold(0, own(wants(Kind::Mutex, "door")))?;
    let again = world.acquire(0, own(wants(Kind::Lock, "door")));
    let outcome = world.outcome(0, again, seconds(10));
    ensure(is_refused(&outcome), || {
        format!("a caller that holds a majority's lock and wants it again waits for itself: {outcome:?}")
    })
}

pub(crate) const LONGEST_MEMBER: Known = Known {
    what: "majority lasts as long as its longest member",
    switches: &[(Switch::Patch(Defect::LongestMemberCounts), "one of 3 was renewed")],
    check: a_majoritys_lock_lasts_as_long_as_its_majority,
};

fn a_majoritys_lock_lasts_as_long_as_its_majority(mistake: Mistake) -> Result<(), String> {
    let mut world = World::of_a_majority(mistake, 3, seconds(3));
    let held = world.hold(0, wants(Kind::Mutex, "door"))?;
    // The renewals reach the other two primaries 0.3 s late.
    for late in [0, 300, 300] {
        world.hold_up(Script::MutexRenew, Way::There, ms(late));
    }
    world.run_for(ms(1_100));
    let until = world.deadline(0, held.lease).ok_or("it was not granted")?;
    let promised = until.saturating_since(world.now);
    let kept = (0..3).filter(|node| world.left(*node, "door").is_some_and(|left| left >= promised));
    let kept = kept.count();
    ensure(kept >= 2, || {
        format!("one of 3 was renewed, and the holder relies on the lock for {promised:?}, which {kept} of 3 keep")
    })
}
