//! Rare calls, as uniffi functions.
//!
//! Functions that start an operation do nothing if the handle was dropped.

use std::collections::HashMap;
use std::time::Duration;

use steadlock::host::{
    AddressMap, Error, ErrorKind, Kind, Level, LostReason, OnUnavailable, Op, Operation, Options, ReleaseOutcome,
};

use crate::client::Client;

/// The options of a new client. `None` means the default of the core.
#[derive(uniffi::Record)]
pub struct NativeOptions {
    /// The server's URL.
    pub url: Option<String>,
    /// The URLs of several primaries, in place of `url`.
    pub primaries: Option<Vec<String>>,
    /// The default length of a lease, in milliseconds.
    pub lease_ms: Option<f64>,
    /// The command timeout: how long a reply of the server may take.
    pub command_timeout_ms: Option<f64>,
    /// The connect timeout.
    pub connect_timeout_ms: Option<f64>,
    /// The shortest time between two polls of a waiter.
    pub retry_interval_min_ms: Option<f64>,
    /// The longest time between two polls of a waiter.
    pub retry_interval_max_ms: Option<f64>,
    /// A prefix for the name of each lock.
    pub key_prefix: Option<String>,
    /// A PEM file of the authorities to trust instead of the system's.
    pub tls_ca_file: Option<String>,
    /// A PEM file of the client's certificate.
    pub tls_cert_file: Option<String>,
    /// A PEM file of the private key of that certificate.
    pub tls_key_file: Option<String>,
    /// The host name that the certificates of all servers must have.
    pub tls_server_name: Option<String>,
    /// Maps the addresses that nodes and sentinels announce to addresses that the program can
    /// reach.
    pub address_map: Option<HashMap<String, String>>,
    /// Whether to connect at the first use. No event reports the result of connecting then.
    pub lazy: bool,
    /// The number of consecutive failures that opens a circuit breaker.
    pub breaker_failures: Option<u32>,
    /// The time between two probes while a circuit breaker is open.
    pub breaker_pause_ms: Option<f64>,
    /// The policy for acquisitions while a circuit breaker is open: a word of
    /// `NativeVocabulary.on_unavailable`.
    pub on_unavailable: Option<String>,
    /// The name of the lowest level of log lines to report.
    pub log: Option<String>,
    /// Whether the client counts metrics.
    pub metrics: bool,
    /// The number of groups of locks that the metrics tell apart.
    pub metrics_groups: Option<f64>,
    /// The fair locks whose wait queues the metrics count.
    pub metrics_queues: Option<Vec<String>>,
    /// Whether the client tells the servers which program it is.
    pub client_info: bool,
    /// A label of the program's choice, which the client publishes together with its name.
    pub client_label: Option<String>,
    /// The name of the program, if known.
    pub program: Option<String>,
    /// The language of the program and its version.
    pub language: String,
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
    /// The message of the server or the network, or the reason why no reply came.
    pub cause: Option<String>,
    /// The server that the error is about, if any.
    pub node: Option<String>,
    /// Whether the same call may succeed later.
    pub is_retryable: bool,
}

/// The handle of a new client, or the reason why opening failed.
#[derive(uniffi::Record)]
pub struct NativeOpened {
    /// Identifies the client in every other call.
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

/// All words that this library exchanges with the JVM.
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

/// Checks the options and starts to connect. The first event, of request 0, reports the result.
#[uniffi::export]
pub fn open(options: NativeOptions) -> NativeOpened {
    let retry_interval_ms = match (options.retry_interval_min_ms, options.retry_interval_max_ms) {
        (Some(min), Some(max)) => Some((min, max)),
        _ => None,
    };
    let opened = Client::open(Options {
        url: options.url,
        primaries: options.primaries,
        lease_ms: options.lease_ms,
        command_timeout_ms: options.command_timeout_ms,
        connect_timeout_ms: options.connect_timeout_ms,
        retry_interval_ms,
        key_prefix: options.key_prefix,
        tls_ca_file: options.tls_ca_file,
        tls_cert_file: options.tls_cert_file,
        tls_key_file: options.tls_key_file,
        tls_server_name: options.tls_server_name,
        address_map: options.address_map.map(AddressMap::from),
        lazy: options.lazy,
        breaker_failures: options.breaker_failures,
        breaker_pause_ms: options.breaker_pause_ms,
        on_unavailable: options.on_unavailable.as_deref().and_then(OnUnavailable::parse),
        log: options.log.as_deref().and_then(Level::parse),
        metrics: options.metrics,
        metrics_groups: options.metrics_groups,
        metrics_queues: options.metrics_queues,
        client_info: Some(options.client_info),
        client_label: options.client_label,
        program: options.program,
        language: Some(options.language),
        ..Options::default()
    });
    match opened {
        Ok(handle) => NativeOpened { handle, failure: None },
        Err(error) => NativeOpened {
            handle: 0,
            failure: Some(failure(&error)),
        },
    }
}

/// Starts to extend a lease.
#[uniffi::export]
pub fn extend(client: u64, tag: u64, lease: u64, by_ms: Option<f64>) -> bool {
    start(client, tag, Op::Extend { lease, by_ms })
}

/// Starts to ask the server who holds a lock.
#[uniffi::export]
pub fn inspect(client: u64, tag: u64, lock: String) -> bool {
    start(client, tag, Op::Inspect { lock: lock.into() })
}

/// Starts to release a lock on behalf of its holder.
#[uniffi::export]
pub fn force_release(client: u64, tag: u64, lock: String) -> bool {
    start(client, tag, Op::ForceRelease { lock: lock.into() })
}

/// Starts to change the limit of a semaphore to the one in the address.
#[uniffi::export]
pub fn set_limit(client: u64, tag: u64, lock: String) -> bool {
    start(client, tag, Op::SetLimit { lock: lock.into() })
}

/// Starts to close the client.
#[uniffi::export]
pub fn close(client: u64, tag: u64) -> bool {
    start(client, tag, Op::Close)
}

/// Returns whether a coroutine that holds the lock of the address `held` would wait for itself if
/// it tried to acquire the lock of the address `wanted`. Returns `false` for an invalid address,
/// because the acquisition itself reports that.
#[uniffi::export]
pub fn keeps_out(client: u64, held: String, wanted: String) -> bool {
    let client = Client::get(client);
    client.is_some_and(|client| client.host.keeps_out(held.into(), wanted.into()).unwrap_or(false))
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

/// Releases leases of ended threads when the process ends.
#[uniffi::export]
pub fn release_now(client: u64, leases: Vec<u64>, timeout_ms: u64) {
    if let Some(client) = Client::get(client) {
        client.host.release_blocking(&leases, Duration::from_millis(timeout_ms));
    }
}

/// Returns the metrics of a client, or `None` if it was dropped.
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

/// Returns the group of the locks with this name in the metrics, or `None` if the client counts no
/// metrics or was dropped.
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

/// Returns all words that this library exchanges with the JVM, so that a test finds a word that
/// Kotlin does not know.
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
