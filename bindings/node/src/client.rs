//! The class `NativeClient`.

use std::time::{Duration, Instant};

use napi::bindgen_prelude::{ClassInstance, Either, Env, Float64ArraySlice, Function, JavaScriptClassExt, Object};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use steadlock::host::{Acquire, Host, Op, Pending};
use steadlock_javascript::Client;

use crate::addresses::{self, FunctionMap, NativeReached};
use crate::failure::{NativeFailure, NativeHolder};
use crate::lock_ref::lock_ref;
use crate::metrics::NativeMetric;
use crate::observation::NativeObservation;
use crate::options;
use crate::until_closed::{DropValue, UntilClosed};

/// A client. Only the JavaScript thread that opened it calls its methods.
#[napi]
pub struct NativeClient {
    client: Client,
    /// The JavaScript functions that the client can call.
    until_closed: Vec<Box<dyn DropValue>>,
}

/// Opens a client, which starts to connect; the row of request 0 (see `steadlock_javascript`) reports the result. A
/// lazy client connects with its first operation, and no row reports the result.
///
/// `wake` is called on JavaScript's thread whenever there are events to drain. `addresses` maps an announced address,
/// in place of a table. Neither function keeps the process alive.
#[napi(catch_unwind)]
pub fn open<'env>(
    env: &'env Env,
    options: Object<'_>,
    wake: Function<'_, (), ()>,
    addresses: Option<Function<'_, String, NativeReached>>,
) -> napi::Result<Either<ClassInstance<'env, NativeClient>, NativeFailure>> {
    let wake = wake
        .build_threadsafe_function::<()>()
        .weak::<true>()
        .callee_handled::<false>()
        .build()?;
    let wake = UntilClosed::new(wake);
    let mut until_closed: Vec<Box<dyn DropValue>> = vec![Box::new(wake.clone())];
    let wake = move || {
        if let Some(wake) = wake.get() {
            // Fails only while the environment is closing, and JavaScript handles no events then.
            let _ = wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    };
    let mut options = options::options(&options)?;
    if let Some(function) = addresses {
        let FunctionMap { map, function } = addresses::map(function)?;
        options.address_map = Some(map);
        until_closed.push(function);
    }
    match Host::open(options, Box::new(wake)) {
        Ok(host) => NativeClient::new(host, until_closed).into_instance(env).map(Either::A),
        Err(error) => Ok(Either::B(NativeFailure::from(&error))),
    }
}

/// Closes several clients at the end of the process, all at the same time.
///
/// Returns when their servers have answered, after `timeout_ms` at the latest.
#[napi(catch_unwind)]
pub fn close_at_exit(clients: Vec<ClassInstance<'_, NativeClient>>, timeout_ms: u32) {
    let deadline = Instant::now() + Duration::from_millis(timeout_ms.into());
    let closing: Vec<Pending> = clients
        .iter()
        .map(|client| client.client.host().start(Op::Close))
        .collect();
    for mut close in closing {
        close.wait(deadline.saturating_duration_since(Instant::now()));
    }
}

#[napi]
impl NativeClient {
    fn new(host: Host, until_closed: Vec<Box<dyn DropValue>>) -> Self {
        Self {
            client: Client::new(host),
            until_closed,
        }
    }

    /// Drops the functions of JavaScript, which would be open handles. Called for a closed client. Its later requests
    /// are answered at once, and JavaScript drains the answers without a wake-up.
    #[napi(catch_unwind)]
    pub fn end_calls(&self) {
        for function in &self.until_closed {
            function.drop_value();
        }
    }

    /// Requests a lock. Returns the request number.
    // `expect` would fail: napi copies the attribute to a generated function with few arguments, to which the lint does
    // not apply.
    #[napi(catch_unwind)]
    #[allow(
        clippy::too_many_arguments,
        reason = "one call per acquire is the cheapest way over the border"
    )]
    pub fn acquire(
        &self,
        lock: Object<'_>,
        wait_ms: Option<f64>,
        lease_ms: Option<f64>,
        renew: bool,
        max_hold_ms: Option<f64>,
        within: Option<f64>,
        fencing: bool,
        on_unavailable: Option<String>,
        remaining_ms: Option<f64>,
    ) -> napi::Result<f64> {
        let on_unavailable = options::on_unavailable(on_unavailable)?;
        Ok(self.client.submit(Op::Acquire(Acquire {
            lock: lock_ref(&lock)?,
            within: within.map(|lease| lease as u64),
            wait_ms,
            lease_ms,
            renew,
            max_hold_ms,
            remaining_ms,
            no_fencing: !fencing,
            on_unavailable,
            ..Acquire::default()
        })))
    }

    /// Releases a lease. Returns the request number. The lease counts as released at once.
    #[napi(catch_unwind)]
    pub fn release(&self, lease: f64) -> f64 {
        self.client.release(lease)
    }

    /// Forgets a lost lease, because JavaScript has no object of it any more.
    #[napi(catch_unwind)]
    pub fn forget(&self, lease: f64) {
        self.client.forget(lease);
    }

    /// Extends a lease. Returns the request number.
    #[napi(catch_unwind)]
    pub fn extend(&self, lease: f64, by_ms: Option<f64>) -> f64 {
        self.client.submit(Op::Extend {
            lease: lease as u64,
            by_ms,
        })
    }

    /// Asks the server for the holder of a lock. Returns the request number.
    #[napi(catch_unwind)]
    pub fn inspect(&self, lock: Object<'_>) -> napi::Result<f64> {
        let lock = lock_ref(&lock)?;
        Ok(self.client.submit(Op::Inspect { lock }))
    }

    /// Removes the records of all holders of a lock. Returns the request number.
    #[napi(catch_unwind)]
    pub fn force_release(&self, lock: Object<'_>) -> napi::Result<f64> {
        let lock = lock_ref(&lock)?;
        Ok(self.client.submit(Op::ForceRelease { lock }))
    }

    /// Changes a semaphore's limit to that of `lock`. Returns the request number.
    #[napi(catch_unwind)]
    pub fn set_limit(&self, lock: Object<'_>) -> napi::Result<f64> {
        let lock = lock_ref(&lock)?;
        Ok(self.client.submit(Op::SetLimit { lock }))
    }

    /// Returns the metrics in Prometheus' text format.
    #[napi(catch_unwind)]
    pub fn metrics(&self) -> Either<String, NativeFailure> {
        match self.client.host().metrics() {
            Ok(text) => Either::A(text),
            Err(error) => Either::B(NativeFailure::from(&error)),
        }
    }

    /// Returns the metrics as rows, for OpenTelemetry.
    #[napi(catch_unwind)]
    pub fn metric_rows(&self) -> Either<Vec<NativeMetric>, NativeFailure> {
        match self.client.host().metric_rows() {
            Ok(metrics) => Either::A(metrics.into_iter().map(NativeMetric::from).collect()),
            Err(error) => Either::B(NativeFailure::from(&error)),
        }
    }

    /// Returns the label for the group of a lock of this name in `metrics`.
    #[napi(catch_unwind)]
    pub fn metrics_group(&self, name: String) -> Either<String, NativeFailure> {
        match self.client.host().metrics_group(&name) {
            Ok(group) => Either::A(group.to_string()),
            Err(error) => Either::B(NativeFailure::from(&error)),
        }
    }

    /// Closes the client. Returns the request number.
    #[napi(catch_unwind)]
    pub fn close(&self) -> f64 {
        self.client.submit(Op::Close)
    }

    /// Cancels a request whose caller does not wait any more.
    #[napi(catch_unwind)]
    pub fn cancel(&self, request: f64) {
        self.client.host().cancel(request as u64);
    }

    /// Returns the time that is left of a lease, in milliseconds; 0 if the lease is not held.
    #[napi(catch_unwind)]
    pub fn remaining_ms(&self, lease: f64) -> f64 {
        self.client.remaining_ms(lease)
    }

    /// Whether a lease is valid at this moment.
    #[napi(catch_unwind)]
    pub fn is_valid(&self, lease: f64) -> bool {
        self.client.is_valid(lease)
    }

    /// Whether a caller that holds the lock `held` and waits for the lock `wanted`, without `within`, waits for itself.
    /// False for an invalid lock, whose error the acquisition reports.
    #[napi(catch_unwind)]
    pub fn keeps_out(&self, held: Object<'_>, wanted: Object<'_>) -> napi::Result<bool> {
        let (held, wanted) = (lock_ref(&held)?, lock_ref(&wanted)?);
        Ok(self.client.host().would_wait_for_itself(held, wanted).unwrap_or(false))
    }

    /// Returns the index of the reason for the loss of a lease; −1 if it is not lost.
    #[napi(catch_unwind)]
    pub fn lost_reason(&self, lease: f64) -> f64 {
        self.client.lost_reason(lease)
    }

    /// Writes queued events into `buffer` as rows, and returns their number. If the buffer is full, more events can be
    /// left: drain again.
    #[napi(catch_unwind)]
    pub fn drain(&self, mut buffer: Float64ArraySlice<'_>) -> u32 {
        // SAFETY: JavaScript waits for this call, so it neither reads nor writes the buffer meanwhile. JavaScript
        // shares the buffer with no other thread.
        self.client.drain(unsafe { buffer.as_mut() })
    }

    /// Returns the error of the next refused or failed row.
    #[napi(catch_unwind)]
    pub fn next_failure(&self) -> Option<NativeFailure> {
        self.client.next_failure().map(|error| NativeFailure::from(&error))
    }

    /// Returns the holder for the next state row of a held lock.
    #[napi(catch_unwind)]
    pub fn next_holder(&self) -> Option<NativeHolder> {
        self.client.next_holder().map(|holder| NativeHolder::from(&holder))
    }

    /// Returns the observation of the next observed row. Builds it only if `is_wanted`, because texts take time.
    #[napi(catch_unwind)]
    pub fn next_observation(&self, is_wanted: bool) -> Option<NativeObservation> {
        let line = self.client.next_observation()?;
        is_wanted.then(|| NativeObservation::from(&*line))
    }
}
