//! The names, types and meanings of the metrics. `ci/api/metrics.json` repeats them for the documents.

/// One metric.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) meaning: &'static str,
}

pub(super) const ACQUISITIONS: Family = Family {
    name: "steadlock_acquisitions_total",
    kind: "counter",
    meaning: "Acquisitions that ended, by how they ended.",
};

pub(super) const WAIT: Family = Family {
    name: "steadlock_wait_seconds",
    kind: "histogram",
    meaning: "How long callers waited for a lock, until it was granted or the wait ended otherwise.",
};

pub(super) const HOLD: Family = Family {
    name: "steadlock_hold_seconds",
    kind: "histogram",
    meaning: "How long leases were held, from the grant until they were released or lost.",
};

pub(super) const HELD: Family = Family {
    name: "steadlock_held",
    kind: "gauge",
    meaning: "Leases that this client holds.",
};

pub(super) const WAITING: Family = Family {
    name: "steadlock_waiting",
    kind: "gauge",
    meaning: "Callers of this client that wait for a lock.",
};

pub(super) const RENEWALS: Family = Family {
    name: "steadlock_renewals_total",
    kind: "counter",
    meaning: "Renewals by the watchdog; a failed one is repeated while its lease lasts.",
};

pub(super) const LOSSES: Family = Family {
    name: "steadlock_losses_total",
    kind: "counter",
    meaning: "Leases that were lost before they were released, by reason.",
};

pub(super) const CONNECTIONS_LOST: Family = Family {
    name: "steadlock_connections_lost_total",
    kind: "counter",
    meaning: "Connections to a server that were lost.",
};

pub(super) const RECONNECTS: Family = Family {
    name: "steadlock_reconnects_total",
    kind: "counter",
    meaning: "Connections that were there again after they had been missing.",
};

pub(super) const CONNECT_FAILURES: Family = Family {
    name: "steadlock_connect_failures_total",
    kind: "counter",
    meaning: "Attempts to connect that failed.",
};

pub(super) const BREAKERS_OPENED: Family = Family {
    name: "steadlock_breakers_opened_total",
    kind: "counter",
    meaning: "Circuit breakers that opened, since a primary did not answer.",
};

pub(super) const BREAKERS_OPEN: Family = Family {
    name: "steadlock_breakers_open",
    kind: "gauge",
    meaning: "Primaries that this client does not wait for, as their circuit breakers are open.",
};

pub(super) const FAIR_QUEUE: Family = Family {
    name: "steadlock_fair_queue",
    kind: "gauge",
    meaning: "Callers of all clients in the queue of a fair lock on the server, of the locks that were chosen.",
};

/// The upper bounds of a histogram's buckets, in microseconds and as Prometheus' text in seconds.
pub(super) const BUCKETS: [(u64, &str); 16] = [
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
    (60_000_000, "60"),
    (600_000_000, "600"),
    (3_600_000_000, "3600"),
];
