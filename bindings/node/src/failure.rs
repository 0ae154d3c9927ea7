//! The core's error, and a lock's holder, as plain data; JavaScript makes the class of an error's kind from it.

use std::time::Duration;

use napi_derive::napi;
use steadlock::host::{ClientInfo, Error, Holder, Operation};
use steadlock_javascript::spelled;

/// One error.
#[napi(object, object_from_js = false)]
pub struct NativeFailure {
    /// The kind's name, from which the class has its own.
    pub kind: String,
    pub message: String,
    /// What the server or the network said, or why nothing came.
    pub cause: Option<String>,
    pub operation: String,
    /// The lock's name.
    pub lock_name: Option<String>,
    /// Who held the lock at the server's last answer.
    pub holder: Option<NativeHolder>,
    /// Why the lease was lost.
    pub reason: Option<String>,
    /// The server that has to do with it.
    pub node: Option<String>,
    /// Whether the same call may go well later.
    pub retryable: bool,
    /// Whether the lock was skipped, since its server is unavailable.
    pub skipped: bool,
}

/// Who holds a lock.
#[napi(object, object_from_js = false)]
pub struct NativeHolder {
    pub owner: String,
    /// What is left of the holder's lease; absent if its record has no TTL.
    pub remaining_ms: Option<f64>,
    /// Which program on which machine it is; absent if that is not known.
    pub client: Option<NativeClientInfo>,
}

/// Which program on which machine a client is.
#[napi(object, object_from_js = false)]
pub struct NativeClientInfo {
    pub host: String,
    pub pid: u32,
    pub program: String,
    pub language: String,
    pub version: String,
    /// In seconds since 1970.
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
            reason: error.reason().map(|reason| reason.as_str().to_owned()),
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

/// The error for a caller whose lease was lost for this reason, and perhaps forgotten: at its release, or before that.
#[napi(catch_unwind)]
pub fn lost_error(name: String, reason: String, is_forgotten: bool, at_release: bool) -> NativeFailure {
    let operation = if at_release {
        Operation::Release
    } else {
        Operation::Hold
    };
    NativeFailure::from(&steadlock::host::lost_error(&name, &reason, is_forgotten, operation))
}

/// A lock's name as messages show it.
#[napi(catch_unwind)]
pub fn shown(name: String) -> String {
    steadlock::host::shown(&name).into_owned()
}

/// A duration as JavaScript counts it, to the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}
