//! The holds of a client, from the grant to the release or the loss.
//!
//! ```text
//!                 last level released
//!   Held ──────────────────────────────────► gone; a release is owed
//!    │ deadline without a confirmed renewal,
//!    │ the record removed or stolen,
//!    │ max_hold over, client closed
//!    ▼            last level released
//!   Lost ──────────────────────────────────► gone; the caller is answered at once,
//!      │                                     and a release is owed all the same
//!      │ the lease is fixed
//!      └───────────────────────────────────► forgotten; a release is sent once its TTL has
//!                                            passed, in case something extended the record
//! ```
//!
//! `Lost` is final: nothing renews a lost hold. A context that lost an auto-renewed hold cannot acquire the lock again
//! until it has released the outermost level, because a holder that was promised renewal must learn of the loss.
//!
//! The client forgets a lost fixed hold as soon as it has reported the loss, because the holder of a fixed lease need
//! not release it. The context can then acquire the lock again, and a later release or extension fails with `NotOwner`.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
mod ending;
mod extensions;
mod hold;
mod input;
mod observing;
mod reentry;
mod renewing;
mod table;
#[cfg(test)]
mod tests;
mod watchdog;

use self::extensions::Aim;
use crate::calls::Heir;
use crate::defects::Defect;
use crate::error::Operation;
use crate::ids::{HoldId, LeaseId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::lease::LeasePlan;
use crate::step::{NewHold, Step};
use crate::timers::Timer;
use crate::transitions;
use crate::types::Outcome;

pub(crate) use self::hold::Hold;
pub(crate) use self::input::Input;
pub(crate) use self::table::Holds;

impl Holds {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Granted(ticket, new) => self.start(io, ticket, new, now),
            Input::Enter(ticket, id, plan) => self.enter_again(io, ticket, id, plan, now),
            Input::Confirm(ticket, id, until, answer_by) => self.confirm(io, ticket, (id, until), answer_by, now),
            Input::Release(ticket, lease) => self.release(io, ticket, lease, now),
            Input::Extend(ticket, lease, by) => self.extend(io, ticket, lease, by, now),
            Input::ExtensionOver(ticket) => self.extension_over(io, ticket, now),
            Input::Cancelled(ticket) => self.cancel_extension(io, ticket),
            Input::Watch(lease, plan) => self.watch(io, lease, plan, now),
            Input::Plan(id, plan) => {
                if let Some(hold) = self.hold_mut(id) {
                    hold.watchdog_mut().set_plan(io, id, plan, now);
                }
            }
            Input::RenewNoMore(id) => {
                if let Some(hold) = self.get(id) {
                    hold.watchdog().renew_no_more(io, id);
                }
            }
            Input::RenewalDue(id) => self.renewal_due(io, id, now),
            Input::Renewed(id, call, ttl, result) => self.renewed(io, id, call, ttl, &result, now),
            Input::RenewalOverdue(id, call) => {
                let hold = self.hold_mut(id);
                if let Some(hold) = hold.filter(|hold| hold.watchdog().is_renewed_by(call)) {
                    observing::renewal_failed(io, hold, None, now);
                    hold.watchdog_mut().failed(io, id, None, now);
                }
            }
            Input::DeadlinePassed(id) => self.deadline_passed(io, id, now),
            Input::Return(id) => {
                let is_over = |hold: &Hold| !hold.plan().renewed && now >= hold.deadline();
                if self.get(id).is_some_and(is_over) {
                    self.deadline_passed(io, id, now);
                }
            }
            Input::Lost(id, reason) => self.lose(io, id, reason, now),
            Input::Dropped(id, ticket) => self.abandon(io, id, ticket, now),
            Input::Resolved(id, attempt, was_cut) => {
                if let Some(hold) = self.hold_mut(id) {
                    hold.resolved(attempt, was_cut);
                }
            }
            Input::Connected(node, lane) => {
                for (id, hold) in self.of_node(node) {
                    let (watchdog, record) = hold.watched(id);
                    watchdog.connected(io, &record, lane, now);
                }
            }
            Input::LaneClosed(node) => {
                for (id, hold) in self.of_node(node) {
                    hold.watchdog_mut().lane_closed(io, id, now);
                }
            }
        }
        transitions::after(self, io, &before);
    }

    /// Records a new hold, and sets its timers in the same step.
    fn start(&mut self, io: &mut Io, ticket: Ticket, new: NewHold, now: Instant) {
        let id = self.next_id();
        io.leave_to(new.unresolved.in_flight(), Heir::Hold(id));
        let (lock, sent, ttl, provisional) = (new.lock, new.sent, new.ttl, new.provisional);
        if new.keys.kind.is_exclusive() {
            io.step(Step::Held(lock, id));
        }
        self.insert(id, new, now);
        self.enter(io, ticket, id);
        let Some(hold) = self.hold_mut(id) else { return };
        if provisional {
            hold.watchdog().schedule_first(io, id, (sent, ttl));
        } else {
            hold.schedule(io, id, sent, now);
        }
    }

    /// Adds a level to a hold, and completes the ticket with the lease of the new level.
    fn enter(&mut self, io: &mut Io, ticket: Ticket, id: HoldId) {
        let lease = io.next_lease();
        if let Some(hold) = self.add_level(id, lease) {
            io.complete(ticket, Outcome::Granted(hold.grant(lease)));
        }
    }

    /// Handles a re-entry. Calls the server only if the hold must last longer than it does.
    fn enter_again(&mut self, io: &mut Io, ticket: Ticket, id: HoldId, plan: LeasePlan, now: Instant) {
        let Some(hold) = self.hold_mut(id) else { return };
        let plan = misread_reentry(io, hold, plan);
        if io.has(Defect::ReentryShortens) {
            hold.watchdog_mut().shorten(io, id, plan, now);
        }
        if !hold.is_valid(now) {
            let error = hold.lost_error(Operation::Acquire);
            io.complete(ticket, Outcome::Failed(error));
            return;
        }
        let until = hold.capped(now + plan.length);
        if hold.plan().renews_for(plan) || until <= hold.watchdog().record_until() {
            let is_new = hold.watchdog_mut().watch(plan);
            if is_new && hold.is_local() {
                self.extend_here(io, ticket, (id, until), Aim::Enter(plan), now);
                return;
            }
            io.step(Step::Entered(ticket, id, plan));
            self.enter(io, ticket, id);
            if let Some(hold) = self.hold_mut(id).filter(|_| is_new) {
                hold.schedule(io, id, now, now);
            }
        } else {
            self.extend_hold(io, ticket, (id, until), Aim::Enter(plan), now);
        }
    }

    fn confirm(
        &mut self,
        io: &mut Io,
        ticket: Ticket,
        (id, until): (HoldId, Instant),
        answer_by: Option<Instant>,
        now: Instant,
    ) {
        let Some(hold) = self.get(id) else { return };
        if hold.is_valid(now) {
            let until = hold.capped(until);
            self.extend_hold(io, ticket, (id, until), Aim::Confirm, now);
            if let Some(answer_by) = answer_by.filter(|by| *by < io.timeout(now)) {
                io.set(Timer::Extension(ticket), answer_by);
            }
        } else {
            let error = hold.lost_error(Operation::Acquire);
            io.complete(ticket, Outcome::Failed(error));
        }
    }

    fn watch(&mut self, io: &mut Io, lease: LeaseId, plan: LeasePlan, now: Instant) {
        let Some(id) = self.of_lease(lease) else { return };
        let is_unrenewed = io.has(Defect::ReentryLeavesMembers);
        let Some(hold) = self.hold_mut(id).filter(|hold| hold.lost().is_none()) else {
            return;
        };
        if !hold.watchdog_mut().watch(plan) {
            return;
        }
        let until = hold.capped(now + plan.length);
        if hold.is_local() {
            hold.last_here(io, id, until, now);
            return;
        }
        if is_unrenewed || hold.watchdog().reaches(until) {
            hold.schedule(io, id, now, now);
        } else {
            // The hold is renewed at once, because less than a third of the new length may be left.
            hold.watchdog_mut().want(until);
            hold.renew(io, id, now);
        }
    }
}

/// A deliberate defect: treats a re-entry as if it asked for no longer lease than the hold has.
fn misread_reentry(io: &Io, hold: &Hold, plan: LeasePlan) -> LeasePlan {
    if io.has(Defect::ReentryKeepsLength) && hold.plan().renewed && plan.renewed {
        return LeasePlan {
            length: hold.plan().length,
            ..plan
        };
    }
    plan
}
