//! The metrics in Prometheus' text format, version 0.0.4.

use std::fmt::Write as _;

use super::families::BUCKETS;
use super::rows::{Metric, Row};

/// Writes a line. Writing to a String cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let _ = writeln!($text, $($format)*);
    }};
}

/// Returns the text of all metrics.
pub(super) fn text(metrics: &[Metric]) -> String {
    let mut text = String::new();
    for Metric { family, rows } in metrics {
        line!(text, "# HELP {} {}", family.name, family.meaning);
        line!(text, "# TYPE {} {}", family.name, family.kind);
        for row in rows {
            series(&mut text, family.name, row);
        }
    }
    text
}

fn series(text: &mut String, name: &str, row: &Row) {
    let mut labels = String::new();
    for (label, value) in &row.labels {
        let comma = if labels.is_empty() { "" } else { "," };
        let _ = write!(labels, "{comma}{label}=\"{}\"", escaped(value));
    }
    let Some(times) = &row.times else {
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        return line!(text, "{name}{open}{labels}{close} {}", row.number);
    };
    let mut count = 0;
    for (index, number) in times.buckets.iter().enumerate() {
        count += number;
        let bound = BUCKETS
            .get(index)
            .map_or_else(|| "+Inf".to_owned(), |bound| seconds(*bound));
        line!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    line!(text, "{name}_sum{{{labels}}} {}", seconds(times.micros));
    line!(text, "{name}_count{{{labels}}} {}", row.number);
}

/// Returns a number of microseconds in seconds, without rounding.
fn seconds(micros: u64) -> String {
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    let seconds = format!("{whole}.{part:06}");
    seconds.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes a label's value: quotes, backslashes and line breaks must not end it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
