//! The counts of one kind of lock in one group.

use std::array::from_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadlock_protocol::{ErrorKind, LostReason};

use super::families::BUCKETS;

/// A number that one thread at a time changes, and any reads: the engine's.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// So many more.
    pub(crate) fn add(&self, number: u64) {
        // Whoever writes is the only one, so no read-modify-write is needed, which would cost more.
        self.set(self.0.load(Ordering::Relaxed).wrapping_add(number));
    }

    /// One less.
    pub(super) fn take_one(&self) {
        self.set(self.0.load(Ordering::Relaxed).saturating_sub(1));
    }

    /// A reader that sees this number also sees what was counted before it.
    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// How an acquisition ended, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Degraded,
    TimedOut,
    Skipped,
    Cancelled,
    Unavailable,
    Misconfigured,
    Refused,
    Lost,
    Closed,
}

impl Outcome {
    pub(super) const ALL: [Self; 10] = [
        Self::Granted,
        Self::Degraded,
        Self::TimedOut,
        Self::Skipped,
        Self::Cancelled,
        Self::Unavailable,
        Self::Misconfigured,
        Self::Refused,
        Self::Lost,
        Self::Closed,
    ];

    /// What an error is counted as.
    pub(crate) const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::LockTimeout => Self::TimedOut,
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Misconfigured => Self::Misconfigured,
            ErrorKind::LockLost => Self::Lost,
            ErrorKind::Closed => Self::Closed,
            ErrorKind::InvalidArgument | ErrorKind::NotOwner | ErrorKind::Forked => Self::Refused,
            // A kind that comes later is counted as trouble until it has a word of its own.
            _ => Self::Unavailable,
        }
    }

    /// Whether somebody has to do something about it.
    #[cfg(all(feature = "tracing", feature = "native"))]
    pub(crate) const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::Misconfigured | Self::Refused | Self::Lost | Self::Closed
        )
    }

    /// The word that hosts see.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Degraded => "degraded",
            Self::TimedOut => "timed_out",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::Misconfigured => "misconfigured",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Closed => "closed",
        }
    }
}

/// Times, by how long they were.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// The last one has what is longer than every bound.
    buckets: [Counter; BUCKETS.len() + 1],
    micros: Counter,
}

impl Histogram {
    fn record(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|(bound, _)| micros <= *bound);
        if let Some(counter) = self.buckets.get(bucket.unwrap_or(BUCKETS.len())) {
            counter.add(1);
        }
        self.micros.add(micros);
    }

    /// How many there were in each bucket, not counting those in lower ones.
    pub(super) fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Counter::get)
    }

    /// All times together.
    pub(super) fn seconds(&self) -> Duration {
        Duration::from_micros(self.micros.get())
    }
}

/// One kind of lock in one group.
#[derive(Debug)]
pub(crate) struct Series {
    kind: &'static str,
    group: Arc<str>,
    acquisitions: [Counter; Outcome::ALL.len()],
    losses: [Counter; LostReason::ALL.len()],
    renewed: Counter,
    renewals_failed: Counter,
    held: Counter,
    waiting: Counter,
    waits: Histogram,
    holds: Histogram,
}

impl Series {
    pub(super) fn new(kind: &'static str, group: Arc<str>) -> Self {
        Self {
            kind,
            group,
            acquisitions: Default::default(),
            losses: Default::default(),
            renewed: Counter::default(),
            renewals_failed: Counter::default(),
            held: Counter::default(),
            waiting: Counter::default(),
            waits: Histogram::default(),
            holds: Histogram::default(),
        }
    }

    /// A caller begins to wait.
    pub(crate) fn asked(&self) {
        self.waiting.add(1);
    }

    /// A caller waits no longer.
    pub(crate) fn answered(&self, outcome: Outcome, waited: Duration) {
        self.waiting.take_one();
        self.acquisitions[outcome as usize].add(1);
        self.waits.record(waited);
        if matches!(outcome, Outcome::Granted | Outcome::Degraded) {
            self.held.add(1);
        }
    }

    /// A lease was released.
    pub(crate) fn released(&self, held: Duration) {
        self.held.take_one();
        self.holds.record(held);
    }

    /// A lease was lost.
    pub(crate) fn lost(&self, reason: LostReason, held: Duration) {
        self.released(held);
        if let Some(place) = LostReason::ALL.iter().position(|known| *known == reason) {
            self.losses[place].add(1);
        }
    }

    /// A renewal was confirmed, or came to nothing.
    pub(crate) fn renewed(&self, is_confirmed: bool) {
        if is_confirmed {
            self.renewed.add(1);
        } else {
            self.renewals_failed.add(1);
        }
    }

    pub(super) const fn group(&self) -> &Arc<str> {
        &self.group
    }

    /// The group, then the kind.
    pub(super) fn labels(&self) -> (&str, &'static str) {
        (&self.group, self.kind)
    }

    pub(super) fn acquisitions(&self) -> [(&'static str, u64); Outcome::ALL.len()] {
        from_fn(|place| (Outcome::ALL[place].as_str(), self.acquisitions[place].get()))
    }

    pub(super) fn losses(&self) -> [(&'static str, u64); LostReason::ALL.len()] {
        from_fn(|place| (LostReason::ALL[place].as_str(), self.losses[place].get()))
    }

    pub(super) fn renewals(&self) -> [(&'static str, u64); 2] {
        [("renewed", self.renewed.get()), ("failed", self.renewals_failed.get())]
    }

    pub(super) fn held(&self) -> u64 {
        self.held.get()
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting.get()
    }

    pub(super) const fn waits(&self) -> &Histogram {
        &self.waits
    }

    pub(super) const fn holds(&self) -> &Histogram {
        &self.holds
    }
}
