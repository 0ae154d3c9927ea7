//! Errors and holders as plain data. JavaScript makes an error object of the kind's class from an error.

use std::time::Duration;

use napi_derive::napi;
use steadlock::host::{ClientInfo, Error, Holder, Operation};
use steadlock_javascript::{reason_of, spelled};

/// An error.
#[napi(object, object_from_js = false)]
pub struct NativeFailure {
    /// The name of the kind; the class name is this name followed by `Error`.
    pub kind: String,
    pub message: String,
    /// The message of the server or of the network, or the reason why no reply came.
    pub cause: Option<String>,
    pub operation: String,
    /// The lock's name.
    pub lock_name: Option<String>,
    /// The holder of the lock by the server's last reply.
    pub holder: Option<NativeHolder>,
    /// The reason for the loss of the lease, or why a job was not run.
    pub reason: Option<String>,
    /// When the other run of the job began, in milliseconds since 1970.
    pub since_ms: Option<f64>,
    /// How long the other run of the job took, in milliseconds.
    pub took_ms: Option<f64>,
    /// The server to which the error belongs.
    pub node: Option<String>,
    /// Whether the same call can succeed later.
    pub retryable: bool,
    /// Whether the lock was skipped because its server is unavailable.
    pub skipped: bool,
}

/// The holder of a lock.
#[napi(object, object_from_js = false)]
pub struct NativeHolder {
    pub owner: String,
    /// The time that is left of the holder's lease, in milliseconds; absent if its record has no TTL.
    pub remaining_ms: Option<f64>,
    /// The holder's program and machine; absent if they are not known.
    pub client: Option<NativeClientInfo>,
}

/// The program and the machine of a client.
#[napi(object, object_from_js = false)]
pub struct NativeClientInfo {
    pub host: String,
    pub pid: u32,
    pub program: String,
    pub language: String,
    pub version: String,
    /// The time at which the client was made, in seconds since 1970.
    pub since: f64,
    pub label: String,
}

impl From<&Error> for NativeFailure {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind().name().to_owned(),
            message: spelled(&error.to_string()).into_owned(),
            cause: error.cause().map(|cause| spelled(cause).into_owned()),
            operation: error.operation().to_string(),
            lock_name: error.lock_name().map(str::to_owned),
            holder: error.holder().map(NativeHolder::from),
            reason: reason_of(error).map(str::to_owned),
            since_ms: error.skip().and_then(|skip| skip.since).map(|since| since as f64),
            took_ms: error.skip().and_then(|skip| skip.took).map(milliseconds),
            node: error.node().map(str::to_owned),
            retryable: error.is_retryable(),
            skipped: error.is_skipped(),
        }
    }
}

impl From<&Holder> for NativeHolder {
    fn from(holder: &Holder) -> Self {
        Self {
            owner: holder.owner.clone(),
            remaining_ms: holder.remaining.map(milliseconds),
            client: holder.client.as_deref().map(NativeClientInfo::from),
        }
    }
}

impl From<&ClientInfo> for NativeClientInfo {
    fn from(info: &ClientInfo) -> Self {
        Self {
            host: info.host.clone(),
            pid: info.pid,
            program: info.program.clone(),
            language: info.language.clone(),
            version: info.version.clone(),
            since: info.since as f64,
            label: info.label.clone(),
        }
    }
}

/// Returns the error for a caller whose lease was lost for `reason`. `is_forgotten` means that the lease needs no
/// release. `at_release` means that the caller is releasing the lease.
#[napi(catch_unwind)]
pub fn lost_error(name: String, reason: String, is_forgotten: bool, at_release: bool) -> NativeFailure {
    let operation = if at_release {
        Operation::Release
    } else {
        Operation::Hold
    };
    NativeFailure::from(&steadlock::host::lost_error(&name, &reason, is_forgotten, operation))
}

/// Returns a lock's name as messages show it, without the userinfo of a URL.
#[napi(catch_unwind)]
pub fn shown(name: String) -> String {
    steadlock::host::shown(&name).into_owned()
}

/// Returns a duration in milliseconds, with microseconds as the fraction.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}
