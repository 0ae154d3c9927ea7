//! Counts waiters, held leases and their ends, for the metrics.
//!
//! Metering is separate from the observers because counting needs no texts: a client with metrics alone formats no
//! names or messages.

use std::mem;
use std::sync::Arc;

use steadlock_collections::Table;
use steadlock_protocol::{Error, ErrorKind, Instant, LeaseId, LostReason, Outcome, RunEnd, RunOutcome, Ticket, Token};

use crate::observe::Link;
use crate::observe::metrics::{self, Groups, Metrics, Series};
use crate::world::World;

/// The counters of one engine. When it is dropped, all waits and leases that are left are counted as ended by the
/// close.
pub(super) struct Metering {
    metrics: Arc<Metrics>,
    groups: Groups,
    waits: Table<Ticket, Ongoing>,
    held: Table<LeaseId, Ongoing>,
    /// Releases whose callers no longer wait.
    releases: Table<Ticket, LeaseId>,
    /// How the runs end whose releases are not answered yet.
    ends: Table<LeaseId, RunEnd>,
    world: World,
}

/// A wait or a hold, and the time when it began.
struct Ongoing {
    series: Arc<Series>,
    since: Instant,
    /// The server's clock at the grant, in µs, as the token shows it; `None` for a wait, and without a token.
    granted_at: Option<u64>,
}

impl Metering {
    pub(super) fn new(metrics: Arc<Metrics>, groups: Groups, world: World) -> Self {
        Self {
            metrics,
            groups,
            waits: Table::default(),
            held: Table::default(),
            releases: Table::default(),
            ends: Table::default(),
            world,
        }
    }

    /// Counts a connection that opened after an earlier one was lost, or after a failed attempt to connect.
    pub(super) fn reconnected(&self, link: Link) {
        self.metrics.link(link).reconnects.add(1);
    }

    /// Counts a connection that was lost.
    pub(super) fn connection_lost(&self, link: Link) {
        self.metrics.link(link).lost.add(1);
    }

    /// Counts an attempt to connect that failed.
    pub(super) fn connect_failed(&self, link: Link) {
        self.metrics.link(link).failures.add(1);
    }

    /// Counts a circuit breaker that opened.
    pub(super) fn breaker_opened(&self) {
        self.metrics.breakers().opened();
    }

    /// Counts a circuit breaker that closed.
    pub(super) fn breaker_closed(&self) {
        self.metrics.breakers().closed();
    }

    /// Counts a caller that begins to wait for a lock.
    pub(super) fn wait_began(&mut self, ticket: Ticket, kind: &'static str, name: &str, now: Instant) {
        let series = Arc::clone(self.groups.series(kind, name));
        series.wait_began();
        let wait = Ongoing {
            series,
            since: now,
            granted_at: None,
        };
        self.waits.insert(ticket, wait);
    }

    /// Notes how a run ends that is about to be released.
    pub(super) fn run_ends(&mut self, lease: LeaseId, end: RunEnd) {
        if self.held.get(&lease).is_some_and(|held| held.series.is_of_jobs()) {
            self.ends.insert(lease, end);
        }
    }

    /// Notes a release that continues although its caller went away.
    pub(super) fn release_detached(&mut self, ticket: Ticket, lease: LeaseId) {
        self.releases.insert(ticket, lease);
    }

    /// Counts the outcome of a ticket. Only a release uses `released`: its lease, or `None` if its caller went away.
    pub(super) fn completed(&mut self, ticket: Ticket, outcome: &Outcome, released: Option<LeaseId>, now: Instant) {
        let ended = match outcome {
            Outcome::Granted(grant) if grant.degraded => metrics::Outcome::Degraded,
            Outcome::Granted(_) => metrics::Outcome::Granted,
            Outcome::NotGranted(error) | Outcome::Failed(error) => {
                if let Some(wait) = self.waits.get(&ticket)
                    && let Some(time) = last_success(error)
                {
                    wait.series.succeeded_at(time);
                }
                metrics::Outcome::of_error(error)
            }
            Outcome::Released(outcome) => {
                let released = released.or_else(|| self.releases.remove(&ticket));
                if let Some(lease) = released
                    && let Some(held) = self.held.remove(&lease)
                {
                    held.series.released(now.saturating_since(held.since));
                    let end = self.ends.remove(&lease);
                    held.run_ended(end, outcome.lost_reason().is_some(), now);
                }
                return;
            }
            Outcome::Extended(_) | Outcome::State(_) | Outcome::Forced(_) => return,
        };
        let Some(series) = self.wait_ended(ticket, ended, now) else {
            return;
        };
        if let Outcome::Granted(grant) = outcome {
            let hold = Ongoing {
                series,
                since: now,
                granted_at: grant.token.map(Token::get),
            };
            self.held.insert(grant.lease, hold);
        }
    }

    /// Counts a caller that went away.
    pub(super) fn cancelled(&mut self, ticket: Ticket, now: Instant) {
        self.wait_ended(ticket, metrics::Outcome::Cancelled, now);
    }

    /// Counts the end of a wait. Returns the series of the ticket, or `None` if the ticket was not a wait.
    fn wait_ended(&mut self, ticket: Ticket, outcome: metrics::Outcome, now: Instant) -> Option<Arc<Series>> {
        let wait = self.waits.remove(&ticket)?;
        wait.series.wait_ended(outcome, now.saturating_since(wait.since));
        Some(wait.series)
    }

    /// Counts a confirmed renewal of a lock of this kind and name.
    pub(super) fn renewal_confirmed(&mut self, kind: &'static str, name: &str) {
        self.groups.series(kind, name).renewal_confirmed();
    }

    /// Counts a failed renewal of a lock of this kind and name.
    pub(super) fn renewal_failed(&mut self, kind: &'static str, name: &str) {
        self.groups.series(kind, name).renewal_failed();
    }

    /// Counts a lease that is reported lost to its holder.
    pub(super) fn lost(&mut self, lease: LeaseId, reason: LostReason, now: Instant) {
        if let Some(held) = self.held.remove(&lease) {
            held.series.lost(reason, now.saturating_since(held.since));
            self.ends.remove(&lease);
            held.run_ended(None, reason != LostReason::Closed, now);
        }
    }
}

impl Ongoing {
    /// Counts the end of a run; does nothing for a hold of another kind. Without an `end` the caller did not say how the
    /// run ended.
    fn run_ended(&self, end: Option<RunEnd>, is_lost: bool, now: Instant) {
        if !self.series.is_of_jobs() {
            return;
        }
        match end.unwrap_or(RunEnd::Failed) {
            RunEnd::Unused => {}
            _ if is_lost => self.series.run_ended(RunOutcome::Lost),
            RunEnd::Failed => self.series.run_ended(RunOutcome::Failed),
            RunEnd::Succeeded => {
                self.series.run_ended(RunOutcome::Succeeded);
                if let Some(granted_at) = self.granted_at {
                    let took = now.saturating_since(self.since);
                    self.series.succeeded_at(granted_at / 1_000_000 + took.as_secs());
                }
            }
        }
    }
}

/// Returns when the run ended that keeps a skipped caller out, in seconds since 1970; `None` if it goes on.
fn last_success(error: &Error) -> Option<u64> {
    let skip = error.skip()?;
    Some(skip.since? / 1_000 + skip.took?.as_secs())
}

impl Drop for Metering {
    /// Counts the remaining leases as lost, because nothing renews or releases them any more, and the remaining waits
    /// as ended, because nothing answers them.
    fn drop(&mut self) {
        let now = self.world.now();
        for wait in mem::take(&mut self.waits).into_values() {
            let waited = now.saturating_since(wait.since);
            wait.series.wait_ended(metrics::Outcome::of(ErrorKind::Closed), waited);
        }
        for held in mem::take(&mut self.held).into_values() {
            held.series.lost(LostReason::Closed, now.saturating_since(held.since));
            held.run_ended(None, false, now);
        }
    }
}
