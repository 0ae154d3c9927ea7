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
//! The locks of a multi-lock, its members, are acquired one after the other in the order of their keys. The order is
//! the same in every client, so two callers that hold no other lock never wait for each other. While the next member is
//! acquired, the earlier ones are renewed, even if the lease is fixed. In `Renewing`, the server extends the members
//! that do not last long enough, and confirms those that may be lost.
//!
//! If a member is lost before the multi-lock is granted, all are released, and acquired again unless the wait is over
//! or would be useless: leases have expired too often in a row before all members were acquired. If a member is lost
//! later, the multi-lock is lost. A holder re-enters a multi-lock as a whole, even if its members are not reentrant; the
//! re-entry begins as `Renewing`. A member is released only with the multi-lock.
//!
//! The release of the last level, or an extension, ends when it has ended for all members.

mod gathering;
mod held;

use std::collections::BinaryHeap;
use std::sync::Arc;

use steadlock_collections::SortedMap;

use self::gathering::{Gathered, Gathering, Gatherings, Reentered, Wanted};
use self::held::{HeldLocks, Released};
use super::Input;
use super::members::{Completed, MemberEvent, Members};
use crate::ending::ReleaseOutcome;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{Context, LeaseId, NodeId, Ticket, Verb};
use crate::instant::Instant;
use crate::kinds::{Gate, Keys, Kind};
use crate::lease::{LeaseDuration, LeasePlan};
use crate::machines::holds;
use crate::name::LockName;
use crate::types::{AcquireRequest, Outcome};

/// The multi-locks of a client.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    gatherings: Gatherings,
    held: HeldLocks,
    endings: Endings,
}

impl Multi {
    pub(crate) fn input(&mut self, members: &mut Members<'_>, input: Input, now: Instant) {
        match input {
            Input::AcquireAll(ticket, requests) => self.acquire(members, ticket, requests, now),
            Input::Release(ticket, lease) => self.release(members, ticket, lease, now),
            Input::Extend { ticket, lease, by } => self.extend(members, ticket, lease, by, now),
            Input::Cancel(ticket) => {
                self.gatherings.stop(members, ticket, now);
                self.endings.cancel(members, ticket, now);
            }
            Input::Close => self.held.close(members),
            // Only RedLocks have these inputs.
            Input::Acquire(..) | Input::Inspect { .. } | Input::Timer(_) => {}
        }
    }

    /// Handles the events of members until there are none.
    pub(crate) fn settle(&mut self, members: &mut Members<'_>, now: Instant) {
        while let Some(event) = members.next_member_event(now) {
            match event {
                MemberEvent::Completed(completed) => self.member_completed(members, completed, now),
                MemberEvent::Lost(of, reason) => self.held.member_lost(members, of.composite, reason, now),
                MemberEvent::LostBefore(lease, reason) => self.gatherings.lost(members, lease, reason, now),
                MemberEvent::Renewed { of, .. } => self.held.member_renewed(members, of.composite),
                MemberEvent::Entered(reentry) => self.gatherings.stays_renewed(reentry),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        let waiting = self.gatherings.len().saturating_add(self.endings.len());
        waiting.saturating_add(self.held.len())
    }

    /// Whether a lease is a level of a multi-lock.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.held.has(lease)
    }

    /// Returns the leases of the members of the multi-lock that this lease belongs to, if there is one.
    pub(crate) fn members_of(&self, lease: LeaseId) -> &[LeaseId] {
        let held = self.held.first_level(lease).and_then(|first| self.held.get(first));
        held.map_or(&[], |held| held.members())
    }

    /// Returns the tickets of the callers that wait for several locks.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        self.gatherings.tickets()
    }

    /// Returns the leases that a context (a thread or task) has on the multi-lock of these locks, outermost first. The
    /// order of `locks` does not matter.
    pub(crate) fn of_context(&self, locks: &[(Kind, LockName)], context: Context) -> &[LeaseId] {
        let first = self.held.of_context(&lock_set(locks.iter().cloned()), context);
        let held = first.and_then(|first| self.held.get(first));
        held.map_or(&[], |held| held.levels())
    }

    fn acquire(&mut self, members: &mut Members<'_>, ticket: Ticket, requests: Vec<AcquireRequest>, now: Instant) {
        let Some(first) = requests.first() else { return };
        let (wait, context) = (first.wait, first.context);
        let plan = LeasePlan::of(first.lease, members.io().config().lease);
        let locks = lock_set(requests.iter().map(|request| (request.kind, request.name.clone())));
        let again = match self.entered_again(members, &requests, &locks, context, now) {
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

    /// Returns the multi-lock that these requests re-enter, if there is one; `Err` says why the requests are refused.
    fn entered_again(
        &mut self,
        members: &mut Members<'_>,
        requests: &[AcquireRequest],
        locks: &LockSet,
        context: Option<Context>,
        now: Instant,
    ) -> Result<Option<Reentered>, Error> {
        if requests.iter().any(|request| request.within.is_some()) {
            let message = "`within` names the lease of one lock; leave it out";
            return Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        }
        if let Some(first) = context.and_then(|context| self.held.of_context(locks, context)) {
            self.holder_returns(members, first, now);
        }
        let again = context.and_then(|context| self.held.of_context(locks, context));
        let Some((first, held)) = again.and_then(|first| Some((first, self.held.get(first)?))) else {
            return members.joint_self_wait_error(requests, now).map_or(Ok(None), Err);
        };
        match held.lost_at(now) {
            Some(reason) => Err(held.lost_error(Operation::Acquire, Some(reason))),
            None => Ok(Some(Reentered {
                first,
                members: held.members().to_vec(),
            })),
        }
    }

    /// Handles the return of a holder. If its fixed lease has expired, it holds nothing, even if the expiry timer has
    /// not fired yet.
    fn holder_returns(&mut self, members: &mut Members<'_>, first: LeaseId, now: Instant) {
        for member in self.held.get(first).into_iter().flat_map(|held| held.members()) {
            if let Some(id) = members.locks().holds().of_lease(*member) {
                members.hold(holds::Input::ContextReturned(id), now);
            }
        }
        self.settle(members, now);
    }

    /// Grants the caller its lease, if all locks are held now.
    fn gathered(&mut self, members: &mut Members<'_>, ticket: Ticket, gathered: Option<Gathered>, now: Instant) {
        let Some(gathered) = gathered else { return };
        match gathered.again {
            Some(first) => self.held.enter(members, ticket, first, gathered.plan, now),
            None => self.held.add(members, ticket, gathered),
        }
    }

    /// Handles the outcome of a member's acquisition, renewal, release or extension.
    fn member_completed(&mut self, members: &mut Members<'_>, completed: Completed, now: Instant) {
        let ticket = completed.caller;
        if !self.endings.has(ticket) {
            let gathered = self.gatherings.completed(members, completed, now);
            return self.gathered(members, ticket, gathered, now);
        }
        let Some(ended) = self.endings.completed(completed) else {
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

    fn release(&mut self, members: &mut Members<'_>, ticket: Ticket, lease: LeaseId, now: Instant) {
        match self.held.release(lease) {
            Some(Released::Level(outcome)) => members.complete(ticket, outcome),
            Some(Released::All { leases, outcome }) => {
                self.endings.release(members, ticket, &leases, outcome, now);
            }
            None => {}
        }
    }

    fn extend(
        &mut self,
        members: &mut Members<'_>,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) {
        let first = self.held.first_level(lease);
        if let Some((first, held)) = first.and_then(|first| Some((first, self.held.get(first)?))) {
            self.endings.extend(members, ticket, first, held.members(), by, now);
        }
    }
}

/// The locks of a multi-lock, sorted, so that the same locks in any order are the same set.
type LockSet = Arc<[(Kind, LockName)]>;

/// Returns the set of these locks.
fn lock_set(locks: impl Iterator<Item = (Kind, LockName)>) -> LockSet {
    let locks: BinaryHeap<_> = locks.collect();
    locks.into_sorted_vec().into()
}

/// Sorts requests into the order in which all clients acquire them; `Err` says why the requests make no multi-lock.
pub(crate) fn in_order(requests: Vec<AcquireRequest>) -> Result<Vec<AcquireRequest>, &'static str> {
    let mut by_place = SortedMap::new();
    for request in requests {
        if by_place.insert(place(&request), request).is_some() {
            return Err("one lock is named twice; name each once");
        }
    }
    if by_place.is_empty() {
        return Err("several locks are wanted, and none is named; name one at least");
    }
    Ok(by_place.into_values().collect())
}

/// Returns the record of a request and its gate: a name for the kinds that share one local queue. Two requests that
/// agree in both want the same lock.
fn place(request: &AcquireRequest) -> (Arc<[u8]>, Gate) {
    let keys = Keys::new(request.kind, &request.name, NodeId::default());
    (keys.record, request.kind.gate())
}

/// The releases and extensions in progress.
#[derive(Debug, Default)]
struct Endings {
    by_ticket: SortedMap<Ticket, Ending>,
}

/// A release or an extension of all members.
#[derive(Debug)]
struct Ending {
    /// The multi-lock that is extended; `None` for a release.
    extends: Option<LeaseId>,
    under_way: Vec<Ticket>,
    /// The worst outcome so far.
    outcome: Outcome,
}

/// A release or an extension that is done for all members.
struct Ended {
    /// The multi-lock that was extended; `None` for a release.
    extends: Option<LeaseId>,
    /// The worst outcome of all members.
    outcome: Outcome,
}

impl Endings {
    fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// Whether a ticket belongs to a release or an extension.
    fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    /// Releases members, the newest first. `outcome` is the result, unless the release of a member has a worse one.
    fn release(
        &mut self,
        members: &mut Members<'_>,
        ticket: Ticket,
        leases: &[LeaseId],
        outcome: Outcome,
        now: Instant,
    ) {
        let mut under_way = Vec::new();
        for member in leases.iter().rev() {
            members.exclude(*member);
            let release = members.ticket_for(Some(ticket), Verb::Release);
            under_way.push(release);
            members.release(release, *member, now);
        }
        let ending = Ending {
            extends: None,
            under_way,
            outcome,
        };
        self.by_ticket.insert(ticket, ending);
    }

    /// Extends the members of a multi-lock.
    fn extend(
        &mut self,
        members: &mut Members<'_>,
        ticket: Ticket,
        first: LeaseId,
        leases: &[LeaseId],
        by: Option<LeaseDuration>,
        now: Instant,
    ) {
        let mut under_way = Vec::new();
        for member in leases {
            let extension = members.ticket_for(Some(ticket), Verb::Extend);
            under_way.push(extension);
            members.extend(extension, *member, by, now);
        }
        let ending = Ending {
            extends: Some(first),
            under_way,
            outcome: Outcome::Extended(Instant::FAR_FUTURE),
        };
        self.by_ticket.insert(ticket, ending);
    }

    /// Handles the end of a member's release or extension. Returns the result when all members are done.
    fn completed(&mut self, completed: Completed) -> Option<Ended> {
        let ticket = completed.caller;
        let ending = self.by_ticket.get_mut(&ticket)?;
        ending.under_way.retain(|under_way| *under_way != completed.member);
        ending.outcome = worse(ending.outcome.clone(), completed.outcome);
        if !ending.under_way.is_empty() {
            return None;
        }
        let ending = self.by_ticket.remove(&ticket)?;
        Some(Ended {
            extends: ending.extends,
            outcome: ending.outcome,
        })
    }

    /// Stops waiting for a release or an extension, because its caller no longer waits. The calls go on.
    fn cancel(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
        if let Some(ending) = self.by_ticket.remove(&ticket) {
            members.cancel_all(&ending.under_way, now);
        }
    }
}

/// Returns the worse of two outcomes, because the caller must know that one. For two extensions, that is the earlier
/// deadline.
fn worse(a: Outcome, b: Outcome) -> Outcome {
    let rank = |outcome: &Outcome| match outcome {
        // Another owner may have held the lock. No other outcome hides that.
        Outcome::Released(ReleaseOutcome::Stolen) => 4,
        Outcome::Released(ReleaseOutcome::Expired) => 3,
        Outcome::Failed(_) => 2,
        Outcome::Released(ReleaseOutcome::Unknown) => 1,
        _ => 0,
    };
    match (a, b) {
        (Outcome::Extended(a), Outcome::Extended(b)) => Outcome::Extended(a.min(b)),
        (a, b) if rank(&b) > rank(&a) => b,
        (a, _) => a,
    }
}
