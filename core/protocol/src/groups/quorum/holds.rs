//! Quorum holds: locks that a majority of the primaries granted. Broadcasts: calls to several primaries at once, which
//! are releases and extensions of all members, and questions to all primaries.
//!
//! The caller of a broadcast is answered as soon as a majority reports success (released, extended, or held), or when
//! all primaries have answered. The other calls then go on. The caller of a forced release always waits for all
//! primaries.

use std::sync::Arc;

use steadlock_collections::{SortedMap, SortedSet};

use super::{last_of_majority, majority, primaries};
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Operation};
use crate::groups::members::{Completed, CompositeLease, MemberLease, Members};
use crate::groups::self_wait::{BLOCKED, is_waiting, refusal};
use crate::ids::{Context, LeaseId, Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Kind};
use crate::lease::LeaseDuration;
use crate::machines::inspections::Question;
use crate::name::LockName;
use crate::timers::Timer;
use crate::types::{AcquireRequest, Event, LockState, Outcome};

/// The quorum holds of a client.
#[derive(Debug, Default)]
pub(super) struct QuorumHolds {
    by_lease: SortedMap<LeaseId, QuorumHold>,
    /// The holds of each lock, oldest first.
    by_name: SortedMap<LockName, SortedSet<LeaseId>>,
    /// The tickets that primaries have not answered yet, each with the hold that a late grant joins.
    late: SortedMap<Ticket, LeaseId>,
}

/// A lock that a majority of the primaries granted.
#[derive(Debug)]
pub(super) struct QuorumHold {
    name: LockName,
    context: Option<Context>,
    /// The mutexes of primaries, each with its deadline.
    members: SortedMap<LeaseId, Instant>,
    /// The tickets that primaries have not answered yet; late grants join the members.
    unanswered: Vec<Ticket>,
    /// Whether the watchdog renews the hold.
    is_renewed: bool,
    lost: Option<LostReason>,
    /// The deadline until which a majority of the members can be relied on.
    deadline: Instant,
}

/// The data of a round that becomes a hold.
pub(super) struct NewHold {
    pub(super) name: LockName,
    pub(super) context: Option<Context>,
    /// The mutexes that primaries granted, each with its deadline.
    pub(super) members: SortedMap<LeaseId, Instant>,
    /// The tickets that primaries have not answered yet.
    pub(super) unanswered: Vec<Ticket>,
    pub(super) is_renewed: bool,
}

/// A quorum hold that its caller releases.
pub(super) struct Released {
    pub(super) name: LockName,
    pub(super) lost: Option<LostReason>,
    /// The tickets of its members' releases, which are in progress.
    pub(super) releases: Vec<Ticket>,
}

impl QuorumHold {
    pub(super) const fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Returns the error of an operation that needs the hold after it was lost.
    pub(super) fn lost_error(&self, operation: Operation) -> Error {
        match self.is_renewed {
            true => Error::lost(operation, self.lost),
            false => Error::lost_and_forgotten(operation, self.lost),
        }
    }

    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether a mutex is a member of the hold and is not lost.
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

    /// Returns the leases of a context (a thread or task) on a lock, newest last.
    pub(super) fn of_context(&self, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        let of_context = move |(lease, hold): (LeaseId, &QuorumHold)| (hold.context == Some(context)).then_some(lease);
        self.of_name(name).filter_map(of_context)
    }

    /// Returns the holds of a lock, oldest first.
    fn of_name(&self, name: &LockName) -> impl Iterator<Item = (LeaseId, &QuorumHold)> {
        let leases = self.by_name.get(name).into_iter().flat_map(SortedSet::iter);
        leases.filter_map(|lease| Some((*lease, self.by_lease.get(lease)?)))
    }

    /// Returns an error if the request waits for this lock and no other caller could end the wait.
    pub(super) fn self_wait_error(&self, request: &AcquireRequest, now: Instant) -> Option<Error> {
        if !is_waiting(request) {
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

    /// Adds a hold that a majority granted, and grants its caller the lease.
    pub(super) fn add(&mut self, members: &mut Members<'_>, ticket: Ticket, new: NewHold, now: Instant) {
        let lease = members.next_lease();
        for member in new.members.keys() {
            members.include(*member, lease);
        }
        let deadline = reliable_until(members.io(), &new.members, now);
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
        let granted = CompositeLease {
            lease,
            // The mutex of a primary is never degraded.
            members: &[],
            deadline,
            levels: 1,
        };
        members.grant(ticket, granted);
    }

    /// Handles the answer of a primary after its round was granted: a mutex that it grants joins the members.
    pub(super) fn late_answer(&mut self, members: &mut Members<'_>, member: Ticket, outcome: Outcome, now: Instant) {
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

    /// Handles a new deadline of a primary's mutex, which can be later or earlier than the old one.
    pub(super) fn member_renewed(
        &mut self,
        members: &mut Members<'_>,
        of: MemberLease,
        deadline: Instant,
        now: Instant,
    ) {
        if let Some(hold) = self.by_lease.get_mut(&of.composite) {
            hold.members.insert(of.member, deadline);
            self.recount(members, of.composite, now);
        }
    }

    /// Handles the loss of a primary's mutex. Returns whether the majority is lost with it.
    pub(super) fn member_lost(
        &mut self,
        members: &mut Members<'_>,
        of: MemberLease,
        reason: LostReason,
        now: Instant,
    ) -> bool {
        let Some(hold) = self.by_lease.get_mut(&of.composite) else {
            return false;
        };
        hold.members.remove(&of.member);
        let is_lost = hold.members.len() < majority(members.io()) || reason == LostReason::Closed;
        members.discard(of.member, now);
        if !is_lost {
            self.recount(members, of.composite, now);
        }
        is_lost
    }

    /// Sets the deadline of the hold to that of a majority of its members, and reports a change. A lost hold keeps its
    /// deadline.
    fn recount(&mut self, members: &mut Members<'_>, lease: LeaseId, now: Instant) {
        let Some(hold) = self.by_lease.get_mut(&lease) else {
            return;
        };
        let deadline = reliable_until(members.io(), &hold.members, now);
        if hold.lost.is_none() && deadline != hold.deadline {
            hold.deadline = deadline;
            members.set(Timer::Majority(lease), deadline);
            members.emit(Event::Renewed { lease, deadline });
        }
    }

    /// Handles the loss of a hold, and reports it to the caller. Returns the lock; `None` if the hold was lost before,
    /// or is not known.
    pub(super) fn lose(
        &mut self,
        members: &mut Members<'_>,
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
        members.emit(Event::Lost { lease, reason });
        for member in lost.keys() {
            // The loss of a member is not reported again. The record of an auto-renewed member stays until the release,
            // because the program may still be in its critical section.
            members.include_silently(*member);
            if let Some(id) = members.locks().holds().of_lease(*member) {
                members.lose(id, reason, now);
            }
        }
        if is_forgotten {
            self.remove(lease);
            members.forget(lost.keys(), now);
        }
        Some(name)
    }

    /// Releases the members of a hold. Late grants of primaries are released as well.
    pub(super) fn release(
        &mut self,
        members: &mut Members<'_>,
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
        members: &mut Members<'_>,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
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

    /// Removes a hold from all tables.
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

    /// Stops late grants of these tickets from joining a hold.
    fn expect_no_more(&mut self, late: &[Ticket]) {
        for ticket in late {
            self.late.remove(ticket);
        }
    }

    /// Closes the client's holds: they receive no more events of their members.
    pub(super) fn close(&mut self, members: &mut Members<'_>) {
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

/// Returns the deadline until which a majority of these members can be relied on; `now` if they are no majority.
fn reliable_until(io: &Io, members: &SortedMap<LeaseId, Instant>, now: Instant) -> Instant {
    last_of_majority(members.values(), majority(io)).unwrap_or(now)
}

/// The broadcasts of a client.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    by_ticket: SortedMap<Ticket, Broadcast>,
}

/// A release, an extension or a question whose outcome a majority decides.
#[derive(Debug, Default)]
struct Broadcast {
    /// The lock to name in an error, if the errors of primaries do not name it.
    name: Option<LockName>,
    extension: Option<Extension>,
    unanswered: Vec<Ticket>,
    outcomes: Vec<Outcome>,
}

/// The extension of a quorum hold.
#[derive(Debug)]
struct Extension {
    lease: LeaseId,
    /// The member that each ticket extends.
    members: SortedMap<Ticket, LeaseId>,
    /// The members that were extended.
    done: SortedSet<LeaseId>,
}

impl Broadcast {
    /// Handles the answer of a primary.
    fn answered(&mut self, member: Ticket, outcome: Outcome) {
        self.unanswered.retain(|unanswered| *unanswered != member);
        if let (Some(extension), Outcome::Extended(_)) = (&mut self.extension, &outcome) {
            extension.done.extend(extension.members.get(&member).copied());
        }
        self.outcomes.push(outcome);
    }

    /// Returns the outcome, if it is known by now.
    fn outcome(&self, members: &Members<'_>, holds: &QuorumHolds) -> Option<Outcome> {
        let majority = majority(members.io());
        match &self.extension {
            Some(extension) => self.extended(extension, holds, majority),
            None => result_of(&self.outcomes, majority, self.answers()),
        }
    }

    fn answers(&self) -> Answers {
        if self.unanswered.is_empty() {
            Answers::Complete
        } else {
            Answers::Missing
        }
    }

    /// Returns the outcome of an extension, if it is known by now: the deadline of a majority. A member that was
    /// extended and has been lost since does not count.
    fn extended(&self, extension: &Extension, holds: &QuorumHolds, majority: usize) -> Option<Outcome> {
        let failed = || {
            let mut outcomes = self.outcomes.iter();
            outcomes.find(|outcome| matches!(outcome, Outcome::Failed(_))).cloned()
        };
        let refuse = |kind, message: &str| Some(Outcome::Failed(Error::new(kind, Operation::Extend, message)));
        let Some(hold) = holds.get(extension.lease) else {
            return refuse(ErrorKind::NotOwner, "the lock was released meanwhile; acquire it again");
        };
        if hold.lost().is_some() {
            let error = hold.lost_error(Operation::Extend);
            return failed().or(Some(Outcome::Failed(error)));
        }
        let extended = extension.done.iter().filter(|member| hold.has_member(**member));
        if extended.count() >= majority {
            return Some(Outcome::Extended(hold.deadline()));
        }
        if !self.unanswered.is_empty() {
            return None;
        }
        failed().or_else(|| {
            refuse(
                ErrorKind::Unavailable,
                "no majority of the primaries confirmed the longer lease; the lease goes on as it was",
            )
        })
    }
}

impl Broadcasts {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// Whether a ticket belongs to a broadcast.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.by_ticket.keys().copied()
    }

    /// Adds the release of a quorum hold; `releases` are the tickets of its members' releases.
    pub(super) fn release(&mut self, ticket: Ticket, releases: Vec<Ticket>) {
        let broadcast = Broadcast {
            unanswered: releases,
            ..Broadcast::default()
        };
        self.by_ticket.insert(ticket, broadcast);
    }

    /// Adds the extension of a quorum hold; `members` has the ticket of each member's extension.
    pub(super) fn extend(&mut self, ticket: Ticket, lease: LeaseId, members: SortedMap<Ticket, LeaseId>) {
        let broadcast = Broadcast {
            unanswered: members.keys().copied().collect(),
            extension: Some(Extension {
                lease,
                members,
                done: SortedSet::new(),
            }),
            ..Broadcast::default()
        };
        self.by_ticket.insert(ticket, broadcast);
    }

    /// Asks every primary a question about one lock.
    pub(super) fn inspect(
        &mut self,
        members: &mut Members<'_>,
        ticket: Ticket,
        name: LockName,
        question: Question,
        now: Instant,
    ) {
        let mut unanswered = Vec::new();
        for node in primaries(members.io()) {
            let member = members.ticket_for(Some(ticket), Verb::Inspect);
            unanswered.push(member);
            let keys = Arc::new(Keys::new(Kind::Mutex, &name, node));
            members.inspect(member, keys, question, now);
        }
        let broadcast = Broadcast {
            name: Some(name),
            unanswered,
            ..Broadcast::default()
        };
        self.by_ticket.insert(ticket, broadcast);
    }

    /// Handles the answer of a primary.
    pub(super) fn answered(&mut self, completed: Completed) {
        if let Some(broadcast) = self.by_ticket.get_mut(&completed.caller) {
            broadcast.answered(completed.member, completed.outcome);
        }
    }

    /// Completes the caller's ticket, if the outcome of the broadcast is known by now.
    pub(super) fn decide(&mut self, members: &mut Members<'_>, holds: &QuorumHolds, ticket: Ticket) {
        let broadcast = self.by_ticket.get(&ticket);
        let Some(outcome) = broadcast.and_then(|broadcast| broadcast.outcome(members, holds)) else {
            return;
        };
        if let Some(name) = self.stop(members, ticket) {
            let outcome = match (outcome, name) {
                (Outcome::Failed(error), Some(name)) => Outcome::Failed(error.with_lock(name.as_str())),
                (outcome, _) => outcome,
            };
            members.complete(ticket, outcome);
        }
    }

    /// Stops waiting for the answers of a broadcast. Returns the lock to name in an error, if there is one; the outer
    /// `None` if the ticket belongs to no broadcast.
    pub(super) fn stop(&mut self, members: &mut Members<'_>, ticket: Ticket) -> Option<Option<LockName>> {
        let broadcast = self.by_ticket.remove(&ticket)?;
        // Calls that are still in progress go on.
        for member in broadcast.unanswered {
            members.disown(member);
        }
        Some(broadcast.name)
    }
}

/// Whether all primaries have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Complete,
    Missing,
}

/// Returns the answer of a majority, if it is good: released, held, or removed by force. Without such a majority,
/// returns `None` until all primaries have answered. Then returns `Unknown` if one of them says so, a bad answer if a
/// majority answered at all, and otherwise an error.
fn result_of(outcomes: &[Outcome], majority: usize, answers: Answers) -> Option<Outcome> {
    let is_all = answers == Answers::Complete;
    let count = |is_it: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is_it(outcome)).count();
    let first = |is_it: fn(&Outcome) -> bool| outcomes.iter().find(|outcome| is_it(outcome)).cloned();
    let is_failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    let good = |outcome: &Outcome| {
        matches!(
            outcome,
            Outcome::Released(ReleaseOutcome::Released)
                | Outcome::State(LockState { holder: Some(_), .. })
                | Outcome::Forced(true)
        )
    };
    // A forced release removes the record of any owner. A call that is still in flight could remove the record of the
    // next owner.
    let is_forced = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Forced(_)));
    if count(good) >= majority && (is_all || !is_forced) {
        return first(good);
    }
    if !is_all {
        return None;
    }
    let answered = outcomes.len().saturating_sub(count(is_failed));
    let is_bad = |outcome: &Outcome| {
        matches!(
            outcome,
            Outcome::Released(ReleaseOutcome::Expired | ReleaseOutcome::Stolen)
                | Outcome::State(LockState { holder: None, .. })
                | Outcome::Forced(false)
        )
    };
    let is_unknown = |outcome: &Outcome| matches!(outcome, Outcome::Released(ReleaseOutcome::Unknown));
    if let Some(unknown) = first(is_unknown) {
        return Some(unknown);
    }
    // Another owner that holds the lock need not have a record on every primary, so a few may say `Expired`. An owner
    // with records on only a few primaries holds nothing, so a few answers of `Stolen` are not enough.
    let is_stolen = |outcome: &Outcome| matches!(outcome, Outcome::Released(ReleaseOutcome::Stolen));
    let is_expired = |outcome: &Outcome| matches!(outcome, Outcome::Released(ReleaseOutcome::Expired));
    let bad = if count(is_stolen) >= count(is_expired) {
        first(is_stolen).or_else(|| first(is_bad))
    } else {
        first(is_expired)
    };
    if answered >= majority
        && let Some(bad) = bad
    {
        return Some(bad);
    }
    first(is_failed)
        .or_else(|| first(|_| true))
        .or(Some(Outcome::Released(ReleaseOutcome::Expired)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result once all of three primaries have answered.
    fn complete(outcomes: &[Outcome]) -> Option<Outcome> {
        result_of(outcomes, 2, Answers::Complete)
    }

    #[test]
    fn a_release_counts_once_a_majority_has_it() {
        let released = || Outcome::Released(ReleaseOutcome::Released);
        let expired = || Outcome::Released(ReleaseOutcome::Expired);
        let missing = |outcomes: &[Outcome]| result_of(outcomes, 2, Answers::Missing);
        assert_eq!(missing(&[released(), released()]), Some(released()));
        assert_eq!(missing(&[released(), expired()]), None);
        assert_eq!(complete(&[released(), expired(), expired()]), Some(expired()));
    }

    #[test]
    fn a_forced_release_counts_once_no_primary_can_run_it_any_more() {
        let failed = || {
            Outcome::Failed(Error::new(
                ErrorKind::Unavailable,
                Operation::Release,
                "it did not answer",
            ))
        };
        let two = [Outcome::Forced(true), Outcome::Forced(true)];
        assert_eq!(result_of(&two, 2, Answers::Missing), None);
        for last in [Outcome::Forced(true), Outcome::Forced(false), failed()] {
            let all = [Outcome::Forced(true), Outcome::Forced(true), last];
            assert_eq!(complete(&all), Some(Outcome::Forced(true)));
        }
        let few = [Outcome::Forced(true), failed(), failed()];
        assert_eq!(complete(&few), Some(failed()));
    }

    #[test]
    fn a_release_says_stolen_if_most_primaries_have_another_holder() {
        let stolen = || Outcome::Released(ReleaseOutcome::Stolen);
        let expired = || Outcome::Released(ReleaseOutcome::Expired);
        assert_eq!(complete(&[expired(), stolen(), stolen()]), Some(stolen()));
        assert_eq!(complete(&[stolen(), expired(), expired()]), Some(expired()));
    }
}
