//! Tests of the elections without the other machines.

use super::*;
use crate::kinds::Kind;
use crate::machines::bench::{Bench, NODE, cut, keys, refusal};

const ONE: Ticket = Ticket::from_u64(1);
const TWO: Ticket = Ticket::from_u64(2);
const OWNER: &str = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:7";

struct Alone {
    bench: Bench,
    elections: Elections,
}

impl Alone {
    fn new(bench: Bench) -> Self {
        let elections = Elections::default();
        Self { bench, elections }
    }

    fn input(&mut self, input: Input) {
        self.bench.io.take_steps();
        self.elections.input(&mut self.bench.io, input, self.bench.now);
    }

    fn observe(&mut self, ticket: Ticket, seen: u64) {
        let keys = keys(Kind::Leader);
        self.input(Input::Asked { ticket, keys, seen });
    }

    fn id(&self) -> ElectionId {
        self.elections.last
    }

    fn answer(&mut self, result: Result<Reply, CallError>) {
        let call = self.bench.call();
        self.reply(call, result);
    }

    fn reply(&mut self, call: crate::ids::CallId, result: Result<Reply, CallError>) {
        let answered = self.bench.answer(call, result);
        self.input(Input::Answered(self.id(), answered.result));
    }

    /// Returns the tickets that are completed, with the number of the term that they learn of.
    fn reported(&mut self) -> Vec<(Ticket, u64)> {
        let outcomes = self.bench.outcomes().into_iter();
        let reported = outcomes.map(|(ticket, outcome)| match outcome {
            Outcome::State(LockState {
                leadership: Some(leadership),
                ..
            }) => (ticket, leadership.number()),
            other => panic!("{other:?}"),
        });
        reported.collect()
    }
}

/// Returns the reply for a term of this number; 0 for "nobody leads".
fn term(number: u64) -> Result<Reply, CallError> {
    let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
    let parts = match number {
        0 => [Reply::Int(1), Reply::Int(-2), text(""), text(""), text("")],
        _ => {
            let (number, left) = (number.to_string(), Reply::Int(9_000));
            [Reply::Int(1), left, text(OWNER), text(&number), text("17")]
        }
    };
    Ok(Reply::Array(parts.to_vec()))
}

#[test]
fn a_caller_learns_of_another_term_than_the_one_that_it_has_seen() {
    for (seen, now) in [(0, 5), (5, 6), (5, 0)] {
        let mut alone = Alone::new(Bench::new());
        alone.observe(ONE, seen);
        alone.answer(term(seen));
        assert_eq!(alone.reported(), []);
        alone.input(Input::MayHaveChanged(alone.id()));
        alone.answer(term(now));
        assert_eq!(alone.reported(), [(ONE, now)]);
    }
}

#[test]
fn callers_with_different_knowledge_get_different_answers() {
    let mut alone = Alone::new(Bench::new());
    alone.observe(ONE, 5);
    alone.answer(term(5));
    alone.observe(TWO, 4);
    alone.answer(term(5));
    assert_eq!(alone.reported(), [(TWO, 5)]);
    assert_eq!(alone.elections.tickets(), [ONE]);
}

#[test]
fn an_answer_that_may_be_older_than_the_callers_knowledge_does_not_count_for_it() {
    let mut alone = Alone::new(Bench::new());
    alone.observe(ONE, 4);
    let call = alone.bench.call();
    // The second caller has already seen the next term, which the call in flight may not know.
    alone.observe(TWO, 6);
    alone.reply(call, term(5));
    assert_eq!(alone.reported(), [(ONE, 5)]);
    alone.answer(term(6));
    assert_eq!(alone.reported(), []);
    assert_eq!(alone.elections.tickets(), [TWO]);
}

#[test]
fn a_message_during_a_call_makes_the_client_ask_once_more() {
    let mut alone = Alone::new(Bench::new());
    alone.observe(ONE, 5);
    let call = alone.bench.call();
    for _ in 0..3 {
        alone.input(Input::MayHaveChanged(alone.id()));
    }
    assert_eq!(alone.bench.calls(), []);
    alone.reply(call, term(5));
    alone.answer(term(6));
    assert_eq!(alone.reported(), [(ONE, 6)]);
}

#[test]
fn without_messages_the_client_polls_and_at_the_end_of_the_lease_at_once() {
    let mut alone = Alone::new(Bench::new());
    alone.observe(ONE, 5);
    let poll = alone.bench.io.due(Timer::Observe(alone.id())).unwrap();
    assert!(poll <= alone.bench.now + Duration::from_millis(750));
    alone.answer(term(5));
    assert_eq!(alone.bench.io.due(Timer::Observe(alone.id())), Some(poll));
    alone.input(Input::PollDue(alone.id()));
    let mut parts = match term(5) {
        Ok(Reply::Array(parts)) => parts,
        other => panic!("{other:?}"),
    };
    parts[1] = Reply::Int(30);
    alone.answer(Ok(Reply::Array(parts)));
    let end = alone.bench.now + Duration::from_millis(31);
    assert_eq!(alone.bench.io.due(Timer::Observe(alone.id())), Some(end));
}

#[test]
fn an_observer_continues_over_an_outage() {
    let mut alone = Alone::new(Bench::without_connection());
    alone.observe(ONE, 5);
    assert_eq!(alone.bench.calls(), []);
    alone.bench.open(&[Lane::Command]);
    alone.input(Input::Connected(NODE));
    alone.answer(cut());
    alone.input(Input::Connected(NODE));
    alone.answer(refusal("LOADING"));
    alone.input(Input::PollDue(alone.id()));
    alone.answer(term(6));
    assert_eq!(alone.reported(), [(ONE, 6)]);
}

#[test]
fn a_refusal_that_lasts_fails_all_callers() {
    for reply in [refusal("NOPERM"), Ok(Reply::Array(Vec::new()))] {
        let mut alone = Alone::new(Bench::new());
        alone.observe(ONE, 5);
        alone.observe(TWO, 6);
        alone.answer(reply);
        let failed = alone.bench.outcomes();
        assert_eq!(failed.len(), 2);
        for (_, outcome) in failed {
            let Outcome::Failed(error) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
        }
        assert_eq!(alone.bench.io.due(Timer::Observe(alone.id())), None);
    }
}

#[test]
fn an_election_is_forgotten_a_second_after_its_last_observer() {
    let mut alone = Alone::new(Bench::new());
    alone.observe(ONE, 5);
    alone.input(Input::Cancelled(ONE));
    assert_eq!(alone.bench.io.due(Timer::Observe(alone.id())), None);
    assert_eq!(
        alone.bench.io.due(Timer::Unwatch(alone.id())),
        Some(alone.bench.now + LINGER)
    );
    // The answer to the last question is for nobody.
    alone.answer(term(6));
    assert_eq!(alone.reported(), []);
    alone.observe(TWO, 6);
    assert_eq!(alone.bench.io.due(Timer::Unwatch(alone.id())), None);
    alone.input(Input::LingerOver(alone.id()));
    assert_eq!(alone.elections.len(), 1, "somebody observes it again");
    alone.answer(term(7));
    assert_eq!(alone.reported(), [(TWO, 7)]);
    alone.input(Input::LingerOver(alone.id()));
    let steps = alone.bench.io.take_steps();
    assert!(matches!(steps[..], [Step::Unwatch(..)]), "{steps:?}");
    assert_eq!(alone.elections.len(), 0);
}

#[test]
fn an_observer_that_is_cancelled_between_two_questions_is_forgotten() {
    for bench in [Bench::new(), Bench::without_connection()] {
        let mut alone = Alone::new(bench);
        alone.observe(ONE, 5);
        for call in alone.bench.calls() {
            alone.reply(call.id, term(5));
        }
        alone.input(Input::Cancelled(ONE));
        assert_eq!(alone.elections.tickets(), []);
        assert_eq!(alone.bench.io.due(Timer::Observe(alone.id())), None);
        alone.observe(TWO, 5);
        assert!(alone.bench.io.due(Timer::Observe(alone.id())).is_some());
    }
}

#[test]
fn an_answer_waits_for_the_programs_that_it_names() {
    let mut alone = waiting_for_a_program(5);
    identify(&mut alone);
    let (_, outcome) = alone.bench.outcomes().pop().unwrap();
    let Outcome::State(LockState { leadership, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    let leader = leadership.unwrap().term.unwrap().holder;
    assert_eq!((leader.owner.as_str(), &*leader.client.unwrap().host), (OWNER, "h"));

    // A caller that has seen this term goes on waiting.
    let mut alone = waiting_for_a_program(6);
    identify(&mut alone);
    assert_eq!(alone.reported(), []);
    assert_eq!(alone.elections.tickets(), [ONE]);
}

/// Returns an election with the answer of term 6, whose leader's program is asked for, for a caller that has seen
/// `seen`.
fn waiting_for_a_program(seen: u64) -> Alone {
    let mut alone = Alone::new(Bench::with_identity());
    alone.observe(ONE, seen);
    alone.answer(term(6));
    assert_eq!(alone.reported(), []);
    alone
}

fn identify(alone: &mut Alone) {
    let call = alone.bench.call();
    let known = Ok(Reply::Array(vec![
        Reply::Int(1),
        Reply::Bytes(b"host=h\npid=7".to_vec()),
    ]));
    alone.bench.io.identified(call, &known, alone.bench.now);
    alone.input(Input::Identified);
}
