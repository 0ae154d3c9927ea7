//! One client.

use std::time::{Duration, Instant};

use napi::bindgen_prelude::{ClassInstance, Either, Env, Float64ArraySlice, Function, JavaScriptClassExt, Object};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use steadlock::host::{Acquire, Host, Op, Pending};
use steadlock_javascript::Client;

use crate::addresses::{self, NativeReached};
use crate::failure::{NativeFailure, NativeHolder};
use crate::metrics::NativeMetric;
use crate::observation::NativeObservation;
use crate::options;
use crate::until_closed::{Drops, UntilClosed};

/// One client. Everything in it belongs to the thread of its JavaScript; the
/// engine's thread only calls `wake`.
#[napi]
pub struct NativeClient {
    client: Client,
    /// The functions of JavaScript that it may call.
    until_closed: Vec<Box<dyn Drops>>,
}

/// Starts to connect. The answer comes as the row of request 0.
///
/// `wake` is called on JavaScript's thread whenever there is something to drain.
/// It does not keep the process alive. Nor does `addresses`, which says where an announced address
/// is reached, in place of a table.
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
    let mut until_closed: Vec<Box<dyn Drops>> = vec![Box::new(wake.clone())];
    let wake = move || {
        if let Some(wake) = wake.get() {
            // Refused only while the environment is closing, when nobody listens.
            let _ = wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    };
    let mut options = options::options(&options)?;
    if let Some(function) = addresses {
        let (map, function) = addresses::map(function)?;
        options.address_map = Some(map);
        until_closed.push(function);
    }
    match Host::open(options, Box::new(wake)) {
        Ok(host) => NativeClient::new(host, until_closed).into_instance(env).map(Either::A),
        Err(error) => Ok(Either::B(NativeFailure::from(&error))),
    }
}

/// Closes several clients at the end of the process, all at once.
///
/// Returns when their servers have answered, after `timeout_ms` at the most.
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
    fn new(host: Host, until_closed: Vec<Box<dyn Drops>>) -> Self {
        Self {
            client: Client::new(host),
            until_closed,
        }
    }

    /// The client is closed: it calls no function any more, which would be open handles. What is asked of it later is
    /// answered at once, and JavaScript drains that by itself.
    #[napi(catch_unwind)]
    pub fn end_calls(&self) {
        for function in &self.until_closed {
            function.drop_it();
        }
    }

    /// Asks for a lock, named by its address; returns the request's number.
    // Not `expect`: napi copies the attribute to a function of its own, which has too few arguments for it.
    #[napi(catch_unwind)]
    #[allow(
        clippy::too_many_arguments,
        reason = "one call per acquire is the cheapest way over the border"
    )]
    pub fn acquire(
        &self,
        lock: String,
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
            lock: lock.into(),
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

    /// Releases a lease; returns the request's number. The lease counts as released at once.
    #[napi(catch_unwind)]
    pub fn release(&self, lease: f64) -> f64 {
        self.client.release(lease)
    }

    /// JavaScript has nothing any more of a lease that was lost.
    #[napi(catch_unwind)]
    pub fn forget(&self, lease: f64) {
        self.client.forget(lease);
    }

    /// Extends a lease; returns the request's number.
    #[napi(catch_unwind)]
    pub fn extend(&self, lease: f64, by_ms: Option<f64>) -> f64 {
        self.client.submit(Op::Extend {
            lease: lease as u64,
            by_ms,
        })
    }

    /// Asks the server who holds a lock; returns the request's number.
    #[napi(catch_unwind)]
    pub fn inspect(&self, lock: String) -> f64 {
        self.client.submit(Op::Inspect { lock: lock.into() })
    }

    /// Takes a lock from its holder; returns the request's number.
    #[napi(catch_unwind)]
    pub fn force_release(&self, lock: String) -> f64 {
        self.client.submit(Op::ForceRelease { lock: lock.into() })
    }

    /// Changes a semaphore's limit to that of the address; returns the request's number.
    #[napi(catch_unwind)]
    pub fn set_limit(&self, lock: String) -> f64 {
        self.client.submit(Op::SetLimit { lock: lock.into() })
    }

    /// What it has counted, in Prometheus' text format.
    #[napi(catch_unwind)]
    pub fn metrics(&self) -> Either<String, NativeFailure> {
        match self.client.host().metrics() {
            Ok(text) => Either::A(text),
            Err(error) => Either::B(NativeFailure::from(&error)),
        }
    }

    /// The same as rows, for OpenTelemetry.
    #[napi(catch_unwind)]
    pub fn metric_rows(&self) -> Either<Vec<NativeMetric>, NativeFailure> {
        match self.client.host().metric_rows() {
            Ok(metrics) => Either::A(metrics.into_iter().map(NativeMetric::from).collect()),
            Err(error) => Either::B(NativeFailure::from(&error)),
        }
    }

    /// The label that a lock of this name has for its group in `metrics`.
    #[napi(catch_unwind)]
    pub fn metrics_group(&self, name: String) -> Either<String, NativeFailure> {
        match self.client.host().metrics_group(&name) {
            Ok(group) => Either::A(group.to_string()),
            Err(error) => Either::B(NativeFailure::from(&error)),
        }
    }

    /// Closes; returns the request's number.
    #[napi(catch_unwind)]
    pub fn close(&self) -> f64 {
        self.client.submit(Op::Close)
    }

    /// Nobody waits for the request any more.
    #[napi(catch_unwind)]
    pub fn cancel(&self, request: f64) {
        self.client.host().cancel(request as u64);
    }

    /// What is left of a lease in milliseconds; 0 if it is not held.
    #[napi(catch_unwind)]
    pub fn remaining_ms(&self, lease: f64) -> f64 {
        self.client.remaining_ms(lease)
    }

    /// Whether a lease is held, by the clock of now.
    #[napi(catch_unwind)]
    pub fn is_valid(&self, lease: f64) -> bool {
        self.client.is_valid(lease)
    }

    /// Whether a caller that holds the lock of one address and waits for that of another one waits for itself.
    #[napi(catch_unwind)]
    pub fn keeps_out(&self, held: String, wanted: String) -> bool {
        let keeps_out = self.client.host().keeps_out(held.into(), wanted.into());
        keeps_out.unwrap_or(false)
    }

    /// The index of the reason for which a lease is lost; −1 if it is not.
    #[napi(catch_unwind)]
    pub fn lost_reason(&self, lease: f64) -> f64 {
        self.client.lost_reason(lease)
    }

    /// Puts queued events into `buffer` as rows, and returns how many. A full
    /// buffer may leave some: drain again.
    #[napi(catch_unwind)]
    pub fn drain(&self, mut buffer: Float64ArraySlice<'_>) -> u32 {
        // SAFETY: JavaScript is inside this call, so that it neither reads nor
        // writes the buffer meanwhile, and it shares it with no other thread.
        self.client.drain(unsafe { buffer.as_mut() })
    }

    /// The error of the next refused or failed row.
    #[napi(catch_unwind)]
    pub fn next_failure(&self) -> Option<NativeFailure> {
        self.client.next_failure().map(|error| NativeFailure::from(&error))
    }

    /// Who holds the lock of the next row that says it is held.
    #[napi(catch_unwind)]
    pub fn next_holder(&self) -> Option<NativeHolder> {
        self.client.next_holder().map(|holder| NativeHolder::from(&holder))
    }

    /// What the next row says that something was observed; its words are made only if they are wanted.
    #[napi(catch_unwind)]
    pub fn next_observation(&self, is_wanted: bool) -> Option<NativeObservation> {
        let line = self.client.next_observation()?;
        is_wanted.then(|| NativeObservation::from(&*line))
    }
}
