use std::sync::Arc;

use loom::thread::spawn;

use crate::engine::driver::*;
use crate::schedules::in_every_schedule;

/// Returns the same time always: the clock stands still.
fn now() -> Instant {
    Instant::from_micros(86_400_000_000)
}

/// Returns an engine that a thread can take over with its next call.
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

/// Returns an engine that a thread has taken over.
fn driven_by_callers() -> Arc<WhoDrives> {
    let who = before_a_take_over();
    assert!(who.enter());
    assert_eq!(who.elect(now), Role::TakesOver);
    who
}

/// Plays one call of a thread. A thread that drives has its result at the end; one that waits keeps waiting.
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

/// Plays `calls` of a caller while a lane closes. The engine's thread stands by if the caller took over.
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
        // The thread calls again, and waits for a long time.
        if role != Role::Waits && who.enter() {
            who.elect(now);
        }
        role
    });
}

#[test]
fn the_engines_thread_stands_by_for_nobody_when_a_lane_closed_just_before() {
    // The caller takes the engine over and leaves, and no further call follows.
    play_a_lane_that_closes(call);
}
