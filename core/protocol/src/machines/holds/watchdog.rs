//! When to renew, and until when a lease may be relied on.
//!
//! An auto-renewed hold is renewed at a third of its lease (the client's, or its own), or a
//! little earlier, counted from when the last confirmed call was sent. A renewal that is
//! not answered within a sixth of the lease is sent again after a short pause, until the
//! deadline. A fixed lease is renewed only to reach its own length, since no attempt asks
//! for more than 30 s. A renewal never creates a record and never shortens one, so it matters not
//! which connection brings it: it takes the command lane while its own is closed, or
//! left it without answer.

use std::time::Duration;

use crate::calls::Purpose;
use crate::cause::Cause;
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::ids::{CallId, HoldId, NodeId};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Keys;
use crate::lease::{LeasePlan, deadline};
use crate::owner::OwnerId;
use crate::step::NewHold;
use crate::timers::Timer;
use crate::types::Lane;

/// The pause after a failed renewal: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// A renewal comes earlier than a third of the lease by up to this part of it.
const SPREAD: u32 = 10;
/// What is held in this client alone, and auto-renewed, ends when it is released.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// A TTL is whole milliseconds on the wire.
const MILLISECOND: Duration = Duration::from_millis(1);

/// The record that is renewed.
pub(super) struct Record<'a> {
    pub(super) id: HoldId,
    pub(super) keys: &'a Keys,
    pub(super) owner: &'a OwnerId,
}

/// How long one hold lasts, and its renewals.
#[derive(Debug)]
pub(super) struct Watchdog {
    plan: LeasePlan,
    /// Set once, when the hold is lost.
    lost: Option<LostReason>,
    /// Until when it may be relied on.
    deadline: Instant,
    /// When the server drops the record at the earliest.
    record_until: Instant,
    /// How long the record is wanted; `record_until` is to reach it.
    wanted_until: Instant,
    /// When `max_hold` ends it.
    ends: Option<Instant>,
    /// The renewal in flight.
    renewal: Option<CallId>,
    /// How many renewals in a row failed.
    failures: u32,
    /// The lane that the last renewal went by.
    renewed_by: Lane,
    /// Why the last one failed, if that is known.
    failure: Option<Box<Cause>>,
    /// No server has the record: nothing is to be renewed.
    is_local: bool,
}

impl Watchdog {
    pub(super) fn new(new: &NewHold, now: Instant) -> Self {
        // The length of what the server granted of its own accord counts from now.
        let start = if new.provisional { now } else { new.sent };
        let ends = new.max_hold.map(|max| start + max);
        let capped = |until: Instant| ends.map_or(until, |ends| until.min(ends));
        let is_endless = new.is_local && new.plan.renewed;
        let (length, ttl) = if is_endless {
            (ENDLESS, ENDLESS)
        } else {
            (new.plan.length, new.ttl)
        };
        Self {
            plan: new.plan,
            lost: None,
            deadline: capped(deadline(new.sent, ttl).min(deadline(start, length))),
            record_until: (new.sent + ttl).min(start + length),
            wanted_until: capped(start + length),
            ends,
            renewal: None,
            failures: 0,
            renewed_by: Lane::Renewal,
            failure: None,
            is_local: new.is_local,
        }
    }

    pub(super) const fn plan(&self) -> LeasePlan {
        self.plan
    }

    /// Renews it as this says from now on.
    pub(super) fn set_plan(&mut self, io: &mut Io, id: HoldId, plan: LeasePlan, now: Instant) {
        self.plan = plan;
        if self.is_local && !plan.renewed {
            // A member is acquired as an auto-renewed one, which has no end of its own here.
            let until = self.capped(now + plan.length);
            (self.deadline, self.record_until, self.wanted_until) = (until, until, until);
            io.set(Timer::Deadline(id), until);
        }
    }

    /// Whether no server has the record.
    pub(super) const fn is_local(&self) -> bool {
        self.is_local
    }

    pub(super) const fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Whether the renewal that is under way is this one.
    pub(super) fn is_renewed_by(&self, call: CallId) -> bool {
        self.renewal == Some(call)
    }

    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// When the server drops the record at the earliest.
    pub(super) const fn record_until(&self) -> Instant {
        self.record_until
    }

    /// Until when the record is there, or is to be.
    pub(super) fn longest(&self) -> Instant {
        self.record_until.max(self.wanted_until)
    }

    /// How many renewals in a row failed.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether a renewal is under way.
    pub(super) const fn is_renewing(&self) -> bool {
        self.renewal.is_some()
    }

    /// Why the last renewal failed, if that is known.
    pub(super) fn failure(&self) -> Option<&Cause> {
        self.failure.as_deref()
    }

    /// Whether it may be relied on.
    pub(super) fn is_valid(&self, now: Instant) -> bool {
        self.lost.is_none() && now < self.deadline
    }

    /// `until`, or the end of `max_hold` if that comes first.
    pub(super) fn capped(&self, until: Instant) -> Instant {
        self.ends.map_or(until, |ends| until.min(ends))
    }

    /// Whether the record lasts until then. A renewal that is under way is not followed by
    /// another for what is less than the wire can say.
    pub(super) fn reaches(&self, until: Instant) -> bool {
        self.record_until + MILLISECOND >= until
    }

    /// The record is wanted until then at least.
    pub(super) fn want(&mut self, until: Instant) {
        self.wanted_until = self.wanted_until.max(until);
    }

    /// Renews it as `plan` says, if it is not renewed yet or for less; says whether that is
    /// new. Until the last level is released the longest of its auto-renewed leases counts.
    pub(super) fn watch(&mut self, plan: LeasePlan) -> bool {
        let is_new = plan.renewed && !self.plan.renews_for(plan);
        if is_new {
            self.plan = plan;
        }
        is_new
    }

    /// What is held in this client alone lasts until then, or until it is released if it is to be
    /// auto-renewed.
    pub(super) fn last_here(&mut self, until: Instant, now: Instant) {
        let until = if self.plan.renewed { now + ENDLESS } else { until };
        let until = self.capped(until);
        self.record_until = self.record_until.max(until);
        self.wanted_until = self.wanted_until.max(until);
        self.deadline = self.deadline.max(until);
    }

    /// It is lost, finally. False if it was before.
    pub(super) fn lose(&mut self, io: &mut Io, id: HoldId, reason: LostReason) -> bool {
        let is_new = self.lost.is_none();
        if is_new {
            self.lost = Some(reason);
            stop(io, id);
        }
        is_new
    }

    /// Sets the timers of a hold that the server granted of its own accord. Most are over
    /// before the first renewal. An auto-renewed lease may be the shorter one.
    pub(super) fn schedule_first(&self, io: &mut Io, id: HoldId, new: (Instant, Duration)) {
        let (sent, ttl) = new;
        let watched_for = self.plan.renewed.then_some(self.plan.length);
        let first = ttl.min(watched_for.unwrap_or(ttl));
        io.set(Timer::Deadline(id), self.deadline);
        io.set(Timer::Renew(id), sent + first.checked_div(3).unwrap_or_default());
    }

    /// Sets the timers after a call sent at `sent` was confirmed.
    pub(super) fn schedule(&mut self, io: &mut Io, record: &Record<'_>, sent: Instant, now: Instant) {
        let id = record.id;
        if self.is_local && self.plan.renewed && self.ends.is_none() {
            io.stop(Timer::Deadline(id));
            return;
        }
        // One that comes too early is set again: most holds end before the first one comes.
        if io.due(Timer::Deadline(id)).is_none_or(|due| due > self.deadline) {
            io.set(Timer::Deadline(id), self.deadline);
        }
        if self.is_local {
            return;
        }
        if !self.reaches(self.wanted_until) {
            self.renew(io, record, None, now);
        } else if self.plan.renewed {
            // Also when the record lasts to the end of `max_hold`: it may be taken away before.
            // What was taken or lost together is not renewed together for ever.
            let third = self.plan.length.checked_div(3).unwrap_or_default();
            let earlier = io.part_of(third.checked_div(SPREAD).unwrap_or_default());
            io.set(Timer::Renew(id), sent + third.saturating_sub(earlier));
        } else {
            self.renew_no_more(io, id);
        }
    }

    /// A fixed hold that lasts as long as it is wanted is not renewed, though it was.
    pub(super) fn renew_no_more(&self, io: &mut Io, id: HoldId) {
        if !self.plan.renewed && self.renewal.is_none() && self.reaches(self.wanted_until) {
            io.stop(Timer::Renew(id));
        }
    }

    /// Asks the server to let the record last longer, unless it is being asked; by this lane,
    /// which is open, or the one that is best.
    pub(super) fn renew(&mut self, io: &mut Io, record: &Record<'_>, lane: Option<Lane>, now: Instant) {
        let (id, node) = (record.id, record.keys.node);
        if io.has(Defect::StuckNodeStopsRenewals) && has_to_wait(io, id, now) {
            return;
        }
        // What has ended is lost, and its record is to end too.
        if self.is_local || self.lost.is_some() || self.renewal.is_some() || now >= self.deadline {
            return;
        }
        let failed_on = Some(self.renewed_by).filter(|_| self.failures > 0);
        let Some(lane) = lane.or_else(|| lane_of(io, node, failed_on)) else {
            // A lane that opens renews whatever has no timer.
            io.stop(Timer::Renew(id));
            return;
        };
        let lease = if self.plan.renewed {
            self.plan.length
        } else {
            Duration::ZERO
        };
        let until = self.capped((now + lease).max(self.longest()));
        // Rounded up, so that the record reaches what is wanted.
        let millis = until.saturating_since(now).as_micros().div_ceil(1_000);
        let ttl = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        if ttl < MILLISECOND {
            return;
        }
        let invocation = record.keys.renew(record.owner, ttl);
        let sixth = self.plan.length.checked_div(6).unwrap_or_default();
        let overdue = now + io.config().command_timeout.min(sixth.max(RETRY.0));
        let purpose = Purpose::Renew { hold: id, ttl };
        self.renewal = Some(io.call(purpose, (node, lane), invocation, Some(overdue)));
        self.renewed_by = lane;
        io.stop(Timer::Renew(id));
    }

    /// There is a connection again: renews what waited for one. A failover may have lost the
    /// record: an auto-renewed hold asks at once.
    pub(super) fn connected(&mut self, io: &mut Io, record: &Record<'_>, lane: Lane, now: Instant) {
        // A lane that has just failed may fail again, and there may be no time for a third renewal.
        let has_failed = self.failures > 0 && self.renewed_by == lane;
        if !self.reaches(self.wanted_until) || self.plan.renewed {
            self.renew(io, record, Some(lane).filter(|_| !has_failed), now);
        }
    }

    /// A lane closed: a renewal that waits for its next connection is asked for again, of
    /// whichever lane is open.
    pub(super) fn lane_closed(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let call = self.renewal.and_then(|call| io.in_flight(call));
        if call.is_some_and(|call| call.sent.is_none()) {
            self.failed(io, id, None, now);
        }
    }

    /// The answer to a renewal came. One that was given up may still come, and counts.
    pub(super) fn answered(&mut self, call: CallId) -> bool {
        let is_current = self.renewal == Some(call);
        if is_current {
            self.renewal = None;
        }
        is_current
    }

    /// The server confirmed the record for `ttl` from when the call was sent.
    pub(super) fn confirmed(&mut self, sent: Instant, ttl: Duration) {
        self.failures = 0;
        self.failure = None;
        self.record_until = self.record_until.max(sent + ttl);
        self.deadline = self.deadline.max(deadline(sent, ttl));
    }

    /// A renewal came to nothing: another follows after a pause.
    pub(super) fn failed(&mut self, io: &mut Io, id: HoldId, why: Option<Cause>, now: Instant) {
        self.renewal = None;
        self.failure = why.map(Box::new);
        let doublings = self.failures.min(8);
        self.failures = self.failures.saturating_add(1);
        let pause = RETRY.0.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(1));
        let longest = RETRY.1.min(self.plan.length.checked_div(10).unwrap_or_default());
        io.set(Timer::Renew(id), now + pause.min(longest.max(RETRY.0)));
    }

    /// The deadline's timer has run out: why the hold is lost, unless it lasts longer by now.
    pub(super) fn ended(&self, io: &mut Io, id: HoldId, now: Instant) -> Option<LostReason> {
        if now < self.deadline {
            io.set(Timer::Deadline(id), self.deadline);
            return None;
        }
        let lasts_to_its_end = self.ends.is_some_and(|ends| self.reaches(ends));
        Some(if lasts_to_its_end {
            LostReason::MaxHold
        } else {
            LostReason::Expired
        })
    }

    /// A mistake: it ends as a re-entry has it, though it may last longer.
    pub(super) fn shorten(&mut self, io: &mut Io, id: HoldId, plan: LeasePlan, now: Instant) {
        self.record_until = now + plan.length;
        self.wanted_until = now + plan.length;
        self.deadline = deadline(now, plan.length);
        io.set(Timer::Deadline(id), self.deadline);
    }
}

/// Stops the timers of a hold.
pub(super) fn stop(io: &mut Io, id: HoldId) {
    io.stop(Timer::Renew(id));
    io.stop(Timer::Deadline(id));
}

/// The lane that a renewal takes: its own, or the other one while that is closed. One that
/// has just left a renewal without answer is not asked again at once: a connection can be
/// dead long before it is seen to be.
fn lane_of(io: &Io, node: NodeId, failed_on: Option<Lane>) -> Option<Lane> {
    let order = match failed_on {
        Some(Lane::Renewal) => [Lane::Command, Lane::Renewal],
        Some(Lane::Command) | None => [Lane::Renewal, Lane::Command],
    };
    if io.has(Defect::RenewalsHaveOneLane) {
        return Some(Lane::Renewal).filter(|lane| io.is_open(node, *lane));
    }
    order.into_iter().find(|lane| io.is_open(node, *lane))
}

/// A mistake: whether some renewal is not answered; then this one comes later.
fn has_to_wait(io: &mut Io, id: HoldId, now: Instant) -> bool {
    let is_renewal = |purpose| matches!(purpose, Purpose::Renew { .. });
    let is_under_way = io.purposes().any(is_renewal);
    if is_under_way {
        io.set(Timer::Renew(id), now + Duration::from_millis(20));
    }
    is_under_way
}
