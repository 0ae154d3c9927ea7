//! The counts of a client, as rows of plain data and as text for Prometheus.
//!
//! ```text
//!   engine ── Groups ── counts ──► Series of a kind and group ◄── reads ── Metrics ──► rows ──► text
//! ```
//!
//! A `Series` has the counts for one kind of lock in one group. Only the engine writes the counters, so counting needs
//! no mutex. A reader sees the counts of the moment at which it reads.

mod families;
mod groups;
mod rows;
mod series;
mod text;

use std::sync::{Arc, Mutex, PoisonError};

use steadlock_collections::{SortedMap, SortedSet};

pub use self::families::Family;
pub use self::groups::GroupBy;
pub(crate) use self::groups::{Grouping, Groups, MAX_GROUPS};
pub use self::rows::{Metric, Row, Times};
use self::series::Counter;
pub(crate) use self::series::{Outcome, Series};
use super::observation::Link;

/// The counts of one client in one process.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// The series, sorted by group, then by kind.
    series: Mutex<Vec<Arc<Series>>>,
    links: Links,
    breakers: BreakerCounts,
    queues: QueueLengths,
}

impl Metrics {
    /// Adds a series for a kind and group that has none yet.
    pub(crate) fn add(&self, kind: &'static str, group: Arc<str>) -> Arc<Series> {
        let new = Arc::new(Series::new(kind, group));
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let index = series.partition_point(|other| other.sort_key() <= new.sort_key());
        series.insert(index, Arc::clone(&new));
        new
    }

    pub(crate) const fn link(&self, link: Link) -> &LinkCounts {
        self.links.of(link)
    }

    pub(crate) const fn breakers(&self) -> &BreakerCounts {
        &self.breakers
    }

    /// Returns the groups that have counts.
    fn groups(&self) -> SortedSet<Arc<str>> {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.iter().map(|series| Arc::clone(series.group())).collect()
    }

    /// Returns the lengths of queues on the server.
    pub(crate) const fn queues(&self) -> &QueueLengths {
        &self.queues
    }

    /// Returns all counts in Prometheus' text format, version 0.0.4.
    pub(crate) fn text(&self) -> String {
        text::text(&self.rows())
    }

    /// Returns all counts as plain data.
    pub(crate) fn rows(&self) -> Vec<Metric> {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner).clone();
        rows::metrics(&series, &self.links, &self.breakers, &self.queues)
    }
}

/// The counts of the client's connections for one purpose, to all its servers.
#[derive(Debug, Default)]
pub(crate) struct LinkCounts {
    /// The connections that were lost.
    pub(crate) lost: Counter,
    /// The connections that were opened again.
    pub(crate) reconnects: Counter,
    /// The attempts to connect that failed.
    pub(crate) failures: Counter,
}

/// The counts of the circuit breakers.
#[derive(Debug, Default)]
pub(crate) struct BreakerCounts {
    /// The number of times that a breaker opened.
    opened: Counter,
    /// The number of breakers that are open.
    open: Counter,
}

impl BreakerCounts {
    pub(crate) fn opened(&self) {
        self.opened.add(1);
        self.open.add(1);
    }

    pub(crate) fn closed(&self) {
        self.open.decrement();
    }
}

/// The counts of the connections for both purposes.
#[derive(Debug, Default)]
struct Links {
    calls: LinkCounts,
    renewals: LinkCounts,
}

impl Links {
    const fn of(&self, link: Link) -> &LinkCounts {
        match link {
            Link::Calls => &self.calls,
            Link::Renewals => &self.renewals,
        }
    }

    fn each(&self) -> [(Link, &LinkCounts); 2] {
        [Link::Calls, Link::Renewals].map(|link| (link, self.of(link)))
    }
}

/// The limit of fair locks whose queues are counted.
pub(crate) const MAX_QUEUES: usize = 100;

/// The numbers of waiters in the server's queues of the chosen fair locks: the last answers, by lock name. A lock
/// without an answer is not in the table.
#[derive(Debug, Default)]
pub(crate) struct QueueLengths(Mutex<SortedMap<Arc<str>, u32>>);

impl QueueLengths {
    /// Sets the server's last answer, or removes it if `length` is `None`.
    pub(crate) fn set(&self, name: &Arc<str>, length: Option<u32>) {
        let mut lengths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match length {
            Some(length) => lengths.insert(Arc::clone(name), length),
            None => lengths.remove(name),
        };
    }

    fn all(&self) -> SortedMap<Arc<str>, u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
