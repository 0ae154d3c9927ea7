//! Tests the decision which thread drives, in every order of the steps of two threads.

use std::sync::Arc;

use loom::thread::spawn;

use crate::engine::driver::*;
use crate::schedules::in_every_schedule;

/// Always returns the same time: the clock stands still.
fn now() -> Instant {
    Instant::from_micros(86_400_000_000)
}

/// Returns an engine that a thread can take over with its next call.
fn ready_for_a_take_over() -> Arc<DrivingState> {
    let state = DrivingState::default();
    let readiness = Readiness {
        every_lane_is_open: true,
        next_renewal: None,
    };
    state.allow_callers(readiness, now);
    for _ in 0..=FAST_CALLS {
        assert!(state.enter());
        assert_eq!(state.choose_role(now), CallerRole::Waits);
        state.leave(now());
    }
    Arc::new(state)
}

/// Returns an engine that a thread has taken over.
fn driven_by_callers() -> Arc<DrivingState> {
    let state = ready_for_a_take_over();
    assert!(state.enter());
    assert_eq!(state.choose_role(now), CallerRole::TakesOver);
    state
}

fn close_a_lane(state: &DrivingState) {
    let readiness = Readiness {
        every_lane_is_open: false,
        next_renewal: None,
    };
    state.allow_callers(readiness, now);
}

/// Plays one call of a thread. A thread that drives has its result at the end; a thread that waits keeps waiting.
fn call(state: &DrivingState) -> CallerRole {
    let role = match state.enter() {
        true => state.choose_role(now),
        false => {
            state.request_engine();
            CallerRole::Waits
        }
    };
    if role != CallerRole::Waits {
        state.leave(now());
    }
    role
}

#[test]
fn the_engine_is_driven_while_any_thread_waits_without_driving() {
    in_every_schedule(|| {
        let state = ready_for_a_take_over();
        let other = Arc::clone(&state);
        let other = spawn(move || call(&other));
        let roles = [call(&state), other.join().unwrap()];
        let does_any_wait = roles.contains(&CallerRole::Waits);
        let is_by_callers = state.by_callers.load(Ordering::SeqCst);
        assert!(!(does_any_wait && is_by_callers), "{roles:?}");
    });
}

#[test]
fn the_engines_thread_that_goes_to_stand_by_is_called_back() {
    in_every_schedule(|| {
        let state = driven_by_callers();
        let other = Arc::clone(&state);
        let other = spawn(move || other.request_engine());
        state.stand_by(now);
        other.join().unwrap();
        assert!(!state.by_callers.load(Ordering::SeqCst));
    });
}

#[test]
fn the_engines_thread_comes_back_when_a_lane_closes_under_a_caller() {
    in_every_schedule(|| {
        let state = driven_by_callers();
        let caller = Arc::clone(&state);
        let caller = spawn(move || close_a_lane(&caller));
        state.stand_by(now);
        caller.join().unwrap();
        assert!(!state.by_callers.load(Ordering::SeqCst));
        assert_eq!(state.choose_role(now), CallerRole::Waits);
    });
}

/// Plays `calls` of a caller while a lane closes. The engine's thread stands by if the caller took over.
fn play_a_lane_that_closes(calls: fn(&DrivingState) -> CallerRole) {
    in_every_schedule(move || {
        let state = ready_for_a_take_over();
        let caller = Arc::clone(&state);
        let caller = spawn(move || calls(&caller));
        close_a_lane(&state);
        if caller.join().unwrap() == CallerRole::TakesOver {
            state.stand_by(now);
        }
        assert!(!state.by_callers.load(Ordering::SeqCst));
    });
}

#[test]
fn a_lane_that_closes_while_a_caller_takes_over_leaves_no_engine_standing_by() {
    play_a_lane_that_closes(|state| {
        let role = call(state);
        // The thread calls again, and waits for a long time.
        if role != CallerRole::Waits && state.enter() {
            state.choose_role(now);
        }
        role
    });
}

#[test]
fn the_engines_thread_does_not_stand_by_if_a_lane_closed_just_before() {
    // The caller takes the engine over and leaves, and no further call follows.
    play_a_lane_that_closes(call);
}
