//! Tests of the requests without the other machines.

mod lateness;
mod outages;

use super::drawing::{ASKING, PAUSING, QUEUED, SLEEPING, state};
use super::*;
use crate::ids::{CallId, HoldId, Primary, Verb};
use crate::kinds::Kind;
use crate::lease::{LeasePlan, LeaseTerms};
use crate::machines::bench::{Bench, NODE, cut, keys, numbers, refusal};
use crate::reply::{CallError, Reply};
use crate::step::{GrantKind, Granted, Refused};
use crate::types::{AcquireRequest, Lane, OnUnavailable};
use crate::{ErrorKind, Outcome};

const LEASE: Duration = Duration::from_secs(30);
const ONCE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);

/// The request under test, with the other requests that bring it into its state.
struct Alone {
    bench: Bench,
    waiters: Waiters,
    ticket: Ticket,
    kind: Kind,
}

impl Alone {
    fn nobody(bench: Bench, kind: Kind) -> Self {
        Self {
            bench,
            waiters: Waiters::default(),
            ticket: Ticket::from_u64(0),
            kind,
        }
    }

    fn asking() -> Self {
        Self::asking_of(Kind::Lock, LONG)
    }

    fn asking_of(kind: Kind, wait: Duration) -> Self {
        let mut alone = Self::nobody(Bench::new(), kind);
        alone.want(wait);
        assert_eq!(alone.state(), Some(ASKING));
        alone
    }

    /// Makes a request that waits behind another one.
    fn queued() -> Self {
        let mut alone = Self::asking();
        alone.bench.call();
        alone.want(LONG);
        assert_eq!(alone.state(), Some(QUEUED));
        alone
    }

    /// Makes a request that was refused.
    fn sleeping_of(kind: Kind) -> Self {
        let mut alone = Self::asking_of(kind, LONG);
        alone.refuse();
        assert_eq!(alone.state(), Some(SLEEPING));
        alone
    }

    fn sleeping() -> Self {
        Self::sleeping_of(Kind::Lock)
    }

    /// Makes a request that sleeps because there is no connection.
    fn sleeping_unasked(kind: Kind) -> Self {
        let mut alone = Self::nobody(Bench::without_connection(), kind);
        alone.want(LONG);
        assert_eq!(alone.state(), Some(SLEEPING));
        alone
    }

    /// Makes a request that sleeps. One of its attempts, which is overdue, may still be answered.
    fn sleeping_after_two() -> (Self, CallId) {
        let mut alone = Self::asking();
        let first = alone.bench.call();
        alone.bench.pass(3_000);
        alone.input(Input::Overdue(alone.ticket, first));
        alone.answer_last(cut());
        assert_eq!(alone.state(), Some(SLEEPING));
        (alone, first)
    }

    /// Makes a request that pauses because the turn of this client is over.
    fn pausing() -> Self {
        let mut alone = Self::granted_among_others();
        alone.bench.pass(20);
        alone.want(LONG);
        assert_eq!(alone.state(), Some(PAUSING));
        alone
    }

    /// Makes a request that was granted the lock, while other clients wait for the release.
    fn granted_among_others() -> Self {
        let mut alone = Self::asking();
        alone.answer_last(numbers(&[1]));
        alone.input(Input::Published {
            lock: alone.lock(),
            others: 1,
        });
        alone
    }

    fn input(&mut self, input: Input) {
        self.bench.io.take_steps();
        let holds = Holds::default();
        self.waiters.input(&mut self.bench.io, &holds, input, self.bench.now);
    }

    fn want(&mut self, wait: Duration) {
        self.ticket = self.bench.io.next_ticket(Verb::Acquire);
        let keys = keys(self.kind);
        let request = AcquireRequest {
            run: None,
            kind: self.kind,
            name: keys.name.clone(),
            context: None,
            within: None,
            wait: Some(wait),
            lease: LeaseTerms::CLIENT,
            max_hold: None,
            fencing: false,
            on_unavailable: OnUnavailable::Fail,
            blocked: Vec::new(),
        };
        let plan = LeasePlan {
            length: LEASE,
            renewed: true,
        };
        self.input(Input::Wanted(Wanted {
            ticket: self.ticket,
            request,
            keys,
            inside: None,
            plan,
        }));
    }

    fn answer(&mut self, call: CallId, result: Result<Reply, CallError>) {
        let attempt = self.bench.answer(call, result);
        self.input(Input::Answered {
            ticket: self.ticket,
            ttl: LEASE,
            attempt,
        });
    }

    fn answer_last(&mut self, result: Result<Reply, CallError>) {
        let call = self.bench.call();
        self.answer(call, result);
    }

    /// Answers that another owner holds the lock, and that the waiter is in the server's queue, if the kind has one.
    fn refuse(&mut self) {
        let Reply::Array(mut parts) = held_by_another_owner() else {
            return;
        };
        if self.kind.queues_on_server() {
            parts.push(Reply::Bytes(b"1795000000000000".to_vec()));
        }
        self.answer_last(Ok(Reply::Array(parts)));
        let refused = Refused {
            ticket: self.ticket,
            remaining: Some(Duration::from_secs(5)),
            is_free: false,
        };
        self.input(Input::Refused(refused));
    }

    fn grant_unasked(&mut self) {
        let granted = Granted {
            token: None,
            sent: self.bench.now,
            ttl: LEASE,
            kind: GrantKind::Provisional,
        };
        self.input(Input::GrantedInQueue(self.ticket, granted));
    }

    fn fail_poll(&mut self) {
        let Err(failure) = refusal("WRONGTYPE") else { return };
        self.input(Input::PollFailed {
            lock: self.lock(),
            waiters: vec![self.ticket],
            failure,
        });
    }

    /// Opens the circuit breaker of the primary. The request has this policy for an outage.
    fn outage(&mut self, policy: OnUnavailable) {
        self.waiters
            .with(self.ticket, |request| request.set_on_unavailable(policy));
        self.bench.outage();
        self.input(Input::Outage(Primary::default()));
    }

    fn lock(&self) -> LockId {
        LockId::default().next()
    }

    fn hold(&self) -> HoldId {
        HoldId::default().next()
    }

    fn state(&self) -> Option<&'static str> {
        self.waiters.request(self.ticket).map(|request| state(request).0)
    }

    fn is_granted(&self) -> bool {
        let is_grant = |step: &Step| matches!(step, Step::Granted(ticket, _) if *ticket == self.ticket);
        self.bench.io.steps().iter().any(is_grant)
    }

    fn is_release_owed(&self) -> bool {
        self.bench.io.steps().iter().any(|step| matches!(step, Step::Owes(_)))
    }

    /// Returns the kind of the error that the caller got.
    fn failed_with(&mut self) -> Option<ErrorKind> {
        match self.bench.outcomes().pop()? {
            (_, Outcome::NotGranted(error) | Outcome::Failed(error)) => Some(error.kind()),
            _ => None,
        }
    }
}

/// Returns the reply that another owner holds the lock.
fn held_by_another_owner() -> Reply {
    Reply::Array(vec![
        Reply::Int(0),
        Reply::Int(5_000),
        Reply::Bytes(b"another:1".to_vec()),
    ])
}

const LANES: [Lane; 2] = [Lane::Renewal, Lane::Command];

#[test]
fn the_first_asks_at_once_and_is_granted_the_lock() {
    let mut alone = Alone::asking();
    alone.answer_last(numbers(&[1]));
    assert!(alone.is_granted());
    assert_eq!((alone.state(), alone.bench.io.timers()), (None, 0));
}

#[test]
fn without_a_connection_it_sleeps_until_there_is_one() {
    let mut alone = Alone::sleeping_unasked(Kind::Fair);
    alone.bench.open(&LANES);
    alone.input(Input::Connected(NODE));
    assert_eq!(alone.state(), Some(ASKING));
}

#[test]
fn the_next_waiter_asks_when_the_first_has_left() {
    let mut alone = Alone::queued();
    alone.input(Input::Cancelled(Ticket::new(1, Verb::Acquire)));
    alone.input(Input::Advance(alone.lock()));
    assert_eq!(alone.state(), Some(ASKING));
    let mut alone = Alone::queued();
    alone.bench.close(&LANES);
    alone.input(Input::Cancelled(Ticket::new(1, Verb::Acquire)));
    alone.input(Input::Advance(alone.lock()));
    assert_eq!(alone.state(), Some(SLEEPING));
}

#[test]
fn the_next_waiter_pauses_if_the_turn_of_its_client_is_over() {
    let mut alone = Alone::granted_among_others();
    alone.want(LONG);
    alone.want(LONG);
    alone.bench.pass(20);
    alone.input(Input::Cancelled(Ticket::new(2, Verb::Acquire)));
    alone.input(Input::Advance(alone.lock()));
    assert_eq!(alone.state(), Some(PAUSING));
}

#[test]
fn no_waiter_asks_while_the_lock_is_held_here() {
    for (lanes, after_ms, next) in [
        (&LANES[..0], 0, ASKING),
        (&LANES, 0, SLEEPING),
        (&LANES[..0], 20, PAUSING),
    ] {
        let mut alone = Alone::granted_among_others();
        alone.input(Input::Held(alone.lock(), alone.hold()));
        alone.want(LONG);
        alone.input(Input::Advance(alone.lock()));
        assert_eq!(alone.state(), Some(QUEUED));
        alone.bench.close(lanes);
        alone.bench.pass(after_ms);
        alone.input(Input::Freed(alone.lock(), alone.hold()));
        assert_eq!(alone.state(), Some(next));
    }
}

#[test]
fn after_its_pause_it_asks() {
    for (lanes, next) in [(&LANES[..0], ASKING), (&LANES, SLEEPING)] {
        let mut alone = Alone::pausing();
        alone.bench.close(lanes);
        alone.input(Input::Woken(alone.ticket));
        assert_eq!(alone.state(), Some(next));
    }
}

#[test]
fn a_wait_can_end_in_any_state_and_reports_why() {
    for make in [Alone::queued, Alone::pausing, Alone::asking, Alone::sleeping] {
        let mut alone = make();
        // The first input may only prolong the wait for the first answer.
        alone.input(Input::WaitOver(alone.ticket));
        if alone.state().is_some() {
            alone.input(Input::WaitOver(alone.ticket));
        }
        assert!(alone.failed_with().is_some());
        assert_eq!(alone.state(), None);
        let mut alone = make();
        alone.bench.pass(31_000);
        alone.input(Input::Silence(alone.ticket));
        assert_eq!(alone.failed_with(), Some(ErrorKind::Unavailable));
        assert_eq!(alone.state(), None);
    }
}

#[test]
fn a_cancelled_request_reports_nothing_and_releases_a_possible_grant() {
    for (make, is_owed) in [
        (Alone::queued as fn() -> Alone, false),
        (Alone::pausing, false),
        (Alone::asking, true),
        (Alone::sleeping, false),
    ] {
        let mut alone = make();
        alone.input(Input::Cancelled(alone.ticket));
        assert_eq!(alone.is_release_owed(), is_owed);
        assert_eq!((alone.state(), alone.failed_with()), (None, None));
    }
}

#[test]
fn a_refused_one_asks_again_when_it_wakes_or_the_lock_may_be_free() {
    let wakes: [fn(&Alone) -> Input; 2] = [
        |alone| Input::Woken(alone.ticket),
        |alone| Input::MayBeFree(alone.lock()),
    ];
    for wake in wakes {
        let mut alone = Alone::sleeping();
        alone.bench.pass(2);
        alone.input(wake(&alone));
        assert_eq!(alone.state(), Some(ASKING));
    }
}

#[test]
fn a_refusal_that_may_be_stale_makes_it_ask_at_once() {
    let mut alone = Alone::sleeping();
    alone.bench.pass(2);
    alone.input(Input::AnswerMayBeStale(alone.ticket));
    alone.input(Input::Sleep {
        ticket: alone.ticket,
        remaining: None,
    });
    assert_eq!(alone.state(), Some(ASKING));
    let mut alone = Alone::asking_of(Kind::Fair, LONG);
    alone.bench.pass(2);
    alone.input(Input::AnswerMayBeStale(alone.ticket));
    alone.refuse();
    assert_eq!(alone.state(), Some(ASKING));
    alone.bench.call();
}

#[test]
fn one_that_sleeps_without_a_timer_is_not_left_behind() {
    let wakes: [fn(&Alone) -> Input; 2] = [
        |alone| Input::Advance(alone.lock()),
        |alone| Input::Freed(alone.lock(), alone.hold()),
    ];
    for wake in wakes {
        let mut alone = Alone::sleeping_unasked(Kind::Lock);
        alone.bench.open(&LANES);
        alone.input(wake(&alone));
        assert_eq!(alone.state(), Some(ASKING));
    }
}

#[test]
fn an_attempt_that_was_cut_off_is_made_again_after_a_pause() {
    let mut alone = Alone::asking();
    alone.answer_last(cut());
    assert_eq!(alone.state(), Some(SLEEPING));
    assert!(alone.bench.io.due(Timer::Wake(alone.ticket)).is_some());
}

#[test]
fn an_overdue_attempt_is_made_again_under_the_same_owner_id() {
    for (lanes, next) in [(&LANES[..0], ASKING), (&LANES, SLEEPING)] {
        let mut alone = Alone::asking();
        let call = alone.bench.call();
        let owner = alone.waiters.request(alone.ticket).unwrap().owner().clone();
        alone.bench.pass(3_000);
        alone.bench.close(lanes);
        alone.input(Input::Overdue(alone.ticket, call));
        assert_eq!(alone.state(), Some(next));
        assert_eq!(alone.waiters.request(alone.ticket).unwrap().owner(), &owner);
    }
}

#[test]
fn a_single_attempt_ends_with_its_first_answer_or_when_that_is_overdue() {
    let mut alone = Alone::asking_of(Kind::Lock, ONCE);
    alone.refuse();
    assert_eq!(alone.failed_with(), Some(ErrorKind::LockTimeout));
    let mut alone = Alone::asking_of(Kind::Lock, ONCE);
    let call = alone.bench.call();
    alone.input(Input::Overdue(alone.ticket, call));
    assert_eq!(alone.failed_with(), Some(ErrorKind::Unavailable));
}

#[test]
fn a_permanent_error_fails_the_request_at_once() {
    for answer in [numbers(&[7]), refusal("NOPERM")] {
        let mut alone = Alone::asking();
        alone.answer_last(answer.clone());
        assert_eq!(alone.failed_with(), Some(ErrorKind::Misconfigured));
        // The answer to an overdue attempt has the same effect.
        let (mut alone, first) = Alone::sleeping_after_two();
        alone.answer(first, answer);
        assert_eq!(alone.failed_with(), Some(ErrorKind::Misconfigured));
    }
}

#[test]
fn the_grant_of_an_overdue_attempt_counts() {
    let (mut alone, first) = Alone::sleeping_after_two();
    alone.answer(first, numbers(&[1]));
    assert!(alone.is_granted());
}

#[test]
fn the_server_grants_the_lock_to_one_in_its_queue_whether_it_asks_or_sleeps() {
    for mut alone in [Alone::sleeping_of(Kind::Fair), Alone::asking_of(Kind::Fair, LONG)] {
        alone.grant_unasked();
        assert!(alone.is_granted());
    }
}

#[test]
fn a_waiter_asks_if_too_little_of_its_grant_is_left() {
    let mut alone = Alone::sleeping_of(Kind::Fair);
    alone.input(Input::AskAgain(alone.ticket));
    assert_eq!(alone.state(), Some(ASKING));
}

#[test]
fn a_poll_that_can_never_work_ends_the_waits_in_the_queue() {
    let mut asleep = Alone::sleeping_of(Kind::Fair);
    asleep.fail_poll();
    let mut asking = Alone::sleeping_of(Kind::Fair);
    asking.input(Input::AskAgain(asking.ticket));
    asking.fail_poll();
    for mut alone in [asleep, asking] {
        assert_eq!(alone.failed_with(), Some(ErrorKind::Misconfigured));
        assert_eq!(alone.state(), None);
    }
}
