//! When something must happen if nothing else does.

use std::collections::{BTreeMap, BTreeSet};

use crate::hold::HoldId;
use crate::instant::Instant;
use crate::queue::QueueId;
use crate::release::ReleaseId;
use crate::session::{CallId, Ticket};

/// A reason to wake up. Each is set at most once at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A call's answer is overdue.
    CallTimeout(CallId),
    /// A waiter asks the server again.
    Wake(Ticket),
    /// A caller's patience ends.
    Wait(Ticket),
    /// A caller without a bound has heard nothing of the server for a lease.
    Silence(Ticket),
    /// A hold is due for renewal.
    Renew(HoldId),
    /// A hold can no longer be relied on.
    Deadline(HoldId),
    /// A release is sent again.
    ReleaseAgain(ReleaseId),
    /// A caller has waited long enough for its release.
    ReleaseWait(ReleaseId),
    /// A name that nobody waits for is forgotten.
    Linger(QueueId),
}

/// The timer table.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Instant, Timer)>,
    by_timer: BTreeMap<Timer, Instant>,
}

impl Timers {
    /// Sets `timer` to `at`, whatever it was set to before.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(before) = self.by_timer.insert(timer, at) {
            self.by_time.remove(&(before, timer));
        }
        self.by_time.insert((at, timer));
    }

    /// Unsets `timer`.
    pub(crate) fn stop(&mut self, timer: Timer) {
        if let Some(at) = self.by_timer.remove(&timer) {
            self.by_time.remove(&(at, timer));
        }
    }

    /// The next instant at which one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes one timer that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.stop(timer);
        Some(timer)
    }

    /// How many are set.
    pub(crate) fn len(&self) -> usize {
        self.by_time.len()
    }
}
