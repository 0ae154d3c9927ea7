//! Tests of requests whose wait is over before the first answer, or whose grants come too late.

use super::*;

#[test]
fn a_pausing_request_asks_when_its_wait_is_over() {
    let mut alone = Alone::pausing();
    alone.input(Input::WaitOver(alone.ticket));
    assert_eq!(alone.state(), Some(ASKING));
    alone.bench.call();
}

#[test]
fn a_waiter_whose_wait_is_over_ends_with_the_answer_to_the_first_waiter() {
    let held = || Ok(held_by_another_owner());
    for (answer, is_granted) in [(held(), false), (numbers(&[1]), true)] {
        let mut alone = Alone::asking();
        let (first, call) = (alone.ticket, alone.bench.call());
        alone.want(LONG);
        let behind = alone.ticket;
        alone.input(Input::WaitOver(behind));
        assert_eq!(alone.state(), Some(QUEUED));
        alone.ticket = first;
        alone.answer(call, answer);
        if is_granted {
            alone.input(Input::Held(alone.lock(), alone.hold()));
        }
        alone.ticket = behind;
        assert_eq!(alone.failed_with(), Some(ErrorKind::LockTimeout));
        assert_eq!(alone.state(), None);
    }
}

#[test]
fn one_that_is_granted_too_late_again_pauses_before_it_asks() {
    let late = |alone: &mut Alone, call| {
        alone.bench.pass(30_000);
        alone.answer(call, numbers(&[1]));
        assert!(alone.is_release_owed());
    };
    let once_late = || {
        let mut alone = Alone::asking();
        let call = alone.bench.call();
        late(&mut alone, call);
        alone.input(Input::Ask(alone.ticket));
        let call = alone.bench.call();
        (alone, call)
    };
    let (mut alone, call) = once_late();
    late(&mut alone, call);
    assert_eq!(alone.state(), Some(PAUSING));
    // The request has sent an attempt, so its wait can end in this state.
    alone.input(Input::WaitOver(alone.ticket));
    assert_eq!(alone.failed_with(), Some(ErrorKind::Unavailable));
    assert_eq!(alone.state(), None);

    let (mut alone, call) = once_late();
    late(&mut alone, call);
    alone.input(Input::Woken(alone.ticket));
    assert_eq!(alone.state(), Some(ASKING));

    // An overdue attempt is answered.
    let (mut alone, call) = once_late();
    alone.bench.pass(3_000);
    alone.input(Input::Overdue(alone.ticket, call));
    alone.answer_last(cut());
    assert_eq!(alone.state(), Some(SLEEPING));
    late(&mut alone, call);
    assert_eq!(alone.state(), Some(PAUSING));
}

#[test]
fn a_grant_that_comes_too_late_is_released_and_asked_for_under_a_new_owner_id() {
    for (lanes, next) in [(&LANES[..0], ASKING), (&LANES, SLEEPING)] {
        let mut alone = Alone::asking();
        let call = alone.bench.call();
        let owner = alone.waiters.request(alone.ticket).unwrap().owner().clone();
        alone.bench.pass(30_000);
        alone.bench.close(lanes);
        alone.answer(call, numbers(&[1]));
        assert!(alone.is_release_owed());
        alone.input(Input::Ask(alone.ticket));
        assert_eq!(alone.state(), Some(next));
        assert_ne!(alone.waiters.request(alone.ticket).unwrap().owner(), &owner);
    }
    let (mut alone, first) = Alone::sleeping_after_two();
    alone.bench.pass(30_000);
    alone.answer(first, numbers(&[1]));
    alone.input(Input::Ask(alone.ticket));
    assert_eq!(alone.state(), Some(ASKING));
}
