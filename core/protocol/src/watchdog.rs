//! When to renew, and when a lease is lost.
//!
//! A watched hold is renewed at a third of its lease (the client's, or its own), or a
//! little earlier, counted from when the last confirmed call was sent. A renewal that is
//! not answered within a sixth of the lease is tried again after a short pause, until the
//! deadline. A fixed lease is renewed only to reach its own length, since no attempt asks
//! for more than 30 s. A renewal never creates a record and never shortens one, so it matters not
//! which connection brings it: it takes the command lane while its own is closed, or
//! left it without answer.

use std::time::Duration;

use crate::calls::{InFlight, Purpose};
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Error, ErrorKind};
use crate::hold::Hold;
use crate::ids::{CallId, HoldId, NodeId};
use crate::instant::Instant;
use crate::kinds::{Keys, Record, parse_record};
use crate::lease::deadline;
use crate::reply::{CallError, Refusal, Reply};
use crate::session::Session;
use crate::timers::Timer;
use crate::types::{AcquireRequest, Event, Lane, Outcome};
use crate::wording::{explain, in_words};

/// The pause after a failed renewal: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// A renewal comes earlier than a third of the lease by up to this part of it.
const SPREAD: u32 = 10;
/// A TTL is whole milliseconds on the wire.
const MILLISECOND: Duration = Duration::from_millis(1);

impl Hold {
    /// Whether the record lasts until then. A renewal that is under way is not followed by
    /// another for what is less than the wire can say.
    pub(crate) fn reaches(&self, until: Instant) -> bool {
        self.record_until + MILLISECOND >= until
    }

    /// Whether the record lasts as long as `max_hold` lets it.
    fn lasts_to_its_end(&self) -> bool {
        self.ends.is_some_and(|ends| self.reaches(ends))
    }
}

impl Session {
    /// When the next renewal is due, whatever else is due before. A hold whose renewal
    /// is under way has none. May change with any input.
    #[must_use]
    pub fn next_renewal(&self) -> Option<Instant> {
        self.io.next_renewal()
    }

    /// Sets a hold's timers after a call sent at `sent` was confirmed.
    pub(crate) fn schedule_hold(&mut self, id: HoldId, sent: Instant, now: Instant) {
        let Some(hold) = self.holds.get(&id) else { return };
        let plan = hold.plan;
        self.io.set(Timer::Deadline(id), hold.deadline);
        if !hold.reaches(hold.wanted_until) {
            self.renew(id, now);
        } else if plan.watched {
            // Also when the record lasts to the end of `max_hold`: it may be taken away before.
            let third = plan.length.checked_div(3).unwrap_or_default();
            let due = sent + third.saturating_sub(self.spread(third));
            self.io.set(Timer::Renew(id), due);
        } else {
            self.renew_no_more(id);
        }
    }

    /// A fixed hold that lasts as long as it is wanted is not renewed, though it was.
    pub(crate) fn renew_no_more(&mut self, id: HoldId) {
        let is_done = |hold: &&Hold| !hold.plan.watched && hold.renewal.is_none() && hold.reaches(hold.wanted_until);
        if self.holds.get(&id).filter(is_done).is_some() {
            self.io.stop(Timer::Renew(id));
        }
    }

    /// By how much a renewal comes earlier than others that were due with it: what was taken
    /// or lost together is not renewed together for ever. At most a tenth.
    fn spread(&mut self, third: Duration) -> Duration {
        let most = third.checked_div(SPREAD).unwrap_or_default();
        self.io.part_of(most)
    }

    /// Asks the server to let the record last longer, unless it is being asked.
    pub(crate) fn renew(&mut self, id: HoldId, now: Instant) {
        self.renew_by(id, None, now);
    }

    /// The same by this lane, which is open.
    fn renew_by(&mut self, id: HoldId, lane: Option<Lane>, now: Instant) {
        if self.io.has(Defect::StuckNodeStopsRenewals) && self.renewal_has_to_wait(id, now) {
            return;
        }
        let Some(hold) = self.holds.get_mut(id) else { return };
        let node = hold.keys.node;
        // What has ended is lost, and its record is to end too.
        if hold.lost.is_some() || hold.renewal.is_some() || now >= hold.deadline {
            return;
        }
        let failed_on = Some(hold.renewed_by).filter(|_| hold.failures > 0);
        let Some(lane) = lane.or_else(|| self.renewal_lane(node, failed_on)) else {
            // A lane that opens renews whatever has no timer.
            self.io.stop(Timer::Renew(id));
            return;
        };
        let Some(hold) = self.holds.get_mut(id) else { return };
        let lease = if hold.plan.watched {
            hold.plan.length
        } else {
            Duration::ZERO
        };
        let until = hold.capped((now + lease).max(hold.wanted_until).max(hold.record_until));
        // Rounded up, so that the record reaches what is wanted.
        let ttl = Duration::from_millis(
            u64::try_from(until.saturating_since(now).as_micros().div_ceil(1_000)).unwrap_or(u64::MAX),
        );
        if ttl < MILLISECOND {
            return;
        }
        let invocation = hold.keys.renew(&hold.owner, ttl);
        let sixth = hold.plan.length.checked_div(6).unwrap_or_default();
        let patience = self.io.config().command_timeout.min(sixth.max(RETRY.0));
        let purpose = Purpose::Renew { hold: id, ttl };
        let call = self.io.call(purpose, (node, lane), invocation, Some(now + patience));
        hold.renewal = Some(call);
        hold.renewed_by = lane;
        self.io.stop(Timer::Renew(id));
    }

    /// The lane that a renewal takes: its own, or the other one while that is closed. One that
    /// has just left a renewal without answer is not asked again at once: a connection can be
    /// dead long before it is seen to be.
    fn renewal_lane(&self, node: NodeId, failed_on: Option<Lane>) -> Option<Lane> {
        let order = match failed_on {
            Some(Lane::Renewal) => [Lane::Command, Lane::Renewal],
            Some(Lane::Command) | None => [Lane::Renewal, Lane::Command],
        };
        if self.io.has(Defect::RenewalsHaveOneLane) {
            return Some(Lane::Renewal).filter(|lane| self.io.is_open(node, *lane));
        }
        order.into_iter().find(|lane| self.io.is_open(node, *lane))
    }

    /// A lane closed: renewals that wait for its next connection are asked for again, of
    /// whichever lane is open.
    pub(crate) fn retry_unsent_renewals(&mut self, node: NodeId, now: Instant) {
        let unsent = |id: &HoldId| {
            let call = self.holds.get(id).filter(|hold| hold.keys.node == node)?.renewal?;
            self.io.in_flight(call).filter(|call| call.sent.is_none())
        };
        let holds: Vec<HoldId> = self.holds.ids().into_iter().filter(|id| unsent(id).is_some()).collect();
        for id in holds {
            if let Some(hold) = self.holds.get_mut(id) {
                hold.renewal = None;
            }
            self.renewal_failed(id, None, now);
        }
    }

    /// The answer to a renewal. One that was given up may still come, and counts.
    pub(crate) fn renewal_answered(
        &mut self,
        id: CallId,
        call: InFlight,
        hold_id: HoldId,
        ttl: Duration,
        result: Result<Reply, CallError>,
        now: Instant,
    ) {
        let Some(hold) = self.holds.get_mut(hold_id) else {
            return;
        };
        let is_current = hold.renewal == Some(id);
        if is_current {
            hold.renewal = None;
        }
        if hold.lost.is_some() {
            return;
        }
        match result.as_ref().ok().and_then(parse_record) {
            Some(Record::Mine { .. }) => {
                let Some(sent) = call.sent else { return };
                hold.failures = 0;
                hold.failure = None;
                hold.record_until = hold.record_until.max(sent + ttl);
                hold.deadline = hold.deadline.max(deadline(sent, ttl));
                let (levels, deadline) = (hold.levels.clone(), hold.deadline);
                for lease in levels {
                    self.tell(Event::Renewed { lease, deadline });
                }
                self.settle_extensions(hold_id);
                self.schedule_hold(hold_id, sent, now);
            }
            Some(Record::Absent) => self.lose(hold_id, LostReason::Removed, now),
            Some(Record::Others) => self.lose(hold_id, LostReason::Stolen, now),
            None if is_gone(&result) => self.lose(hold_id, LostReason::Stolen, now),
            None if is_current => {
                self.refuse_extensions(hold_id, &result);
                self.renewal_failed(hold_id, result.as_ref().err().map(in_words), now);
            }
            None => {}
        }
    }

    /// A refusal that does not pass by itself is told to those who wait for a longer lease.
    fn refuse_extensions(&mut self, id: HoldId, result: &Result<Reply, CallError>) {
        let Err(CallError::Server { code, message }) = result else {
            return;
        };
        let Some(hold) = self.holds.get_mut(id) else { return };
        if Refusal::of(code) == Refusal::Temporary {
            return;
        }
        let why = explain(&hold.keys, code, message);
        let name = hold.keys.name.clone();
        for ticket in std::mem::take(&mut hold.extensions) {
            self.io.stop(Timer::Wait(ticket));
            if let Some(extension) = self.extensions.remove(&ticket) {
                let error = Error::new(ErrorKind::Misconfigured, extension.operation(), why.clone());
                self.complete(ticket, Outcome::Failed(error.with_lock(name.as_str())));
            }
        }
    }

    /// The answer to a renewal is overdue: send another.
    pub(crate) fn renewal_overdue(&mut self, id: CallId, hold_id: HoldId, now: Instant) {
        let Some(hold) = self.holds.get_mut(hold_id) else {
            return;
        };
        if hold.renewal == Some(id) {
            hold.renewal = None;
            self.renewal_failed(hold_id, None, now);
        }
    }

    /// A hold's deadline has come.
    pub(crate) fn deadline_passed(&mut self, id: HoldId, now: Instant) {
        let Some(hold) = self.holds.get(&id) else { return };
        if now < hold.deadline {
            self.io.set(Timer::Deadline(id), hold.deadline);
            return;
        }
        let reason = if hold.lasts_to_its_end() {
            LostReason::MaxHold
        } else {
            LostReason::Expired
        };
        self.lose(id, reason, now);
    }

    /// Who sees that its fixed lease is over, and comes back before the timer has told
    /// so, holds nothing any more.
    pub(crate) fn lapse_before(&mut self, request: &AcquireRequest, keys: &Keys, now: Instant) {
        let context = request.context.filter(|_| request.within.is_none());
        if let Some(id) = context.and_then(|context| self.held_by(keys, context)) {
            self.lapse_if_over(id, now);
        }
    }

    /// A fixed lease whose deadline has come is lost, though the timer did not say so yet.
    pub(crate) fn lapse_if_over(&mut self, id: HoldId, now: Instant) {
        let is_over = |hold: &Hold| !hold.plan.watched && now >= hold.deadline;
        if self.holds.get(&id).is_some_and(is_over) {
            self.deadline_passed(id, now);
        }
    }

    /// There is a connection again: renew what waited for one.
    pub(crate) fn renew_after_outage(&mut self, node: NodeId, lane: Lane, now: Instant) {
        for id in self.holds.ids() {
            let Some(hold) = self.holds.get(&id).filter(|hold| hold.keys.node == node) else {
                continue;
            };
            let is_short = !hold.reaches(hold.wanted_until);
            // A failover may have lost the record: a watched hold asks at once.
            // A lane that has just failed may fail again, and there may be no time for a third try.
            let has_failed = hold.failures > 0 && hold.renewed_by == lane;
            if is_short || hold.plan.watched {
                self.renew_by(id, Some(lane).filter(|_| !has_failed), now);
            }
        }
    }

    fn renewal_failed(&mut self, id: HoldId, why: Option<String>, now: Instant) {
        let Some(hold) = self.holds.get_mut(id) else { return };
        hold.failure = why;
        let doublings = hold.failures.min(8);
        hold.failures = hold.failures.saturating_add(1);
        let pause = RETRY.0.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(1));
        let longest = RETRY.1.min(hold.plan.length.checked_div(10).unwrap_or_default());
        self.io.set(Timer::Renew(id), now + pause.min(longest.max(RETRY.0)));
    }
}

/// Whether an error says that something else stands where the record was.
fn is_gone(result: &Result<Reply, CallError>) -> bool {
    matches!(result, Err(CallError::Server { code, .. }) if code == "WRONGTYPE")
}
