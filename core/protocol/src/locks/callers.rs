//! A caller that holds the lock it wants is let in again, or refused.
//!
//! A caller may want a lock twice at a time: a signal handler runs in the midst of a wait of its thread, which does
//! not go on before the handler has ended. So once one of its waits is granted, its others are told what they would be
//! told if they began now. Otherwise the thread would wait for itself.

use std::sync::Arc;

use super::{Locks, Place};
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{Context, HAS_CALLERS, HoldId, LeaseId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Inside, Keys};
use crate::machines::holds::{self, Hold};
use crate::machines::waiters::{self, CallerWait};
use crate::types::Outcome;

impl Locks {
    /// Where a caller stands: one of this context, or one that names a lease.
    pub(super) fn place(
        &self,
        keys: &Keys,
        (context, within): (Option<Context>, Option<LeaseId>),
        now: Instant,
    ) -> Result<Place, Error> {
        let refuse = |message| Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        let same = |hold: &Hold| hold.keys().record == keys.record && hold.keys().node == keys.node;
        let around = match within {
            Some(lease) => match self.holds.of_lease(lease) {
                Some(id) if self.holds.get(id).is_some_and(same) => Some(id),
                _ => return refuse("`within` is not a held lease of this lock; give one, or leave it out"),
            },
            None => context.and_then(|context| self.held_by(keys, context)),
        };
        let Some((id, hold)) = around.and_then(|id| Some((id, self.holds.get(id)?))) else {
            return Ok(Place::Outside);
        };
        let held = hold.keys().kind.gate();
        match keys.kind.spec().inside(held) {
            _ if held == keys.kind.gate() && keys.kind.is_reentrant() => Ok(Place::Reenter(id)),
            Some(Inside::LetIn) if hold.is_valid(now) => Ok(Place::Inside(hold.owner().clone())),
            Some(Inside::LetIn) => Err(hold.lost_error(Operation::Acquire)),
            Some(Inside::Refused(why)) => refuse(why),
            _ if within.is_some() => refuse(keys.kind.refusal_within()),
            _ => Ok(Place::Outside),
        }
    }

    /// The hold around a new one of `context`: its own, or the other side's of a
    /// read-write lock.
    pub(crate) fn held_by(&self, keys: &Keys, context: Context) -> Option<HoldId> {
        let at = |gate| self.holds.of_context(self.waiters.find_at(keys, gate)?, context);
        keys.kind.spec().gates_around().find_map(at)
    }

    /// A caller was granted a lock: its other waits for this lock are answered.
    pub(super) fn answer_other_waits(&mut self, granted: &Keys, context: Option<Context>, now: Instant) {
        let Some(context) = context.filter(|context| HAS_CALLERS && self.waiters.has_waits_of(*context)) else {
            return;
        };
        for wait in self.waiters.of_caller(context) {
            if wait.keys.record == granted.record && wait.keys.node == granted.node {
                self.answer_again(context, wait, now);
            }
        }
    }

    fn answer_again(&mut self, context: Context, wait: CallerWait, now: Instant) {
        let ticket = wait.ticket;
        match self.place(&wait.keys, (Some(context), None), now) {
            Ok(Place::Reenter(hold)) => {
                self.give_up(ticket, now);
                let input = holds::Input::Enter(ticket, hold, wait.plan);
                self.holds.input(&mut self.io, input, now);
            }
            Ok(Place::Inside(writer)) if wait.is_endless => {
                self.give_up(ticket, now);
                let input = waiters::Input::Wanted(wait.again(writer));
                self.waiters.input(&mut self.io, &self.holds, input, now);
            }
            Ok(Place::Outside) if wait.is_endless => {
                let keys = &wait.keys;
                let holds_it = self.holds_at(keys, keys.kind.gate(), context).next().is_some();
                if let Some(why) = keys.kind.refusal_of_endless().filter(|_| holds_it) {
                    let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, why);
                    self.refuse(ticket, keys, error, now);
                }
            }
            // It ends by itself.
            Ok(Place::Inside(_) | Place::Outside) => {}
            Err(error) => self.refuse(ticket, &wait.keys, error, now),
        }
    }

    fn refuse(&mut self, ticket: Ticket, keys: &Arc<Keys>, error: Error, now: Instant) {
        self.give_up(ticket, now);
        let outcome = Outcome::Failed(error.with_lock(keys.name.as_str()));
        self.io.complete(ticket, outcome);
    }

    fn give_up(&mut self, ticket: Ticket, now: Instant) {
        let input = waiters::Input::Cancelled(ticket);
        self.waiters.input(&mut self.io, &self.holds, input, now);
    }
}
