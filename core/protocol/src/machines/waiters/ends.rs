//! The ends of a wait: a grant, a refusal, or the caller's cancellation.

use super::queue::Queue;
use super::refusal::{Wait, no_answer};
use super::table::Waiters;
use crate::cause::Cause;
use crate::defects::Defect;
use crate::error::ErrorKind;
use crate::ids::{LockId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::machines::holds::Holds;
use crate::periods::FIRST_ANSWER_GRACE;
use crate::step::{Granted, Step};
use crate::timers::Timer;
use crate::types::Outcome;

impl Waiters {
    /// Ends the wait of a caller. If the holder is not known, and the first answer is still due, prolongs the wait by
    /// `FIRST_ANSWER_GRACE` instead.
    pub(super) fn wait_over(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        let Some(wait) = self.wait(holds, ticket, now) else {
            return;
        };
        let (lock, is_due) = (wait.request.lock(), wait.request.is_due_grace(wait.queue, io));
        let outcome = wait.outcome(io, now);
        if !is_due || matches!(outcome, Outcome::NotGranted(_)) {
            self.conclude(io, ticket, outcome, now);
            return;
        }
        io.set(Timer::Wait(ticket), now + FIRST_ANSWER_GRACE);
        self.with(ticket, |request| request.give_grace(io, ticket, now));
        self.with_queue(lock, |queue| queue.tell_with_first_answer(ticket));
    }

    /// Ends the waits that were prolonged until this moment: a waiter here was answered, or the lock is held here.
    pub(super) fn tell_due(&mut self, io: &mut Io, holds: &Holds, lock: LockId, now: Instant) {
        let due = self.queue_mut(lock).map(Queue::take_due).unwrap_or_default();
        for ticket in due {
            // A waiter that has asked the server itself gets its own answer.
            if self.request(ticket).is_some_and(|request| request.last_try().is_none()) {
                self.give_up(io, holds, ticket, now);
            }
        }
    }

    /// Ends the wait of a caller without a bound if the server has not answered for one lease. Otherwise sets the timer
    /// for the next check.
    pub(super) fn silence(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        let Some(request) = self.request(ticket) else {
            return;
        };
        let Some(queue) = self.queue(request.lock()) else {
            return;
        };
        let heard = match queue.heard() {
            _ if queue.holding().is_some() => now,
            Some(at) => at.max(request.started()),
            None => request.started(),
        };
        let until = heard + io.longest_silence();
        if until > now {
            io.set(Timer::Silence(ticket), until);
        } else {
            // The error of a waiter without a bound is never that the lock is held, even if the server said so earlier.
            let outcome = Outcome::Failed(no_answer(request, Some(queue), io, now));
            io.complete(ticket, outcome);
            self.remove(io, ticket);
        }
    }

    pub(super) fn give_up(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        if let Some(wait) = self.wait(holds, ticket, now) {
            let outcome = wait.outcome(io, now);
            self.conclude(io, ticket, outcome, now);
        }
    }

    /// Returns the wait of a caller as it is if it ends now.
    fn wait(&self, holds: &Holds, ticket: Ticket, now: Instant) -> Option<Wait<'_>> {
        let request = self.request(ticket)?;
        Some(Wait {
            request,
            queue: self.queue(request.lock()),
            local: self.local_holder(holds, (request.lock(), request.context()), now),
        })
    }

    /// Ends a wait with this outcome, without the lock.
    fn conclude(&mut self, io: &mut Io, ticket: Ticket, outcome: Outcome, now: Instant) {
        let Some(request) = self.request(ticket) else {
            return;
        };
        if let Outcome::Failed(error) = &outcome
            && !io.is_connected(request.node())
            && now.saturating_since(request.started()) >= io.config().command_timeout
        {
            // An attempt without an answer would count as a failure of the primary by now. No attempt could be sent, so
            // the wait itself counts.
            let (primary, cause) = (io.primary(request.keys()), Cause::from(error));
            io.failed_at(primary, &cause, now);
        }
        if request.is_graced() {
            // The client may use what is left of the grace to learn which program the holder is.
            io.name_by(ticket, &outcome, io.due(Timer::Wait(ticket)), now);
        }
        io.complete(ticket, outcome);
        self.remove(io, ticket);
    }

    /// Fails a request that another attempt cannot help.
    pub(super) fn fail(&mut self, io: &mut Io, ticket: Ticket, why: Cause) {
        if let Some(request) = self.request(ticket) {
            let error = request.failed(ErrorKind::Misconfigured, "").with_cause(why);
            io.complete(ticket, Outcome::Failed(error));
            self.remove(io, ticket);
        }
    }

    /// Removes a request. A compensating release is owed for its unresolved attempts.
    pub(super) fn remove(&mut self, io: &mut Io, ticket: Ticket) {
        let Some(mut request) = self.take(ticket) else {
            return;
        };
        if !io.has(Defect::CancelLeavesRecord)
            && let Some(owed) = request.renounce(io, false)
        {
            io.step(Step::Owes(owed));
        }
        self.forget(io, ticket, request.lock());
        io.step(Step::Advance(request.lock()));
    }

    /// Turns a request into a hold.
    pub(super) fn grant(&mut self, io: &mut Io, ticket: Ticket, granted: Granted, now: Instant) {
        let Some(request) = self.take(ticket) else {
            return;
        };
        let (lock, is_exclusive) = (request.lock(), request.keys().kind.is_exclusive());
        self.forget(io, ticket, lock);
        self.with_queue(lock, |queue| queue.granted(now));
        io.step(Step::Granted(ticket, request.into_hold(granted)));
        if !is_exclusive {
            // The lock can have several holders, so the next waiter may be granted it too.
            io.step(Step::Advance(lock));
        }
    }

    /// Removes the timers and the place of a ticket that no longer waits.
    pub(super) fn forget(&mut self, io: &mut Io, ticket: Ticket, lock: LockId) {
        for timer in [Timer::Wake(ticket), Timer::Wait(ticket), Timer::Silence(ticket)] {
            io.stop(timer);
        }
        if self.queue_mut(lock).is_some_and(|queue| queue.leave(ticket)) {
            io.step(Step::Left(lock, ticket));
        }
    }
}
