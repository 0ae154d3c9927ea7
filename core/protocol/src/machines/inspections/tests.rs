//! Tests of the questions without the other machines.

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
        alone.input(Input::Asked {
            ticket: TICKET,
            keys: keys(Kind::Lock),
            question,
        });
        alone
    }

    fn input(&mut self, input: Input) {
        self.bench.io.take_steps();
        self.inspections.input(&mut self.bench.io, input, self.bench.now);
    }

    fn kind_of_failure(&mut self) -> Option<ErrorKind> {
        match self.bench.outcomes().pop() {
            Some((TICKET, Outcome::Failed(error))) => Some(error.kind()),
            _ => None,
        }
    }
}

#[test]
fn a_question_is_sent_at_once_and_completes_with_the_answer() {
    let mut alone = Alone::asking(Bench::new(), Question::State);
    alone.bench.call();
    alone.input(Input::Answered(TICKET, numbers(&[1])));
    assert_eq!(alone.bench.outcomes(), [(TICKET, Outcome::State(LockState::default()))]);
    assert_eq!(alone.inspections.len(), 0);
}

#[test]
fn a_refusal_fails_the_question() {
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
fn a_question_that_was_cut_off_is_sent_again_on_the_next_connection() {
    let mut alone = Alone::asking(Bench::new(), Question::State);
    alone.bench.call();
    alone.input(Input::Answered(TICKET, cut()));
    assert_eq!(alone.bench.outcomes(), []);
    alone.input(Input::Connected);
    alone.bench.call();
}

#[test]
fn a_forced_release_that_was_cut_off_fails_and_is_not_sent_again() {
    let mut alone = Alone::asking(Bench::new(), Question::Force);
    alone.bench.call();
    alone.input(Input::Connected);
    assert_eq!(alone.bench.calls(), []);
    alone.input(Input::Answered(TICKET, cut()));
    assert_eq!(alone.kind_of_failure(), Some(ErrorKind::Unavailable));
}

#[test]
fn a_question_without_a_reply_in_time_fails() {
    for bench in [Bench::new(), Bench::without_connection()] {
        let mut alone = Alone::asking(bench, Question::State);
        alone.input(Input::Overdue(TICKET));
        assert_eq!(alone.kind_of_failure(), Some(ErrorKind::Unavailable));
        assert!(alone.inspections.tickets().is_empty());
    }
}

/// Makes a question that was answered, while the client still asks which program the holder is.
fn unnamed() -> Alone {
    let mut alone = Alone::asking(Bench::with_identity(), Question::State);
    alone.bench.call();
    let owner = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:7".as_bytes().to_vec();
    let held = vec![Reply::Int(0), Reply::Int(1_000), Reply::Bytes(owner)];
    alone.input(Input::Answered(TICKET, Ok(Reply::Array(held))));
    assert_eq!(alone.bench.outcomes(), []);
    alone
}

fn held_by(alone: &mut Alone) -> Option<Arc<crate::ClientInfo>> {
    match alone.bench.outcomes().pop() {
        Some((TICKET, Outcome::State(state))) => state.holder.unwrap().client,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_waits_for_the_identity_of_the_holder() {
    for (reply, host) in [
        (vec![Reply::Int(1), Reply::Bytes(b"host=h\npid=7".to_vec())], Some("h")),
        (vec![Reply::Int(0)], None),
    ] {
        let mut alone = unnamed();
        let call = alone.bench.call();
        alone
            .bench
            .io
            .identified(call, &Ok(Reply::Array(reply)), alone.bench.now);
        alone.input(Input::Identified);
        let client = held_by(&mut alone);
        assert_eq!(client.as_ref().map(|client| client.host.as_str()), host);
        assert_eq!((alone.inspections.len(), alone.bench.io.timers()), (0, 0));
    }
}

#[test]
fn an_overdue_identity_does_not_withhold_the_answer() {
    let mut alone = unnamed();
    alone.input(Input::Overdue(TICKET));
    assert_eq!(held_by(&mut alone), None);
}

#[test]
fn a_question_that_is_cancelled_before_the_identity_arrives_reports_nothing() {
    let mut alone = unnamed();
    alone.input(Input::Cancelled(TICKET));
    alone.input(Input::Identified);
    assert_eq!(alone.bench.outcomes(), []);
    assert_eq!(alone.bench.io.timers(), 0);
}

#[test]
fn a_cancelled_question_reports_nothing() {
    for bench in [Bench::new(), Bench::without_connection()] {
        let mut alone = Alone::asking(bench, Question::State);
        alone.input(Input::Cancelled(TICKET));
        alone.input(Input::Answered(TICKET, numbers(&[1])));
        assert_eq!(alone.bench.outcomes(), []);
        assert_eq!(alone.bench.io.timers(), 0);
    }
}
