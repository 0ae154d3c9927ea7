//! Quorum holds: locks that a majority of the primaries granted.

use super::majority::{last_of_majority, majority};
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Error, Operation};
use crate::groups::members::Members;
use crate::groups::self_wait::{BLOCKED, is_waiting, refusal};
use crate::ids::{Context, LeaseId, Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::lease::LeaseDuration;
use crate::name::LockName;
use crate::sorted::{SortedMap, SortedSet};
use crate::timers::Timer;
use crate::types::{AcquireRequest, Event, Outcome};

/// The quorum holds of a client.
#[derive(Debug, Default)]
pub(super) struct QuorumHolds {
    by_lease: SortedMap<LeaseId, QuorumHold>,
    /// The holds of each lock, oldest first.
    by_name: SortedMap<LockName, SortedSet<LeaseId>>,
    /// The tickets that primaries have not answered yet, and the hold that each answer joins.
    late: SortedMap<Ticket, LeaseId>,
}

/// A lock that a majority of the primaries granted.
#[derive(Debug)]
pub(super) struct QuorumHold {
    name: LockName,
    context: Option<Context>,
    /// The primaries' mutexes that it has, and until when each may be relied on.
    members: SortedMap<LeaseId, Instant>,
    /// Primaries whose answer is still to come; what they grant joins the others.
    unanswered: Vec<Ticket>,
    /// Whether the watchdog renews it.
    is_renewed: bool,
    lost: Option<LostReason>,
    /// Until when a majority may be relied on.
    deadline: Instant,
}

/// What a round becomes when a majority grants it.
pub(super) struct NewHold {
    pub(super) name: LockName,
    pub(super) context: Option<Context>,
    /// The primaries' mutexes that were granted, and until when each may be relied on.
    pub(super) members: SortedMap<LeaseId, Instant>,
    /// Primaries whose answer is still to come.
    pub(super) unanswered: Vec<Ticket>,
    pub(super) is_renewed: bool,
}

/// A quorum hold that its caller releases.
pub(super) struct Released {
    pub(super) name: LockName,
    pub(super) lost: Option<LostReason>,
    /// The releases of its members, which are under way.
    pub(super) releases: Vec<Ticket>,
}

impl QuorumHold {
    pub(super) const fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// What `operation` gets that relied on it, once it is lost.
    pub(super) fn lost_error(&self, operation: Operation) -> Error {
        match self.is_renewed {
            true => Error::lost(operation, self.lost),
            false => Error::lost_and_forgotten(operation, self.lost),
        }
    }

    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the mutex is one of its members, and is not lost.
    pub(super) fn has_member(&self, member: LeaseId) -> bool {
        self.members.contains_key(&member)
    }

    fn is_valid(&self, now: Instant) -> bool {
        self.lost.is_none() && now < self.deadline
    }
}

impl QuorumHolds {
    pub(super) fn len(&self) -> usize {
        let held = self.by_lease.len().saturating_add(self.by_name.len());
        held.saturating_add(self.late.len())
    }

    /// Whether a lease is that of a quorum hold.
    pub(super) fn has(&self, lease: LeaseId) -> bool {
        self.by_lease.contains_key(&lease)
    }

    pub(super) fn get(&self, lease: LeaseId) -> Option<&QuorumHold> {
        self.by_lease.get(&lease)
    }

    /// Whether this client holds the lock.
    pub(super) fn is_held(&self, name: &LockName) -> bool {
        self.of_name(name).any(|(_, hold)| hold.lost.is_none())
    }

    /// The leases of a context on a lock, newest last.
    pub(super) fn of_context(&self, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        let of_context = move |(lease, hold): (LeaseId, &QuorumHold)| (hold.context == Some(context)).then_some(lease);
        self.of_name(name).filter_map(of_context)
    }

    /// The holds of a lock, oldest first.
    fn of_name(&self, name: &LockName) -> impl Iterator<Item = (LeaseId, &QuorumHold)> {
        let leases = self.by_name.get(name).into_iter().flat_map(SortedSet::iter);
        leases.filter_map(|lease| Some((*lease, self.by_lease.get(lease)?)))
    }

    /// Why a wait for this lock could not be ended by anybody else.
    pub(super) fn waits_for_itself(&self, members: &Members, request: &AcquireRequest, now: Instant) -> Option<Error> {
        if !is_waiting(request) || members.io().has(Defect::CompositeWaitsForItself) {
            return None;
        }
        let holds_it = |context: Context| {
            let mut leases = self.of_context(&request.name, context);
            leases.any(|lease| self.get(lease).is_some_and(|hold| hold.is_valid(now)))
        };
        if request.context.is_some_and(holds_it) {
            return Some(refusal(
                request,
                "a RedLock is not reentrant; the calling thread or task holds it and would wait for itself; release \
                 it first",
            ));
        }
        let stops_it = request.blocked.iter().copied().any(holds_it);
        stops_it.then(|| refusal(request, BLOCKED))
    }

    /// A majority granted a lock: its caller gets the lease.
    pub(super) fn add(&mut self, members: &mut Members, ticket: Ticket, new: NewHold, now: Instant) {
        let lease = members.next_lease();
        for member in new.members.keys() {
            members.include(*member, lease);
        }
        let is_mistaken = members.io().has(Defect::LongestMemberIsGranted);
        let deadline = match new.members.values().max() {
            Some(longest) if is_mistaken => *longest,
            _ => reliable_until(members.io(), &new.members, now),
        };
        self.late.extend(new.unanswered.iter().map(|late| (*late, lease)));
        self.by_name.get_or_default(new.name.clone()).insert(lease);
        let hold = QuorumHold {
            name: new.name,
            context: new.context,
            members: new.members,
            unanswered: new.unanswered,
            is_renewed: new.is_renewed,
            lost: None,
            deadline,
        };
        self.by_lease.insert(lease, hold);
        members.set(Timer::Majority(lease), deadline);
        members.grant(ticket, (lease, &[]), deadline, 1);
    }

    /// A primary answered after its round was granted: the mutex that it grants joins the others.
    pub(super) fn late_answer(&mut self, members: &mut Members, member: Ticket, outcome: Outcome, now: Instant) {
        let Some(lease) = self.late.remove(&member) else {
            return;
        };
        let Some(hold) = self.by_lease.get_mut(&lease) else {
            return;
        };
        hold.unanswered.retain(|unanswered| *unanswered != member);
        if let Outcome::Granted(grant) = outcome {
            hold.members.insert(grant.lease, grant.deadline);
            members.include(grant.lease, lease);
            self.recount(members, lease, now);
        }
    }

    /// A primary's mutex lasts longer, or shorter than was known.
    pub(super) fn member_renewed(
        &mut self,
        members: &mut Members,
        (lease, member): (LeaseId, LeaseId),
        deadline: Instant,
        now: Instant,
    ) {
        if let Some(hold) = self.by_lease.get_mut(&lease) {
            hold.members.insert(member, deadline);
            self.recount(members, lease, now);
        }
    }

    /// A primary's mutex is lost. True if the majority is lost with it.
    pub(super) fn member_lost(
        &mut self,
        members: &mut Members,
        (lease, member): (LeaseId, LeaseId),
        reason: LostReason,
        now: Instant,
    ) -> bool {
        let Some(hold) = self.by_lease.get_mut(&lease) else {
            return false;
        };
        hold.members.remove(&member);
        let is_lost = hold.members.len() < majority(members.io()) || reason == LostReason::Closed;
        members.discard(member, now);
        if !is_lost {
            self.recount(members, lease, now);
        }
        is_lost
    }

    /// Sets the deadline to that of the majority's last member.
    fn recount(&mut self, members: &mut Members, lease: LeaseId, now: Instant) {
        let Some(hold) = self.by_lease.get_mut(&lease) else {
            return;
        };
        let deadline = reliable_until(members.io(), &hold.members, now);
        if hold.lost.is_none() && deadline != hold.deadline {
            hold.deadline = deadline;
            members.set(Timer::Majority(lease), deadline);
            members.tell(Event::Renewed { lease, deadline });
        }
    }

    /// A hold is lost, and its caller is told. Returns its lock; `None` if it was lost before.
    pub(super) fn lose(
        &mut self,
        members: &mut Members,
        lease: LeaseId,
        reason: LostReason,
        now: Instant,
    ) -> Option<LockName> {
        let hold = self.by_lease.get_mut(&lease)?;
        if hold.lost.is_some() {
            return None;
        }
        hold.lost = Some(reason);
        let is_forgotten = !hold.is_renewed && reason != LostReason::Closed;
        let (name, lost) = (hold.name.clone(), hold.members.clone());
        let unanswered = std::mem::take(&mut hold.unanswered);
        members.stop(Timer::Majority(lease));
        self.expect_no_more(&unanswered);
        members.cancel_all(&unanswered, now);
        members.tell(Event::Lost { lease, reason });
        for member in lost.keys() {
            // Their records stay until the release: the program may still be inside.
            members.tell_nobody_of(*member);
            if let Some(id) = members.locks().holds().of_lease(*member) {
                members.lose(id, reason, now);
            }
        }
        if is_forgotten && !members.io().has(Defect::LapsedLeaseStays) {
            self.remove(lease);
            members.forget(lost.keys(), now);
        }
        Some(name)
    }

    /// Releases the members of a hold; what primaries may yet grant is released as well.
    pub(super) fn release(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        lease: LeaseId,
        now: Instant,
    ) -> Option<Released> {
        let hold = self.remove(lease)?;
        members.stop(Timer::Majority(lease));
        members.cancel_all(&hold.unanswered, now);
        let mut releases = Vec::new();
        for member in hold.members.keys() {
            members.exclude(*member);
            let release = members.ticket_for(Some(ticket), Verb::Release);
            releases.push(release);
            members.release(release, *member, now);
        }
        Some(Released {
            name: hold.name,
            lost: hold.lost,
            releases,
        })
    }

    /// Extends the members of a hold. Returns the ticket of each extension, with its member.
    pub(super) fn extend(
        &self,
        members: &mut Members,
        ticket: Ticket,
        (lease, by): (LeaseId, Option<LeaseDuration>),
        now: Instant,
    ) -> SortedMap<Ticket, LeaseId> {
        let mut extensions = SortedMap::new();
        for member in self.get(lease).into_iter().flat_map(|hold| hold.members.keys()) {
            let extension = members.ticket_for(Some(ticket), Verb::Extend);
            extensions.insert(extension, *member);
            members.extend(extension, *member, by, now);
        }
        extensions
    }

    /// Takes a hold out of all tables.
    fn remove(&mut self, lease: LeaseId) -> Option<QuorumHold> {
        let hold = self.by_lease.remove(&lease)?;
        self.expect_no_more(&hold.unanswered);
        if let Some(leases) = self.by_name.get_mut(&hold.name) {
            leases.remove(&lease);
            if leases.is_empty() {
                self.by_name.remove(&hold.name);
            }
        }
        Some(hold)
    }

    /// What these primaries still answer joins no hold.
    fn expect_no_more(&mut self, late: &[Ticket]) {
        for ticket in late {
            self.late.remove(ticket);
        }
    }

    /// The client is closed: no hold is told any more what happens to its members.
    pub(super) fn close(&mut self, members: &mut Members) {
        self.by_name.clear();
        self.late.clear();
        for (lease, hold) in std::mem::take(&mut self.by_lease) {
            members.stop(Timer::Majority(lease));
            for member in hold.members.keys() {
                members.exclude(*member);
            }
        }
    }
}

/// Until when a majority of these members may be relied on.
fn reliable_until(io: &Io, members: &SortedMap<LeaseId, Instant>, now: Instant) -> Instant {
    let counted = if io.has(Defect::LongestMemberCounts) {
        1
    } else {
        majority(io)
    };
    last_of_majority(members.values(), counted).unwrap_or(now)
}
