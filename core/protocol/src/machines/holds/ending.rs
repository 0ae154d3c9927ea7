//! The ends of a hold: loss, release, and the close of its client.

use super::hold::{Hold, lost_error};
use super::observing;
use super::table::Holds;
use super::watchdog;
use crate::defects::Defect;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{HoldId, LeaseId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::step::{Owed, Step};
use crate::types::{Event, Outcome};

impl Holds {
    /// Marks a hold as lost, finally, and reports the loss. Does not remove the record before its TTL has passed,
    /// because the program may still be in its critical section. Forgets a fixed hold.
    pub(super) fn lose(&mut self, io: &mut Io, id: HoldId, reason: LostReason, now: Instant) {
        let Some(hold) = self.hold_mut(id) else { return };
        if !hold.watchdog_mut().lose(io, id, reason) {
            return;
        }
        observing::lost(io, hold, reason, now);
        let lock = hold.lock();
        // A client that closes still releases all its holds, so it does not forget them here.
        let is_renewed = hold.plan().renewed;
        let is_forgotten = !is_renewed && reason != LostReason::Closed;
        for lease in hold.levels() {
            io.step(Step::Tell(Event::Lost { lease: *lease, reason }));
        }
        let name = hold.keys().name.clone();
        self.extensions_mut().fail(io, id, |operation| {
            lost_error(Some(reason), is_renewed, &name, operation)
        });
        if is_forgotten && !io.has(Defect::LapsedLeaseStays) {
            self.forget_lost(io, id, now);
        }
        io.step(Step::Freed(lock, id));
    }

    /// Forgets a lost fixed hold, because its holder need not release it. A release is owed all the same, because a
    /// late call, or a clock that was set, may have kept the record for longer than the lease.
    ///
    /// The release is sent when the known TTL has passed. The client sends it at once if the record was removed or
    /// stolen, or if the hold was lost before its deadline. A hold that was lost so early is a member of a lost
    /// composite lock, and its TTL may be long.
    fn forget_lost(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let Some(hold) = self.end(io, id) else { return };
        if io.has(Defect::LapsedRecordStays) {
            return;
        }
        let is_gone = matches!(hold.lost(), Some(LostReason::Removed | LostReason::Stolen));
        let is_late = !is_gone && now >= hold.deadline();
        owe(io, hold, None, is_late, now);
    }

    /// Releases one lease. The release of the last lease of a hold removes the record.
    pub(super) fn release(&mut self, io: &mut Io, ticket: Ticket, lease: LeaseId, now: Instant) {
        let Some((id, hold)) = self.remove_level(lease) else {
            io.complete(ticket, Outcome::Released(ReleaseOutcome::Released));
            return;
        };
        let lost = hold.lost().map(LostReason::outcome);
        if !hold.levels().is_empty() {
            io.complete(ticket, Outcome::Released(lost.unwrap_or(ReleaseOutcome::Released)));
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
                unresolved: hold.unresolved(),
            };
            io.step(Step::Owes(owed));
            io.complete(ticket, Outcome::Released(ReleaseOutcome::Released));
            io.step(Step::Freed(lock, id));
            return;
        }
        let Some(hold) = self.end(io, id) else { return };
        match lost {
            Some(_) if io.has(Defect::ReleaseFails) => {
                io.complete(ticket, Outcome::Failed(hold.lost_error(Operation::Release)));
            }
            Some(outcome) => {
                io.complete(ticket, Outcome::Released(outcome));
                owe(io, hold, None, false, now);
            }
            None => owe(io, hold, Some(ticket), false, now),
        }
        // The next local waiter sends its attempt right after the release, without waiting for the reply.
        io.step(Step::Freed(lock, id));
    }

    /// Ends a hold because the client closes, and no caller will release it.
    pub(super) fn abandon(&mut self, io: &mut Io, id: HoldId, ticket: Option<Ticket>, now: Instant) {
        if let Some(hold) = self.end(io, id) {
            owe(io, hold, ticket, false, now);
        }
    }

    /// Removes a hold from all tables, and stops its renewals.
    fn end(&mut self, io: &mut Io, id: HoldId) -> Option<Hold> {
        let hold = self.take(id)?;
        watchdog::stop(io, id);
        self.extensions_mut().fail(io, id, |operation| {
            let message = "the lock was released meanwhile; acquire it again";
            Error::new(ErrorKind::NotOwner, operation, message).with_lock(hold.keys().name.as_str())
        });
        Some(hold)
    }
}

fn owe(io: &mut Io, hold: Hold, ticket: Option<Ticket>, is_late: bool, now: Instant) {
    if hold.is_local() {
        if let Some(ticket) = ticket {
            io.complete(ticket, Outcome::Released(ReleaseOutcome::Released));
        }
        io.step(Step::Tidy(hold.lock()));
        return;
    }
    let owed = hold.owed(ticket, is_late, io.config().command_timeout, now);
    io.step(Step::Owes(owed));
}
