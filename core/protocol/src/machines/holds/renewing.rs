//! Renewals, and the extensions that callers wait for.

use std::time::Duration;

use super::{Aim, Extension, Holds, observe_renewal_failed, observe_renewal_has_to_wait, observe_renewed};
use crate::calls::Answered;
use crate::ending::LostReason;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{HoldId, LeaseId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Record, parse_record};
use crate::lease::LeaseDuration;
use crate::reply::{CallError, Refusal, Reply};
use crate::step::{Reentry, Step};
use crate::timers::Timer;
use crate::types::{Event, Outcome};
use crate::wording::{cause_of, explain};

impl Holds {
    /// Extends a hold, and completes `ticket` when the server has confirmed the extension, or at once for a degraded
    /// hold.
    pub(super) fn extend_hold(&mut self, io: &mut Io, ticket: Ticket, extension: Extension, now: Instant) {
        let id = extension.hold;
        let Some(hold) = self.hold_mut(id) else { return };
        if hold.is_local() {
            self.extend_locally(io, ticket, &extension, now);
            return;
        }
        hold.watchdog_mut().want(extension.until);
        self.extensions_mut().insert(ticket, extension);
        io.set(Timer::Extension(ticket), io.timeout(now));
        self.renew(io, id, now);
    }

    /// Extends a degraded lease, and completes `ticket` at once, because no server has a record of the lease.
    pub(super) fn extend_locally(&mut self, io: &mut Io, ticket: Ticket, extension: &Extension, now: Instant) {
        let (id, aim) = (extension.hold, extension.aim);
        let Some(hold) = self.hold_mut(id) else { return };
        if let Aim::Enter(plan) = aim {
            hold.watchdog_mut().adopt(plan);
        }
        let deadline = hold.extend_locally(io, id, extension.until, now);
        match aim {
            Aim::Enter(plan) => {
                let reentry = Reentry { ticket, hold: id, plan };
                io.step(Step::Entered(reentry));
                self.enter(io, ticket, id);
            }
            Aim::Extend | Aim::Confirm => io.complete(ticket, Outcome::Extended(deadline)),
        }
    }

    /// Extends the hold of a lease. Never shortens the hold.
    pub(super) fn extend(
        &mut self,
        io: &mut Io,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) {
        let id = self.of_lease(lease);
        let Some((id, hold)) = id.and_then(|id| Some((id, self.hold_mut(id)?))) else {
            let message = "this lease was released, or was lost and forgotten; acquire the lock again";
            let error = Error::new(ErrorKind::NotOwner, Operation::Extend, message);
            io.complete(ticket, Outcome::Failed(error));
            return;
        };
        if !hold.is_valid(now) {
            let error = hold.lost_error(Operation::Extend);
            io.complete(ticket, Outcome::Failed(error));
            return;
        }
        let until = hold.capped(now + by.map_or_else(|| hold.plan().length, LeaseDuration::get));
        if hold.watchdog().reaches(until) {
            io.complete(ticket, Outcome::Extended(hold.deadline()));
        } else {
            let extension = Extension {
                hold: id,
                since: now,
                until,
                aim: Aim::Extend,
            };
            self.extend_hold(io, ticket, extension, now);
        }
    }

    /// Completes the extensions of a hold for which its record now lasts long enough.
    pub(super) fn settle_extensions(&mut self, io: &mut Io, id: HoldId) {
        let Some((hold, extensions)) = self.hold_and_extensions(id) else {
            return;
        };
        let deadline = hold.deadline();
        let done = extensions.take(id, |extension| hold.watchdog().reaches(extension.until));
        for (ticket, extension) in done {
            io.stop(Timer::Extension(ticket));
            match extension.aim {
                Aim::Enter(plan) => {
                    if let Some(hold) = self.hold_mut(id) {
                        hold.watchdog_mut().adopt(plan);
                    }
                    let reentry = Reentry { ticket, hold: id, plan };
                    io.step(Step::Entered(reentry));
                    self.enter(io, ticket, id);
                }
                Aim::Extend | Aim::Confirm => io.complete(ticket, Outcome::Extended(deadline)),
            }
        }
    }

    /// Fails an extension that the server did not confirm in time.
    pub(super) fn extension_over(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        let Some(extension) = self.extensions_mut().remove(ticket) else {
            return;
        };
        let error = match self.get(extension.hold) {
            Some(hold) => {
                let keys = hold.keys();
                let failure = hold.watchdog().failure().filter(|_| io.is_connected(keys.node));
                let waited = now.saturating_since(extension.since);
                let cause = failure.map_or_else(|| io.unreached(keys.node, waited), Clone::clone);
                extension.not_confirmed(cause).with_lock(keys.name.as_str())
            }
            None => extension.not_confirmed("it is not held any more".into()),
        };
        io.complete(ticket, Outcome::Failed(error));
    }

    pub(super) fn cancel_extension(&mut self, io: &mut Io, ticket: Ticket) {
        if self.extensions_mut().remove(ticket).is_some() {
            io.stop(Timer::Extension(ticket));
        }
    }

    pub(super) fn renew(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        if let Some(hold) = self.hold_mut(id) {
            hold.renew(io, id, now);
        }
    }

    pub(super) fn renewal_due(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        self.renew(io, id, now);
        if let Some(hold) = self.get(id) {
            observe_renewal_has_to_wait(io, hold, now);
        }
    }

    /// Handles the reply to a renewal, even to an overdue one. The hold is lost if its record is gone, or is another
    /// owner's. A reply that says nothing about the record counts as a failure only for the renewal in flight.
    pub(super) fn renewal_answered(
        &mut self,
        io: &mut Io,
        id: HoldId,
        ttl: Duration,
        answered: &Answered,
        now: Instant,
    ) {
        let Some(hold) = self.hold_mut(id) else { return };
        let result = &answered.result;
        let is_current = hold.watchdog_mut().answered(answered.id);
        if hold.lost().is_some() {
            return;
        }
        match result.as_ref().ok().and_then(parse_record) {
            Some(Record::Mine { .. }) => {
                let Some(sent) = answered.call.sent else { return };
                observe_renewed(io, hold, sent, now);
                hold.watchdog_mut().confirmed(sent, ttl);
                if !hold.is_valid(now) {
                    // The confirmed lease was over before the reply arrived.
                    return self.deadline_passed(io, id, now);
                }
                let deadline = hold.deadline();
                for lease in hold.levels() {
                    io.step(Step::Emit(Event::Renewed {
                        lease: *lease,
                        deadline,
                    }));
                }
                self.settle_extensions(io, id);
                if let Some(hold) = self.hold_mut(id) {
                    hold.schedule(io, id, sent, now);
                }
            }
            Some(Record::Absent) => self.lose(io, id, LostReason::Removed, now),
            Some(Record::Others) => self.lose(io, id, LostReason::Stolen, now),
            None if is_foreign_value(result) => self.lose(io, id, LostReason::Stolen, now),
            None if is_current => {
                self.refuse_extensions(io, id, result);
                if let Some(hold) = self.hold_mut(id) {
                    let why = result.as_ref().err().map(cause_of);
                    observe_renewal_failed(io, hold, why.as_ref(), now);
                    hold.watchdog_mut().failed(io, id, why, now);
                }
            }
            None => {}
        }
    }

    /// Fails the extensions of a hold if the server has refused a renewal with an error that is not temporary.
    pub(super) fn refuse_extensions(&mut self, io: &mut Io, id: HoldId, result: &Result<Reply, CallError>) {
        let Err(CallError::Server { code, message }) = result else {
            return;
        };
        let Some(hold) = self.get(id) else { return };
        if Refusal::of(code) == Refusal::Temporary {
            return;
        }
        let why = explain(hold.keys(), code, message);
        let name = hold.keys().name.clone();
        self.extensions_mut().fail(io, id, |operation| {
            Error::caused(ErrorKind::Misconfigured, operation, why.clone()).with_lock(name.as_str())
        });
    }

    /// Marks a hold as lost if its deadline has passed. Otherwise sets the timer of the deadline again.
    pub(super) fn deadline_passed(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let Some(hold) = self.get(id) else { return };
        if let Some(reason) = hold.watchdog().reason_at_deadline(io, id, now) {
            self.lose(io, id, reason, now);
        }
    }
}

/// Whether an error says that the key has a value that is not the record of this kind of lock.
fn is_foreign_value(result: &Result<Reply, CallError>) -> bool {
    result.as_ref().is_err_and(CallError::is_of_no_lock)
}
