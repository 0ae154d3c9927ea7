//! One caller that acquires several locks one after the other, until all are held.
//!
//! Until the last lock is granted nobody relies on the others, so a loss costs the caller time
//! alone: all are released and acquired again. If the caller had to wait for a lock, those that it
//! had before are confirmed by the server once more before the multi-lock is granted: nothing
//! else would see until their next renewal that a record was removed meanwhile.
//!
//! `Gatherings` are all such callers: what each does when one of its members is granted, renewed, refused or lost.

use std::collections::VecDeque;
use std::time::Duration;

use super::LockSet;
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Cause, Error, ErrorKind, Operation};
use crate::groups::members::Members;
use crate::ids::{Context, HoldId, LeaseId, NodeId, Ticket, Verb};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::lateness::Lateness;
use crate::lease::LeasePlan;
use crate::machines::holds;
use crate::machines::holds::Hold;
use crate::periods::{FIRST_ANSWER_GRACE, MIN_GAP};
use crate::sorted::SortedMap;
use crate::types::{AcquireRequest, Outcome};
use crate::wording::brief;

/// So long an answer may take; after that, the locks held meanwhile are confirmed once more.
const LATE: Duration = Duration::from_millis(500);

/// A caller that wants several locks.
#[derive(Debug)]
pub(super) struct Gathering {
    /// All locks that are to be acquired, in order.
    all: Vec<AcquireRequest>,
    /// Those that are still to be acquired, in order.
    todo: VecDeque<AcquireRequest>,
    /// When the first of them was asked for, and the one that is under way.
    began: Instant,
    asked: Instant,
    /// How often in a row a lock expired before all were held, though nobody kept the caller waiting.
    lateness: Lateness,
    /// Others were held already while the caller waited for one of them.
    waited: bool,
    /// The last renewals failed before, and are asked for again.
    renewed_in_vain: bool,
    /// What was granted.
    leases: Vec<LeaseId>,
    /// The members that are under way: one acquisition, or the last renewals.
    under_way: Vec<Ticket>,
    plan: LeasePlan,
    /// When the caller's wait is over.
    until: Option<Instant>,
    context: Option<Context>,
    locks: LockSet,
    /// The multi-lock that is entered again, by its first lease; no lock is acquired for it.
    again: Option<LeaseId>,
    /// The holds that the caller had before, and how they were renewed: meanwhile all are renewed.
    around: SortedMap<HoldId, LeasePlan>,
}

/// What a caller wants.
pub(super) struct Wanted {
    /// The locks, in order; the wait, the lease and the context are the first one's.
    pub(super) requests: Vec<AcquireRequest>,
    pub(super) locks: LockSet,
    pub(super) wait: Option<Duration>,
    pub(super) context: Option<Context>,
    pub(super) plan: LeasePlan,
    /// The multi-lock of these locks that the caller holds already, and its members.
    pub(super) again: Option<(LeaseId, Vec<LeaseId>)>,
}

/// All locks are held.
pub(super) struct Gathered {
    pub(super) leases: Vec<LeaseId>,
    pub(super) plan: LeasePlan,
    pub(super) context: Option<Context>,
    pub(super) locks: LockSet,
    /// The multi-lock that is entered again.
    pub(super) again: Option<LeaseId>,
    /// Until when all of them may be relied on.
    pub(super) deadline: Instant,
}

impl Gathering {
    pub(super) fn new(wanted: Wanted, now: Instant) -> Self {
        let (again, leases) = wanted.again.unzip();
        let todo = if again.is_some() {
            VecDeque::new()
        } else {
            wanted.requests.clone().into()
        };
        Self {
            all: wanted.requests,
            todo,
            began: now,
            asked: now,
            lateness: Lateness::default(),
            waited: false,
            renewed_in_vain: false,
            leases: leases.unwrap_or_default(),
            under_way: Vec::new(),
            plan: wanted.plan,
            until: wanted.wait.map(|wait| now + wait),
            context: wanted.context,
            locks: wanted.locks,
            again,
            around: SortedMap::new(),
        }
    }

    /// Whether this lease was granted for it.
    pub(super) fn has(&self, lease: LeaseId) -> bool {
        self.again.is_none() && self.leases.contains(&lease)
    }

    /// Whether its caller's wait is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Whether a member is under way.
    pub(super) const fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether one of the locks that were acquired has expired meanwhile.
    pub(super) fn has_expired(&self, members: &Members, now: Instant) -> bool {
        self.again.is_none() && members.earliest_deadline(&self.leases) <= now
    }

    /// Whether its caller does not wait.
    fn tries_once(&self) -> bool {
        let wait = self.all.first().and_then(|request| request.wait);
        wait.is_some_and(|wait| wait.is_zero())
    }

    /// When its caller is told, though an answer to what is sent now is still due.
    fn answer_by(&self, now: Instant) -> Option<Instant> {
        let until = self.until.filter(|_| !self.tries_once());
        until.map(|until| until.max(now) + FIRST_ANSWER_GRACE)
    }

    /// Acquires the next lock. False if all are granted.
    pub(super) fn ask_next(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> bool {
        let Some(mut request) = self.todo.pop_front() else {
            return false;
        };
        // A caller that waits never becomes one that does not: a single attempt may take longer.
        let least = if self.tries_once() { Duration::ZERO } else { MIN_GAP };
        request.wait = self.until.map(|until| until.saturating_since(now).max(least));
        let plan = LeasePlan {
            renewed: true,
            ..self.plan
        };
        let keys = Keys::new(request.kind, &request.name, NodeId::default());
        let context = request.context;
        let around = context.and_then(|context| members.locks().held_by(&keys, context));
        if let Some(id) = around
            && let Some(hold) = members.locks().holds().get(id)
        {
            self.around.get_or_insert_with(id, || hold.plan());
        }
        let member = members.ticket_for(Some(ticket), Verb::Acquire);
        self.under_way = vec![member];
        self.asked = now;
        members.acquire(member, request, (NodeId::default(), plan), now);
        true
    }

    /// A member that was under way is done.
    pub(super) fn done(&mut self, member: Ticket) {
        self.under_way.retain(|under_way| *under_way != member);
    }

    /// One more lock is granted. Were others held meanwhile for longer than its first attempt
    /// took, or was the answer to that late?
    pub(super) fn granted(&mut self, members: &Members, lease: LeaseId, now: Instant) {
        self.leases.push(lease);
        let holds = members.locks().holds();
        let Some(hold) = holds.of_lease(lease).and_then(|id| holds.get(id)) else {
            return;
        };
        // What the caller had before is entered again.
        let waited = hold.waited() && hold.levels().len() == 1;
        let is_late = now > self.asked + LATE;
        self.waited |= self.leases.len() > 1 && (waited || is_late);
    }

    /// All locks are held: each gets its full length, counted from the last one's call or later.
    pub(super) fn renew_all(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let enough = self.enough(members, now);
        let leases = self.leases.iter();
        self.under_way = leases
            .filter_map(|lease| self.renew(members, ticket, (*lease, enough), now))
            .collect();
    }

    /// Renews one lock, unless it lasts until then. Returns the ticket of the renewal.
    fn renew(
        &self,
        members: &mut Members,
        ticket: Ticket,
        (lease, enough): (LeaseId, Instant),
        now: Instant,
    ) -> Option<Ticket> {
        let id = members.locks().holds().of_lease(lease)?;
        let hold = members.locks().holds().get(id)?;
        // What the caller had before gets its own lease back.
        let is_own = self.again.is_none() && hold.levels().len() == 1;
        let renewed = if is_own { self.plan } else { hold.plan() };
        let is_defective = self.again.is_some() && members.io().has(Defect::ReentryLeavesMembers);
        let short = self.plan.length.checked_div(10).filter(|_| is_defective);
        let enough = hold.capped(enough) - short.unwrap_or_default();
        let lasts = renewed.renews_for(self.plan) || hold.lasts(enough);
        // Nobody can confirm what a primary granted that does not answer any more.
        let is_unanswered = members.io().outage(hold.keys()).is_some();
        let is_enough = is_unanswered || (lasts && self.is_known(members, lease));
        if is_own {
            members.hold(holds::Input::Plan(id, self.plan), now);
        }
        if is_enough {
            members.hold(holds::Input::RenewNoMore(id), now);
            return None;
        }
        let unit = if members.io().has(Defect::MultiLockUnits) {
            1_000
        } else {
            1
        };
        let member = members.ticket_for(Some(ticket), Verb::Extend);
        let until = now + self.plan.length.saturating_mul(unit);
        members.hold(holds::Input::Confirm(member, id, until, self.answer_by(now)), now);
        Some(member)
    }

    /// Until when each lock has to last: as long as a single lock that was granted by the call of the last one. What
    /// is entered again gets its full length from now.
    fn enough(&self, members: &Members, now: Instant) -> Instant {
        let full = now + self.plan.length;
        if self.again.is_some() {
            return full;
        }
        let holds = members.locks().holds();
        let newest = self.leases.last().and_then(|lease| holds.of_lease(*lease));
        let newest = newest.and_then(|id| holds.get(id));
        let granted = newest.map_or(full, Hold::record_until);
        // A long lease has a part of its length at first.
        full.min(granted.max(self.asked + self.plan.length))
    }

    /// Whether the server need not confirm that the lock is still held.
    fn is_known(&self, members: &Members, lease: LeaseId) -> bool {
        let waited = self.waited || self.renewed_in_vain;
        // What was granted just now is there.
        let is_newest = !self.renewed_in_vain && self.leases.last() == Some(&lease);
        !waited || is_newest || members.io().has(Defect::LostMemberIsGranted)
    }

    /// Whether the last renewals are worth another attempt after one failed: all locks were
    /// granted, and their caller still waits.
    pub(super) fn may_renew_again(&self, error: &Error, now: Instant) -> bool {
        let is_complete = self.leases.len() == self.all.len();
        let is_worth_it = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::LockLost);
        is_worth_it && self.again.is_none() && is_complete && !self.is_over(now)
    }

    /// One of the last renewals failed: the others are not waited for.
    pub(super) fn renewal_failed(&mut self, members: &mut Members, now: Instant) {
        self.renewed_in_vain = true;
        members.cancel_all(&std::mem::take(&mut self.under_way), now);
    }

    /// One lock expired before all were held. Says whether to acquire them again would be of no use.
    pub(super) fn expired(&mut self, now: Instant) -> bool {
        // Locks that were kept for longer show that the network is quick enough for the lease.
        if now.saturating_since(self.began) > self.plan.length.saturating_mul(2) {
            self.lateness.over();
        }
        self.lateness.again();
        let is_endless = self.until.is_none() || self.tries_once();
        self.is_over(now) || (is_endless && self.lateness.is_lasting())
    }

    /// Why it comes to nothing, if the locks expired one after the other.
    pub(super) fn lateness(&self) -> Option<Cause> {
        let length = self.plan.length;
        let cause = Cause::new(format!(
            "a lease of {} ended before all of the locks were acquired",
            brief(length)
        ));
        let advice = "the answers take too long for it: the lease must be longer";
        self.lateness.is_any().then(|| cause.with_advice(advice))
    }

    /// One lock was lost: all are released, and are to be acquired again.
    pub(super) fn restart(&mut self, members: &mut Members, now: Instant) {
        self.began = now;
        self.waited = false;
        self.renewed_in_vain = false;
        self.todo = self.all.clone().into();
        members.cancel_all(&std::mem::take(&mut self.under_way), now);
        members.discard_all(&std::mem::take(&mut self.leases), now);
    }

    /// The caller went away, or will not get the locks: what was acquired is released.
    pub(super) fn stop(self, members: &mut Members, now: Instant) {
        members.cancel_all(&self.under_way, now);
        if self.again.is_none() {
            members.discard_all(&self.leases, now);
        }
        self.renew_as_before(members, now);
    }

    /// All locks are held for their full length.
    pub(super) fn finish(self, members: &mut Members, now: Instant) -> Gathered {
        let deadline = members.earliest_deadline(&self.leases);
        if !self.plan.renewed {
            self.renew_as_before(members, now);
        }
        Gathered {
            leases: self.leases,
            plan: self.plan,
            context: self.context,
            locks: self.locks,
            again: self.again,
            deadline,
        }
    }

    /// A caller entered a hold that is acquired here as well: afterwards it stays renewed for that
    /// caller.
    pub(super) fn stays_renewed(&mut self, id: HoldId, plan: LeasePlan) {
        let before = self.around.get_mut(&id);
        if let Some(before) = before.filter(|before| plan.renewed && !before.renews_for(plan)) {
            *before = plan;
        }
    }

    /// What the caller held before is renewed no more than it was then.
    fn renew_as_before(&self, members: &mut Members, now: Instant) {
        for (id, plan) in self.around.iter() {
            members.hold(holds::Input::Plan(*id, *plan), now);
            members.hold(holds::Input::RenewNoMore(*id), now);
        }
    }
}

/// The callers that want several locks.
#[derive(Debug, Default)]
pub(super) struct Gatherings {
    by_ticket: SortedMap<Ticket, Gathering>,
}

impl Gatherings {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// The tickets of these callers.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.by_ticket.keys().copied().collect()
    }

    /// A caller wants several locks. Returns them once all are held.
    pub(super) fn start(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        gathering: Gathering,
        now: Instant,
    ) -> Option<Gathered> {
        self.by_ticket.insert(ticket, gathering);
        self.advance(members, ticket, now)
    }

    /// A member is granted, renewed, refused, or has failed. Returns all locks once they are held.
    pub(super) fn completed(
        &mut self,
        members: &mut Members,
        (ticket, member): (Ticket, Ticket),
        outcome: Outcome,
        now: Instant,
    ) -> Option<Gathered> {
        let gathering = self.by_ticket.get_mut(&ticket)?;
        gathering.done(member);
        match outcome {
            Outcome::Granted(grant) => {
                gathering.granted(members, grant.lease, now);
                self.advance(members, ticket, now)
            }
            Outcome::Extended(_) => self.finish(members, ticket, now),
            Outcome::Failed(error) if gathering.may_renew_again(&error, now) => {
                gathering.renewal_failed(members, now);
                if gathering.has_expired(members, now) {
                    self.expired(members, ticket, now);
                    None
                } else {
                    self.renew_all(members, ticket, now)
                }
            }
            refusal => {
                let is_unanswered =
                    matches!(&refusal, Outcome::Failed(error) if error.kind() == ErrorKind::Unavailable);
                let late = too_late(gathering).filter(|_| is_unanswered);
                self.stop(members, ticket, now);
                members.complete(ticket, late.unwrap_or(refusal));
                None
            }
        }
    }

    /// A lock that was granted is lost before the last one is granted.
    pub(super) fn lost(&mut self, members: &mut Members, (lease, reason): (LeaseId, LostReason), now: Instant) {
        if members.io().has(Defect::LostMemberIsGranted) {
            return;
        }
        let of = self.by_ticket.iter().find(|(_, gathering)| gathering.has(lease));
        match of.map(|(ticket, _)| *ticket) {
            Some(ticket) if reason == LostReason::Expired => self.expired(members, ticket, now),
            Some(ticket) => self.restart(members, ticket, now),
            None => {}
        }
    }

    /// The caller went away, or will not get the locks.
    pub(super) fn stop(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        if let Some(gathering) = self.by_ticket.remove(&ticket) {
            gathering.stop(members, now);
        }
    }

    /// A caller entered a hold, which stays renewed for it also if several locks are acquired
    /// meanwhile and this is one of them.
    pub(super) fn stays_renewed(&mut self, id: HoldId, plan: LeasePlan) {
        for gathering in self.by_ticket.values_mut() {
            gathering.stays_renewed(id, plan);
        }
    }

    /// Acquires the next lock, or renews all once the last one is held.
    fn advance(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> Option<Gathered> {
        let is_asked = self.by_ticket.get_mut(&ticket)?.ask_next(members, ticket, now);
        if is_asked {
            return None;
        }
        self.renew_all(members, ticket, now)
    }

    fn renew_all(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> Option<Gathered> {
        self.by_ticket.get_mut(&ticket)?.renew_all(members, ticket, now);
        self.finish(members, ticket, now)
    }

    /// Returns all locks if they are held for their full length.
    fn finish(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> Option<Gathered> {
        let gathering = self.by_ticket.get(&ticket)?;
        if gathering.is_under_way() {
            return None;
        }
        if gathering.has_expired(members, now) {
            self.expired(members, ticket, now);
            return None;
        }
        let gathering = self.by_ticket.remove(&ticket)?;
        Some(gathering.finish(members, now))
    }

    /// One lock expired before all were held: acquires all anew, unless that would be of no use.
    fn expired(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.by_ticket.get_mut(&ticket) else {
            return;
        };
        if !gathering.expired(now) {
            self.restart(members, ticket, now);
            return;
        }
        if let Some(outcome) = too_late(gathering) {
            self.stop(members, ticket, now);
            members.complete(ticket, outcome);
        }
    }

    /// Acquires all locks anew, unless the caller's wait is over.
    fn restart(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.by_ticket.get_mut(&ticket) else {
            return;
        };
        gathering.restart(members, now);
        if gathering.is_over(now) {
            self.stop(members, ticket, now);
            let cause = Cause::new("one of the locks was lost while the others were taken");
            let cause = cause.with_advice("acquire them again");
            let error = Error::caused(ErrorKind::LockLost, Operation::Acquire, cause);
            members.complete(ticket, Outcome::Failed(error));
        } else {
            gathering.ask_next(members, ticket, now);
        }
    }
}

/// What a caller is told whose locks expired one after the other.
fn too_late(gathering: &Gathering) -> Option<Outcome> {
    let error = Error::new(ErrorKind::Unavailable, Operation::Acquire, "not granted");
    Some(Outcome::Failed(error.with_cause(gathering.lateness()?)))
}
