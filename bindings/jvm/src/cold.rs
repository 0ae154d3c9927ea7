//! What is called now and then, as uniffi functions.
//!
//! Functions that start an operation do nothing if the handle was dropped.

use std::collections::HashMap;
use std::time::Duration;

use steadlock::host::{
    AddressMap, Error, ErrorKind, Kind, Level, LostReason, OnUnavailable, Op, Operation, Options, ReleaseOutcome,
};

use crate::client::Client;

/// What a client is opened with; `None` is the default of the core.
#[derive(uniffi::Record)]
pub struct NativeOptions {
    /// The server's URL.
    pub url: Option<String>,
    /// The URLs of several primaries, in place of `url`.
    pub primaries: Option<Vec<String>>,
    /// The watchdog's lease.
    pub lease_ms: Option<f64>,
    /// How long an answer may take.
    pub command_timeout_ms: Option<f64>,
    /// How long connecting may take.
    pub connect_timeout_ms: Option<f64>,
    /// The shortest time between two questions of a waiter.
    pub retry_interval_min_ms: Option<f64>,
    /// The longest time between two questions of a waiter.
    pub retry_interval_max_ms: Option<f64>,
    /// Put before each name.
    pub key_prefix: Option<String>,
    /// A file of the authorities to trust instead of the system's.
    pub tls_ca_file: Option<String>,
    /// A file of the client's certificate.
    pub tls_cert_file: Option<String>,
    /// A file of its private key.
    pub tls_key_file: Option<String>,
    /// What the servers' certificates are to be for.
    pub tls_server_name: Option<String>,
    /// Where announced addresses are reached.
    pub address_map: Option<HashMap<String, String>>,
    /// Whether to connect at the first use; then no event says how connecting went.
    pub lazy: bool,
    /// So many failures in a row open a circuit breaker.
    pub breaker_failures: Option<u32>,
    /// The time between two probes while it is open.
    pub breaker_pause_ms: Option<f64>,
    /// The word for what becomes of an acquisition while it is open.
    pub on_unavailable: Option<String>,
    /// The name of the level from which on lines for the log come.
    pub log: Option<String>,
    /// Whether it counts metrics.
    pub metrics: bool,
    /// How many groups of locks they tell apart.
    pub metrics_groups: Option<f64>,
    /// Fair locks whose queues are counted.
    pub metrics_queues: Option<Vec<String>>,
    /// Whether it says which program it is.
    pub client_info: bool,
    /// What else it says.
    pub client_label: Option<String>,
    /// The program's name, if it is known.
    pub program: Option<String>,
    /// The language and its version.
    pub language: String,
}

/// An error as plain data.
#[derive(uniffi::Record)]
pub struct NativeFailure {
    /// The kind's name.
    pub kind: String,
    /// What was being done.
    pub operation: String,
    /// The whole message.
    pub message: String,
    /// What the server or the network said, or why nothing came.
    pub cause: Option<String>,
    /// The server that has to do with it.
    pub node: Option<String>,
    /// Whether the same call may go well later.
    pub is_retryable: bool,
}

/// A new client: its handle, or why there is none.
#[derive(uniffi::Record)]
pub struct NativeOpened {
    /// Stands for the client in every other call.
    pub handle: u64,
    /// Set if opening failed.
    pub failure: Option<NativeFailure>,
}

/// What a client has counted, or why that is not known.
#[derive(uniffi::Record)]
pub struct NativeMetrics {
    /// In Prometheus' text format; empty if there is none.
    pub text: String,
    /// Set if there is none.
    pub failure: Option<NativeFailure>,
}

/// The words that cross the border.
#[derive(uniffi::Record)]
pub struct NativeVocabulary {
    /// Names of all error kinds.
    pub error_kinds: Vec<String>,
    /// All release outcomes.
    pub release_outcomes: Vec<String>,
    /// All reasons of a loss.
    pub lost_reasons: Vec<String>,
    /// Names of all kinds of lock.
    pub kinds: Vec<String>,
    /// What may become of an acquisition in an outage, in the order of their numbers.
    pub on_unavailable: Vec<String>,
}

/// Checks the options and starts to connect; the first event, of request 0, says how that went.
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

/// Starts to make a lease last longer.
#[uniffi::export]
pub fn extend(client: u64, tag: u64, lease: u64, by_ms: Option<f64>) -> bool {
    start(client, tag, Op::Extend { lease, by_ms })
}

/// Starts to ask the server who holds a lock.
#[uniffi::export]
pub fn inspect(client: u64, tag: u64, lock: String) -> bool {
    start(client, tag, Op::Inspect { lock: lock.into() })
}

/// Starts to take a lock from its holder.
#[uniffi::export]
pub fn force_release(client: u64, tag: u64, lock: String) -> bool {
    start(client, tag, Op::ForceRelease { lock: lock.into() })
}

/// Starts to change a semaphore's limit to that of the address.
#[uniffi::export]
pub fn set_limit(client: u64, tag: u64, lock: String) -> bool {
    start(client, tag, Op::SetLimit { lock: lock.into() })
}

/// Starts to close the client.
#[uniffi::export]
pub fn close(client: u64, tag: u64) -> bool {
    start(client, tag, Op::Close)
}

/// Whether a coroutine that holds the lock of the one address would wait for itself if it asked for that of the
/// other. An address that is none is told of by the acquisition itself.
#[uniffi::export]
pub fn keeps_out(client: u64, held: String, wanted: String) -> bool {
    let client = Client::get(client);
    client.is_some_and(|client| client.host.keeps_out(held.into(), wanted.into()).unwrap_or(false))
}

/// The caller of an acquisition went away; `request` is the number that starting it gave.
#[uniffi::export]
pub fn cancel(client: u64, request: u64) {
    if let Some(client) = Client::get(client) {
        client.cancel(request);
    }
}

/// The JVM has nothing any more of a lease that was lost.
#[uniffi::export]
pub fn forget(client: u64, lease: u64) {
    if let Some(client) = Client::get(client) {
        client.forget(lease);
    }
}

/// Releases leases of threads that have ended, at the process's end.
#[uniffi::export]
pub fn release_now(client: u64, leases: Vec<u64>, timeout_ms: u64) {
    if let Some(client) = Client::get(client) {
        client.host.release_blocking(&leases, Duration::from_millis(timeout_ms));
    }
}

/// What a client has counted; nothing if it was dropped.
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

/// The label that locks of this name have for their group; nothing if it counts none, or was dropped.
#[uniffi::export]
pub fn metrics_group(client: u64, name: String) -> Option<String> {
    let group = Client::get(client)?.host.metrics_group(&name).ok()?;
    Some(group.as_ref().to_owned())
}

/// Forgets a client, and sends home the thread that waits for its events.
#[uniffi::export]
pub fn drop_client(client: u64) {
    Client::drop_handle(client);
}

/// What a release throws if the lease was lost for this reason.
#[uniffi::export]
pub fn lost_error(name: String, reason: String) -> NativeFailure {
    failure(&steadlock::host::lost_error(&name, &reason, false, Operation::Release))
}

/// A lock's name as messages show it.
#[uniffi::export]
pub fn shown(name: String) -> String {
    steadlock::host::shown(&name).into_owned()
}

/// All words that cross the border, so that a test finds one that is not known.
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
