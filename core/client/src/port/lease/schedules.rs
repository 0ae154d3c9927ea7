use std::pin::pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use loom::thread::spawn;
use steadlock_protocol::{Instant, LostReason};

use super::{Lease, Loss};
use crate::park::park_on;
use crate::process::Process;
use crate::schedules::in_every_schedule;
use crate::world::World;

fn lease() -> Arc<Lease> {
    let (name, deadline) = ("name".into(), Instant::FAR_FUTURE);
    let lease = Lease::new(1, Process::current(), name, None, deadline, World::default());
    Arc::new(lease)
}

#[test]
fn a_task_that_waits_for_the_loss_receives_its_reason() {
    in_every_schedule(|| {
        let lease = lease();
        let engine = Arc::clone(&lease);
        let engine = spawn(move || {
            engine.mark_lost(Loss {
                reason: LostReason::Stolen,
                is_forgotten: true,
            })
        });
        let mut lost = pin!(lease.wait_lost());
        let reason = park_on(Duration::MAX, |waker| {
            lost.as_mut().poll(&mut Context::from_waker(waker))
        });
        assert_eq!(reason, Some(LostReason::Stolen));
        assert!(lease.is_forgotten() && !lease.is_valid());
        assert!(engine.join().unwrap());
    });
}

#[test]
fn a_lease_that_is_lost_or_released_never_changes_its_status() {
    in_every_schedule(|| {
        let lease = lease();
        let losing = Arc::clone(&lease);
        let losing = spawn(move || {
            losing.mark_lost(Loss {
                reason: LostReason::Expired,
                is_forgotten: false,
            })
        });
        let releasing = Arc::clone(&lease);
        let releasing = spawn(move || releasing.mark_released());
        let state = (lease.lost_reason(), lease.is_released());
        let is_lost = losing.join().unwrap();
        releasing.join().unwrap();
        assert_eq!(lease.lost_reason().is_some(), is_lost);
        assert_eq!(lease.is_released(), !is_lost);
        assert!(state == (None, false) || state == (lease.lost_reason(), lease.is_released()));
    });
}
