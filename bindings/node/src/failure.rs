//! The core's error as plain data; JavaScript makes the class of its kind from it.

use std::time::Duration;

use leasehold::host::Error;
use napi_derive::napi;

/// One error.
#[napi(object, object_from_js = false)]
pub struct NativeFailure {
    /// The kind's name, from which the class has its own.
    pub kind: String,
    pub message: String,
    pub operation: String,
    pub lock: Option<String>,
    /// Who held the lock at the server's last answer.
    pub owner: Option<String>,
    /// What was left of that holder's lease; absent if its record has no TTL.
    pub remaining_ms: Option<f64>,
}

impl From<&Error> for NativeFailure {
    fn from(error: &Error) -> Self {
        let holder = error.holder();
        Self {
            kind: error.kind().name().to_owned(),
            message: error.to_string(),
            operation: error.operation().to_string(),
            lock: error.lock().map(str::to_owned),
            owner: holder.map(|holder| holder.owner.clone()),
            remaining_ms: holder.and_then(|holder| holder.remaining).map(milliseconds),
        }
    }
}

/// A duration as JavaScript counts it, to the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}
