//! The metrics in Prometheus' text format, version 0.0.4.

use std::fmt::{self, Write as _};

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
    let labels: Vec<String> = row
        .labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
        .collect();
    let labels = labels.join(",");
    let Some(times) = &row.times else {
        return match &*labels {
            "" => line!(text, "{name} {}", row.number),
            labels => line!(text, "{name}{{{labels}}} {}", row.number),
        };
    };
    let mut count = 0;
    for (place, number) in times.buckets.iter().enumerate() {
        count += number;
        match BUCKETS.get(place) {
            Some(bound) => line!(text, "{name}_bucket{{{labels},le=\"{}\"}} {count}", Seconds(*bound)),
            None => line!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}"),
        }
    }
    line!(text, "{name}_sum{{{labels}}} {}", Seconds(times.micros));
    line!(text, "{name}_count{{{labels}}} {}", row.number);
}

/// A number of microseconds in seconds, without rounding.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        match format!("{micros:06}").trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            part => write!(f, "{whole}.{part}"),
        }
    }
}

/// Escapes a label's value: quotes, backslashes and line breaks must not end it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
