//! The names, kinds, meanings and units of the metrics. `ci/api/metrics.json` repeats them for the documents.

/// The description of one metric.
#[derive(Debug)]
pub struct Family {
    /// The name in Prometheus.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// One sentence for users.
    pub meaning: &'static str,
    /// The name in OpenTelemetry.
    pub otel_name: &'static str,
    /// The unit in OpenTelemetry.
    pub otel_unit: &'static str,
}

impl Family {
    /// Returns the upper bounds of the buckets in seconds; empty if the metric is not a histogram.
    #[must_use]
    pub fn bounds(&self) -> Vec<f64> {
        let bounds: &[u64] = if self.kind == "histogram" { &BUCKETS } else { &[] };
        bounds.iter().map(|micros| *micros as f64 / 1e6).collect()
    }
}

pub(super) const ACQUISITIONS: Family = Family {
    name: "steadlock_acquisitions_total",
    kind: "counter",
    meaning: "Acquisitions that ended, by how they ended.",
    otel_name: "steadlock.acquisitions",
    otel_unit: "{acquisition}",
};

pub(super) const WAIT: Family = Family {
    name: "steadlock_wait_seconds",
    kind: "histogram",
    meaning: "How long callers waited for a lock, until it was granted or the wait ended otherwise.",
    otel_name: "steadlock.wait.duration",
    otel_unit: "s",
};

pub(super) const HOLD: Family = Family {
    name: "steadlock_hold_seconds",
    kind: "histogram",
    meaning: "How long leases were held, from the grant until they were released or lost.",
    otel_name: "steadlock.hold.duration",
    otel_unit: "s",
};

pub(super) const HELD: Family = Family {
    name: "steadlock_held",
    kind: "gauge",
    meaning: "Leases that this client holds.",
    otel_name: "steadlock.held",
    otel_unit: "{lease}",
};

pub(super) const WAITING: Family = Family {
    name: "steadlock_waiting",
    kind: "gauge",
    meaning: "Callers of this client that wait for a lock.",
    otel_name: "steadlock.waiting",
    otel_unit: "{caller}",
};

pub(super) const RENEWALS: Family = Family {
    name: "steadlock_renewals_total",
    kind: "counter",
    meaning: "Renewals by the watchdog; a failed one is repeated while its lease lasts.",
    otel_name: "steadlock.renewals",
    otel_unit: "{renewal}",
};

pub(super) const LOSSES: Family = Family {
    name: "steadlock_losses_total",
    kind: "counter",
    meaning: "Leases that were lost before they were released, by reason.",
    otel_name: "steadlock.losses",
    otel_unit: "{lease}",
};

pub(super) const RUNS: Family = Family {
    name: "steadlock_runs_total",
    kind: "counter",
    meaning: "Runs of jobs that ended, by how they ended.",
    otel_name: "steadlock.runs",
    otel_unit: "{run}",
};

pub(super) const LAST_SUCCESS: Family = Family {
    name: "steadlock_job_last_success_time_seconds",
    kind: "gauge",
    meaning: "When a run of the job last succeeded, as far as this client knows, in seconds since 1970.",
    otel_name: "steadlock.job.last_success.time",
    otel_unit: "s",
};

pub(super) const CONNECTIONS_LOST: Family = Family {
    name: "steadlock_connections_lost_total",
    kind: "counter",
    meaning: "Connections to a server that were lost.",
    otel_name: "steadlock.connections.lost",
    otel_unit: "{connection}",
};

pub(super) const RECONNECTS: Family = Family {
    name: "steadlock_reconnects_total",
    kind: "counter",
    meaning: "Connections that were there again after they had been missing.",
    otel_name: "steadlock.reconnects",
    otel_unit: "{connection}",
};

pub(super) const CONNECT_FAILURES: Family = Family {
    name: "steadlock_connect_failures_total",
    kind: "counter",
    meaning: "Attempts to connect that failed.",
    otel_name: "steadlock.connect.failures",
    otel_unit: "{try}",
};

pub(super) const BREAKERS_OPENED: Family = Family {
    name: "steadlock_breakers_opened_total",
    kind: "counter",
    meaning: "Circuit breakers that opened, since a primary did not answer.",
    otel_name: "steadlock.breakers.opened",
    otel_unit: "{breaker}",
};

pub(super) const BREAKERS_OPEN: Family = Family {
    name: "steadlock_breakers_open",
    kind: "gauge",
    meaning: "Primaries that this client does not wait for, as their circuit breakers are open.",
    otel_name: "steadlock.breakers.open",
    otel_unit: "{breaker}",
};

pub(super) const FAIR_QUEUE: Family = Family {
    name: "steadlock_fair_queue",
    kind: "gauge",
    meaning: "Callers of all clients in the queue of a fair lock on the server, of the locks that were chosen.",
    otel_name: "steadlock.fair.queue",
    otel_unit: "{caller}",
};

/// The upper bounds of a histogram's buckets, in microseconds.
pub(super) const BUCKETS: [u64; 16] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
    3_600_000_000,
];
