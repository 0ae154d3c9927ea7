//! Defects of leases: a lease lasts longer or shorter than requested, or than reported to its holder.

use steadlock_protocol::defects::Defect;
use steadlock_protocol::{AcquireRequest, Context, ErrorKind, Kind, LeaseTerms, Outcome, Permits, Script};

use crate::known::{Known, Mistake, Switch, ensure};
use crate::world::{Way, World, ms, seconds, wants, wants_for};

pub(crate) const WRONG_UNITS: Known = Known {
    what: "multi-lock TTL in wrong units",
    switches: &[(Switch::Patch(Defect::MultiLockUnits), "lasts 9999")],
    check: several_locks_last_as_long_as_asked,
};

fn several_locks_last_as_long_as_asked(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    // The first lock is granted at once. Another client holds the second one for 6 s, so only 4 s are left of the first
    // lock's record, and it must be made longer again before both are granted.
    let other = world.hold(1, wants(Kind::Lock, "right"))?;
    let both = ["left", "right"].map(|name| wants_for(seconds(10), Kind::Lock, name));
    let ticket = world.acquire_all(0, both.into());
    world.run_for(seconds(6));
    world.release(1, other.lease);
    world.granted(0, ticket, seconds(1))?;
    for name in ["left", "right"] {
        let left = world.left(0, name).ok_or_else(|| format!("{name} is not held"))?;
        ensure(left > seconds(8) && left <= seconds(10), || {
            format!("10 s were asked for, and {name} lasts {} s", left.as_secs())
        })?;
    }
    Ok(())
}

pub(crate) const TOKEN: Known = Known {
    what: "token ignores lease",
    switches: &[
        (Switch::Patch(Defect::TokenIgnoresLease), "and the lock lasts"),
        (
            Switch::Scripts(&[(
                Script::LockAcquire,
                "redis.call('SET', key, token, 'PX', ttl)",
                "redis.call('SET', key, token, 'PX', ARGV[1])",
            )]),
            "does not rise",
        ),
    ],
    check: a_token_and_a_lease_do_not_affect_each_other,
};

/// A new token does not change the lease. Later tokens are higher even if the lease has ended and a clock is set back.
fn a_token_and_a_lease_do_not_affect_each_other(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    let first = world.hold(0, wants_for(seconds(2), Kind::Lock, "door"))?;
    let left = world.left(0, "door").unwrap_or_default();
    ensure(left <= seconds(2), || {
        format!("2 s were asked for, and the lock lasts {left:?}")
    })?;
    world.kill(0);
    world.run_for(seconds(5));
    ensure(world.left(0, "door").is_none(), || "the lease has not ended".into())?;
    // The lookup makes the server remove the key, if it has expired.
    world.left(0, "steadlock:{door}:token");
    world.put_back_clock(seconds(30));
    let second = world.hold(1, wants(Kind::Lock, "door"))?;
    ensure(first.token.is_some() && second.token > first.token, || {
        format!("the token does not rise: {:?}, then {:?}", first.token, second.token)
    })
}

pub(crate) const LEAK: Known = Known {
    what: "lease of an earlier call leaks into a later one",
    switches: &[(Switch::Patch(Defect::LeaseLeaks), "leaks")],
    check: each_call_has_its_own_lease,
};

fn each_call_has_its_own_lease(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    let short = world.hold(0, wants_for(seconds(1), Kind::Lock, "door"))?;
    world.release(0, short.lease);
    world.run_for(ms(10));
    world.hold(0, wants(Kind::Lock, "door"))?;
    let left = world.left(0, "door").unwrap_or_default();
    // The server is paused for longer than the first lease but shorter than the second.
    world.stop(0, true);
    world.run_for(seconds(5));
    world.stop(0, false);
    ensure(left > seconds(29) && world.lost(0).is_empty(), || {
        format!(
            "the first call's 1 s leaks into the second: {left:?} left, then {:?}",
            world.lost(0)
        )
    })
}

pub(crate) const REENTRY: Known = Known {
    what: "re-entry shortens a lease",
    switches: &[
        (Switch::Patch(Defect::ReentryShortens), "was lost"),
        (
            Switch::Scripts(&[(Script::LockAcquire, "if pttl < tonumber(lease) then", "if true then")]),
            "Lock: beside",
        ),
        (
            Switch::Scripts(&[(Script::FairAcquire, "if pttl < tonumber(lease) then", "if true then")]),
            "Fair: beside",
        ),
    ],
    check: nothing_shortens_a_lease,
};

fn nothing_shortens_a_lease(mistake: Mistake) -> Result<(), String> {
    a_re_entry_never_shortens(mistake)?;
    let one_permit = Kind::Semaphore(Permits::new(1, 1).unwrap());
    for (kind, script) in [
        (Kind::Lock, Script::LockAcquire),
        (Kind::Mutex, Script::MutexAcquire),
        (Kind::Fair, Script::FairAcquire),
        (Kind::Read, Script::ReadAcquire),
        (Kind::Write, Script::WriteAcquire),
        (one_permit, Script::SemaphoreAcquire),
    ] {
        a_late_attempt_never_shortens(mistake, kind, script)?;
    }
    Ok(())
}

/// The server runs a second attempt of an owner that has the record already. An attempt requests at most 30 s, so a
/// late one requests less than a renewal has already set.
fn a_late_attempt_never_shortens(mistake: Mistake, kind: Kind, script: Script) -> Result<(), String> {
    let mut world = World::new(mistake, 2);
    world.hold_up(script, Way::There, seconds(4));
    world.hold_up(script, Way::There, seconds(5));
    let start = world.now;
    let held = world.hold(0, wants_for(seconds(60), kind, "door"))?;
    world.run_for(seconds(50));
    let asked = world.ran(script, 0, start);
    ensure(asked == 2, || format!("{kind:?}: asked {asked} times"))?;
    ensure(!world.lost(0).contains_key(&held.lease), || {
        format!("{kind:?}: the lease was lost")
    })?;
    let excluded = if kind == Kind::Read { Kind::Write } else { kind };
    ensure(!world.is_free(1, wants(excluded, "door")), || {
        format!("{kind:?}: beside a lease of 60 s another client was granted the lock after 50 s")
    })
}

fn a_re_entry_never_shortens(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    let here = |lease| AcquireRequest {
        context: Some(Context::from_u64(1)),
        ..wants_for(lease, Kind::Lock, "door")
    };
    let outer = world.hold(0, here(seconds(10)))?;
    let inner = world.hold(0, here(seconds(1)))?;
    ensure(inner.levels == 2, || "the second is no re-entry".into())?;
    world.release(0, inner.lease);
    world.run_for(seconds(5));
    ensure(world.lost(0).is_empty(), || {
        format!(
            "10 s were asked for, and after 5 s the outer lease was lost: {:?}",
            world.lost(0)
        )
    })?;
    ensure(outer.deadline > world.now && inner.deadline >= outer.deadline, || {
        "a deadline was shortened".into()
    })?;
    ensure(world.left(0, "door").is_some(), || "the record is gone".into())
}

pub(crate) const REENTRY_LENGTH: Known = Known {
    what: "re-entry with a longer auto-renewed lease keeps the shorter one",
    switches: &[(Switch::Patch(Defect::ReentryKeepsLength), "lasts")],
    check: a_re_entry_lasts_as_long_as_it_asks_for,
};

/// The server is paused for longer than the outer lease but shorter than the inner one.
fn a_re_entry_lasts_as_long_as_it_asks_for(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    let renewed = |length| AcquireRequest {
        lease: LeaseTerms::renewed(length).unwrap(),
        context: Some(Context::from_u64(1)),
        ..wants(Kind::Lock, "door")
    };
    world.hold(0, renewed(seconds(3)))?;
    let inner = world.hold(0, renewed(seconds(20)))?;
    let lasts = inner.deadline.saturating_since(world.now);
    ensure(inner.levels == 2 && lasts > seconds(19), || {
        format!("20 s were asked for, and the re-entry lasts {lasts:?}")
    })?;
    for _ in 0..3 {
        world.run_for(seconds(15));
        world.stop(0, true);
        world.run_for(seconds(10));
        world.stop(0, false);
    }
    ensure(world.lost(0).is_empty(), || {
        format!(
            "the server was paused for 10 s, and a lease of 20 s was lost: {:?}",
            world.lost(0)
        )
    })
}

pub(crate) const EXPIRED_GRANT: Known = Known {
    what: "expired grant returned as held",
    switches: &[(Switch::Patch(Defect::ExpiredGrantIsHeld), "had ended")],
    check: a_granted_lock_is_held,
};

fn a_granted_lock_is_held(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    world.hold_up(Script::LockAcquire, Way::Back, ms(500));
    let ticket = world.acquire(0, wants_for(ms(300), Kind::Lock, "door"));
    let grant = world.granted(0, ticket, seconds(5))?;
    let has_record = world.left(0, "door").is_some();
    ensure(grant.deadline > world.now && has_record, || {
        format!("granted at {}, but it had ended at {}", world.now, grant.deadline)
    })
}

pub(crate) const STALE: Known = Known {
    what: "extend returns a stale object",
    switches: &[(Switch::Patch(Defect::ExtendIsStale), "is stale")],
    check: an_extension_says_until_when_it_lasts,
};

fn an_extension_says_until_when_it_lasts(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    let held = world.hold(0, wants_for(seconds(2), Kind::Lock, "door"))?;
    world.run_for(seconds(1));
    let extension = world.extend(0, held.lease, seconds(10));
    let Some((Outcome::Extended(deadline), at)) = world.outcome(0, extension, seconds(1)) else {
        return Err("not extended".into());
    };
    let lasts = deadline.saturating_since(at);
    ensure(lasts > seconds(9), || {
        format!("the extension by 10 s is stale: it says that {lasts:?} are left")
    })?;
    world.run_for(seconds(5));
    ensure(world.lost(0).is_empty() && world.left(0, "door").is_some(), || {
        "it was extended, and did not last".into()
    })
}

pub(crate) const EXPIRED: Known = Known {
    what: "expired lease bars its own owner",
    switches: &[(Switch::Patch(Defect::ExpiredLeaseStays), "is kept from the lock")],
    check: an_expired_lease_bars_nobody,
};

fn an_expired_lease_bars_nobody(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    let here = || AcquireRequest {
        context: Some(Context::from_u64(1)),
        ..wants_for(seconds(1), Kind::Lock, "door")
    };
    let old = world.hold(0, here())?;
    world.run_for(seconds(2));
    ensure(world.lost(0).contains_key(&old.lease), || {
        "the loss is not reported".into()
    })?;
    let ticket = world.acquire(0, here());
    let new = world.granted(0, ticket, seconds(5));
    let new = new.map_err(|why| format!("the owner of an expired lease is kept from the lock: {why}"))?;
    let release = world.release(0, old.lease);
    let outcome = world.outcome(0, release, seconds(1)).map(|(outcome, _)| outcome);
    let is_not_owner = matches!(&outcome, Some(Outcome::Failed(error)) if error.kind() == ErrorKind::NotOwner);
    ensure(is_not_owner, || format!("a later release says {outcome:?}"))?;
    ensure(new.deadline > world.now && world.left(0, "door").is_some(), || {
        "the new lease was released with the old one".into()
    })
}

pub(crate) const OUTLIVING: Known = Known {
    what: "extension outlives its expired lease",
    switches: &[(Switch::Patch(Defect::ExpiredRecordStays), "still has")],
    check: nothing_outlives_an_expired_lease,
};

fn nothing_outlives_an_expired_lease(mistake: Mistake) -> Result<(), String> {
    let mut world = World::new(mistake, 1);
    let held = world.hold(0, wants_for(seconds(1), Kind::Lock, "door"))?;
    // The server runs the extension, but its replies reach the holder too late.
    for _ in 0..3 {
        world.hold_up(Script::LockRenew, Way::Back, seconds(30));
    }
    world.extend(0, held.lease, seconds(3_600));
    world.run_for(seconds(3));
    ensure(world.lost(0).contains_key(&held.lease), || {
        "the loss is not reported".into()
    })?;
    let left = world.left(0, "door");
    ensure(left.is_none(), || {
        format!("the lease expired, and the server still has {left:?} of it")
    })
}
