//! Tests of the releases without the other machines.

use super::*;
use crate::kinds::Kind;
use crate::machines::bench::{Bench, NODE, cut, keys, numbers, refusal};
use crate::step::Ended;

struct Alone {
    bench: Bench,
    releases: Releases,
}

impl Alone {
    fn new(bench: Bench) -> Self {
        let releases = Releases::default();
        Self { bench, releases }
    }

    fn input(&mut self, input: Input) {
        self.bench.io.take_steps();
        self.releases.input(&mut self.bench.io, input, self.bench.now);
    }

    /// Adds the release of a reentrant lock whose lease has 10 s left.
    fn owe(&mut self) -> ReleaseId {
        self.owe_with(|_| {})
    }

    fn owe_with(&mut self, change: impl FnOnce(&mut Owed)) -> ReleaseId {
        let until = self.bench.now + Duration::from_secs(10);
        let mut owed = Owed {
            end: RunEnd::Unused.into(),
            lock: LockId::default(),
            keys: keys(Kind::Lock),
            owner: self.bench.io.owner_id(),
            ticket: Some(Ticket::from_u64(1)),
            hold: Some(Ended {
                deadline: until,
                until,
                not_before: None,
            }),
            unresolved: Unresolved::default(),
        };
        change(&mut owed);
        self.input(Input::Owed(owed));
        self.releases.last
    }

    /// Lets a waiter of a fair lock leave, and completes its release. Returns the input that reports a grant to this
    /// waiter, as if a late call had put it back into the queue.
    fn abandon(&mut self) -> Input {
        let fair = keys(Kind::Fair);
        let owner = self.bench.io.owner_id();
        let id = self.owe_with(|owed| {
            (owed.keys, owed.owner) = (Arc::clone(&fair), owner.clone());
            (owed.ticket, owed.hold) = (None, None);
        });
        self.answer_last(id, numbers(&[0]));
        assert!(self.releases.is_empty());
        Input::OwnerSeen(seen(owner, Report::Reply), fair)
    }

    fn answer(&mut self, id: ReleaseId, call: CallId, result: Result<Reply, CallError>) {
        let answered = self.bench.answer(call, result);
        self.input(Input::Answered(id, answered));
    }

    fn answer_last(&mut self, id: ReleaseId, result: Result<Reply, CallError>) {
        let call = self.bench.call();
        self.answer(id, call, result);
    }

    fn outcomes(&mut self) -> Vec<Outcome> {
        self.bench.outcomes().into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn is_waiting(&mut self) -> bool {
        self.bench.calls().is_empty() && !self.releases.is_empty()
    }

    fn connected(&mut self, lanes: &[Lane]) {
        self.bench.open(lanes);
        self.input(Input::Connected {
            node: NODE,
            opened: lanes.to_vec(),
        });
    }
}

fn seen(owner: OwnerId, report: Report) -> OwnerSeen {
    OwnerSeen {
        lock: LockId::default(),
        owner,
        report,
    }
}

fn answered(attempt: CallId) -> Resolved {
    Resolved {
        attempt,
        was_cut: false,
    }
}

fn cut_off(attempt: CallId) -> Resolved {
    Resolved { attempt, was_cut: true }
}

#[test]
fn a_release_is_sent_at_once_and_completes_with_the_answer() {
    for (reply, outcome) in [
        (1, ReleaseOutcome::Released),
        (0, ReleaseOutcome::Expired),
        (2, ReleaseOutcome::Stolen),
    ] {
        let mut alone = Alone::new(Bench::new());
        let id = alone.owe();
        alone.answer_last(id, numbers(&[reply]));
        assert_eq!(alone.outcomes(), [Outcome::Released(outcome)]);
        assert!(alone.releases.is_empty());
    }
}

#[test]
fn without_a_connection_it_waits_for_one() {
    let mut alone = Alone::new(Bench::without_connection());
    alone.owe();
    assert!(alone.is_waiting());
    alone.connected(&[Lane::Command]);
    alone.bench.call();
}

#[test]
fn a_delayed_release_is_sent_when_it_is_due_or_the_client_closes() {
    for is_closing in [false, true] {
        let mut alone = Alone::new(Bench::new());
        let at = alone.bench.now + Duration::from_secs(5);
        let id = alone.owe_with(|owed| owed.hold.as_mut().unwrap().not_before = Some(at));
        assert!(alone.is_waiting());
        if is_closing {
            alone.input(Input::Closed);
        } else {
            alone.bench.pass(5_000);
            alone.input(Input::Due(id));
        }
        alone.bench.call();
    }
}

#[test]
fn a_delayed_release_whose_ttl_has_passed_is_not_sent_when_the_client_closes() {
    let mut alone = Alone::new(Bench::new());
    let at = alone.bench.now + Duration::from_secs(1_000_000);
    alone.owe_with(|owed| owed.hold.as_mut().unwrap().not_before = Some(at));
    alone.bench.pass(999_000_000);
    alone.input(Input::Closed);
    assert!(alone.releases.is_empty());
    assert!(alone.bench.calls().is_empty());
}

#[test]
fn a_release_is_sent_again_after_an_attempt_that_was_cut_off() {
    let mut alone = Alone::new(Bench::new());
    let id = alone.owe_with(|owed| owed.unresolved.resolved(cut_off(CallId::from_u64(7))));
    alone.answer_last(id, numbers(&[0]));
    assert!(alone.is_waiting());
    alone.bench.pass(3_000);
    alone.input(Input::Due(id));
    alone.answer_last(id, numbers(&[1]));
    assert!(alone.releases.is_empty());
}

/// The servers of a cluster, or a Redis client that the program supplies, may answer calls out of order.
#[test]
fn a_release_is_sent_again_as_soon_as_the_attempts_that_it_overtook_are_answered() {
    for was_cut in [false, true] {
        let mut alone = Alone::new(Bench::new());
        let attempts = [7, 8].map(CallId::from_u64);
        let id = alone.owe_with(|owed| attempts.into_iter().for_each(|attempt| owed.unresolved.sent(attempt)));
        alone.answer_last(id, numbers(&[0]));
        assert!(alone.is_waiting());
        let first = Resolved {
            attempt: attempts[0],
            was_cut,
        };
        alone.input(Input::Resolved(id, first));
        assert!(alone.is_waiting(), "the other attempt has not run");
        alone.input(Input::Resolved(id, answered(attempts[1])));
        if was_cut {
            assert!(alone.is_waiting(), "the attempt may still run");
            alone.bench.pass(3_000);
            alone.input(Input::Due(id));
        }
        alone.answer_last(id, numbers(&[1]));
        assert!(alone.releases.is_empty());
    }
}

#[test]
fn without_order_a_release_is_sent_again_if_an_attempt_was_answered_meanwhile() {
    for (bench, is_repeated) in [(Bench::new(), false), (Bench::without_order(), true)] {
        let mut alone = Alone::new(bench);
        let attempt = CallId::from_u64(7);
        let id = alone.owe_with(|owed| owed.unresolved.sent(attempt));
        alone.input(Input::Resolved(id, answered(attempt)));
        alone.answer_last(id, numbers(&[0]));
        if is_repeated {
            alone.answer_last(id, numbers(&[1]));
        }
        assert!(alone.releases.is_empty());
    }
}

#[test]
fn a_release_that_was_refused_or_cut_off_is_sent_again_after_a_pause() {
    for (result, pause) in [(refusal("LOADING"), 200), (cut(), 1), (refusal("ERR"), 3_000)] {
        let mut alone = Alone::new(Bench::new());
        let id = alone.owe();
        alone.answer_last(id, result);
        assert!(alone.is_waiting());
        let due = alone.bench.now + Duration::from_millis(pause);
        assert_eq!(alone.bench.io.due(Timer::ReleaseAgain(id)), Some(due));
        alone.bench.now = due;
        alone.input(Input::Due(id));
        alone.bench.call();
    }
}

#[test]
fn an_overdue_release_is_sent_again_and_its_first_answer_counts() {
    let mut alone = Alone::new(Bench::new());
    let id = alone.owe();
    let first = alone.bench.call();
    alone.bench.pass(3_000);
    alone.input(Input::Overdue(id, first));
    let second = alone.bench.call();
    // The reply to the first call completes the caller's ticket. The second reply settles the release.
    alone.answer(id, first, numbers(&[1]));
    assert_eq!(alone.outcomes(), [Outcome::Released(ReleaseOutcome::Released)]);
    alone.answer(id, second, numbers(&[0]));
    assert!(alone.releases.is_empty());
}

#[test]
fn an_overdue_release_without_a_connection_waits_and_a_late_answer_ends_it() {
    let mut alone = Alone::new(Bench::new());
    let id = alone.owe();
    let call = alone.bench.call();
    alone.bench.close(&[Lane::Command, Lane::Renewal]);
    alone.input(Input::Overdue(id, call));
    assert!(alone.is_waiting());
    alone.answer(id, call, numbers(&[1]));
    assert!(alone.releases.is_empty());
}

#[test]
fn a_release_on_the_renewal_lane_is_sent_again_on_the_command_lane() {
    let mut alone = Alone::new(Bench::without_connection());
    alone.bench.open(&[Lane::Renewal]);
    alone.owe();
    assert_eq!(alone.bench.calls()[0].lane, Lane::Renewal);
    alone.connected(&[Lane::Command]);
    assert_eq!(alone.bench.calls()[0].lane, Lane::Command);
}

#[test]
fn an_abandoned_owner_that_holds_a_fair_lock_is_released_once_more() {
    let mut alone = Alone::new(Bench::new());
    let seen = alone.abandon();
    alone.input(seen);
    alone.bench.call();
    let mut alone = Alone::new(Bench::new());
    let seen = alone.abandon();
    alone.bench.close(&[Lane::Command]);
    alone.input(seen);
    assert!(alone.is_waiting());
}

#[test]
fn an_owner_that_was_never_abandoned_is_not_released() {
    let mut alone = Alone::new(Bench::new());
    let owner = alone.bench.io.owner_id();
    alone.input(Input::OwnerSeen(seen(owner, Report::Message), keys(Kind::Fair)));
    assert!(alone.releases.is_empty());
}

#[test]
fn nothing_is_owed_any_more_when_the_ttl_has_passed() {
    let ends: [fn(&mut Alone, ReleaseId); 2] = [
        |alone, id| alone.input(Input::Due(id)),
        |alone, _| alone.connected(&[Lane::Command]),
    ];
    for end in ends {
        let mut alone = Alone::new(Bench::without_connection());
        let id = alone.owe();
        alone.bench.pass(10_000);
        end(&mut alone, id);
        assert_eq!(alone.outcomes(), [Outcome::Released(ReleaseOutcome::Unknown)]);
        assert!(alone.releases.is_empty());
    }
}

#[test]
fn nothing_is_owed_any_more_when_the_ttl_has_passed_without_an_answer() {
    let ends: [fn(&mut Alone, ReleaseId, CallId); 2] = [
        |alone, id, call| alone.input(Input::Overdue(id, call)),
        |alone, _, _| alone.connected(&[Lane::Command]),
    ];
    for end in ends {
        let mut alone = Alone::new(Bench::new());
        let id = alone.owe();
        let call = alone.bench.call();
        alone.bench.pass(10_000);
        end(&mut alone, id, call);
        assert!(alone.releases.is_empty());
    }
}

#[test]
fn a_release_returns_unknown_after_one_command_timeout_and_continues() {
    let mut alone = Alone::new(Bench::new());
    let id = alone.owe();
    alone.input(Input::WaitOver(id));
    assert_eq!(alone.outcomes(), [Outcome::Released(ReleaseOutcome::Unknown)]);
    assert_eq!(alone.releases.len(), 1);
}

#[test]
fn a_cancelled_release_reports_nothing_and_continues() {
    let mut alone = Alone::new(Bench::new());
    let id = alone.owe();
    alone.input(Input::Cancelled(Ticket::from_u64(1)));
    assert_eq!(alone.releases.len(), 1);
    alone.answer_last(id, numbers(&[1]));
    assert_eq!(alone.outcomes(), []);
}
