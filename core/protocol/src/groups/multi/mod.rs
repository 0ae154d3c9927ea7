//! Multi-locks: several locks as one, all or none.
//!
//! ```text
//!             the next one granted        the last one granted
//!   Gathering ────────────────────► ... ─────────────────────► Renewing ──► held
//!     │ ▲ │ one of them lost                                      │ one lost
//!     │ │ └──────────► all that were granted are released ◄───────┤
//!     │ └──────────────┘ the wait is not over                     │
//!     │ one refused, failed, or cancelled                         │
//!     └──────────────► all that were granted are released ◄───────┘
//! ```
//!
//! The locks, which are the members, are acquired one after the other in the order of their keys. This
//! order is the same in every client, so two clients never wait for each other. Meanwhile the members that
//! are held already are renewed, also for a fixed lease. When one is lost, all are: before the last one is
//! granted they are acquired again, after it the multi-lock is lost. Its holder enters the multi-lock as
//! one, whatever kinds its members are. A member is released only with the multi-lock.

mod endings;
mod gathering;
mod gatherings;
mod held;
mod request;

use super::members::{MemberEvent, Members};
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{Context, LeaseId, Ticket};
use crate::instant::Instant;
use crate::kinds::Kind;
use crate::lease::{LeaseDuration, LeasePlan};
use crate::machines::holds;
use crate::name::LockName;
use crate::types::{AcquireRequest, Outcome};
use endings::Endings;
use gathering::{Gathered, Gathering, Wanted};
use gatherings::Gatherings;
use held::{HeldLocks, Released};
use request::{LockSet, lock_set};

pub(crate) use request::in_order;

/// What happens to multi-locks.
#[derive(Debug)]
pub(crate) enum Input {
    /// A caller wants several locks, in order; the wait, the lease and the context are the first one's.
    Acquire(Ticket, Vec<AcquireRequest>),
    /// A caller releases one lease of a multi-lock.
    Release(Ticket, LeaseId),
    /// A caller wants a lease to last so long from now, or as long as it was given.
    Extend(Ticket, LeaseId, Option<LeaseDuration>),
    /// The caller of a ticket went away.
    Cancel(Ticket),
    /// The client is closed: multi-locks are no longer told what happens to their members.
    Close,
}

/// The multi-locks of a client.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    gatherings: Gatherings,
    held: HeldLocks,
    endings: Endings,
}

impl Multi {
    pub(crate) fn input(&mut self, members: &mut Members, input: Input, now: Instant) {
        match input {
            Input::Acquire(ticket, requests) => self.acquire(members, ticket, requests, now),
            Input::Release(ticket, lease) => self.release(members, ticket, lease, now),
            Input::Extend(ticket, lease, by) => self.extend(members, ticket, (lease, by), now),
            Input::Cancel(ticket) => {
                self.gatherings.stop(members, ticket, now);
                self.endings.cancel(members, ticket, now);
            }
            Input::Close => self.held.close(members),
        }
    }

    /// What happened to members, until nothing has.
    pub(crate) fn settle(&mut self, members: &mut Members, now: Instant) {
        while let Some(event) = members.next_member_event(now) {
            match event {
                MemberEvent::Completed {
                    caller,
                    member,
                    outcome,
                } => self.member_completed(members, (caller, member), outcome, now),
                MemberEvent::Lost { composite, reason, .. } => self.held.member_lost(members, composite, reason, now),
                MemberEvent::LostBefore(lease, reason) => self.gatherings.lost(members, (lease, reason), now),
                MemberEvent::Renewed { composite, .. } => self.held.member_renewed(members, composite),
                MemberEvent::Entered(hold, plan) => self.gatherings.stays_renewed(hold, plan),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        let waiting = self.gatherings.len().saturating_add(self.endings.len());
        waiting.saturating_add(self.held.len())
    }

    /// Whether a lease is one of a multi-lock.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.held.has(lease)
    }

    /// The leases of the locks that a multi-lock consists of.
    pub(crate) fn members_of(&self, lease: LeaseId) -> &[LeaseId] {
        let held = self.held.first_level(lease).and_then(|first| self.held.get(first));
        held.map_or(&[], |held| held.members())
    }

    /// The tickets of callers that wait for several locks.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        self.gatherings.tickets()
    }

    /// The leases of a context on these locks together, in any order; outermost first.
    pub(crate) fn of_context(&self, locks: &[(Kind, LockName)], context: Context) -> &[LeaseId] {
        let first = self.held.of_context(&lock_set(locks.iter().cloned()), context);
        let held = first.and_then(|first| self.held.get(first));
        held.map_or(&[], |held| held.levels())
    }

    fn acquire(&mut self, members: &mut Members, ticket: Ticket, requests: Vec<AcquireRequest>, now: Instant) {
        let Some(first) = requests.first() else { return };
        let (wait, context) = (first.wait, first.context);
        let plan = LeasePlan::of(first.lease, members.io().config().lease);
        let locks = lock_set(requests.iter().map(|request| (request.kind, request.name.clone())));
        let again = match self.entered_again(members, &requests, (&locks, context), now) {
            Ok(again) => again,
            Err(error) => return members.complete(ticket, Outcome::Failed(error)),
        };
        let wanted = Wanted {
            requests,
            locks,
            wait,
            context,
            plan,
            again,
        };
        let gathering = Gathering::new(wanted, now);
        let gathered = self.gatherings.start(members, ticket, gathering, now);
        self.gathered(members, ticket, gathered, now);
    }

    /// The multi-lock that these requests enter again, and its members; or why they cannot be granted.
    fn entered_again(
        &mut self,
        members: &mut Members,
        requests: &[AcquireRequest],
        (locks, context): (&LockSet, Option<Context>),
        now: Instant,
    ) -> Result<Option<(LeaseId, Vec<LeaseId>)>, Error> {
        if requests.iter().any(|request| request.within.is_some()) {
            let message = "`within` names the lease of one lock; leave it out";
            return Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        }
        if let Some(first) = context.and_then(|context| self.held.of_context(locks, context)) {
            self.holder_returns(members, first, now);
        }
        let again = context.and_then(|context| self.held.of_context(locks, context));
        let Some((first, held)) = again.and_then(|first| Some((first, self.held.get(first)?))) else {
            return members.waits_for_itself(requests, now).map_or(Ok(None), Err);
        };
        match held.lost_at(now) {
            Some(reason) => Err(held.lost_error(Operation::Acquire, Some(reason))),
            None => Ok(Some((first, held.members().to_vec()))),
        }
    }

    /// A holder that sees that its fixed lease is over, and comes back before a timer has told so,
    /// holds nothing any more.
    fn holder_returns(&mut self, members: &mut Members, first: LeaseId, now: Instant) {
        for member in self.held.get(first).into_iter().flat_map(|held| held.members()) {
            if let Some(id) = members.locks().holds().of_lease(*member) {
                members.hold(holds::Input::Return(id), now);
            }
        }
        self.settle(members, now);
    }

    /// If all locks are held now, their caller gets its lease.
    fn gathered(&mut self, members: &mut Members, ticket: Ticket, gathered: Option<Gathered>, now: Instant) {
        let Some(gathered) = gathered else { return };
        match gathered.again {
            Some(first) => self.held.enter(members, ticket, (first, gathered.plan), now),
            None => self.held.add(members, ticket, gathered),
        }
    }

    /// A member is granted, renewed, released or extended, or it is not.
    fn member_completed(
        &mut self,
        members: &mut Members,
        (ticket, member): (Ticket, Ticket),
        outcome: Outcome,
        now: Instant,
    ) {
        if !self.endings.has(ticket) {
            let gathered = self.gatherings.completed(members, (ticket, member), outcome, now);
            return self.gathered(members, ticket, gathered, now);
        }
        let Some(ended) = self.endings.completed(ticket, member, outcome) else {
            return;
        };
        let extended = ended.extends.map(|first| self.held.extended(first));
        let outcome = match (extended, ended.outcome) {
            (Some(Err(error)), _) => Outcome::Failed(error),
            (Some(Ok(deadline)), Outcome::Extended(_)) => Outcome::Extended(deadline),
            (_, outcome) => outcome,
        };
        members.complete(ticket, outcome);
    }

    fn release(&mut self, members: &mut Members, ticket: Ticket, lease: LeaseId, now: Instant) {
        match self.held.release(lease) {
            Some(Released::Level(outcome)) => members.complete(ticket, outcome),
            Some(Released::All(leases, outcome)) => self.endings.release(members, ticket, (&leases, outcome), now),
            None => {}
        }
    }

    fn extend(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        (lease, by): (LeaseId, Option<LeaseDuration>),
        now: Instant,
    ) {
        let first = self.held.first_level(lease);
        if let Some((first, held)) = first.and_then(|first| Some((first, self.held.get(first)?))) {
            self.endings.extend(members, ticket, (first, held.members(), by), now);
        }
    }
}
