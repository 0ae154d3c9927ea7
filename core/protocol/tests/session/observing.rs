//! The observations of a session.

use std::time::Duration;

use crate::world::*;
use steadlock_protocol::{Attempted, Detail, LostReason, Observed};

fn observing(detail: Detail) -> World {
    let mut world = World::new(1);
    world.clients[0].session.set_detail(detail);
    world
}

fn observed(world: &mut World) -> Vec<Observed> {
    std::iter::from_fn(|| world.clients[0].session.poll_observed()).collect()
}

/// Acquires a lock, then loses the connection and the lock.
fn loses_a_lock(world: &mut World) {
    world.hold(0, wants("a"));
    world.run_for(Duration::from_secs(25));
    world.disconnect(0);
    world.run_for(Duration::from_secs(40));
    assert_eq!(world.lost(0)[0].2, LostReason::Expired);
}

#[test]
fn nothing_is_observed_unless_requested() {
    let mut world = observing(Detail::Nothing);
    loses_a_lock(&mut world);
    assert_eq!(observed(&mut world), []);
}

#[test]
fn trouble_is_that_renewals_have_to_wait_and_that_the_hold_is_lost() {
    let mut world = observing(Detail::Trouble);
    loses_a_lock(&mut world);
    let observed = observed(&mut world);
    let [first, .., last] = observed.as_slice() else {
        panic!("{observed:?}")
    };
    assert!(
        matches!(first, Observed::RenewalFailed { why, left, .. } if why == "not connected (cut)" && *left > ms(15_000)),
        "{first:?}"
    );
    let Observed::Lost {
        place,
        leases,
        reason,
        why,
        held,
        lease,
    } = last
    else {
        panic!("{last:?}")
    };
    assert_eq!(
        (place.name.as_str(), leases.len(), *reason),
        ("a", 1, LostReason::Expired)
    );
    assert_eq!(why.as_deref(), Some("not connected (cut)"));
    assert_eq!(*lease, Duration::from_secs(30));
    assert!(*held > Duration::from_secs(45), "{held:?}");
}

#[test]
fn a_lock_that_expires_without_a_connection_says_so_though_a_renewal_was_cut_off_before() {
    let mut world = observing(Detail::Trouble);
    world.hold(0, wants("a"));
    while world.clients[0].outstanding.is_empty() {
        world.run_for(ms(1));
    }
    world.disconnect(0);
    world.run_for(Duration::from_secs(40));
    let observed = observed(&mut world);
    let [
        Observed::RenewalFailed { why: first, .. },
        ..,
        Observed::Lost { why: last, .. },
    ] = observed.as_slice()
    else {
        panic!("{observed:?}")
    };
    assert!(
        first.starts_with("the connection closed before the answer came"),
        "{first}"
    );
    assert_eq!(last.as_deref(), Some("not connected (cut)"));
}

#[test]
fn everything_is_each_attempt_and_each_renewal_too() {
    let mut world = observing(Detail::Everything);
    world.hold(0, wants("a"));
    world.run_for(Duration::from_secs(25));
    let observed = observed(&mut world);
    let granted = |observed: &Observed| matches!(observed, Observed::Attempt { outcome: Attempted::Granted, took: Some(took), .. } if *took > Duration::ZERO);
    let renewed = |observed: &Observed| matches!(observed, Observed::Renewed { failures: 0, .. });
    assert!(
        granted(&observed[0]) && observed[1..].iter().all(renewed),
        "{observed:?}"
    );
    assert_eq!(observed.len(), 3);
}
