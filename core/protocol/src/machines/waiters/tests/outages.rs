//! Tests of requests while their primary does not answer.

use super::*;

#[test]
fn in_an_outage_a_wait_can_end_in_any_state_and_reports_why() {
    for make in [Alone::queued, Alone::pausing, Alone::asking, Alone::sleeping] {
        for policy in [OnUnavailable::Fail, OnUnavailable::Skip] {
            let mut alone = make();
            alone.outage(policy);
            assert_eq!(alone.failed_with(), Some(ErrorKind::Unavailable));
            assert_eq!(alone.state(), None);
        }
    }
}

#[test]
fn in_an_outage_a_request_waits_here_and_its_attempts_are_released() {
    for (make, is_owed) in [
        // The release is owed for the first request, which fails in the outage.
        (Alone::queued as fn() -> Alone, true),
        (Alone::pausing, false),
        (Alone::asking, true),
        (Alone::sleeping, false),
    ] {
        let mut alone = make();
        alone.outage(OnUnavailable::Local);
        assert_eq!(alone.state(), Some(QUEUED));
        assert_eq!(alone.is_release_owed(), is_owed);
        assert!(alone.bench.io.due(Timer::Wake(alone.ticket)).is_none());
    }
}

#[test]
fn in_an_outage_the_first_waiter_is_granted_the_lock_once_no_caller_here_holds_it() {
    let mut alone = Alone::asking();
    alone.outage(OnUnavailable::Local);
    alone.input(Input::Advance(alone.lock()));
    assert!(alone.is_granted());
    let mut alone = Alone::granted_among_others();
    alone.input(Input::Held(alone.lock(), alone.hold()));
    alone.want(LONG);
    alone.outage(OnUnavailable::Local);
    alone.input(Input::Advance(alone.lock()));
    assert_eq!(alone.state(), Some(QUEUED));
    alone.input(Input::Freed(alone.lock(), alone.hold()));
    assert!(alone.is_granted());
}

#[test]
fn after_an_outage_a_fair_waiter_joins_the_servers_queue_and_asks() {
    let (mut alone, over) = (Alone::sleeping_of(Kind::Fair), Input::OutageOver(Primary::default()));
    alone.outage(OnUnavailable::Local);
    assert_eq!(alone.state(), Some(QUEUED));
    alone.bench.io.answered_by(Primary::default(), alone.bench.now);
    alone.input(over);
    let is_next = |step: &Step| matches!(step, Step::Waiter(Input::Advance(_)));
    assert!(alone.bench.io.steps().iter().any(is_next));
    alone.input(Input::Advance(alone.lock()));
    assert_eq!(alone.state(), Some(ASKING));
    let joined = |step: &Step| matches!(step, Step::Fair(FairInput::WillJoin { .. }));
    assert!(alone.bench.io.steps().iter().any(joined));
}
