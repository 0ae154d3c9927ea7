//! Questions alone.

use super::*;
use crate::kinds::Kind;
use crate::machines::bench::{Bench, cut, keys, numbers, refusal};

const TICKET: Ticket = Ticket::from_u64(1);

struct Alone {
    bench: Bench,
    inspections: Inspections,
}

impl Alone {
    fn asking(bench: Bench, question: Question) -> Self {
        let inspections = Inspections::default();
        let mut alone = Self { bench, inspections };
        alone.input(Input::Asked(TICKET, keys(Kind::Lock), question));
        alone
    }

    fn input(&mut self, input: Input) {
        self.bench.io.take_steps();
        self.inspections.input(&mut self.bench.io, input, self.bench.now);
    }

    fn kind_of_failure(&mut self) -> Option<ErrorKind> {
        match self.bench.told().pop() {
            Some((TICKET, Outcome::Failed(error))) => Some(error.kind()),
            _ => None,
        }
    }
}

#[test]
fn a_question_is_put_at_once_and_its_caller_is_told_the_answer() {
    let mut alone = Alone::asking(Bench::new(), Question::State);
    alone.bench.call();
    alone.input(Input::Answered(TICKET, numbers(&[1])));
    assert_eq!(alone.bench.told(), [(TICKET, Outcome::State(LockState::default()))]);
    assert_eq!(alone.inspections.len(), 0);
}

#[test]
fn a_refusal_is_told() {
    for (code, kind) in [
        ("LOADING", ErrorKind::Unavailable),
        ("NOPERM", ErrorKind::Misconfigured),
    ] {
        let mut alone = Alone::asking(Bench::new(), Question::Limit(3));
        alone.input(Input::Answered(TICKET, refusal(code)));
        assert_eq!(alone.kind_of_failure(), Some(kind));
    }
}

#[test]
fn without_a_connection_a_question_waits_for_one() {
    let mut alone = Alone::asking(Bench::without_connection(), Question::State);
    assert_eq!(alone.bench.calls(), []);
    alone.bench.open(&[Lane::Command]);
    alone.input(Input::Connected);
    alone.bench.call();
}

#[test]
fn a_question_that_was_cut_off_is_put_again_on_the_next_connection() {
    let mut alone = Alone::asking(Bench::new(), Question::State);
    alone.bench.call();
    alone.input(Input::Answered(TICKET, cut()));
    assert_eq!(alone.bench.told(), []);
    alone.input(Input::Connected);
    alone.bench.call();
}

#[test]
fn a_forced_release_that_was_cut_off_is_told_and_not_sent_again() {
    let mut alone = Alone::asking(Bench::new(), Question::Force);
    alone.bench.call();
    alone.input(Input::Connected);
    assert_eq!(alone.bench.calls(), []);
    alone.input(Input::Answered(TICKET, cut()));
    assert_eq!(alone.kind_of_failure(), Some(ErrorKind::Unavailable));
}

#[test]
fn a_caller_that_hears_nothing_in_time_is_told_so() {
    for bench in [Bench::new(), Bench::without_connection()] {
        let mut alone = Alone::asking(bench, Question::State);
        alone.input(Input::Overdue(TICKET));
        assert_eq!(alone.kind_of_failure(), Some(ErrorKind::Unavailable));
        assert!(alone.inspections.tickets().is_empty());
    }
}

#[test]
fn a_caller_that_goes_away_is_told_nothing() {
    for bench in [Bench::new(), Bench::without_connection()] {
        let mut alone = Alone::asking(bench, Question::State);
        alone.input(Input::Cancelled(TICKET));
        alone.input(Input::Answered(TICKET, numbers(&[1])));
        assert_eq!(alone.bench.told(), []);
        assert_eq!(alone.bench.io.timers(), 0);
    }
}
