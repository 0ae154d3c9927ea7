//! When to renew, and when a lease is lost.
//!
//! A watched hold is renewed at a third of its lease, counted from when the last
//! confirmed call was sent. A renewal that is not answered within a sixth of the
//! lease is tried again after a short pause, until the deadline. A fixed lease is
//! renewed only to reach its own length, since no attempt asks for more than
//! 30 s. A renewal never creates a record and never shortens one.

use std::time::Duration;

use crate::calls::{InFlight, Purpose};
use crate::defects::Defect;
use crate::hold::{Hold, HoldId};
use crate::instant::Instant;
use crate::kinds::{Record, parse_record};
use crate::lease::deadline;
use crate::reply::{CallError, Reply};
use crate::session::{CallId, Event, Lane, LostReason, Session};
use crate::timers::Timer;

/// The pause after a failed renewal: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
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
    /// Sets a hold's timers after a call sent at `sent` was confirmed.
    pub(crate) fn schedule_hold(&mut self, id: HoldId, sent: Instant, now: Instant) {
        let Some(hold) = self.holds.get(&id) else { return };
        self.timers.set(Timer::Deadline(id), hold.deadline);
        if !hold.reaches(hold.wanted_until) {
            self.renew(id, now);
        } else if hold.plan.watched {
            // Also when the record lasts to the end of `max_hold`: it may be taken away before.
            let third = hold.plan.length.checked_div(3).unwrap_or_default();
            self.timers.set(Timer::Renew(id), sent + third);
        }
    }

    /// Asks the server to let the record last longer, unless it is being asked.
    pub(crate) fn renew(&mut self, id: HoldId, now: Instant) {
        if self.has(Defect::StuckNodeStopsRenewals) && self.renewal_has_to_wait(id, now) {
            return;
        }
        let Some(hold) = self.holds.get_mut(id) else { return };
        let node = hold.keys.node;
        if hold.lost.is_some() || hold.renewal.is_some() {
            return;
        }
        if !self.connected.contains(&node) {
            // `on_connected` renews whatever has no timer.
            self.timers.stop(Timer::Renew(id));
            return;
        }
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
        let call = self.calls.start(Purpose::Renew { hold: id, ttl });
        hold.renewal = Some(call);
        let sixth = hold.plan.length.checked_div(6).unwrap_or_default();
        let patience = self.config.command_timeout.min(sixth.max(RETRY.0));
        self.timers.stop(Timer::Renew(id));
        self.timers.set(Timer::CallTimeout(call), now + patience);
        self.transmit(call, node, Lane::Renewal, invocation);
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
            None if is_current => self.renewal_failed(hold_id, now),
            None => {}
        }
    }

    /// The answer to a renewal is overdue: send another.
    pub(crate) fn renewal_overdue(&mut self, id: CallId, hold_id: HoldId, now: Instant) {
        let Some(hold) = self.holds.get_mut(hold_id) else {
            return;
        };
        if hold.renewal == Some(id) {
            hold.renewal = None;
            self.renewal_failed(hold_id, now);
        }
    }

    /// A hold's deadline has come.
    pub(crate) fn deadline_passed(&mut self, id: HoldId, now: Instant) {
        let Some(hold) = self.holds.get(&id) else { return };
        if now < hold.deadline {
            self.timers.set(Timer::Deadline(id), hold.deadline);
            return;
        }
        let reason = if hold.lasts_to_its_end() {
            LostReason::MaxHold
        } else {
            LostReason::Expired
        };
        self.lose(id, reason, now);
    }

    /// There is a connection again: renew what waited for one.
    pub(crate) fn renew_after_outage(&mut self, now: Instant) {
        for id in self.holds.ids() {
            let Some(hold) = self.holds.get(&id) else { continue };
            let is_short = !hold.reaches(hold.wanted_until);
            // A failover may have lost the record: a watched hold asks at once.
            if is_short || hold.plan.watched {
                self.renew(id, now);
            }
        }
    }

    fn renewal_failed(&mut self, id: HoldId, now: Instant) {
        let Some(hold) = self.holds.get_mut(id) else { return };
        let doublings = hold.failures.min(8);
        hold.failures = hold.failures.saturating_add(1);
        let pause = RETRY.0.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(1));
        let longest = RETRY.1.min(hold.plan.length.checked_div(10).unwrap_or_default());
        self.timers.set(Timer::Renew(id), now + pause.min(longest.max(RETRY.0)));
    }
}

/// Whether an error says that something else stands where the record was.
fn is_gone(result: &Result<Reply, CallError>) -> bool {
    matches!(result, Err(CallError::Server { code, .. }) if code == "WRONGTYPE")
}
