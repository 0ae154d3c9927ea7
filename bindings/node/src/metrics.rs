//! Metrics as plain data.

use std::collections::HashMap;
use std::sync::Arc;

use napi_derive::napi;
use steadlock::host::{Metric, Row};

/// One metric, by its name and unit in OpenTelemetry.
#[napi(object, object_from_js = false)]
pub struct NativeMetric {
    pub name: String,
    pub unit: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    pub meaning: String,
    /// The bounds of a histogram's buckets, in seconds.
    pub bounds: Vec<f64>,
    pub rows: Vec<NativeMetricRow>,
}

/// One series of a metric.
#[napi(object, object_from_js = false)]
pub struct NativeMetricRow {
    pub labels: HashMap<String, String>,
    /// For a histogram, the number of measured durations.
    pub number: f64,
}

impl From<Metric> for NativeMetric {
    fn from(Metric { family, rows }: Metric) -> Self {
        Self {
            name: family.otel_name.to_owned(),
            unit: family.otel_unit.to_owned(),
            kind: family.kind.to_owned(),
            meaning: family.meaning.to_owned(),
            bounds: family.bounds(),
            rows: rows.into_iter().map(NativeMetricRow::from).collect(),
        }
    }
}

impl From<Row> for NativeMetricRow {
    fn from(row: Row) -> Self {
        let label = |(name, value): (&str, Arc<str>)| (name.to_owned(), value.as_ref().to_owned());
        Self {
            labels: row.labels.into_iter().map(label).collect(),
            number: row.number as f64,
        }
    }
}
