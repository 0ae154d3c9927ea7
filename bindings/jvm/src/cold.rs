//! Rare calls, as uniffi functions.
//!
//! `client` is a client's handle, and `tag` the JVM's own number of a request. Functions that start
//! an operation do nothing and return `false` if the handle was dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use steadlock::host::{
    Acquire, Breaker, Error, ErrorKind, Kind, LeaseDuration, LockRef, LostReason, Metric, OnUnavailable, Op, Operation,
    OptionValue, Options, Permits, ReleaseOutcome, Row, Run, RunEnd,
};

use crate::client::Client;
use crate::wire;

/// The value of an option of a client.
#[derive(uniffi::Enum)]
pub enum NativeValue {
    /// Yes or no.
    Flag {
        /// The value.
        value: bool,
    },
    /// A number, or a duration in milliseconds.
    Number {
        /// The value.
        value: f64,
    },
    /// A text.
    Text {
        /// The value.
        value: String,
    },
    /// Several texts.
    Texts {
        /// The values.
        values: Vec<String>,
    },
    /// The shortest and the longest duration.
    Range {
        /// The shortest, in milliseconds.
        min_ms: f64,
        /// The longest, in milliseconds.
        max_ms: f64,
    },
    /// A table from text to text.
    Table {
        /// The pairs.
        entries: HashMap<String, String>,
    },
}

impl From<NativeValue> for OptionValue {
    fn from(value: NativeValue) -> Self {
        match value {
            NativeValue::Flag { value } => Self::Flag(value),
            NativeValue::Number { value } => Self::Number(value),
            NativeValue::Text { value } => Self::Text(value),
            NativeValue::Texts { values } => Self::Texts(values),
            NativeValue::Range { min_ms, max_ms } => Self::Range(min_ms, max_ms),
            NativeValue::Table { entries } => Self::Table(entries),
        }
    }
}

/// An error as plain data.
#[derive(uniffi::Record)]
pub struct NativeFailure {
    /// The name of the error's kind.
    pub kind: String,
    /// The operation that failed.
    pub operation: String,
    /// The complete message.
    pub message: String,
    /// The message of the server or the network, why no reply came, or how a lease was lost; `None`
    /// for errors without such a cause.
    pub cause: Option<String>,
    /// The server that the error is about, if any.
    pub node: Option<String>,
    /// Whether the same call may succeed later.
    pub is_retryable: bool,
}

/// The handle of a new client, or the reason why opening failed.
#[derive(uniffi::Record)]
pub struct NativeOpened {
    /// Identifies the client in every other call; 0 if opening failed.
    pub handle: u64,
    /// Set if opening failed.
    pub failure: Option<NativeFailure>,
}

/// The metrics of a client, or the reason why there are none.
#[derive(uniffi::Record)]
pub struct NativeMetrics {
    /// The metrics in Prometheus' text format; empty if `failure` is set.
    pub text: String,
    /// Set if there are no metrics.
    pub failure: Option<NativeFailure>,
}

/// The metrics of a client as rows, or the reason why there are none.
#[derive(uniffi::Record)]
pub struct NativeMetricRows {
    /// The metrics; empty if `failure` is set.
    pub metrics: Vec<NativeMetric>,
    /// Set if there are no metrics.
    pub failure: Option<NativeFailure>,
}

/// One metric.
#[derive(uniffi::Record)]
pub struct NativeMetric {
    /// The name in Prometheus.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// One sentence for users.
    pub meaning: String,
    /// The name in OpenTelemetry.
    pub otel_name: String,
    /// The unit in OpenTelemetry.
    pub otel_unit: String,
    /// The bounds of a histogram's buckets, in seconds; empty for other metrics.
    pub bounds: Vec<f64>,
    /// The series.
    pub rows: Vec<NativeMetricRow>,
}

/// One series of a metric.
#[derive(uniffi::Record)]
pub struct NativeMetricRow {
    /// The labels.
    pub labels: HashMap<String, String>,
    /// The value; for a histogram, the number of measured times.
    pub number: u64,
    /// For a histogram, the sum of the measured times; 0 for other metrics.
    pub seconds: f64,
}

impl From<Metric> for NativeMetric {
    fn from(Metric { family, rows }: Metric) -> Self {
        Self {
            name: family.name.to_owned(),
            kind: family.kind.to_owned(),
            meaning: family.meaning.to_owned(),
            otel_name: family.otel_name.to_owned(),
            otel_unit: family.otel_unit.to_owned(),
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
            number: row.number,
            seconds: row.times.map_or(0.0, |times| times.seconds()),
        }
    }
}

/// The words that this library exchanges with the JVM.
#[derive(uniffi::Record)]
pub struct NativeVocabulary {
    /// The names of all error kinds.
    pub error_kinds: Vec<String>,
    /// All release outcomes.
    pub release_outcomes: Vec<String>,
    /// All reasons for the loss of a lease.
    pub lost_reasons: Vec<String>,
    /// The names of all kinds of lock.
    pub kinds: Vec<String>,
    /// All policies for acquisitions while a server is unavailable, in the order of their numbers.
    pub on_unavailable: Vec<String>,
}

/// Ranges and defaults of the core, for checks that need no client.
#[derive(uniffi::Record)]
pub struct NativeLimits {
    /// The shortest fixed lease, in milliseconds.
    pub shortest_lease_ms: u64,
    /// The longest lease, in milliseconds.
    pub longest_lease_ms: u64,
    /// The largest number of permits of a semaphore.
    pub most_permits: u32,
    /// The failures in a row that open a circuit breaker by default.
    pub breaker_failures: u32,
    /// The time between two probes of an open circuit breaker by default, in milliseconds.
    pub breaker_pause_ms: u64,
}

/// Checks the options, which have the core's names, and starts to connect. An event of the tag 0
/// reports the result. With `lazy`, the first operation starts to connect, and no event reports the
/// result. An option that is left out has the core's default.
#[uniffi::export]
pub fn open(options: HashMap<String, NativeValue>) -> NativeOpened {
    let mut core_options = Options::default();
    let set = options
        .into_iter()
        .try_for_each(|(name, value)| core_options.set(&name, value.into()));
    let opened = set.and_then(|()| Client::open(core_options));
    match opened {
        Ok(handle) => NativeOpened { handle, failure: None },
        Err(error) => NativeOpened {
            handle: 0,
            failure: Some(failure(&error)),
        },
    }
}

/// Starts to extend a lease to `by_ms` from now, or to its own length for `None`.
#[uniffi::export]
pub fn extend(client: u64, tag: u64, lease: u64, by_ms: Option<f64>) -> bool {
    start(client, tag, Op::Extend { lease, by_ms })
}

/// The terms of a run of a job: all that a caller asks for beside its lease.
#[derive(uniffi::Record)]
pub struct NativeRun {
    /// The length of the lease in milliseconds; `None` for that of the client.
    pub lease_ms: Option<f64>,
    /// Whether a lease of this length is renewed.
    pub renew: bool,
    /// The longest run in milliseconds; `None` for no bound.
    pub max_hold_ms: Option<f64>,
    /// Whether the run gets a fencing token.
    pub fencing: bool,
    /// An index into [`OnUnavailable::ALL`]; `None` for the client's own policy.
    pub on_unavailable: Option<u32>,
    /// For how long after its start the run keeps others out, in milliseconds.
    pub at_least_ms: Option<f64>,
    /// The key of the run.
    pub key: Option<String>,
    /// How long the server remembers that the key is done, in milliseconds.
    pub keep_ms: Option<f64>,
    /// The effect of a failure.
    pub on_failure: Option<String>,
}

/// Starts to request a run of a job. Returns the number by which the request can be cancelled, or
/// −1 if the handle was dropped.
#[uniffi::export]
pub fn acquire_run(client: u64, tag: u64, lock: Vec<u8>, run: NativeRun) -> i64 {
    let policy = run.on_unavailable.and_then(|index| usize::try_from(index).ok());
    let acquire = Acquire {
        lock: decoded(&lock),
        lease_ms: run.lease_ms,
        renew: run.renew,
        max_hold_ms: run.max_hold_ms,
        no_fencing: !run.fencing,
        on_unavailable: policy.and_then(|index| OnUnavailable::ALL.get(index)).copied(),
        run: Run {
            at_least_ms: run.at_least_ms,
            key: run.key,
            keep_ms: run.keep_ms,
            on_failure: run.on_failure,
        },
        ..Acquire::default()
    };
    cancellable(client, tag, Op::Acquire(acquire))
}

/// How a run ends.
#[derive(Clone, Copy, uniffi::Enum)]
pub enum NativeRunEnd {
    /// The job did its work.
    Succeeded,
    /// The job failed.
    Failed,
    /// The job never began.
    Unused,
}

/// Starts to release a lease, and says how its run ended; for a lease that is no run, this is a
/// plain release. `at_least_ms` replaces that of the request.
#[uniffi::export]
pub fn end_run(client: u64, tag: u64, lease: u64, end: NativeRunEnd, at_least_ms: Option<f64>) -> bool {
    let end = match end {
        NativeRunEnd::Succeeded => RunEnd::Succeeded,
        NativeRunEnd::Failed => RunEnd::Failed,
        NativeRunEnd::Unused => RunEnd::Unused,
    };
    let op = Op::EndRun {
        lease,
        end,
        at_least_ms,
    };
    start(client, tag, op)
}

/// Starts to end a term, in favour of the candidate with the owner id `to`, if it still waits.
#[uniffi::export]
pub fn resign(client: u64, tag: u64, lease: u64, to: Option<String>) -> bool {
    start(client, tag, Op::Resign { lease, to })
}

/// Starts to ask the server for the last runs of a job.
#[uniffi::export]
pub fn last_run(client: u64, tag: u64, lock: Vec<u8>) -> bool {
    start(client, tag, Op::LastRun { lock: decoded(&lock) })
}

/// Starts to ask the server who leads. With `seen`, the number of a term or 0 for "nobody leads",
/// the request ends as soon as that has changed. Returns the number by which the request can be
/// cancelled, or −1 if the handle was dropped.
#[uniffi::export]
pub fn leadership(client: u64, tag: u64, lock: Vec<u8>, seen: Option<u64>) -> i64 {
    let lock = decoded(&lock);
    cancellable(client, tag, Op::Leadership { lock, seen })
}

/// Returns how many milliseconds a candidate waits before it campaigns again, after this many terms
/// that it lost or could not have, one after another.
#[uniffi::export]
pub fn campaign_pause_ms(failures: u32) -> u64 {
    u64::try_from(steadlock::host::campaign_pause(failures).as_millis()).unwrap_or(u64::MAX)
}

/// Starts an operation. Returns the number by which it can be cancelled, or −1 if the handle was
/// dropped.
fn cancellable(client: u64, tag: u64, op: Op) -> i64 {
    let request = Client::get(client).map(|client| client.start(tag, op));
    request.and_then(|request| i64::try_from(request).ok()).unwrap_or(-1)
}

/// Starts to ask the server who holds a lock.
#[uniffi::export]
pub fn inspect(client: u64, tag: u64, lock: Vec<u8>) -> bool {
    start(client, tag, Op::Inspect { lock: decoded(&lock) })
}

/// Starts to remove the records of all holders of a lock.
#[uniffi::export]
pub fn force_release(client: u64, tag: u64, lock: Vec<u8>) -> bool {
    start(client, tag, Op::ForceRelease { lock: decoded(&lock) })
}

/// Starts to set the limit of a semaphore to the limit in `lock`.
#[uniffi::export]
pub fn set_limit(client: u64, tag: u64, lock: Vec<u8>) -> bool {
    start(client, tag, Op::SetLimit { lock: decoded(&lock) })
}

/// Starts to close the client.
#[uniffi::export]
pub fn close(client: u64, tag: u64) -> bool {
    start(client, tag, Op::Close)
}

/// Returns whether a coroutine that holds the lock `held` would wait for itself if it tried to
/// acquire the lock `wanted`. Returns `false` for an invalid lock, because the acquisition itself
/// reports the mistake.
#[uniffi::export]
pub fn keeps_out(client: u64, held: Vec<u8>, wanted: Vec<u8>) -> bool {
    let client = Client::get(client);
    client.is_some_and(|client| {
        client
            .host
            .would_wait_for_itself(decoded(&held), decoded(&wanted))
            .unwrap_or(false)
    })
}

/// Cancels an acquisition whose caller no longer waits for it. `request` is the number that the
/// start of the acquisition returned.
#[uniffi::export]
pub fn cancel(client: u64, request: u64) {
    if let Some(client) = Client::get(client) {
        client.cancel(request);
    }
}

/// Forgets a lost lease, because the JVM has no object of it any more.
#[uniffi::export]
pub fn forget(client: u64, lease: u64) {
    if let Some(client) = Client::get(client) {
        client.forget(lease);
    }
}

/// Releases leases of ended threads when the process ends. Waits for the server's answers, at most
/// `timeout_ms`.
#[uniffi::export]
pub fn release_now(client: u64, leases: Vec<u64>, timeout_ms: u64) {
    if let Some(client) = Client::get(client) {
        client.host.release_blocking(&leases, Duration::from_millis(timeout_ms));
    }
}

/// Returns the metrics of a client as a text, or `None` if it was dropped.
#[uniffi::export]
pub fn metrics(client: u64) -> Option<NativeMetrics> {
    let client = Client::get(client)?;
    Some(match client.host.metrics() {
        Ok(text) => NativeMetrics { text, failure: None },
        Err(error) => NativeMetrics {
            text: String::new(),
            failure: Some(failure(&error)),
        },
    })
}

/// Returns the metrics of a client as rows, or `None` if it was dropped.
#[uniffi::export]
pub fn metric_rows(client: u64) -> Option<NativeMetricRows> {
    let client = Client::get(client)?;
    Some(match client.host.metric_rows() {
        Ok(metrics) => NativeMetricRows {
            metrics: metrics.into_iter().map(NativeMetric::from).collect(),
            failure: None,
        },
        Err(error) => NativeMetricRows {
            metrics: Vec::new(),
            failure: Some(failure(&error)),
        },
    })
}

/// Returns the label `group` that the metrics give to a lock of this name; `None` if the client
/// counts no metrics or was dropped.
#[uniffi::export]
pub fn metrics_group(client: u64, name: String) -> Option<String> {
    let group = Client::get(client)?.host.metrics_group(&name).ok()?;
    Some(group.as_ref().to_owned())
}

/// Forgets a client. The thread that waits for its events returns.
#[uniffi::export]
pub fn drop_client(client: u64) {
    Client::drop_handle(client);
}

/// Returns the error that a release throws if the lease was lost for this reason.
#[uniffi::export]
pub fn lost_error(name: String, reason: String) -> NativeFailure {
    failure(&steadlock::host::lost_error(&name, &reason, false, Operation::Release))
}

/// Returns a lock's name as messages show it.
#[uniffi::export]
pub fn shown(name: String) -> String {
    steadlock::host::shown(&name).into_owned()
}

/// Returns the ranges and defaults of the core.
#[uniffi::export]
pub fn limits() -> NativeLimits {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    NativeLimits {
        shortest_lease_ms: ms(LeaseDuration::MIN.get()),
        longest_lease_ms: ms(LeaseDuration::MAX.get()),
        most_permits: Permits::MAX_LIMIT,
        breaker_failures: Breaker::DEFAULT.failures,
        breaker_pause_ms: ms(Breaker::DEFAULT.pause),
    }
}

/// Returns all words that this library exchanges with the JVM. A test compares them with the words
/// of Kotlin.
#[uniffi::export]
pub fn vocabulary() -> NativeVocabulary {
    NativeVocabulary {
        error_kinds: ErrorKind::ALL.iter().map(|kind| kind.name().to_owned()).collect(),
        release_outcomes: ReleaseOutcome::ALL
            .iter()
            .map(|outcome| outcome.as_str().to_owned())
            .collect(),
        lost_reasons: LostReason::ALL
            .iter()
            .map(|reason| reason.as_str().to_owned())
            .collect(),
        kinds: Kind::NAMES.map(str::to_owned).to_vec(),
        on_unavailable: OnUnavailable::ALL.map(|policy| policy.as_str().to_owned()).to_vec(),
    }
}

/// Decodes a lock. Malformed bytes become a lock without a name, which the core refuses.
fn decoded(lock: &[u8]) -> LockRef {
    wire::lock(lock).unwrap_or_default()
}

fn start(client: u64, tag: u64, op: Op) -> bool {
    match Client::get(client) {
        Some(client) => {
            client.start(tag, op);
            true
        }
        None => false,
    }
}

fn failure(error: &Error) -> NativeFailure {
    NativeFailure {
        kind: error.kind().name().to_owned(),
        operation: error.operation().to_string(),
        message: error.to_string(),
        cause: error.cause().map(str::to_owned),
        node: error.node().map(str::to_owned),
        is_retryable: error.is_retryable(),
    }
}
