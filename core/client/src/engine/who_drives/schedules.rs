use std::sync::Arc;

use loom::thread::spawn;

use super::*;
use crate::schedules::in_every_schedule;

/// Time stands still.
fn now() -> Instant {
    Instant::from_micros(86_400_000_000)
}

/// An engine that a thread may take over at its next call.
fn before_a_take_over() -> Arc<WhoDrives> {
    let who = WhoDrives::default();
    who.allow_callers(true, None, now);
    for _ in 0..=RUN {
        assert!(who.enter());
        assert_eq!(who.elect(now), Role::Waits);
        who.leave(now());
    }
    Arc::new(who)
}

/// One that a thread has taken over.
fn driven_by_callers() -> Arc<WhoDrives> {
    let who = before_a_take_over();
    assert!(who.enter());
    assert_eq!(who.elect(now), Role::TakesOver);
    who
}

/// A thread's call. One that drives has its result then; one that waits waits on.
fn call(who: &WhoDrives) -> Role {
    let role = match who.enter() {
        true => who.elect(now),
        false => {
            who.needs_engine();
            Role::Waits
        }
    };
    if role != Role::Waits {
        who.leave(now());
    }
    role
}

#[test]
fn the_engine_is_driven_while_a_thread_waits_that_does_not_drive_it() {
    in_every_schedule(|| {
        let who = before_a_take_over();
        let other = Arc::clone(&who);
        let other = spawn(move || call(&other));
        let roles = [call(&who), other.join().unwrap()];
        let is_waited_for = roles.contains(&Role::Waits);
        let is_by_callers = who.by_callers.load(Ordering::SeqCst);
        assert!(!(is_waited_for && is_by_callers), "{roles:?}");
    });
}

#[test]
fn the_engines_thread_that_goes_to_stand_by_is_called_back() {
    in_every_schedule(|| {
        let who = driven_by_callers();
        let other = Arc::clone(&who);
        let other = spawn(move || other.needs_engine());
        who.stand_by(now);
        other.join().unwrap();
        assert!(!who.by_callers.load(Ordering::SeqCst));
    });
}

#[test]
fn the_engines_thread_comes_back_when_a_lane_closes_under_a_caller() {
    in_every_schedule(|| {
        let who = driven_by_callers();
        let caller = Arc::clone(&who);
        let caller = spawn(move || caller.allow_callers(false, None, now));
        who.stand_by(now);
        caller.join().unwrap();
        assert!(!who.by_callers.load(Ordering::SeqCst));
        assert_eq!(who.elect(now), Role::Waits);
    });
}

/// What a caller does while a lane closes; the engine's thread stands by if it was taken over.
fn play_a_lane_that_closes(calls: fn(&WhoDrives) -> Role) {
    in_every_schedule(move || {
        let who = before_a_take_over();
        let caller = Arc::clone(&who);
        let caller = spawn(move || calls(&caller));
        who.allow_callers(false, None, now);
        if caller.join().unwrap() == Role::TakesOver {
            who.stand_by(now);
        }
        assert!(!who.by_callers.load(Ordering::SeqCst));
    });
}

#[test]
fn a_lane_that_closes_while_a_caller_takes_over_leaves_no_engine_standing_by() {
    play_a_lane_that_closes(|who| {
        let role = call(who);
        // It calls again, and waits for long.
        if role != Role::Waits && who.enter() {
            who.elect(now);
        }
        role
    });
}

#[test]
fn the_engines_thread_stands_by_for_nobody_when_a_lane_closed_just_before() {
    // It takes the engine over and leaves, and nobody calls again.
    play_a_lane_that_closes(call);
}
