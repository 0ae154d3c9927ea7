//! A hold: one record of this client on the server, a lease for each level, and the watchdog. The watchdog decides when
//! the hold is renewed, and keeps the deadline until which the holder may rely on the lease. A degraded hold has no
//! record, and nothing renews it.
//!
//! The watchdog renews an auto-renewed hold after a third of its lease or a little earlier, counted from when the last
//! confirmed call was sent. If a renewal is not answered within a sixth of the lease, or within the command timeout if
//! that is shorter, the watchdog sends another one after a short pause, until the deadline. A fixed lease is renewed
//! only until it has its own length, or the length that an extension asks for. It may be shorter at first, because an
//! attempt asks for at most 30 s, and a grant to a waiter in a server's queue lasts 3 s.
//!
//! A renewal never creates a record and never shortens one, so either connection to the server, called a lane, can
//! carry it. A renewal uses the command lane while the renewal lane is closed, or if the last renewal failed on the
//! renewal lane. When a lane opens, an auto-renewed hold is renewed on it, because the new connection may lead to
//! another server. If the last renewal failed on that lane, the other lane is preferred.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::calls::{Purpose, Resolved, Unresolved};
use crate::ending::LostReason;
use crate::error::{Cause, Error, Holder, Operation};
use crate::ids::{CallId, Context, HoldId, LeaseId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Keys;
use crate::lease::{LeasePlan, deadline};
use crate::name::LockName;
use crate::owner::OwnerId;
use crate::periods::PROVISIONAL;
use crate::run::{Ending, RunEnd};
use crate::step::{Ended, GrantKind, Granted, NewHold, Owed, Step};
use crate::timers::Timer;
use crate::token::Token;
use crate::types::{Event, Grant, Lane};

/// One record of this client on the server, and a lease for each level.
#[derive(Debug)]
pub(crate) struct Hold {
    lock: LockId,
    keys: Arc<Keys>,
    owner: OwnerId,
    context: Option<Context>,
    token: Option<Token>,
    /// The leases that are not released yet, outermost first.
    levels: Levels,
    /// When this client learned of the grant.
    since: Instant,
    /// Whether the request of the hold had to wait.
    waited: bool,
    /// How the run ends if its holder says nothing else; means nothing for other kinds than jobs.
    end: Ending,
    watchdog: Watchdog,
    /// The unresolved attempts of its acquisition, if there are any.
    unresolved: Option<Box<Unresolved>>,
}

/// The leases of a hold. Nearly all holds have one, which is stored without an allocation.
type Levels = SmallVec<[LeaseId; 1]>;

impl Hold {
    pub(super) fn new(new: NewHold, now: Instant) -> Self {
        Self {
            watchdog: Watchdog::new(&new, now),
            lock: new.lock,
            keys: new.keys,
            owner: new.owner,
            context: new.context,
            token: new.granted.token,
            levels: Levels::new(),
            since: now,
            waited: new.waited,
            end: RunEnd::Failed.into(),
            unresolved: Some(new.unresolved).filter(Unresolved::is_any).map(Box::new),
        }
    }

    pub(crate) const fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    pub(crate) const fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Returns the leases that are not released yet, outermost first.
    pub(crate) fn levels(&self) -> &[LeaseId] {
        &self.levels
    }

    /// Returns the length of the lease, and whether it is auto-renewed.
    pub(crate) const fn plan(&self) -> LeasePlan {
        self.watchdog.plan()
    }

    /// Whether the request of the hold had to wait.
    pub(crate) const fn waited(&self) -> bool {
        self.waited
    }

    /// Whether no server has a record of the hold, so that it excludes only other callers of this client.
    pub(crate) const fn is_local(&self) -> bool {
        self.watchdog.is_local()
    }

    /// Sets how the run ends.
    pub(super) fn end_as(&mut self, end: Ending) {
        self.end = end;
    }

    /// Returns when this client learned of the grant.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// Returns why the hold was lost, if it was.
    pub(crate) const fn lost(&self) -> Option<LostReason> {
        self.watchdog.lost()
    }

    /// Returns until when the holder may rely on the lease.
    pub(crate) const fn deadline(&self) -> Instant {
        self.watchdog.deadline()
    }

    /// Whether the holder may rely on the lease `now`.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        self.watchdog.is_valid(now)
    }

    /// Whether the record lasts until `until`, or up to 1 ms less.
    pub(crate) fn lasts(&self, until: Instant) -> bool {
        self.watchdog.reaches(until)
    }

    /// Returns the earliest time at which the server can drop the record.
    pub(crate) const fn record_until(&self) -> Instant {
        self.watchdog.record_until()
    }

    /// Returns `until`, or the end of `max_hold` if that comes first.
    pub(crate) fn capped(&self, until: Instant) -> Instant {
        self.watchdog.capped(until)
    }

    /// Returns the hold as the errors of other callers report it.
    pub(crate) fn as_holder(&self, now: Instant) -> Holder {
        Holder {
            owner: self.owner.to_string(),
            remaining: Some(if self.is_local() && self.plan().renewed {
                self.plan().length
            } else {
                self.watchdog.record_until().saturating_since(now)
            }),
            client: None,
        }
    }

    /// Returns the error for an operation on a hold that is lost or past its deadline.
    pub(crate) fn lost_error(&self, operation: Operation) -> Error {
        lost_error(self.lost(), self.plan(), &self.keys.name, operation)
    }

    pub(super) const fn lock(&self) -> LockId {
        self.lock
    }

    pub(crate) const fn context(&self) -> Option<Context> {
        self.context
    }

    pub(super) const fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    pub(super) const fn watchdog_mut(&mut self) -> &mut Watchdog {
        &mut self.watchdog
    }

    /// Returns the watchdog of the hold, and the record that the watchdog renews.
    pub(super) fn watchdog_and_record(&mut self, id: HoldId) -> (&mut Watchdog, RecordRef<'_>) {
        let record = RecordRef {
            id,
            keys: &self.keys,
            owner: &self.owner,
        };
        (&mut self.watchdog, record)
    }

    pub(super) fn schedule(&mut self, io: &mut Io, id: HoldId, sent: Instant, now: Instant) {
        let (watchdog, record) = self.watchdog_and_record(id);
        watchdog.schedule(io, &record, sent, now);
    }

    pub(super) fn renew(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let (watchdog, record) = self.watchdog_and_record(id);
        watchdog.renew(io, &record, None, now);
    }

    /// Extends a degraded lease, of which no server has a record, until `until`; if it is auto-renewed, until its
    /// release or the end of `max_hold`. Reports the deadline to each lease of the hold, and returns the deadline.
    pub(super) fn extend_locally(&mut self, io: &mut Io, id: HoldId, until: Instant, now: Instant) -> Instant {
        self.watchdog.extend_locally(until, now);
        self.schedule(io, id, now, now);
        let deadline = self.deadline();
        for lease in &self.levels {
            let lease = *lease;
            io.step(Step::Emit(Event::Renewed { lease, deadline }));
        }
        deadline
    }

    pub(super) fn add_level(&mut self, lease: LeaseId) {
        self.levels.push(lease);
    }

    pub(super) fn remove_level(&mut self, lease: LeaseId) {
        self.levels.retain(|level| *level != lease);
    }

    /// Returns the grant for a new lease of the hold.
    pub(super) fn grant(&self, lease: LeaseId) -> Grant {
        Grant {
            lease,
            token: self.token,
            deadline: self.deadline(),
            levels: u32::try_from(self.levels.len()).unwrap_or(u32::MAX),
            degraded: self.is_local(),
        }
    }

    /// Notes that an attempt of the hold's owner was answered, or that its connection closed.
    pub(super) fn resolved(&mut self, resolved: Resolved) {
        let unresolved = self.unresolved.as_mut();
        let is_its_own = |unresolved: &&mut Box<Unresolved>| unresolved.in_flight().contains(&resolved.attempt);
        let Some(unresolved) = unresolved.filter(is_its_own) else {
            return;
        };
        unresolved.resolved(resolved);
        if !unresolved.is_any() {
            self.unresolved = None;
        }
    }

    /// Returns the release that is owed for the hold.
    pub(super) fn owed(self, ticket: Option<Ticket>, send: Send, timeout: Duration, now: Instant) -> Owed {
        // The server may have made a provisional grant for longer than the lease.
        let granted_for = match self.keys.kind.queues_on_server() {
            true => PROVISIONAL,
            false => Duration::ZERO,
        };
        let known = self.capped(self.watchdog.record_until());
        let until = self.watchdog.latest_end().max(now) + self.plan().length.max(granted_for);
        Owed {
            ticket,
            hold: Some(Ended {
                deadline: self.deadline(),
                // An extension that the server has not confirmed may have succeeded.
                until: until + timeout,
                not_before: Some(known).filter(|known| send == Send::AfterTtl && *known > now),
            }),
            lock: self.lock,
            keys: self.keys,
            owner: self.owner,
            end: self.end,
            unresolved: self.unresolved.map(|unresolved| *unresolved).unwrap_or_default(),
        }
    }
}

/// When the release of a hold is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Send {
    AtOnce,
    /// After the known TTL has passed, because the program may still be in its critical section.
    AfterTtl,
}

/// Returns the error for an operation on a lost hold. `lost` is `None` if the deadline has passed and the loss is not
/// reported yet.
pub(super) fn lost_error(lost: Option<LostReason>, plan: LeasePlan, name: &LockName, operation: Operation) -> Error {
    let reason = lost.unwrap_or(LostReason::Expired);
    let error = match plan.renewed {
        true => Error::lost(operation, Some(reason)),
        false => Error::lost_and_forgotten(operation, Some(reason)),
    };
    error.with_lock(name.as_str())
}

/// The pause after the first failed renewal. The pause doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// The longest pause after a failed renewal; for a lease below 10 s it is a tenth of the lease, but at least
/// `FIRST_RETRY`.
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// A divisor: a renewal comes earlier than a third of the lease by a random time of up to a tenth of that third.
const SPREAD: u32 = 10;
/// The length of an auto-renewed degraded lease, which has no end of its own.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The unit of a TTL on the wire.
const MILLISECOND: Duration = Duration::from_millis(1);

/// The record that a watchdog renews.
pub(super) struct RecordRef<'a> {
    pub(super) id: HoldId,
    pub(super) keys: &'a Keys,
    pub(super) owner: &'a OwnerId,
}

/// The deadlines of one hold, and its renewals.
#[derive(Debug)]
pub(super) struct Watchdog {
    plan: LeasePlan,
    /// Why the hold was lost; set once.
    lost: Option<LostReason>,
    /// Until when the holder may rely on the lease.
    deadline: Instant,
    /// The earliest time at which the server can drop the record.
    record_until: Instant,
    /// Until when the record should last. Renewals make `record_until` reach this time.
    wanted_until: Instant,
    /// The end of `max_hold`.
    max_hold_until: Option<Instant>,
    /// The renewal in flight.
    renewal: Option<CallId>,
    /// The number of renewals in a row that failed.
    failures: u32,
    /// The lane of the last renewal.
    last_lane: Lane,
    /// Why the last renewal failed, if that is known.
    failure: Option<Box<Cause>>,
    /// Whether no server has the record, so that there is nothing to renew.
    is_local: bool,
}

impl Watchdog {
    pub(super) fn new(new: &NewHold, now: Instant) -> Self {
        let granted = new.granted;
        // The server can have made a provisional grant later than `sent`, so the length of the lease counts from now.
        let start = match granted.kind {
            GrantKind::Provisional => now,
            GrantKind::Full | GrantKind::Degraded => granted.sent,
        };
        let ends = new.max_hold.map(|max| start + max);
        let capped = |until: Instant| ends.map_or(until, |end| until.min(end));
        let is_local = granted.kind == GrantKind::Degraded;
        let is_endless = is_local && new.plan.renewed;
        let (length, ttl) = if is_endless {
            (ENDLESS, ENDLESS)
        } else {
            (new.plan.length, granted.ttl)
        };
        Self {
            plan: new.plan,
            lost: None,
            deadline: capped(deadline(granted.sent, ttl).min(deadline(start, length))),
            record_until: (granted.sent + ttl).min(start + length),
            wanted_until: capped(start + length),
            max_hold_until: ends,
            renewal: None,
            failures: 0,
            last_lane: Lane::Renewal,
            failure: None,
            is_local,
        }
    }

    pub(super) const fn plan(&self) -> LeasePlan {
        self.plan
    }

    /// Sets the plan that the hold has from now on.
    pub(super) fn set_plan(&mut self, io: &mut Io, id: HoldId, plan: LeasePlan, now: Instant) {
        self.plan = plan;
        if self.is_local && !plan.renewed {
            // A multi-lock acquires each member with an auto-renewed lease. If that lease is degraded, it has no end,
            // so it gets one here.
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

    /// Whether this call is the renewal in flight.
    pub(super) fn is_in_flight(&self, call: CallId) -> bool {
        self.renewal == Some(call)
    }

    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the earliest time at which the server can drop the record.
    pub(super) const fn record_until(&self) -> Instant {
        self.record_until
    }

    /// Returns until when the record lasts, or should last if that is later.
    pub(super) fn latest_end(&self) -> Instant {
        self.record_until.max(self.wanted_until)
    }

    /// Returns the number of renewals in a row that failed.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether a renewal is in flight.
    pub(super) const fn is_renewing(&self) -> bool {
        self.renewal.is_some()
    }

    /// Returns why the last renewal failed, if that is known.
    pub(super) fn failure(&self) -> Option<&Cause> {
        self.failure.as_deref()
    }

    /// Whether the holder may rely on the lease `now`.
    pub(super) fn is_valid(&self, now: Instant) -> bool {
        self.lost.is_none() && now < self.deadline
    }

    /// Returns `until`, or the end of `max_hold` if that comes first.
    pub(super) fn capped(&self, until: Instant) -> Instant {
        self.max_hold_until.map_or(until, |end| until.min(end))
    }

    /// Whether the record lasts until `until`, or up to 1 ms less. The wire has whole milliseconds, so another renewal
    /// would not help.
    pub(super) fn reaches(&self, until: Instant) -> bool {
        self.record_until + MILLISECOND >= until
    }

    /// Makes later renewals extend the record at least until `until`.
    pub(super) fn want(&mut self, until: Instant) {
        self.wanted_until = self.wanted_until.max(until);
    }

    /// Adopts `plan` if it is auto-renewed, and the hold is not renewed yet or has a shorter lease. Returns whether the
    /// plan was adopted. The longest auto-renewed lease counts until the last level is released.
    pub(super) fn adopt(&mut self, plan: LeasePlan) -> bool {
        let is_new = plan.renewed && !self.plan.renews_for(plan);
        if is_new {
            self.plan = plan;
        }
        is_new
    }

    /// Extends a degraded lease until `until`; if it is auto-renewed, until its release or the end of `max_hold`.
    pub(super) fn extend_locally(&mut self, until: Instant, now: Instant) {
        let until = if self.plan.renewed { now + ENDLESS } else { until };
        let until = self.capped(until);
        self.record_until = self.record_until.max(until);
        self.wanted_until = self.wanted_until.max(until);
        self.deadline = self.deadline.max(until);
    }

    /// Marks the hold as lost for good. Returns false if it was lost already.
    pub(super) fn lose(&mut self, io: &mut Io, id: HoldId, reason: LostReason) -> bool {
        let is_new = self.lost.is_none();
        if is_new {
            self.lost = Some(reason);
            stop(io, id);
        }
        is_new
    }

    /// Sets the timers of a provisional grant. The first renewal comes after a third of the grant, or of the
    /// auto-renewed lease, whichever is shorter. Most holds end before that.
    pub(super) fn schedule_first(&self, io: &mut Io, id: HoldId, granted: Granted) {
        let renewed_length = self.plan.renewed.then_some(self.plan.length);
        let first = granted.ttl.min(renewed_length.unwrap_or(granted.ttl));
        io.set(Timer::Deadline(id), self.deadline);
        let third = first.checked_div(3).unwrap_or_default();
        io.set(Timer::Renew(id), granted.sent + third);
    }

    /// Sets the timers after the server has confirmed a call that was sent at `sent`. Renews at once if the record does
    /// not last long enough yet.
    pub(super) fn schedule(&mut self, io: &mut Io, record: &RecordRef<'_>, sent: Instant, now: Instant) {
        let id = record.id;
        if self.is_local && self.plan.renewed && self.max_hold_until.is_none() {
            io.stop(Timer::Deadline(id));
            return;
        }
        // A timer that would fire before the deadline stays as it is: when it fires, `reason_at_deadline` sets it
        // again. This saves work, because most holds end before that.
        if io.due(Timer::Deadline(id)).is_none_or(|due| due > self.deadline) {
            io.set(Timer::Deadline(id), self.deadline);
        }
        if self.is_local {
            return;
        }
        if !self.reaches(self.wanted_until) {
            self.renew(io, record, None, now);
        } else if self.plan.renewed {
            // A hold is renewed even if its record lasts until the end of `max_hold`, because the renewal notices a
            // removed record. The random part spreads the renewals of holds that were acquired, or renewed after an
            // outage, at the same time.
            let third = self.plan.length.checked_div(3).unwrap_or_default();
            let earlier = io.random_part(third.checked_div(SPREAD).unwrap_or_default());
            io.set(Timer::Renew(id), sent + third.saturating_sub(earlier));
        } else {
            self.stop_renewing(io, id);
        }
    }

    /// Stops the renewals of a fixed hold whose record lasts long enough.
    pub(super) fn stop_renewing(&self, io: &mut Io, id: HoldId) {
        if !self.plan.renewed && self.renewal.is_none() && self.reaches(self.wanted_until) {
            io.stop(Timer::Renew(id));
        }
    }

    /// Sends a renewal on `lane`, which must be open; without a lane, on the best open one. Does nothing if a renewal is
    /// in flight, if the hold is lost or past its deadline, or if no server has its record.
    pub(super) fn renew(&mut self, io: &mut Io, record: &RecordRef<'_>, lane: Option<Lane>, now: Instant) {
        let (id, node) = (record.id, record.keys.node);
        // After the deadline the hold is lost, and its record must expire too.
        if self.is_local || self.lost.is_some() || self.renewal.is_some() || now >= self.deadline {
            return;
        }
        let failed_on = Some(self.last_lane).filter(|_| self.failures > 0);
        let Some(lane) = lane.or_else(|| lane_of(io, node, failed_on)) else {
            // No timer is needed: the hold is renewed when a lane opens.
            io.stop(Timer::Renew(id));
            return;
        };
        let lease = if self.plan.renewed {
            self.plan.length
        } else {
            Duration::ZERO
        };
        let until = self.capped((now + lease).max(self.latest_end()));
        // Rounded up to milliseconds, so that the record lasts as long as it should.
        let millis = until.saturating_since(now).as_micros().div_ceil(1_000);
        let ttl = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        if ttl < MILLISECOND {
            // `max_hold` is over, so there is nothing left to renew.
            return;
        }
        let invocation = record.keys.renew(record.owner, ttl);
        let sixth = self.plan.length.checked_div(6).unwrap_or_default();
        let overdue = now + io.config().command_timeout.min(sixth.max(FIRST_RETRY));
        let purpose = Purpose::Renew { hold: id, ttl };
        self.renewal = Some(io.call(purpose, node, lane, invocation, Some(overdue)));
        self.last_lane = lane;
        io.stop(Timer::Renew(id));
    }

    /// Renews the hold because a lane has opened. An auto-renewed hold is renewed even if no renewal is due, because a
    /// failover may have lost the record.
    pub(super) fn connected(&mut self, io: &mut Io, record: &RecordRef<'_>, lane: Lane, now: Instant) {
        // If the last renewal failed on this lane, the next one may fail there too, and there may be no time for a
        // third one.
        let has_failed = self.failures > 0 && self.last_lane == lane;
        if !self.reaches(self.wanted_until) || self.plan.renewed {
            self.renew(io, record, Some(lane).filter(|_| !has_failed), now);
        }
    }

    /// A lane of the node has closed, which need not be the lane of the renewal in flight. A renewal that was not sent
    /// yet would wait for the next connection, so it counts as failed, and the next renewal uses an open lane.
    pub(super) fn lane_closed(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let call = self.renewal.and_then(|call| io.in_flight(call));
        if call.is_some_and(|call| call.sent.is_none()) {
            self.failed(io, id, None, now);
        }
    }

    /// Notes that a renewal was answered. Returns whether it was the renewal in flight. The reply to an earlier,
    /// overdue renewal is used all the same.
    pub(super) fn answered(&mut self, call: CallId) -> bool {
        let is_current = self.renewal == Some(call);
        if is_current {
            self.renewal = None;
        }
        is_current
    }

    /// Notes that the server has confirmed the record for `ttl`, counted from when the call was sent.
    pub(super) fn confirmed(&mut self, sent: Instant, ttl: Duration) {
        self.failures = 0;
        self.failure = None;
        self.record_until = self.record_until.max(sent + ttl);
        self.deadline = self.deadline.max(deadline(sent, ttl));
    }

    /// Notes that a renewal failed, and sets the timer for the next one.
    pub(super) fn failed(&mut self, io: &mut Io, id: HoldId, why: Option<Cause>, now: Instant) {
        self.renewal = None;
        self.failure = why.map(Box::new);
        // Eight doublings already exceed `LONGEST_RETRY`.
        let doublings = self.failures.min(8);
        self.failures = self.failures.saturating_add(1);
        let pause = FIRST_RETRY.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(1));
        // At most a tenth of the lease, so that several attempts fit before the deadline.
        let longest = LONGEST_RETRY.min(self.plan.length.checked_div(10).unwrap_or_default());
        io.set(Timer::Renew(id), now + pause.min(longest.max(FIRST_RETRY)));
    }

    /// Returns why the hold is lost, if its deadline has passed. Otherwise sets the timer of the deadline again, and
    /// returns `None`.
    pub(super) fn reason_at_deadline(&self, io: &mut Io, id: HoldId, now: Instant) -> Option<LostReason> {
        if now < self.deadline {
            io.set(Timer::Deadline(id), self.deadline);
            return None;
        }
        let lasts_to_its_end = self.max_hold_until.is_some_and(|ends| self.reaches(ends));
        Some(if lasts_to_its_end {
            LostReason::MaxHold
        } else {
            LostReason::Expired
        })
    }
}

/// Stops the timers of a hold.
pub(super) fn stop(io: &mut Io, id: HoldId) {
    io.stop(Timer::Renew(id));
    io.stop(Timer::Deadline(id));
}

/// Returns the lane for a renewal: the renewal lane, or the command lane while the renewal lane is closed. If the last
/// renewal failed, the other lane comes first, because a connection can be dead long before the client notices.
fn lane_of(io: &Io, node: NodeId, failed_on: Option<Lane>) -> Option<Lane> {
    let order = match failed_on {
        Some(Lane::Renewal) => [Lane::Command, Lane::Renewal],
        Some(Lane::Command) | None => [Lane::Renewal, Lane::Command],
    };
    order.into_iter().find(|lane| io.is_open(node, *lane))
}
