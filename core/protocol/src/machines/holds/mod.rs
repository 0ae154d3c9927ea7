//! The holds of a client, from grant to released or lost.
//!
//! ```text
//!                 last level released
//!   Held ──────────────────────────────────► gone; a release is owed
//!    │ deadline without a confirmed renewal,
//!    │ the record removed or stolen,
//!    │ max_hold over, client closed
//!    ▼            last level released
//!   Lost ──────────────────────────────────► gone; a release is owed all the same,
//!      │                                     and the caller is told at once
//!      │ the lease is fixed
//!      └───────────────────────────────────► forgotten; a release is owed once its
//!                                            TTL has passed, in case that was prolonged
//! ```
//!
//! `Lost` is final: nothing renews a lost hold. An auto-renewed one does not let
//! its context in again until the outermost level is released. A fixed one is
//! forgotten as soon as its loss is told, since its holder need not come back to
//! release it: its context may acquire the lock again, and a later release or
//! extension is `NotOwner`.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
mod extensions;
mod hold;
mod input;
mod reentry;
#[cfg(test)]
mod tests;
mod watchdog;

use std::collections::BTreeMap;
use std::time::Duration;

use self::extensions::{Aim, Extension, Extensions};
pub(crate) use self::hold::Hold;
use self::hold::lost_error;
pub(crate) use self::input::Input;
use self::reentry::Reentry;
use crate::calls::{Heir, InFlight};
use crate::defects::Defect;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{CallId, Context, HoldId, LeaseId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Record, parse_record};
use crate::lease::{LeaseDuration, LeasePlan};
use crate::reply::{CallError, Refusal, Reply};
use crate::step::{NewHold, Owed, Step};
use crate::timers::Timer;
use crate::transitions;
use crate::types::{Event, Outcome};
use crate::wording::{explain, in_words};

/// The holds of a client and their leases.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    last: HoldId,
    by_id: BTreeMap<HoldId, Hold>,
    by_lease: BTreeMap<LeaseId, HoldId>,
    extensions: Extensions,
    reentry: Reentry,
}

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
                if let Some(hold) = self.by_id.get_mut(&id) {
                    hold.watchdog_mut().set_plan(plan);
                }
            }
            Input::RenewNoMore(id) => {
                if let Some(hold) = self.by_id.get(&id) {
                    hold.watchdog().renew_no_more(io, id);
                }
            }
            Input::RenewalDue(id) => self.renew(io, id, now),
            Input::Renewed(id, call, ttl, result) => self.renewed(io, id, call, ttl, &result, now),
            Input::RenewalOverdue(id, call) => {
                let hold = self.by_id.get_mut(&id);
                if let Some(hold) = hold.filter(|hold| hold.watchdog().is_renewed_by(call)) {
                    hold.watchdog_mut().failed(io, id, None, now);
                }
            }
            Input::DeadlinePassed(id) => self.deadline_passed(io, id, now),
            Input::Return(id) => {
                let is_over = |hold: &Hold| !hold.plan().watched && now >= hold.deadline();
                if self.by_id.get(&id).is_some_and(is_over) {
                    self.deadline_passed(io, id, now);
                }
            }
            Input::Lost(id, reason) => self.lose(io, id, reason, now),
            Input::Dropped(id) => {
                if let Some(hold) = self.end(io, id) {
                    owe(io, hold, None, false, now);
                }
            }
            Input::Resolved(id, attempt, was_cut) => {
                if let Some(hold) = self.by_id.get_mut(&id) {
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

    pub(crate) fn get(&self, id: HoldId) -> Option<&Hold> {
        self.by_id.get(&id)
    }

    /// The hold that a lease belongs to.
    pub(crate) fn of_lease(&self, lease: LeaseId) -> Option<HoldId> {
        self.by_lease.get(&lease).copied()
    }

    /// All holds, oldest first.
    pub(crate) fn ids(&self) -> Vec<HoldId> {
        self.by_id.keys().copied().collect()
    }

    /// The newest hold of a context on a lock, if it has one.
    pub(crate) fn of_context(&self, lock: LockId, context: Context) -> Option<HoldId> {
        self.reentry.get(lock, context)
    }

    /// All holds of a context on a lock, newest last.
    pub(crate) fn all_of_context(&self, lock: LockId, context: Context) -> impl Iterator<Item = &Hold> {
        let holds = self.reentry.all(lock, context).iter();
        holds.filter_map(|hold| self.by_id.get(hold))
    }

    /// Whether any context has the lock.
    pub(crate) fn is_held_by_any(&self, lock: LockId) -> bool {
        self.reentry.any(lock)
    }

    /// How many entries it keeps.
    pub(crate) fn len(&self) -> usize {
        let entries = self.by_id.len().saturating_add(self.extensions.len());
        entries.saturating_add(self.reentry.len())
    }

    fn of_node(&mut self, node: NodeId) -> impl Iterator<Item = (HoldId, &mut Hold)> {
        let holds = self.by_id.iter_mut().map(|(id, hold)| (*id, hold));
        holds.filter(move |(_, hold)| hold.keys().node == node)
    }

    /// The hold is armed in the same step that records it.
    fn start(&mut self, io: &mut Io, ticket: Ticket, new: NewHold, now: Instant) {
        self.last = self.last.next();
        let id = self.last;
        io.leave_to(&new.unresolved.open, Heir::Hold(id));
        let (lock, sent, ttl, provisional) = (new.lock, new.sent, new.ttl, new.provisional);
        if new.keys.kind.is_exclusive() {
            io.step(Step::Held(lock, id));
        }
        if let Some(context) = new.context {
            self.reentry.insert(lock, context, id);
        }
        self.by_id.insert(id, Hold::new(new, now));
        self.enter(io, ticket, id);
        let Some(hold) = self.by_id.get_mut(&id) else { return };
        if provisional {
            hold.watchdog().schedule_first(io, id, (sent, ttl));
        } else {
            hold.schedule(io, id, sent, now);
        }
    }

    /// Gives one more lease of a hold.
    fn enter(&mut self, io: &mut Io, ticket: Ticket, id: HoldId) {
        let lease = io.next_lease();
        let Some(hold) = self.by_id.get_mut(&id) else { return };
        hold.add_level(lease);
        self.by_lease.insert(lease, id);
        complete(io, ticket, Outcome::Granted(hold.grant(lease)));
    }

    /// Lets a holder in again. The server is asked only if the hold has to last
    /// longer than it does.
    fn enter_again(&mut self, io: &mut Io, ticket: Ticket, id: HoldId, plan: LeasePlan, now: Instant) {
        let Some(hold) = self.by_id.get_mut(&id) else { return };
        let plan = misread_reentry(io, hold, plan);
        if io.has(Defect::ReentryShortens) {
            hold.watchdog_mut().shorten(io, id, plan, now);
        }
        if !hold.is_valid(now) {
            let error = hold.lost_error(Operation::Acquire);
            complete(io, ticket, Outcome::Failed(error));
            return;
        }
        let until = hold.capped(now + plan.length);
        if hold.plan().renews_for(plan) || until <= hold.watchdog().record_until() {
            let is_new = hold.watchdog_mut().watch(plan);
            io.step(Step::Entered(ticket, id, plan));
            self.enter(io, ticket, id);
            if let Some(hold) = self.by_id.get_mut(&id).filter(|_| is_new) {
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
        let Some(hold) = self.by_id.get(&id) else { return };
        if hold.is_valid(now) {
            let until = hold.capped(until);
            self.extend_hold(io, ticket, (id, until), Aim::Confirm, now);
            if let Some(answer_by) = answer_by.filter(|by| *by < io.timeout(now)) {
                io.set(Timer::Wait(ticket), answer_by);
            }
        } else {
            let error = hold.lost_error(Operation::Acquire);
            complete(io, ticket, Outcome::Failed(error));
        }
    }

    fn watch(&mut self, io: &mut Io, lease: LeaseId, plan: LeasePlan, now: Instant) {
        let Some(id) = self.of_lease(lease) else { return };
        let is_unrenewed = io.has(Defect::ReentryLeavesMembers);
        let Some(hold) = self.by_id.get_mut(&id).filter(|hold| hold.lost().is_none()) else {
            return;
        };
        if !hold.watchdog_mut().watch(plan) {
            return;
        }
        let until = hold.capped(now + plan.length);
        if is_unrenewed || hold.watchdog().reaches(until) {
            hold.schedule(io, id, now, now);
        } else {
            // What is left may be less than a third of the new length.
            hold.watchdog_mut().want(until);
            hold.renew(io, id, now);
        }
    }

    /// Makes a hold last until then, and completes `ticket` when it does.
    fn extend_hold(&mut self, io: &mut Io, ticket: Ticket, to: (HoldId, Instant), aim: Aim, now: Instant) {
        let (id, until) = to;
        let Some(hold) = self.by_id.get_mut(&id) else { return };
        hold.watchdog_mut().want(until);
        hold.add_extension(ticket);
        let extension = Extension {
            hold: id,
            since: now,
            until,
            aim,
        };
        self.extensions.insert(ticket, extension);
        io.set(Timer::Wait(ticket), io.timeout(now));
        hold.renew(io, id, now);
    }

    /// Makes the hold of a lease last longer, never shorter than it does.
    fn extend(&mut self, io: &mut Io, ticket: Ticket, lease: LeaseId, by: Option<LeaseDuration>, now: Instant) {
        let id = self.of_lease(lease);
        let Some((id, hold)) = id.and_then(|id| Some((id, self.by_id.get_mut(&id)?))) else {
            let message = "this lease was released, or was lost and forgotten; acquire the lock again";
            let error = Error::new(ErrorKind::NotOwner, Operation::Extend, message);
            complete(io, ticket, Outcome::Failed(error));
            return;
        };
        if !hold.is_valid(now) {
            let error = hold.lost_error(Operation::Extend);
            complete(io, ticket, Outcome::Failed(error));
            return;
        }
        let until = hold.capped(now + by.map_or_else(|| hold.plan().length, LeaseDuration::get));
        if io.has(Defect::ExtendIsStale) {
            // The caller gets the deadline from before.
            hold.watchdog_mut().want(until);
            complete(io, ticket, Outcome::Extended(hold.deadline()));
            hold.renew(io, id, now);
        } else if hold.watchdog().reaches(until) {
            complete(io, ticket, Outcome::Extended(hold.deadline()));
        } else {
            self.extend_hold(io, ticket, (id, until), Aim::Extend, now);
        }
    }

    /// Completes the extensions that the record has reached.
    fn settle_extensions(&mut self, io: &mut Io, id: HoldId) {
        let Some(hold) = self.by_id.get_mut(&id) else { return };
        let deadline = hold.deadline();
        let extensions = &self.extensions;
        let done = hold.take_extensions(|watchdog, ticket| {
            let extension = extensions.get(*ticket);
            extension.is_none_or(|extension| watchdog.reaches(extension.until))
        });
        for ticket in done {
            io.stop(Timer::Wait(ticket));
            let Some(extension) = self.extensions.remove(ticket) else {
                continue;
            };
            match extension.aim {
                Aim::Enter(plan) => {
                    if let Some(hold) = self.by_id.get_mut(&id) {
                        hold.watchdog_mut().watch(plan);
                    }
                    io.step(Step::Entered(ticket, id, plan));
                    self.enter(io, ticket, id);
                }
                Aim::Extend | Aim::Confirm => complete(io, ticket, Outcome::Extended(deadline)),
            }
        }
    }

    fn extension_over(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        let Some(extension) = self.extensions.remove(ticket) else {
            return;
        };
        let error = match self.by_id.get_mut(&extension.hold) {
            Some(hold) => {
                hold.remove_extension(ticket);
                let keys = hold.keys();
                let failure = hold.watchdog().failure().filter(|_| io.is_connected(keys.node));
                let waited = now.saturating_since(extension.since);
                let cause = failure.map_or_else(|| io.unreached(keys.node, waited), str::to_owned);
                extension.not_confirmed(&cause).with_lock(keys.name.as_str())
            }
            None => extension.not_confirmed("it is not held any more"),
        };
        complete(io, ticket, Outcome::Failed(error));
    }

    fn cancel_extension(&mut self, io: &mut Io, ticket: Ticket) {
        if let Some(extension) = self.extensions.remove(ticket) {
            io.stop(Timer::Wait(ticket));
            if let Some(hold) = self.by_id.get_mut(&extension.hold) {
                hold.remove_extension(ticket);
            }
        }
    }

    fn renew(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        if let Some(hold) = self.by_id.get_mut(&id) {
            hold.renew(io, id, now);
        }
    }

    fn renewed(
        &mut self,
        io: &mut Io,
        id: HoldId,
        (call, in_flight): (CallId, InFlight),
        ttl: Duration,
        result: &Result<Reply, CallError>,
        now: Instant,
    ) {
        let Some(hold) = self.by_id.get_mut(&id) else { return };
        let is_current = hold.watchdog_mut().answered(call);
        if hold.lost().is_some() {
            return;
        }
        match result.as_ref().ok().and_then(parse_record) {
            Some(Record::Mine { .. }) => {
                let Some(sent) = in_flight.sent else { return };
                hold.watchdog_mut().confirmed(sent, ttl);
                let deadline = hold.deadline();
                for lease in hold.levels() {
                    io.step(Step::Tell(Event::Renewed {
                        lease: *lease,
                        deadline,
                    }));
                }
                self.settle_extensions(io, id);
                if let Some(hold) = self.by_id.get_mut(&id) {
                    hold.schedule(io, id, sent, now);
                }
            }
            Some(Record::Absent) => self.lose(io, id, LostReason::Removed, now),
            Some(Record::Others) => self.lose(io, id, LostReason::Stolen, now),
            None if is_gone(result) => self.lose(io, id, LostReason::Stolen, now),
            None if is_current => {
                self.refuse_extensions(io, id, result);
                if let Some(hold) = self.by_id.get_mut(&id) {
                    let why = result.as_ref().err().map(in_words);
                    hold.watchdog_mut().failed(io, id, why, now);
                }
            }
            None => {}
        }
    }

    /// A refusal that does not pass by itself is told to those who wait for a longer lease.
    fn refuse_extensions(&mut self, io: &mut Io, id: HoldId, result: &Result<Reply, CallError>) {
        let Err(CallError::Server { code, message }) = result else {
            return;
        };
        let Some(hold) = self.by_id.get_mut(&id) else { return };
        if Refusal::of(code) == Refusal::Temporary {
            return;
        }
        let why = explain(hold.keys(), code, message);
        let name = hold.keys().name.clone();
        let tickets = hold.take_extensions(|_, _| true);
        self.extensions.fail(io, tickets, |operation| {
            Error::new(ErrorKind::Misconfigured, operation, why.clone()).with_lock(name.as_str())
        });
    }

    fn deadline_passed(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let Some(hold) = self.by_id.get(&id) else { return };
        if let Some(reason) = hold.watchdog().ended(io, id, now) {
            self.lose(io, id, reason, now);
        }
    }

    /// The hold is lost, finally. Its record is not touched before its TTL has
    /// passed: the program may still be inside. A fixed one is forgotten.
    fn lose(&mut self, io: &mut Io, id: HoldId, reason: LostReason, now: Instant) {
        let Some(hold) = self.by_id.get_mut(&id) else { return };
        if !hold.watchdog_mut().lose(io, id, reason) {
            return;
        }
        let lock = hold.lock();
        // A client that closes releases what it holds.
        let is_forgotten = !hold.plan().watched && reason != LostReason::Closed;
        for lease in hold.levels() {
            io.step(Step::Tell(Event::Lost { lease: *lease, reason }));
        }
        let tickets = hold.take_extensions(|_, _| true);
        let name = hold.keys().name.clone();
        self.extensions
            .fail(io, tickets, |operation| lost_error(Some(reason), &name, operation));
        if is_forgotten && !io.has(Defect::LapsedLeaseStays) {
            self.forget_lost(io, id, now);
        }
        io.step(Step::Freed(lock, id));
    }

    /// Nobody need release a lost hold of a fixed lease, and what may be left of it is
    /// released all the same: a late call, or a clock that was set, may make its record last
    /// longer than the lease. That is once the TTL that is known has passed; at once if the
    /// record is stolen or removed, or if it was lost before its deadline: then it is a member of
    /// a lost composite lock, and its TTL may be long.
    fn forget_lost(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let Some(hold) = self.end(io, id) else { return };
        if io.has(Defect::LapsedRecordStays) {
            return;
        }
        let is_gone = matches!(hold.lost(), Some(LostReason::Removed | LostReason::Stolen));
        let is_late = !is_gone && now >= hold.deadline();
        owe(io, hold, None, is_late, now);
    }

    /// Releases one lease; the last one takes the record with it.
    fn release(&mut self, io: &mut Io, ticket: Ticket, lease: LeaseId, now: Instant) {
        let id = self.by_lease.remove(&lease);
        let Some((id, hold)) = id.and_then(|id| Some((id, self.by_id.get_mut(&id)?))) else {
            complete(io, ticket, Outcome::Released(ReleaseOutcome::Released));
            return;
        };
        hold.remove_level(lease);
        let lost = hold.lost().map(LostReason::outcome);
        if !hold.levels().is_empty() {
            complete(io, ticket, Outcome::Released(lost.unwrap_or(ReleaseOutcome::Released)));
            return;
        }
        let lock = hold.lock();
        if io.has(Defect::RenewalOutlivesUnlock) {
            let owed = Owed {
                lock,
                keys: std::sync::Arc::clone(hold.keys()),
                owner: hold.owner().clone(),
                ticket: None,
                hold: None,
                unresolved: hold.unresolved().clone(),
            };
            io.step(Step::Owes(owed));
            complete(io, ticket, Outcome::Released(ReleaseOutcome::Released));
            io.step(Step::Freed(lock, id));
            return;
        }
        let Some(hold) = self.end(io, id) else { return };
        match lost {
            Some(_) if io.has(Defect::ReleaseFails) => {
                complete(io, ticket, Outcome::Failed(hold.lost_error(Operation::Release)));
            }
            Some(outcome) => {
                complete(io, ticket, Outcome::Released(outcome));
                owe(io, hold, None, false, now);
            }
            None => owe(io, hold, Some(ticket), false, now),
        }
        // The next local waiter asks right behind the release, not after its answer.
        io.step(Step::Freed(lock, id));
    }

    /// Takes a hold out of all tables. From here on nothing renews it.
    fn end(&mut self, io: &mut Io, id: HoldId) -> Option<Hold> {
        let mut hold = self.by_id.remove(&id)?;
        for lease in hold.levels() {
            self.by_lease.remove(lease);
        }
        watchdog::stop(io, id);
        if let Some(context) = hold.context() {
            self.reentry.remove(hold.lock(), context, id);
        }
        let tickets = hold.take_extensions(|_, _| true);
        self.extensions.fail(io, tickets, |operation| {
            let message = "the lock was released meanwhile; acquire it again";
            Error::new(ErrorKind::NotOwner, operation, message).with_lock(hold.keys().name.as_str())
        });
        Some(hold)
    }
}

fn owe(io: &mut Io, hold: Hold, ticket: Option<Ticket>, is_late: bool, now: Instant) {
    let owed = hold.owed(ticket, is_late, io.config().command_timeout, now);
    io.step(Step::Owes(owed));
}

fn complete(io: &mut Io, ticket: Ticket, outcome: Outcome) {
    io.step(Step::Tell(Event::Completed { ticket, outcome }));
}

/// Whether an error says that something else stands where the record was.
fn is_gone(result: &Result<Reply, CallError>) -> bool {
    matches!(result, Err(CallError::Server { code, .. }) if code == "WRONGTYPE")
}

/// A mistake: what a re-entry asks for, as if it were no longer than what there is.
fn misread_reentry(io: &Io, hold: &Hold, plan: LeasePlan) -> LeasePlan {
    if io.has(Defect::ReentryKeepsLength) && hold.plan().watched && plan.watched {
        return LeasePlan {
            length: hold.plan().length,
            ..plan
        };
    }
    plan
}
