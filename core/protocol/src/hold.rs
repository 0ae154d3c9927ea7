//! One hold, from grant to released or lost.
//!
//! ```text
//!                 last level released
//!   Held ──────────────────────────────────► gone; a Release is owed
//!    │ deadline without a confirmed renewal,
//!    │ the record gone or another's,
//!    │ max_hold over, client closed
//!    ▼            last level released
//!   Lost ──────────────────────────────────► gone; a Release is owed all the same,
//!      │                                     and the caller is told at once
//!      │ the lease is fixed
//!      └───────────────────────────────────► forgotten; a Release is owed once its
//!                                            TTL has passed, in case that was prolonged
//! ```
//!
//! `Lost` is final: nothing renews a lost hold. An auto-renewed one does not let
//! its context in again until the outermost level is released. A fixed one is
//! forgotten as soon as its loss is told, since its holder need not come back to
//! release it: its context may acquire the lock again, and a later release or
//! extension is `NotOwner`.

mod extension;

use crate::calls::{Heir, Unresolved};
use crate::defects::Defect;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::ids::{CallId, Context, HoldId, LeaseId, LockId, Ticket};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::lease::{LeaseTerms, deadline};
use crate::owner::OwnerId;
use crate::periods::PROVISIONAL;
use crate::session::Session;
use crate::step::{Ended, Owed};
use crate::timers::Timer;
use crate::token::Token;
use crate::types::{Config, Event, Lane, Outcome};
use extension::Aim;
pub(crate) use extension::Extension;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a hold is to last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeasePlan {
    /// The lease.
    pub(crate) length: Duration,
    /// Whether the watchdog renews it.
    pub(crate) watched: bool,
}

impl LeasePlan {
    /// What a caller asks for, of the client's length where it names none.
    pub(crate) fn of(lease: LeaseTerms, config: &Config) -> Self {
        Self {
            length: lease.length().unwrap_or(config.lease).get(),
            watched: lease.is_renewed(),
        }
    }

    /// Whether both are renewed, and this one for at least as long: then the other needs nothing more.
    pub(crate) fn renews_for(&self, other: Self) -> bool {
        self.watched && other.watched && self.length >= other.length
    }
}

/// One record of ours on the server.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) queue: LockId,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: OwnerId,
    context: Option<Context>,
    token: Option<Token>,
    pub(crate) plan: LeasePlan,
    /// The leases that were given and not released, outermost first.
    pub(crate) levels: Vec<LeaseId>,
    /// Set once, when it is lost.
    pub(crate) lost: Option<LostReason>,
    /// Others had it before, while its request waited.
    pub(crate) waited: bool,
    /// Until when it may be relied on.
    pub(crate) deadline: Instant,
    /// When the server drops the record at the earliest.
    pub(crate) record_until: Instant,
    /// How long the record is wanted; `record_until` is to reach it.
    pub(crate) wanted_until: Instant,
    /// When `max_hold` ends it.
    pub(crate) ends: Option<Instant>,
    /// The renewal in flight.
    pub(crate) renewal: Option<CallId>,
    /// How many renewals in a row failed.
    pub(crate) failures: u32,
    /// The lane that the last renewal went by.
    pub(crate) renewed_by: Lane,
    /// Why the last one failed, if that is known.
    pub(crate) failure: Option<String>,
    /// Callers that wait for the record to last longer.
    pub(crate) extensions: Vec<Ticket>,
    /// What of its acquisition is still unknown.
    pub(crate) unresolved: Unresolved,
}

impl Hold {
    /// The hold as others would see it.
    pub(crate) fn as_holder(&self, now: Instant) -> Holder {
        Holder {
            owner: self.owner.to_string(),
            remaining: Some(self.record_until.saturating_since(now)),
        }
    }

    /// Whether it may be relied on.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        self.lost.is_none() && now < self.deadline
    }

    /// Renews it as `plan` says, if it is not renewed yet or for less; says whether that is
    /// new. Until the last level is released the longest of its auto-renewed leases counts.
    fn watch(&mut self, plan: LeasePlan) -> bool {
        let is_new = plan.watched && !self.plan.renews_for(plan);
        if is_new {
            self.plan = plan;
        }
        is_new
    }

    /// The release that it leaves behind.
    fn owed(self, ticket: Option<Ticket>, timeout: Duration, now: Instant) -> Owed {
        // The server may have granted it of its own accord, for longer than the lease.
        let granted_for = match self.keys.kind.queues_on_server() {
            true => PROVISIONAL,
            false => Duration::ZERO,
        };
        let longest = self.record_until.max(self.wanted_until).max(now) + self.plan.length.max(granted_for);
        Owed {
            lock: self.queue,
            keys: self.keys,
            owner: self.owner,
            ticket,
            hold: Some(Ended {
                deadline: self.deadline,
                // An extension that was not confirmed may have been made all the same.
                until: longest + timeout,
                not_before: None,
            }),
            unresolved: self.unresolved,
        }
    }

    /// `until`, or the end of `max_hold` if that comes first.
    pub(crate) fn capped(&self, until: Instant) -> Instant {
        self.ends.map_or(until, |ends| until.min(ends))
    }
}

/// What turns a request into a hold.
pub(crate) struct Grant {
    pub(crate) queue: LockId,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: OwnerId,
    pub(crate) context: Option<Context>,
    pub(crate) plan: LeasePlan,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) unresolved: Unresolved,
    pub(crate) token: Option<Token>,
    pub(crate) sent: Instant,
    pub(crate) ttl: Duration,
    /// The server granted it of its own accord, for a short time: its length
    /// counts from now.
    pub(crate) provisional: bool,
    /// What was granted is not the request's first call: others came before it.
    pub(crate) waited: bool,
}

/// The holds of a client and their leases.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    last_hold: HoldId,
    last_lease: u64,
    by_id: BTreeMap<HoldId, Hold>,
    by_lease: BTreeMap<LeaseId, HoldId>,
}

impl Holds {
    pub(crate) fn get(&self, id: &HoldId) -> Option<&Hold> {
        self.by_id.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: HoldId) -> Option<&mut Hold> {
        self.by_id.get_mut(&id)
    }

    /// The hold that a lease belongs to.
    pub(crate) fn of_lease(&self, lease: LeaseId) -> Option<HoldId> {
        self.by_lease.get(&lease).copied()
    }

    pub(crate) fn ids(&self) -> Vec<HoldId> {
        self.by_id.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn insert(&mut self, hold: Hold) -> HoldId {
        self.last_hold = self.last_hold.next();
        let id = self.last_hold;
        self.by_id.insert(id, hold);
        id
    }

    /// A number for a lease.
    pub(crate) fn next_lease(&mut self) -> LeaseId {
        self.last_lease = self.last_lease.wrapping_add(1);
        LeaseId::from_u64(self.last_lease)
    }

    fn add_level(&mut self, id: HoldId) -> Option<LeaseId> {
        let lease = self.next_lease();
        let hold = self.by_id.get_mut(&id)?;
        hold.levels.push(lease);
        self.by_lease.insert(lease, id);
        Some(lease)
    }

    fn remove_level(&mut self, lease: LeaseId) -> Option<HoldId> {
        let id = self.by_lease.remove(&lease)?;
        if let Some(hold) = self.by_id.get_mut(&id) {
            hold.levels.retain(|level| *level != lease);
        }
        Some(id)
    }

    fn remove(&mut self, id: HoldId) -> Option<Hold> {
        let hold = self.by_id.remove(&id)?;
        for lease in &hold.levels {
            self.by_lease.remove(lease);
        }
        Some(hold)
    }
}

impl Session {
    /// Notes a grant: the hold is armed in the same step that records it.
    pub(crate) fn start_hold(&mut self, ticket: Ticket, grant: Grant, now: Instant) {
        let start = if grant.provisional { now } else { grant.sent };
        let ends = grant.max_hold.map(|max| start + max);
        let record_until = (grant.sent + grant.ttl).min(start + grant.plan.length);
        let wanted = start + grant.plan.length;
        let watched_for = grant.plan.watched.then_some(grant.plan.length);
        let unresolved = grant.unresolved.open.clone();
        let is_exclusive = grant.keys.kind.is_exclusive();
        let until = deadline(grant.sent, grant.ttl).min(deadline(start, grant.plan.length));
        let until = ends.map_or(until, |ends| until.min(ends));
        let id = self.holds.insert(Hold {
            queue: grant.queue,
            keys: grant.keys,
            owner: grant.owner,
            context: grant.context,
            token: grant.token,
            plan: grant.plan,
            levels: Vec::new(),
            lost: None,
            waited: grant.waited,
            deadline: until,
            record_until,
            wanted_until: ends.map_or(wanted, |ends| wanted.min(ends)),
            ends,
            renewal: None,
            failures: 0,
            renewed_by: Lane::Renewal,
            failure: None,
            extensions: Vec::new(),
            unresolved: grant.unresolved,
        });
        self.io.leave_to(&unresolved, Heir::Hold(id));
        if let Some(queue) = self.queues.get_mut(grant.queue).filter(|_| is_exclusive) {
            queue.holding = Some(id);
        }
        if let Some(context) = grant.context {
            self.reentrancy.insert(grant.queue, context, id);
        }
        self.enter(ticket, id);
        if grant.provisional {
            // Most holds are over before that. A watched lease may be the shorter one.
            let first = grant.ttl.min(watched_for.unwrap_or(grant.ttl));
            self.io.set(Timer::Deadline(id), until);
            self.io
                .set(Timer::Renew(id), grant.sent + first.checked_div(3).unwrap_or_default());
        } else {
            self.schedule_hold(id, grant.sent, now);
        }
    }

    /// Gives one more lease of a hold.
    fn enter(&mut self, ticket: Ticket, id: HoldId) {
        let Some(lease) = self.holds.add_level(id) else { return };
        let Some(hold) = self.holds.get(&id) else { return };
        let grant = crate::types::Grant {
            lease,
            token: hold.token,
            deadline: hold.deadline,
            levels: u32::try_from(hold.levels.len()).unwrap_or(u32::MAX),
        };
        self.complete(ticket, Outcome::Granted(grant));
    }

    /// Lets a holder in again. The server is asked only if the hold has to last
    /// longer than it does.
    pub(crate) fn reenter(&mut self, ticket: Ticket, id: HoldId, plan: LeasePlan, now: Instant) {
        let plan = self.plan_of_reentry(id, plan);
        if self.io.has(Defect::ReentryShortens) {
            self.shorten(id, plan, now);
        }
        let Some(hold) = self.holds.get_mut(id) else { return };
        if !hold.is_valid(now) {
            let error = lost_error(hold, Operation::Acquire);
            self.complete(ticket, Outcome::Failed(error));
            return;
        }
        let until = hold.capped(now + plan.length);
        if hold.plan.renews_for(plan) || until <= hold.record_until {
            let is_new = hold.watch(plan);
            self.stays_renewed(ticket, id, plan);
            self.enter(ticket, id);
            if is_new {
                self.schedule_hold(id, now, now);
            }
        } else {
            self.extend_hold(ticket, id, until, Aim::Enter(plan), now);
        }
    }

    /// Completes `ticket` when the server has confirmed a hold once more, until `until` or the
    /// end of `max_hold`; by `answer_by` at the latest.
    pub(crate) fn confirm(
        &mut self,
        ticket: Ticket,
        id: HoldId,
        until: Instant,
        answer_by: Option<Instant>,
        now: Instant,
    ) {
        let Some(hold) = self.holds.get(&id) else { return };
        if hold.is_valid(now) {
            let until = hold.capped(until);
            self.extend_hold(ticket, id, until, Aim::Confirm, now);
            if let Some(answer_by) = answer_by.filter(|by| *by < now + self.io.config().command_timeout) {
                self.io.set(Timer::Wait(ticket), answer_by);
            }
        } else {
            let error = lost_error(hold, Operation::Acquire);
            self.complete(ticket, Outcome::Failed(error));
        }
    }

    /// Whether the session has a lease: it is held, or it was lost and is still to be
    /// released. A fixed lease that was lost is forgotten when its loss is told.
    #[must_use]
    pub fn has_lease(&self, lease: LeaseId) -> bool {
        self.holds.of_lease(lease).is_some() || self.composites.has_whole(lease)
    }

    /// A part of a whole that is entered again is renewed if the new level says so.
    pub(crate) fn watch_part(&mut self, lease: LeaseId, plan: LeasePlan, now: Instant) {
        let Some(id) = self.holds.of_lease(lease) else { return };
        let is_unrenewed = self.io.has(Defect::ReentryLeavesMembers);
        let Some(hold) = self.holds.get_mut(id).filter(|hold| hold.lost.is_none()) else {
            return;
        };
        if !hold.watch(plan) {
            return;
        }
        let until = hold.capped(now + plan.length);
        if is_unrenewed || hold.reaches(until) {
            self.schedule_hold(id, now, now);
        } else {
            // What is left may be less than a third of the new length.
            hold.wanted_until = hold.wanted_until.max(until);
            self.renew(id, now);
        }
    }

    /// The hold is lost, finally. Its record is not touched before its TTL has
    /// passed: the program may still be inside. A fixed one is forgotten.
    pub(crate) fn lose(&mut self, id: HoldId, reason: LostReason, now: Instant) {
        let Some(hold) = self.holds.get_mut(id) else { return };
        if hold.lost.is_some() {
            return;
        }
        hold.lost = Some(reason);
        let (queue, levels) = (hold.queue, hold.levels.clone());
        // A client that closes gives back what it holds.
        let is_forgotten = !hold.plan.watched && reason != LostReason::Closed;
        let extensions = std::mem::take(&mut hold.extensions);
        self.io.stop(Timer::Renew(id));
        self.io.stop(Timer::Deadline(id));
        for lease in levels {
            self.tell(Event::Lost { lease, reason });
        }
        for ticket in extensions {
            self.io.stop(Timer::Wait(ticket));
            let Some(extension) = self.extensions.remove(&ticket) else {
                continue;
            };
            let Some(hold) = self.holds.get(&id) else { continue };
            let error = lost_error(hold, extension.operation());
            self.complete(ticket, Outcome::Failed(error));
        }
        if is_forgotten && !self.io.has(Defect::LapsedLeaseStays) {
            self.forget_lost(id, now);
        }
        self.step_aside(queue, id, now);
    }

    /// Nobody need release a lost hold of a fixed lease, and what may be left of it is
    /// released all the same: a late call, or a clock that was set, may make its record last
    /// longer than the lease. That is once the TTL that is known has passed; at once if the
    /// record is another's or gone, or if it was lost before its deadline: then it is a part of
    /// a lost whole, and its TTL may be long.
    fn forget_lost(&mut self, id: HoldId, now: Instant) {
        let Some(hold) = self.end_hold(id) else { return };
        if self.io.has(Defect::LapsedRecordStays) {
            return;
        }
        let is_gone = matches!(hold.lost, Some(LostReason::Removed | LostReason::Stolen));
        if is_gone || now < hold.deadline {
            self.owe_hold(hold, None, now);
        } else {
            self.owe_lapsed(hold, now);
        }
    }

    /// Gives one lease back; the last one takes the record with it.
    pub(crate) fn release_lease(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) {
        let Some(id) = self.holds.remove_level(lease) else {
            self.complete(ticket, Outcome::Released(ReleaseOutcome::Released));
            return;
        };
        let Some(hold) = self.holds.get(&id) else { return };
        let lost = hold.lost.map(LostReason::outcome);
        if !hold.levels.is_empty() {
            self.complete(ticket, Outcome::Released(lost.unwrap_or(ReleaseOutcome::Released)));
            return;
        }
        if self.io.has(Defect::RenewalOutlivesUnlock) {
            return self.release_and_renew(ticket, id, now);
        }
        let Some(hold) = self.end_hold(id) else { return };
        let queue = hold.queue;
        match lost {
            Some(_) if self.io.has(Defect::ReleaseFails) => self.fail_release(ticket, &hold),
            Some(outcome) => {
                self.complete(ticket, Outcome::Released(outcome));
                self.owe_hold(hold, None, now);
            }
            None => self.owe_hold(hold, Some(ticket), now),
        }
        // The next local waiter asks right behind the release, not after its answer.
        self.step_aside(queue, id, now);
    }

    /// An attempt of a hold's owner was answered, or cut off.
    pub(crate) fn resolved(&mut self, id: HoldId, attempt: CallId, was_cut: bool) {
        let hold = self.holds.get_mut(id);
        if let Some(hold) = hold.filter(|hold| hold.unresolved.open.contains(&attempt)) {
            hold.unresolved.answered(attempt, was_cut);
        }
    }

    /// Owes the release of a hold that ended.
    pub(crate) fn owe_hold(&mut self, hold: Hold, ticket: Option<Ticket>, now: Instant) {
        let owed = hold.owed(ticket, self.io.config().command_timeout, now);
        self.owe(owed, now);
    }

    /// Owes the release of a hold that lapsed. It is sent when the TTL that is known
    /// has passed: until then the record is the program's, which may still be inside.
    fn owe_lapsed(&mut self, hold: Hold, now: Instant) {
        let known = Some(hold.capped(hold.record_until)).filter(|known| *known > now);
        let mut owed = hold.owed(None, self.io.config().command_timeout, now);
        if let Some(hold) = &mut owed.hold {
            hold.not_before = known;
        }
        self.owe(owed, now);
    }

    /// Takes a hold out of all tables. From here on nothing renews it.
    pub(crate) fn end_hold(&mut self, id: HoldId) -> Option<Hold> {
        let hold = self.holds.remove(id)?;
        self.io.stop(Timer::Renew(id));
        self.io.stop(Timer::Deadline(id));
        if let Some(context) = hold.context {
            self.reentrancy.remove(hold.queue, context, id);
        }
        for ticket in &hold.extensions {
            self.io.stop(Timer::Wait(*ticket));
            if let Some(extension) = self.extensions.remove(ticket) {
                let error = Error::new(
                    ErrorKind::NotOwner,
                    extension.operation(),
                    "the lock was released meanwhile; acquire it again",
                );
                self.complete(*ticket, Outcome::Failed(error.with_lock(hold.keys.name.as_str())));
            }
        }
        Some(hold)
    }

    /// The hold keeps nobody waiting any longer.
    pub(crate) fn step_aside(&mut self, queue: LockId, id: HoldId, now: Instant) {
        if let Some(queue) = self.queues.get_mut(queue).filter(|queue| queue.holding == Some(id)) {
            queue.holding = None;
            queue.heard = Some(now);
            queue.turn.released(now);
            queue.wakes.changed();
        }
        self.advance(queue, now);
    }
}

pub(crate) fn lost_error(hold: &Hold, operation: Operation) -> Error {
    let why = match hold.lost {
        Some(LostReason::Removed) => "its record is gone from the server",
        Some(LostReason::Stolen) => "its record is another owner's",
        Some(LostReason::MaxHold) => "max_hold has passed",
        Some(LostReason::Closed) => "the client was closed",
        Some(LostReason::Expired) | None => "its deadline passed without a confirmed renewal",
    };
    Error::new(
        ErrorKind::LockLost,
        operation,
        format!("the lease was lost ({why}); release it and acquire the lock again"),
    )
    .with_lock(hold.keys.name.as_str())
    .with_reason(Some(hold.lost.unwrap_or(LostReason::Expired)))
}
