//! Tests of the waiters of a fair lock without the other machines.

use super::*;
use crate::calls::Resolved;
use crate::kinds::Kind;
use crate::machines::bench::{Bench, cut, keys};
use crate::step::GrantKind;

const TICKET: Ticket = Ticket::from_u64(1);
/// The server's clock when the waiter was found, in µs.
const CLOCK: u64 = 1_795_000_000_000_000;

struct Alone {
    bench: Bench,
    queue: FairQueue,
    owner: OwnerId,
}

impl Alone {
    fn joined() -> Self {
        let mut bench = Bench::new();
        let owner = bench.io.owner_id();
        let queue = FairQueue::default();
        let mut alone = Self { bench, queue, owner };
        alone.join(TICKET, alone.owner.clone());
        alone
    }

    fn queued() -> Self {
        let mut alone = Self::joined();
        alone.find(TICKET);
        alone
    }

    fn input(&mut self, input: Input) {
        self.bench.io.take_steps();
        self.queue.input(&mut self.bench.io, input, self.bench.now);
    }

    fn lock(&self) -> LockId {
        LockId::default()
    }

    fn join(&mut self, ticket: Ticket, owner: OwnerId) {
        self.input(Input::WillJoin {
            lock: self.lock(),
            ticket,
            entry: QueueEntry { owner, fencing: false },
        });
    }

    fn find(&mut self, ticket: Ticket) {
        let found = ClockReading {
            sent: self.bench.now,
            clock: CLOCK,
        };
        self.input(Input::HasJoined {
            lock: self.lock(),
            ticket,
            keys: keys(Kind::Fair),
            found,
        });
    }

    /// Delivers a message that this owner was granted the lock.
    fn grant_message(&mut self, owner: &OwnerId) {
        self.input(Input::GrantMessage {
            lock: self.lock(),
            payload: format!("{owner} {CLOCK} ").into_bytes(),
        });
    }

    /// Polls, and answers after `after_ms` that this owner holds the lock for 3 s from when the poll was sent.
    fn poll(&mut self, holder: &str, after_ms: u64) {
        self.input(Input::PollDue(self.lock()));
        let call = self.bench.call();
        self.bench.pass(after_ms);
        let parts = [holder.as_bytes(), b"", CLOCK.to_string().as_bytes()].map(|text| Reply::Bytes(text.to_vec()));
        let reply = [Reply::Int(3_000)].into_iter().chain(parts).collect();
        let answered = self.bench.answer(call, Ok(Reply::Array(reply)));
        self.input(Input::Answered(self.lock(), answered));
    }

    fn is_granted(&self) -> bool {
        self.bench.io.steps().iter().any(|step| match step {
            Step::Waiter(WaiterInput::GrantedInQueue(TICKET, granted)) => granted.kind == GrantKind::Provisional,
            _ => false,
        })
    }

    fn asks_again(&self) -> bool {
        let asks = |step: &Step| matches!(step, Step::Waiter(WaiterInput::AskAgain(TICKET)));
        self.bench.io.steps().iter().any(asks)
    }
}

#[test]
fn a_waiter_that_was_found_in_the_queue_listens_and_is_polled_for() {
    let mut alone = Alone::joined();
    alone.find(TICKET);
    let steps = alone.bench.io.steps();
    let [Step::Listen(grants), Step::Listen(releases)] = steps else {
        panic!("{steps:?}")
    };
    assert!(matches!(grants.topic, Topic::Grants));
    assert!(matches!(releases.topic, Topic::Releases(Listener::ServerQueue)));
    assert!(alone.bench.io.due(Timer::Poll(alone.lock())).is_some());
    alone.bench.pass(10);
    alone.find(TICKET);
}

#[test]
fn a_poll_without_a_grant_is_followed_by_another_poll() {
    let mut alone = Alone::queued();
    alone.bench.pass(500);
    alone.poll("another:1", 1);
    assert!(!alone.is_granted() && !alone.asks_again());
    assert!(alone.bench.io.due(Timer::Poll(alone.lock())).is_some());
}

#[test]
fn a_poll_that_was_cut_off_changes_nothing() {
    let mut alone = Alone::queued();
    alone.input(Input::PollDue(alone.lock()));
    let call = alone.bench.call();
    let answered = alone.bench.answer(call, cut());
    alone.input(Input::Answered(alone.lock(), answered));
    assert!(matches!(
        alone.bench.io.steps(),
        [
            Step::Waiter(WaiterInput::PollAnswered {
                poll: Resolved { was_cut: true, .. },
                ..
            }),
            Step::Waiter(WaiterInput::PollFailed { .. }),
        ]
    ));
}

#[test]
fn a_message_grants_the_lock() {
    let mut alone = Alone::queued();
    alone.grant_message(&alone.owner.clone());
    assert!(alone.is_granted());
}

#[test]
fn a_waiter_asks_if_too_little_is_left_of_a_grant_in_a_message() {
    let mut alone = Alone::queued();
    alone.bench.pass(2_000);
    alone.grant_message(&alone.owner.clone());
    assert!(alone.asks_again());
}

#[test]
fn a_message_for_a_waiter_that_was_not_found_yet_makes_its_answer_stale() {
    let mut alone = Alone::joined();
    alone.grant_message(&alone.owner.clone());
    assert!(matches!(
        alone.bench.io.steps(),
        [Step::Waiter(WaiterInput::AnswerMayBeStale(TICKET))]
    ));
}

#[test]
fn a_poll_finds_a_grant_whose_message_was_lost() {
    for (after_ms, is_granted) in [(1, true), (2_000, false)] {
        let mut alone = Alone::queued();
        alone.poll(&alone.owner.to_string(), after_ms);
        assert_eq!((alone.is_granted(), alone.asks_again()), (is_granted, !is_granted));
    }
}

#[test]
fn the_poll_of_another_waiter_may_report_a_grant_before_the_waiters_own_answer() {
    for (after_ms, is_granted) in [(1, true), (2_000, false)] {
        let mut alone = Alone::joined();
        let other = alone.bench.io.owner_id();
        alone.join(Ticket::from_u64(2), other);
        alone.find(Ticket::from_u64(2));
        alone.poll(&alone.owner.to_string(), after_ms);
        assert_eq!((alone.is_granted(), alone.asks_again()), (is_granted, !is_granted));
    }
}

#[test]
fn under_a_new_owner_id_a_waiter_is_not_known_to_be_in_the_queue() {
    let mut alone = Alone::queued();
    let fresh = alone.bench.io.owner_id();
    alone.join(TICKET, fresh);
    alone.input(Input::PollDue(alone.lock()));
    assert_eq!(alone.bench.calls(), []);
}

#[test]
fn no_poll_is_sent_for_a_waiter_that_has_left() {
    for mut alone in [Alone::joined(), Alone::queued()] {
        alone.input(Input::Left(alone.lock(), TICKET));
        assert_eq!(alone.bench.io.due(Timer::Poll(alone.lock())), None);
        alone.input(Input::PollSoon(alone.lock()));
        assert_eq!(alone.bench.calls(), []);
    }
}
