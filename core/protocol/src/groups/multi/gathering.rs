//! The acquisition of a multi-lock: one caller acquires several locks one after the other, until all are held.
//!
//! Until the multi-lock is granted, no program relies on its locks. A loss therefore harms no program: all locks are
//! released, and acquired again if the caller still waits. If the caller had to wait for a lock, the server confirms
//! the earlier ones once more before the multi-lock is granted. Otherwise the client would notice a removed record only
//! at the next renewal.
//!
//! `Gatherings` has all such callers, and handles the grants, renewals, refusals and losses of their members.

use std::collections::VecDeque;
use std::time::Duration;

use steadlock_collections::SortedMap;

use super::LockSet;
use crate::ending::LostReason;
use crate::error::{Cause, Error, ErrorKind, Operation};
use crate::groups::members::{Completed, Members};
use crate::ids::{Context, HoldId, LeaseId, NodeId, Ticket, Verb};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::lateness::Lateness;
use crate::lease::LeasePlan;
use crate::machines::holds;
use crate::machines::holds::Hold;
use crate::periods::{FIRST_ANSWER_GRACE, MIN_GAP};
use crate::step::Reentry;
use crate::types::{AcquireRequest, Outcome};
use crate::wording::brief;

/// If the answer for a lock takes longer than this, the server must confirm the locks that were already held.
const LATE: Duration = Duration::from_millis(500);

/// A caller that wants several locks.
#[derive(Debug)]
pub(super) struct Gathering {
    /// All locks to acquire, in order.
    all: Vec<AcquireRequest>,
    /// The locks that are not requested yet, in order.
    todo: VecDeque<AcquireRequest>,
    /// When the first lock was requested; after a restart, when it was requested again.
    began: Instant,
    /// When the current lock was requested.
    asked: Instant,
    /// How many times in a row a lock expired before all were held.
    lateness: Lateness,
    /// Whether the caller waited for a lock while it held others.
    waited: bool,
    /// Whether the final renewals failed before, and are being repeated.
    renewal_failed: bool,
    /// The leases of the locks that were granted.
    leases: Vec<LeaseId>,
    /// The tickets in progress: one acquisition, or the final renewals (`renew_all`).
    under_way: Vec<Ticket>,
    plan: LeasePlan,
    /// When the caller's wait is over; `None` for a wait without a bound.
    until: Option<Instant>,
    context: Option<Context>,
    locks: LockSet,
    /// The multi-lock that is re-entered, by its first lease. No lock is acquired for it.
    again: Option<LeaseId>,
    /// The holds of these locks that the caller had before, each with the plan to restore at the end. A hold that is
    /// re-entered is renewed while the other locks are acquired.
    around: SortedMap<HoldId, LeasePlan>,
}

/// The request of a caller.
pub(super) struct Wanted {
    /// The requests, in order. The wait, the lease and the context are those of the first one.
    pub(super) requests: Vec<AcquireRequest>,
    pub(super) locks: LockSet,
    pub(super) wait: Option<Duration>,
    pub(super) context: Option<Context>,
    pub(super) plan: LeasePlan,
    /// The multi-lock of these locks that the caller already holds.
    pub(super) again: Option<Reentered>,
}

/// A multi-lock that its holder re-enters.
pub(super) struct Reentered {
    /// The lease of its first level.
    pub(super) first: LeaseId,
    pub(super) members: Vec<LeaseId>,
}

/// The result when all locks are held.
pub(super) struct Gathered {
    pub(super) leases: Vec<LeaseId>,
    pub(super) plan: LeasePlan,
    pub(super) context: Option<Context>,
    pub(super) locks: LockSet,
    /// The multi-lock that is re-entered.
    pub(super) again: Option<LeaseId>,
    /// The earliest deadline of the locks.
    pub(super) deadline: Instant,
}

impl Gathering {
    pub(super) fn new(wanted: Wanted, now: Instant) -> Self {
        let (again, leases, todo) = match wanted.again {
            Some(again) => (Some(again.first), again.members, VecDeque::new()),
            None => (None, Vec::new(), wanted.requests.clone().into()),
        };
        Self {
            all: wanted.requests,
            todo,
            began: now,
            asked: now,
            lateness: Lateness::default(),
            waited: false,
            renewal_failed: false,
            leases,
            under_way: Vec::new(),
            plan: wanted.plan,
            until: wanted.wait.map(|wait| now + wait),
            context: wanted.context,
            locks: wanted.locks,
            again,
            around: SortedMap::new(),
        }
    }

    /// Whether a lease was granted for this multi-lock.
    pub(super) fn has(&self, lease: LeaseId) -> bool {
        self.again.is_none() && self.leases.contains(&lease)
    }

    /// Whether the wait of the caller is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Whether an acquisition or a renewal is in progress.
    pub(super) const fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether one of the acquired locks has expired or was lost.
    pub(super) fn has_expired(&self, members: &Members<'_>, now: Instant) -> bool {
        self.again.is_none() && members.earliest_deadline(&self.leases) <= now
    }

    /// Whether the caller does not wait.
    fn is_single_attempt(&self) -> bool {
        let wait = self.all.first().and_then(|request| request.wait);
        wait.is_some_and(|wait| wait.is_zero())
    }

    /// Returns when the caller must get its outcome, even if the answer to a call that is sent now is still missing.
    /// `None` stands for the command timeout: for a wait without a bound, and for a single attempt.
    fn answer_by(&self, now: Instant) -> Option<Instant> {
        let until = self.until.filter(|_| !self.is_single_attempt());
        until.map(|until| until.max(now) + FIRST_ANSWER_GRACE)
    }

    /// Requests the next lock. Returns `false` if all locks are granted.
    pub(super) fn ask_next(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) -> bool {
        let Some(mut request) = self.todo.pop_front() else {
            return false;
        };
        // The request of a caller that waits must not become a single attempt, because a single attempt may last for
        // the whole command timeout.
        let least = if self.is_single_attempt() {
            Duration::ZERO
        } else {
            MIN_GAP
        };
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
        members.acquire(member, request, NodeId::default(), plan, now);
        true
    }

    pub(super) fn done(&mut self, member: Ticket) {
        self.under_way.retain(|under_way| *under_way != member);
    }

    /// Adds a lock that was granted. Also notes whether the caller waited for it while it held earlier locks: the first
    /// attempt was not granted, or its answer was late.
    pub(super) fn granted(&mut self, members: &Members<'_>, lease: LeaseId, now: Instant) {
        self.leases.push(lease);
        let holds = members.locks().holds();
        let Some(hold) = holds.of_lease(lease).and_then(|id| holds.get(id)) else {
            return;
        };
        // A hold with more levels was re-entered, without a wait.
        let waited = hold.waited() && hold.levels().len() == 1;
        let is_late = now > self.asked + LATE;
        self.waited |= self.leases.len() > 1 && (waited || is_late);
    }

    /// Starts the final renewals, now that all locks are held: renews each lock that does not last until `enough`, or
    /// that may be lost.
    pub(super) fn renew_all(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
        let enough = self.enough(members, now);
        let leases = self.leases.iter();
        self.under_way = leases
            .filter_map(|lease| self.renew(members, ticket, *lease, enough, now))
            .collect();
    }

    /// Renews one lock, unless it lasts long enough and is certainly held. Returns the ticket of the renewal.
    fn renew(
        &self,
        members: &mut Members<'_>,
        ticket: Ticket,
        lease: LeaseId,
        enough: Instant,
        now: Instant,
    ) -> Option<Ticket> {
        let id = members.locks().holds().of_lease(lease)?;
        let hold = members.locks().holds().get(id)?;
        // A hold that the caller had before keeps its own plan.
        let is_own = self.again.is_none() && hold.levels().len() == 1;
        let renewed = if is_own { self.plan } else { hold.plan() };
        let lasts = renewed.renews_for(self.plan) || hold.lasts(hold.capped(enough));
        // A primary whose circuit breaker is open cannot confirm its grants.
        let is_unanswered = members.io().outage(hold.keys()).is_some();
        let is_enough = is_unanswered || (lasts && self.is_known(lease));
        if is_own {
            members.hold(holds::Input::Plan(id, self.plan), now);
        }
        if is_enough {
            members.hold(holds::Input::StopRenewing(id), now);
            return None;
        }
        let member = members.ticket_for(Some(ticket), Verb::Extend);
        let confirm = holds::Confirm {
            hold: id,
            until: now + self.plan.length,
            answer_by: self.answer_by(now),
        };
        members.hold(holds::Input::Confirm(member, confirm), now);
        Some(member)
    }

    /// Returns the instant until which each lock must last: the end of a lease that begins with the call for the last
    /// lock. A multi-lock that is re-entered gets its full length from now.
    fn enough(&self, members: &Members<'_>, now: Instant) -> Instant {
        let full = now + self.plan.length;
        if self.again.is_some() {
            return full;
        }
        let holds = members.locks().holds();
        let newest = self.leases.last().and_then(|lease| holds.of_lease(*lease));
        let newest = newest.and_then(|id| holds.get(id));
        let granted = newest.map_or(full, Hold::record_until);
        // An attempt asks for at most 30 s of a longer lease.
        full.min(granted.max(self.asked + self.plan.length))
    }

    /// Whether the lock is certainly still held, so that the server need not confirm it.
    fn is_known(&self, lease: LeaseId) -> bool {
        let waited = self.waited || self.renewal_failed;
        // The newest lock was granted just now.
        let is_newest = !self.renewal_failed && self.leases.last() == Some(&lease);
        !waited || is_newest
    }

    /// Whether the final renewals may be repeated after one of them failed with `error`: all locks were granted for a
    /// new multi-lock, the error may pass, and the caller still waits.
    pub(super) fn may_renew_again(&self, error: &Error, now: Instant) -> bool {
        let is_complete = self.leases.len() == self.all.len();
        let is_worth_it = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::LockLost);
        is_worth_it && self.again.is_none() && is_complete && !self.is_over(now)
    }

    /// Notes that one of the final renewals failed. The others are cancelled.
    pub(super) fn renewal_failed(&mut self, members: &mut Members<'_>, now: Instant) {
        self.renewal_failed = true;
        members.cancel_all(&std::mem::take(&mut self.under_way), now);
    }

    /// Notes that a lock expired before all were held. Returns whether the request ends, because its wait is over or
    /// because another acquisition would be useless.
    pub(super) fn expired(&mut self, now: Instant) -> bool {
        // Locks that were held for twice the lease have been renewed, so the network is fast enough for the lease.
        if now.saturating_since(self.began) > self.plan.length.saturating_mul(2) {
            self.lateness.over();
        }
        self.lateness.again();
        let is_endless = self.until.is_none() || self.is_single_attempt();
        self.is_over(now) || (is_endless && self.lateness.is_lasting())
    }

    /// Returns the cause of the failure, if a lock has expired before all were held.
    pub(super) fn lateness(&self) -> Option<Cause> {
        let length = self.plan.length;
        let cause = Cause::new(format!(
            "a lease of {} ended before all of the locks were acquired",
            brief(length)
        ));
        let advice = "the answers take too long for it: the lease must be longer";
        self.lateness.is_any().then(|| cause.with_advice(advice))
    }

    /// Releases all locks after a loss, so that they can be acquired again.
    pub(super) fn restart(&mut self, members: &mut Members<'_>, now: Instant) {
        self.began = now;
        self.waited = false;
        self.renewal_failed = false;
        self.todo = self.all.clone().into();
        members.cancel_all(&std::mem::take(&mut self.under_way), now);
        members.discard_all(&std::mem::take(&mut self.leases), now);
    }

    /// Ends the request of a caller that no longer waits or cannot get the locks. All locks that were acquired for it
    /// are released.
    pub(super) fn stop(self, members: &mut Members<'_>, now: Instant) {
        members.cancel_all(&self.under_way, now);
        if self.again.is_none() {
            members.discard_all(&self.leases, now);
        }
        self.renew_as_before(members, now);
    }

    /// Returns the result, now that all locks are held for their full length.
    pub(super) fn finish(self, members: &mut Members<'_>, now: Instant) -> Gathered {
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

    /// Notes that a caller re-entered a hold that this multi-lock has also acquired. If the plan of the re-entry is
    /// auto-renewed, the hold stays renewed for that caller.
    pub(super) fn stays_renewed(&mut self, reentry: Reentry) {
        let plan = reentry.plan;
        let before = self.around.get_mut(&reentry.hold);
        if let Some(before) = before.filter(|before| plan.renewed && !before.renews_for(plan)) {
            *before = plan;
        }
    }

    /// Restores the plans of the holds that the caller had before.
    fn renew_as_before(&self, members: &mut Members<'_>, now: Instant) {
        for (id, plan) in self.around.iter() {
            members.hold(holds::Input::Plan(*id, *plan), now);
            members.hold(holds::Input::StopRenewing(*id), now);
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

    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.by_ticket.keys().copied().collect()
    }

    /// Adds a caller that wants several locks. Returns the locks if all are held.
    pub(super) fn start(
        &mut self,
        members: &mut Members<'_>,
        ticket: Ticket,
        gathering: Gathering,
        now: Instant,
    ) -> Option<Gathered> {
        self.by_ticket.insert(ticket, gathering);
        self.advance(members, ticket, now)
    }

    /// Handles the outcome of a member's acquisition or renewal. Returns the locks if all are held.
    pub(super) fn completed(
        &mut self,
        members: &mut Members<'_>,
        completed: Completed,
        now: Instant,
    ) -> Option<Gathered> {
        let ticket = completed.caller;
        let gathering = self.by_ticket.get_mut(&ticket)?;
        gathering.done(completed.member);
        match completed.outcome {
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

    /// Handles the loss of a lock before the multi-lock is granted.
    pub(super) fn lost(&mut self, members: &mut Members<'_>, lease: LeaseId, reason: LostReason, now: Instant) {
        let of = self.by_ticket.iter().find(|(_, gathering)| gathering.has(lease));
        match of.map(|(ticket, _)| *ticket) {
            Some(ticket) if reason == LostReason::Expired => self.expired(members, ticket, now),
            Some(ticket) => self.restart(members, ticket, now),
            None => {}
        }
    }

    /// Ends the request of a caller that no longer waits or cannot get the locks.
    pub(super) fn stop(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
        if let Some(gathering) = self.by_ticket.remove(&ticket) {
            gathering.stop(members, now);
        }
    }

    /// Notes that a caller re-entered a hold, which a multi-lock that is being acquired may also have.
    pub(super) fn stays_renewed(&mut self, reentry: Reentry) {
        for gathering in self.by_ticket.values_mut() {
            gathering.stays_renewed(reentry);
        }
    }

    /// Requests the next lock, or renews all locks if the last one is held.
    fn advance(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) -> Option<Gathered> {
        let is_asked = self.by_ticket.get_mut(&ticket)?.ask_next(members, ticket, now);
        if is_asked {
            return None;
        }
        self.renew_all(members, ticket, now)
    }

    fn renew_all(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) -> Option<Gathered> {
        self.by_ticket.get_mut(&ticket)?.renew_all(members, ticket, now);
        self.finish(members, ticket, now)
    }

    /// Returns the locks, if all are held for their full length.
    fn finish(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) -> Option<Gathered> {
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

    /// Handles the expiry of a lock before all were held: acquires all of them again, unless the wait is over or
    /// another acquisition would be useless.
    fn expired(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
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

    /// Releases all locks and acquires them again. If the caller's wait is over, the request fails instead.
    fn restart(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
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

/// Returns the outcome for a caller, if one of its locks has expired before all were held.
fn too_late(gathering: &Gathering) -> Option<Outcome> {
    let error = Error::new(ErrorKind::Unavailable, Operation::Acquire, "not granted");
    Some(Outcome::Failed(error.with_cause(gathering.lateness()?)))
}
