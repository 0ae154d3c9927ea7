//! The metrics in Prometheus' text format, version 0.0.4.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::families::{
    ACQUISITIONS, BREAKERS_OPEN, BREAKERS_OPENED, BUCKETS, CONNECT_FAILURES, CONNECTIONS_LOST, FAIR_QUEUE, Family,
    HELD, HOLD, LOSSES, RECONNECTS, RENEWALS, WAIT, WAITING,
};
use super::links::{BreakerCounts, LinkCounts, Links};
use super::queues::QueueLengths;
use super::series::{Counter, Histogram, Series};

/// Returns the text for these series, which are sorted, the connections, the circuit breakers and the queues.
pub(super) fn text(series: &[Arc<Series>], links: &Links, breakers: &BreakerCounts, queues: &QueueLengths) -> String {
    let mut text = Text(String::new());
    text.by_word(&ACQUISITIONS, series, "outcome", Series::acquisitions);
    text.times(&WAIT, series, Series::waits);
    text.times(&HOLD, series, Series::holds);
    text.numbers(&HELD, series, Series::held);
    text.numbers(&WAITING, series, Series::waiting);
    text.by_word(&RENEWALS, series, "outcome", Series::renewals);
    text.by_word(&LOSSES, series, "reason", Series::losses);
    text.links(&CONNECTIONS_LOST, links, |counts| &counts.lost);
    text.links(&RECONNECTS, links, |counts| &counts.reconnects);
    text.links(&CONNECT_FAILURES, links, |counts| &counts.failures);
    text.number(&BREAKERS_OPENED, &breakers.opened);
    text.number(&BREAKERS_OPEN, &breakers.open);
    text.lengths(&FAIR_QUEUE, queues);
    text.0
}

struct Text(String);

/// Writes a line. Writing to a String cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let _ = writeln!($text.0, $($format)*);
    }};
}

impl Text {
    fn head(&mut self, family: &Family) {
        line!(self, "# HELP {} {}", family.name, family.meaning);
        line!(self, "# TYPE {} {}", family.name, family.kind);
    }

    fn number(&mut self, family: &Family, counter: &Counter) {
        self.head(family);
        line!(self, "{} {}", family.name, counter.get());
    }

    fn numbers(&mut self, family: &Family, series: &[Arc<Series>], number: fn(&Series) -> u64) {
        self.head(family);
        for one in series {
            line!(self, "{}{{{}}} {}", family.name, labels(one), number(one));
        }
    }

    fn by_word<const WORDS: usize>(
        &mut self,
        family: &Family,
        series: &[Arc<Series>],
        label: &str,
        numbers: fn(&Series) -> [(&'static str, u64); WORDS],
    ) {
        self.head(family);
        for one in series {
            let labels = labels(one);
            for (word, number) in numbers(one) {
                line!(self, "{}{{{labels},{label}=\"{word}\"}} {number}", family.name);
            }
        }
    }

    fn times(&mut self, family: &Family, series: &[Arc<Series>], times: fn(&Series) -> &Histogram) {
        self.head(family);
        for one in series {
            let (labels, times) = (labels(one), times(one));
            let bounds = BUCKETS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
            let mut count = 0;
            for (bound, number) in bounds.zip(times.buckets()) {
                count += number;
                line!(self, "{}_bucket{{{labels},le=\"{bound}\"}} {count}", family.name);
            }
            line!(self, "{}_sum{{{labels}}} {}", family.name, Seconds(times.seconds()));
            // The sum of the buckets, so that it always equals the last bucket.
            line!(self, "{}_count{{{labels}}} {count}", family.name);
        }
    }

    fn lengths(&mut self, family: &Family, queues: &QueueLengths) {
        self.head(family);
        for (name, length) in queues.all() {
            line!(self, "{}{{queue=\"{}\"}} {length}", family.name, escaped(&name));
        }
    }

    fn links(&mut self, family: &Family, links: &Links, counter: fn(&LinkCounts) -> &Counter) {
        self.head(family);
        for (link, counts) in links.each() {
            let number = counter(counts).get();
            line!(self, "{}{{link=\"{}\"}} {number}", family.name, link.as_str());
        }
    }
}

fn labels(series: &Series) -> String {
    let (group, kind) = series.labels();
    format!("kind=\"{kind}\",group=\"{}\"", escaped(group))
}

/// A time in seconds for Prometheus, without rounding.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        match format!("{nanos:09}").trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            part => write!(f, "{whole}.{part}"),
        }
    }
}

/// Escapes a label's value: quotes, backslashes and line breaks must not end it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
