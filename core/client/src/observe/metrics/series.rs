//! The counts of one kind of lock in one group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadlock_protocol::{Error, ErrorKind, Kind, LostReason, RunOutcome, SkipReason};

use super::families::BUCKETS;

/// A number that any thread can read and only the engine changes, on one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        // Only one thread writes at a time, so this needs no atomic read-modify-write, which would cost more.
        self.set(self.0.load(Ordering::Relaxed).wrapping_add(number));
    }

    pub(super) fn decrement(&self) {
        self.set(self.0.load(Ordering::Relaxed).saturating_sub(1));
    }

    /// Stores the number. A reader that sees it also sees everything counted before.
    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The outcome of an acquisition, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Degraded,
    TimedOut,
    /// The server is unavailable, and the caller wanted to skip then.
    Skipped,
    /// A job: another run goes on.
    Running,
    /// A job: it is done.
    Done,
    Cancelled,
    Unavailable,
    Misconfigured,
    Refused,
    Lost,
    Closed,
}

impl Outcome {
    pub(super) const ALL: [Self; 12] = [
        Self::Granted,
        Self::Degraded,
        Self::TimedOut,
        Self::Skipped,
        Self::Running,
        Self::Done,
        Self::Cancelled,
        Self::Unavailable,
        Self::Misconfigured,
        Self::Refused,
        Self::Lost,
        Self::Closed,
    ];

    /// Returns the outcome under which the error of an acquisition is counted.
    pub(crate) fn of_error(error: &Error) -> Self {
        match error.skip().map(|skip| skip.reason) {
            Some(SkipReason::Running) => Self::Running,
            Some(SkipReason::Done) => Self::Done,
            Some(SkipReason::Unavailable) => Self::Skipped,
            None => Self::of(error.kind()),
        }
    }

    /// Returns the outcome under which an error of this kind is counted.
    pub(crate) const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::LockTimeout => Self::TimedOut,
            ErrorKind::Skipped => Self::Skipped,
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Misconfigured => Self::Misconfigured,
            ErrorKind::LockLost => Self::Lost,
            ErrorKind::Closed => Self::Closed,
            ErrorKind::InvalidArgument | ErrorKind::NotOwner | ErrorKind::Forked => Self::Refused,
            // A new kind of error counts as unavailable until it has an outcome of its own.
            _ => Self::Unavailable,
        }
    }

    /// Whether the outcome is a failure, for the status of a span.
    #[cfg(all(feature = "tracing", feature = "native"))]
    pub(crate) const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::Misconfigured | Self::Refused | Self::Lost | Self::Closed
        )
    }

    /// Returns the word that hosts use.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Degraded => "degraded",
            Self::TimedOut => "timed_out",
            Self::Skipped => "skipped",
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::Misconfigured => "misconfigured",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Closed => "closed",
        }
    }
}

/// The counts of durations, by length.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// The last bucket has the durations beyond every bound.
    buckets: [Counter; BUCKETS.len() + 1],
    micros: Counter,
}

impl Histogram {
    fn record(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|bound| micros <= *bound);
        if let Some(counter) = self.buckets.get(bucket.unwrap_or(BUCKETS.len())) {
            counter.add(1);
        }
        self.micros.add(micros);
    }

    /// Returns the count of each bucket; a count does not include the lower buckets.
    pub(super) fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Counter::get)
    }

    /// Returns the sum of all durations, in microseconds.
    pub(super) fn micros(&self) -> u64 {
        self.micros.get()
    }
}

/// The counts of one kind of lock in one group.
#[derive(Debug)]
pub(crate) struct Series {
    kind: &'static str,
    group: Arc<str>,
    acquisitions: [Counter; Outcome::ALL.len()],
    losses: [Counter; LostReason::ALL.len()],
    renewals_confirmed: Counter,
    renewals_failed: Counter,
    held: Counter,
    waiting: Counter,
    waits: Histogram,
    holds: Histogram,
    runs: [Counter; RunOutcome::ALL.len()],
    /// When a run last succeeded, in seconds since 1970; 0 if that is not known.
    last_success: Counter,
}

impl Series {
    pub(super) fn new(kind: &'static str, group: Arc<str>) -> Self {
        Self {
            kind,
            group,
            acquisitions: Default::default(),
            losses: Default::default(),
            renewals_confirmed: Counter::default(),
            renewals_failed: Counter::default(),
            held: Counter::default(),
            waiting: Counter::default(),
            waits: Histogram::default(),
            holds: Histogram::default(),
            runs: Default::default(),
            last_success: Counter::default(),
        }
    }

    /// Counts a caller that begins to wait.
    pub(crate) fn wait_began(&self) {
        self.waiting.add(1);
    }

    /// Counts the end of a caller's wait.
    pub(crate) fn wait_ended(&self, outcome: Outcome, waited: Duration) {
        self.waiting.decrement();
        self.acquisitions[outcome as usize].add(1);
        self.waits.record(waited);
        if matches!(outcome, Outcome::Granted | Outcome::Degraded) {
            self.held.add(1);
        }
    }

    /// Counts the release of a lease.
    pub(crate) fn released(&self, held: Duration) {
        self.held.decrement();
        self.holds.record(held);
    }

    /// Counts the loss of a lease.
    pub(crate) fn lost(&self, reason: LostReason, held: Duration) {
        self.released(held);
        if let Some(index) = LostReason::ALL.iter().position(|known| *known == reason) {
            self.losses[index].add(1);
        }
    }

    /// Counts a renewal that the server confirmed.
    pub(crate) fn renewal_confirmed(&self) {
        self.renewals_confirmed.add(1);
    }

    /// Counts a renewal that failed.
    pub(crate) fn renewal_failed(&self) {
        self.renewals_failed.add(1);
    }

    /// Whether the series counts runs of jobs.
    pub(crate) fn is_of_jobs(&self) -> bool {
        self.kind == Kind::Once.name()
    }

    /// Counts the end of a run.
    pub(crate) fn run_ended(&self, outcome: RunOutcome) {
        let counter = RunOutcome::ALL.iter().position(|known| *known == outcome);
        if let Some(counter) = counter.and_then(|index| self.runs.get(index)) {
            counter.add(1);
        }
    }

    /// Notes that a run of the job succeeded at this time, in seconds since 1970.
    pub(crate) fn succeeded_at(&self, time: u64) {
        self.last_success.set(time.max(self.last_success.get()));
    }

    pub(super) const fn group(&self) -> &Arc<str> {
        &self.group
    }

    /// Returns the key by which series are sorted: the group, then the kind.
    pub(super) fn sort_key(&self) -> (&str, &str) {
        (&self.group, self.kind)
    }

    pub(super) const fn kind(&self) -> &'static str {
        self.kind
    }

    pub(super) fn acquisitions(&self) -> Vec<(&'static str, u64)> {
        let counted = Outcome::ALL.iter().zip(&self.acquisitions);
        counted
            .map(|(outcome, counter)| (outcome.as_str(), counter.get()))
            .collect()
    }

    pub(super) fn losses(&self) -> Vec<(&'static str, u64)> {
        let counted = LostReason::ALL.iter().zip(&self.losses);
        counted
            .map(|(reason, counter)| (reason.as_str(), counter.get()))
            .collect()
    }

    pub(super) fn renewals(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("renewed", self.renewals_confirmed.get()),
            ("failed", self.renewals_failed.get()),
        ]
    }

    pub(super) fn runs(&self) -> Vec<(&'static str, u64)> {
        let counted = RunOutcome::ALL.iter().zip(&self.runs);
        counted
            .map(|(outcome, counter)| (outcome.as_str(), counter.get()))
            .collect()
    }

    pub(super) fn last_success(&self) -> Option<u64> {
        Some(self.last_success.get()).filter(|time| *time > 0)
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
