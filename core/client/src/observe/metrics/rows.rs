//! The metrics as plain data: for each metric what it counts, and a row for each of its series.

use std::sync::Arc;

use super::families::{
    ACQUISITIONS, BREAKERS_OPEN, BREAKERS_OPENED, CONNECT_FAILURES, CONNECTIONS_LOST, FAIR_QUEUE, Family, HELD, HOLD,
    LAST_SUCCESS, LOSSES, RECONNECTS, RENEWALS, RUNS, WAIT, WAITING,
};
use super::series::{Counter, Histogram, Series};
use super::{BreakerCounts, LinkCounts, Links, QueueLengths};
use crate::observe::observation::Link;

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// The description of the metric.
    pub family: &'static Family,
    /// The series.
    pub rows: Vec<Row>,
}

/// One series of a metric, as it is now.
#[derive(Debug)]
pub struct Row {
    /// The names and values of its labels.
    pub labels: Vec<(&'static str, Arc<str>)>,
    /// The number; for a histogram, the number of durations that it counted.
    pub number: u64,
    /// The durations of a histogram; otherwise `None`.
    pub times: Option<Times>,
}

/// The durations that a histogram counted.
#[derive(Debug)]
pub struct Times {
    /// The number of durations in each bucket; a number does not include the lower buckets. The last bucket has the
    /// durations beyond every bound.
    pub buckets: Vec<u64>,
    /// The sum of all durations, in microseconds.
    pub micros: u64,
}

impl Times {
    /// Returns the sum of all durations, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.micros as f64 / 1e6
    }
}

type Labels = Vec<(&'static str, Arc<str>)>;

/// Returns the metrics of these sorted series, of the connections, of the circuit breakers and of the queues.
pub(super) fn metrics(
    series: &[Arc<Series>],
    links: &Links,
    breakers: &BreakerCounts,
    queues: &QueueLengths,
) -> Vec<Metric> {
    let metric = |family, rows| Metric { family, rows };
    let queues = queues.all();
    let lengths = queues
        .into_iter()
        .map(|(name, length)| number(vec![("queue", name)], length.into()));
    let jobs: Vec<Arc<Series>> = series.iter().filter(|one| one.is_of_jobs()).cloned().collect();
    let last_successes = jobs
        .iter()
        .filter_map(|job| Some(number(labels(job), job.last_success()?)));
    vec![
        metric(&ACQUISITIONS, by_word(series, "outcome", Series::acquisitions)),
        metric(&WAIT, times(series, Series::waits)),
        metric(&HOLD, times(series, Series::holds)),
        metric(&HELD, numbers(series, Series::held)),
        metric(&WAITING, numbers(series, Series::waiting)),
        metric(&RENEWALS, by_word(series, "outcome", Series::renewals)),
        metric(&LOSSES, by_word(series, "reason", Series::losses)),
        metric(&RUNS, by_word(&jobs, "outcome", Series::runs)),
        metric(&LAST_SUCCESS, last_successes.collect()),
        metric(&CONNECTIONS_LOST, by_link(links, |counts| &counts.lost)),
        metric(&RECONNECTS, by_link(links, |counts| &counts.reconnects)),
        metric(&CONNECT_FAILURES, by_link(links, |counts| &counts.failures)),
        metric(&BREAKERS_OPENED, vec![number(Vec::new(), breakers.opened.get())]),
        metric(&BREAKERS_OPEN, vec![number(Vec::new(), breakers.open.get())]),
        metric(&FAIR_QUEUE, lengths.collect()),
    ]
}

const fn number(labels: Labels, number: u64) -> Row {
    Row {
        labels,
        number,
        times: None,
    }
}

fn numbers(series: &[Arc<Series>], read: fn(&Series) -> u64) -> Vec<Row> {
    series.iter().map(|one| number(labels(one), read(one))).collect()
}

fn by_word(series: &[Arc<Series>], label: &'static str, read: fn(&Series) -> Vec<(&'static str, u64)>) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in series {
        for (word, count) in read(one) {
            let mut labels = labels(one);
            labels.push((label, word.into()));
            rows.push(number(labels, count));
        }
    }
    rows
}

fn times(series: &[Arc<Series>], read: fn(&Series) -> &Histogram) -> Vec<Row> {
    let row = |one: &Arc<Series>| {
        let histogram = read(one);
        let buckets: Vec<u64> = histogram.buckets().collect();
        Row {
            labels: labels(one),
            // The sum of the buckets, so that it always equals the bucket `+Inf` of Prometheus.
            number: buckets.iter().sum(),
            times: Some(Times {
                buckets,
                micros: histogram.micros(),
            }),
        }
    };
    series.iter().map(row).collect()
}

fn by_link(links: &Links, counter: fn(&LinkCounts) -> &Counter) -> Vec<Row> {
    let row = |(link, counts): (Link, &LinkCounts)| number(vec![("link", link.as_str().into())], counter(counts).get());
    links.each().map(row).into()
}

fn labels(series: &Series) -> Labels {
    vec![("kind", series.kind().into()), ("group", Arc::clone(series.group()))]
}
