//! Tests of the holds without the other machines.

use std::time::Duration;

use super::*;
use crate::calls::Unresolved;
use crate::ids::{Context, LockId};
use crate::kinds::Kind;
use crate::machines::bench::{Bench, keys, numbers};
use crate::step::{GrantKind, Granted};
use crate::{CallError, Event, LostReason, ReleaseOutcome, Reply};

const LEASE: Duration = Duration::from_secs(9);

struct Alone {
    bench: Bench,
    holds: Holds,
}

impl Alone {
    /// Makes an auto-renewed hold with a lease of 9 s that was granted now.
    fn renewed() -> Self {
        Self::holding(LeasePlan {
            length: LEASE,
            renewed: true,
        })
    }

    /// Makes the same hold with a fixed lease.
    fn fixed() -> Self {
        Self::holding(LeasePlan {
            length: LEASE,
            renewed: false,
        })
    }

    fn holding(plan: LeasePlan) -> Self {
        let holds = Holds::default();
        let mut alone = Self {
            bench: Bench::new(),
            holds,
        };
        let new = NewHold {
            lock: LockId::default(),
            keys: keys(Kind::Lock),
            owner: alone.bench.io.owner_id(),
            context: Some(Context::from_u64(1)),
            plan,
            max_hold: None,
            granted: Granted {
                token: None,
                sent: alone.bench.now,
                ttl: LEASE,
                kind: GrantKind::Full,
            },
            waited: false,
            unresolved: Unresolved::default(),
        };
        alone.input(Input::Granted(Ticket::from_u64(1), new));
        alone
    }

    fn input(&mut self, input: Input) {
        self.bench.io.take_steps();
        self.holds.input(&mut self.bench.io, input, self.bench.now);
    }

    fn lose(&mut self, reason: LostReason) {
        self.input(Input::Lost(self.id(), reason));
    }

    fn pass_deadline(&mut self) {
        self.bench.now = self.hold().deadline();
        self.input(Input::DeadlinePassed(self.id()));
    }

    fn renewal_answered(&mut self, result: Result<Reply, CallError>) {
        self.input(Input::RenewalDue(self.id()));
        let call = self.bench.call();
        let answered = self.bench.answer(call, result);
        self.input(Input::RenewalAnswered {
            hold: self.id(),
            ttl: LEASE,
            answered,
        });
    }

    fn release(&mut self) {
        self.input(Input::Release(Ticket::from_u64(2), LeaseId::from_u64(1)));
    }

    fn id(&self) -> HoldId {
        HoldId::default().next()
    }

    fn hold(&self) -> &Hold {
        self.holds.get(self.id()).unwrap()
    }

    fn why_lost(&self) -> Option<LostReason> {
        let steps = self.bench.io.steps().iter();
        let mut lost = steps.filter_map(|step| match step {
            Step::Emit(Event::Lost { reason, .. }) => Some(*reason),
            _ => None,
        });
        lost.next()
    }

    fn is_release_owed(&self) -> bool {
        self.bench.io.steps().iter().any(|step| matches!(step, Step::Owes(_)))
    }

    fn is_freed(&self) -> bool {
        matches!(self.bench.io.steps().last(), Some(Step::Waiter(WaiterInput::Freed(..))))
    }

    fn is_forgotten(&self) -> bool {
        self.holds.len() == 0 && self.bench.io.timers() == 0 && self.is_release_owed() && self.is_freed()
    }
}

#[test]
fn a_grant_completes_and_sets_its_deadline_in_one_step() {
    let mut alone = Alone::renewed();
    assert!(alone.hold().is_valid(alone.bench.now));
    assert_eq!(
        alone.bench.io.due(Timer::Deadline(alone.id())),
        Some(alone.hold().deadline())
    );
    assert!(matches!(alone.bench.outcomes()[..], [(_, Outcome::Granted(_))]));
}

#[test]
fn the_release_of_the_last_level_ends_the_hold_and_is_owed() {
    let mut alone = Alone::renewed();
    let reentry = Reentry {
        ticket: Ticket::from_u64(3),
        hold: alone.id(),
        plan: alone.hold().plan(),
    };
    alone.input(Input::Enter(reentry));
    alone.input(Input::Release(Ticket::from_u64(2), LeaseId::from_u64(2)));
    assert!(!alone.is_release_owed());
    alone.release();
    assert!(alone.is_forgotten());
}

#[test]
fn a_renewal_that_is_confirmed_moves_the_deadline() {
    let mut alone = Alone::renewed();
    let before = alone.hold().deadline();
    alone.bench.pass(3_000);
    alone.renewal_answered(numbers(&[1]));
    assert_eq!(alone.hold().deadline(), before + Duration::from_secs(3));
    assert_eq!(alone.why_lost(), None);
}

#[test]
fn an_auto_renewed_lease_is_lost_at_its_deadline_and_its_release_completes_at_once() {
    let mut alone = Alone::renewed();
    alone.pass_deadline();
    assert_eq!(alone.why_lost(), Some(LostReason::Expired));
    assert!(alone.is_freed() && !alone.is_release_owed());
    alone.release();
    assert!(alone.is_release_owed());
    let expired = Outcome::Released(ReleaseOutcome::Expired);
    assert_eq!(alone.bench.outcomes(), [(Ticket::from_u64(2), expired)]);
}

#[test]
fn a_deadline_timer_that_fires_early_ends_no_hold() {
    let mut alone = Alone::renewed();
    alone.input(Input::DeadlinePassed(alone.id()));
    alone.input(Input::ContextReturned(alone.id()));
    assert_eq!(alone.hold().lost(), None);
}

#[test]
fn a_renewal_leaves_the_timer_of_the_deadline_which_is_set_again_when_it_fires() {
    let mut alone = Alone::renewed();
    let timer = Timer::Deadline(alone.id());
    let first = alone.bench.io.due(timer);
    assert_eq!(first, Some(alone.hold().deadline()));
    alone.bench.now += LEASE.checked_div(3).unwrap();
    alone.renewal_answered(numbers(&[1]));
    let deadline = alone.hold().deadline();
    assert_eq!(alone.bench.io.due(timer), first);
    assert!(first.is_some_and(|first| first < deadline));
    alone.bench.now = first.unwrap();
    let now = alone.bench.now;
    assert!(std::iter::from_fn(|| alone.bench.io.take_due(now)).any(|due| due == timer));
    alone.input(Input::DeadlinePassed(alone.id()));
    assert_eq!((alone.hold().lost(), alone.bench.io.due(timer)), (None, Some(deadline)));
    alone.pass_deadline();
    assert_eq!(alone.hold().lost(), Some(LostReason::Expired));
}

#[test]
fn a_record_that_is_gone_is_a_lost_lease() {
    for (reply, reason) in [(0, LostReason::Removed), (2, LostReason::Stolen)] {
        let mut alone = Alone::renewed();
        alone.renewal_answered(numbers(&[reply]));
        assert_eq!(alone.why_lost(), Some(reason));
        assert_eq!(alone.hold().lost(), Some(reason));
    }
}

#[test]
fn a_lost_lease_is_not_renewed_any_more() {
    let mut alone = Alone::renewed();
    alone.lose(LostReason::Stolen);
    alone.lose(LostReason::Expired);
    assert_eq!(alone.why_lost(), None);
    alone.input(Input::RenewalDue(alone.id()));
    assert_eq!(alone.bench.calls(), []);
}

#[test]
fn a_fixed_lease_is_forgotten_when_its_loss_is_reported() {
    let losses: [fn(&mut Alone); 4] = [
        Alone::pass_deadline,
        |alone| alone.renewal_answered(numbers(&[0])),
        |alone| alone.lose(LostReason::Expired),
        |alone| {
            alone.bench.now = alone.hold().deadline();
            alone.input(Input::ContextReturned(alone.id()));
        },
    ];
    for lose in losses {
        let mut alone = Alone::fixed();
        lose(&mut alone);
        assert!(alone.why_lost().is_some());
        assert!(alone.is_forgotten());
    }
}

#[test]
fn a_client_that_closes_loses_what_it_holds_and_owes_its_releases() {
    for mut alone in [Alone::fixed(), Alone::renewed()] {
        alone.lose(LostReason::Closed);
        assert!(!alone.is_release_owed());
        alone.input(Input::ClientCloses {
            hold: alone.id(),
            ticket: None,
        });
        assert!(alone.is_release_owed());
        assert_eq!(alone.holds.len(), 0);
    }
}
