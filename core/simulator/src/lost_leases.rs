//! Tasks that have lost a fixed lease: they continue without it, may acquire the lock again, and sometimes try to
//! release or extend the lost lease.

use steadlock_protocol::{ErrorKind, LeaseId, LostReason, Ticket};

use crate::checks::{Checked, broken};
use crate::kinds::Family;
use crate::task::Request;
use crate::trace::Line;
use crate::world::World;

/// The number of lost leases that a task remembers.
const REMEMBERED: usize = 3;

impl World {
    /// Handles the report that a lease is lost. The session must have forgotten a lost fixed lease, and must still know
    /// a lost auto-renewed one.
    pub(crate) fn on_lost(&mut self, client: usize, lease: LeaseId, reason: LostReason) -> Checked {
        let Some(held) = self.ledger.get(client, lease).filter(|_| reason != LostReason::Closed) else {
            return Ok(());
        };
        let (hold, locks) = (held.hold, held.locks.clone());
        let session = self.clients[client].session.as_ref();
        let is_known = session.is_some_and(|session| session.has_lease(lease));
        let is_fixed = !self.ledger.is_renewed(hold);
        // While a composite lock is acquired, the session renews the members that the caller already holds, even those
        // with a fixed lease.
        if self.plan.family != Family::Several && is_known == is_fixed {
            let what = if is_fixed {
                "keeps a fixed lease"
            } else {
                "forgot an auto-renewed lease"
            };
            return broken("I12", format!("client {client} {what} that was lost: {lease:?}"));
        }
        if is_known {
            return Ok(());
        }
        // The record can outlast the deadline: by the delay of a call, and by the margin of the deadline.
        let until = self.now + self.plan.settles_in();
        for (name, _) in &locks {
            self.owned.expired(client, *name, until);
        }
        self.lets_go_until(client, lease, until);
        let mut tasks = self.clients[client].tasks.iter_mut();
        if let Some(task) = tasks.find(|task| task.leases.contains(&lease)) {
            task.leases.retain(|of| *of != lease);
            task.expired.push((lease, locks));
            if task.expired.len() > REMEMBERED {
                task.expired.remove(0);
            }
        }
        Ok(())
    }

    /// Lets a task release or extend a lease that it has lost. The session must refuse with `NotOwner`.
    pub(crate) fn uses_lost_lease(&mut self, client: usize, task: usize) -> Checked {
        let draw = self.choices.task(client, task).between(0, 2);
        let of = &mut self.clients[client].tasks[task];
        let context = of.context;
        let Some((lease, locks)) = of.expired.pop() else {
            return Ok(());
        };
        let holds_it = !self.on_side(client, task, &locks).is_empty();
        let named = self.named(&locks);
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let (ticket, is_extension) = match (draw, context) {
            (0, _) => (session.extend(lease, None, now), true),
            (1, Some(context)) if !holds_it => (session.release_innermost(&named.into(), context, now), false),
            _ => (session.release(lease, now), false),
        };
        let line = if is_extension {
            Line::Extends {
                client,
                task,
                ticket,
                lease,
            }
        } else {
            Line::Releases {
                client,
                task,
                ticket,
                lease,
            }
        };
        self.note(line);
        self.waits(client, task, ticket, Request::Refusal)
    }

    /// Checks that a caller that does not hold a lock is not refused with `LockLost`.
    pub(crate) fn check_may_ask_again(
        &self,
        client: usize,
        ticket: Ticket,
        kind: ErrorKind,
        request: Option<&(Ticket, Request)>,
    ) -> Checked {
        match request {
            Some((
                _,
                Request::Acquire {
                    locks, inside: None, ..
                },
            )) if locks.len() == 1 && kind == ErrorKind::LockLost => broken(
                "I8",
                format!("client {client}: {ticket:?} holds nothing, and gets the answer that a lease was lost"),
            ),
            _ => Ok(()),
        }
    }
}
