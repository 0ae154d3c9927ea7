//! Counts waiters and held leases, and how they end, for the metrics.
//!
//! It is beside the observers, and not one of them: it needs neither names nor texts, so that with
//! metrics alone none are made.

use std::mem;
use std::sync::Arc;

use steadlock_protocol::{Error, ErrorKind, Instant, LeaseId, LostReason, Outcome, Table, Ticket};

use crate::observe::Link;
use crate::observe::metrics::{self, Groups, Metrics, Series};
use crate::world::World;

/// Counts what one engine does. Its end is the end of all waits and leases that are left.
pub(super) struct Metering {
    metrics: Arc<Metrics>,
    groups: Groups,
    waits: Table<Ticket, Began>,
    held: Table<LeaseId, Began>,
    /// Releases that nobody waits for any more.
    releases: Table<Ticket, LeaseId>,
    world: World,
}

/// Something that goes on, since when.
struct Began {
    series: Arc<Series>,
    since: Instant,
}

impl Metering {
    pub(super) fn new(metrics: Arc<Metrics>, groups: Groups, world: World) -> Self {
        Self {
            metrics,
            groups,
            waits: Table::default(),
            held: Table::default(),
            releases: Table::default(),
            world,
        }
    }

    /// A connection is open; whether it was missing.
    pub(super) fn opened(&self, link: Link, was_missing: bool) {
        if was_missing {
            self.metrics.link(link).reconnects.add(1);
        }
    }

    /// A connection was lost, or an attempt to connect failed.
    pub(super) fn closed(&self, link: Link, was_open: bool) {
        let counts = self.metrics.link(link);
        if was_open {
            counts.lost.add(1);
        } else {
            counts.failures.add(1);
        }
    }

    /// A circuit breaker opened, or closed again.
    pub(super) fn breaker(&self, is_open: bool) {
        let counts = self.metrics.breakers();
        if is_open {
            counts.opened();
        } else {
            counts.closed();
        }
    }

    /// A caller waits for a lock.
    pub(super) fn asked(&mut self, ticket: Ticket, kind: &'static str, name: &str, now: Instant) {
        let series = Arc::clone(self.groups.series(kind, name));
        series.asked();
        self.waits.insert(ticket, Began { series, since: now });
    }

    /// A release goes on though its caller went away.
    pub(super) fn releases_on(&mut self, ticket: Ticket, lease: LeaseId) {
        self.releases.insert(ticket, lease);
    }

    /// A ticket is done; `released` is the lease that it was to release.
    pub(super) fn completed(&mut self, ticket: Ticket, outcome: &Outcome, released: Option<LeaseId>, now: Instant) {
        let ended = match outcome {
            Outcome::Granted(grant) if grant.degraded => metrics::Outcome::Degraded,
            Outcome::Granted(_) => metrics::Outcome::Granted,
            Outcome::NotGranted(error) if error.is_skipped() => metrics::Outcome::Skipped,
            Outcome::NotGranted(error) | Outcome::Failed(error) => metrics::Outcome::of(Error::kind(error)),
            Outcome::Released(_) => {
                let released = released.or_else(|| self.releases.remove(&ticket));
                if let Some(held) = released.and_then(|lease| self.held.remove(&lease)) {
                    held.series.released(now.saturating_since(held.since));
                }
                return;
            }
            Outcome::Extended(_) | Outcome::State(_) | Outcome::Forced(_) => return,
        };
        let Some(series) = self.answered(ticket, ended, now) else {
            return;
        };
        if let Outcome::Granted(grant) = outcome {
            self.held.insert(grant.lease, Began { series, since: now });
        }
    }

    /// The caller of a ticket went away.
    pub(super) fn cancelled(&mut self, ticket: Ticket, now: Instant) {
        self.answered(ticket, metrics::Outcome::Cancelled, now);
    }

    /// A wait is over; gives what it counts for, if the ticket was for one.
    fn answered(&mut self, ticket: Ticket, outcome: metrics::Outcome, now: Instant) -> Option<Arc<Series>> {
        let wait = self.waits.remove(&ticket)?;
        wait.series.answered(outcome, now.saturating_since(wait.since));
        Some(wait.series)
    }

    /// A renewal of the lock of this kind and name was confirmed, or came to nothing.
    pub(super) fn renewed(&mut self, kind: &'static str, name: &str, is_confirmed: bool) {
        self.groups.series(kind, name).renewed(is_confirmed);
    }

    /// The holder of a lease is told that it is lost.
    pub(super) fn lost(&mut self, lease: LeaseId, reason: LostReason, now: Instant) {
        if let Some(held) = self.held.remove(&lease) {
            held.series.lost(reason, now.saturating_since(held.since));
        }
    }
}

impl Drop for Metering {
    /// Nobody renews what is left, and nobody answers who still waits.
    fn drop(&mut self) {
        let now = self.world.now();
        for wait in mem::take(&mut self.waits).into_values() {
            let waited = now.saturating_since(wait.since);
            wait.series.answered(metrics::Outcome::of(ErrorKind::Closed), waited);
        }
        for held in mem::take(&mut self.held).into_values() {
            held.series.lost(LostReason::Closed, now.saturating_since(held.since));
        }
    }
}
