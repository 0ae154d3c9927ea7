//! All counts of one client.

use std::sync::{Arc, Mutex, PoisonError};

use steadlock_collections::SortedSet;

use super::links::{BreakerCounts, LinkCounts, Links};
use super::queues::QueueLengths;
use super::rows::{self, Metric};
use super::series::Series;
use super::text;
use crate::observe::observation::Link;

/// The counts of one client in one process.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// The series, sorted by their labels.
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
        let at = series.partition_point(|other| other.labels() <= new.labels());
        series.insert(at, Arc::clone(&new));
        new
    }

    /// Returns the counts of a connection.
    pub(crate) const fn link(&self, link: Link) -> &LinkCounts {
        self.links.of(link)
    }

    /// Returns the counts of the circuit breakers.
    pub(crate) const fn breakers(&self) -> &BreakerCounts {
        &self.breakers
    }

    /// Returns the groups that have counts.
    pub(super) fn groups(&self) -> SortedSet<Arc<str>> {
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
