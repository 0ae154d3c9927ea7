//! The class `Client`.

use std::collections::HashMap;
use std::mem;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use steadlock::host::{Acquire, AddressMap, Completion, Event, Host, Level, OnUnavailable, Op, Options};

use crate::addresses;
use crate::bell::Bell;
use crate::convert;
use crate::ending;
use crate::wait::{self, Waits, wait};

/// A client of one server, or of several primaries, with its engine thread.
///
/// Every operation exists twice: `name()` blocks without the GIL and returns the result; `submit_name()` returns a
/// request number, and `drain()` delivers the result.
#[pyclass(frozen, module = "steadlock._native")]
pub(crate) struct Client {
    host: Host,
    bell: Arc<Bell>,
    /// The events of a `drain` that an interrupt ended while it made exceptions. The next `drain` returns them.
    taken: Mutex<Vec<Event>>,
    waits: Waits,
}

/// A request number, with its result or exception.
type Completed<'py> = (u64, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// A lease's number, with the reason for its loss.
type Lost = (u64, &'static str);

/// A line for the log: its level, its text, and its facts as named fields.
type Line<'py> = (&'static str, String, Bound<'py, PyDict>);

/// The result of `drain`.
type Drained<'py> = (Vec<Completed<'py>>, Vec<Lost>, Vec<Line<'py>>);

#[pymethods]
impl Client {
    /// The number of the request that `new` makes: the first connection.
    #[classattr]
    const CONNECT: u64 = Host::CONNECT;

    #[new]
    #[pyo3(signature = (
        *, url, primaries, lease_ms, command_timeout_ms, connect_timeout_ms, retry_interval_ms, key_prefix,
        tls_ca_file, tls_cert_file, tls_key_file, tls_server_name, address_map, address_function, lazy,
        breaker_failures, breaker_pause_ms, on_unavailable, log, metrics, metrics_groups,
        metrics_queues, client_info, client_label, program, language
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments, checked by the type stub")]
    fn new(
        py: Python<'_>,
        url: Option<String>,
        primaries: Option<Vec<String>>,
        lease_ms: Option<f64>,
        command_timeout_ms: Option<f64>,
        connect_timeout_ms: Option<f64>,
        retry_interval_ms: Option<(f64, f64)>,
        key_prefix: Option<String>,
        tls_ca_file: Option<String>,
        tls_cert_file: Option<String>,
        tls_key_file: Option<String>,
        tls_server_name: Option<String>,
        address_map: Option<HashMap<String, String>>,
        address_function: Option<Py<PyAny>>,
        lazy: bool,
        breaker_failures: Option<u32>,
        breaker_pause_ms: Option<f64>,
        on_unavailable: Option<&str>,
        log: Option<&str>,
        metrics: bool,
        metrics_groups: Option<f64>,
        metrics_queues: Option<Vec<String>>,
        client_info: bool,
        client_label: Option<String>,
        program: Option<String>,
        language: String,
    ) -> PyResult<Self> {
        let options = Options {
            url,
            primaries,
            lease_ms,
            command_timeout_ms,
            connect_timeout_ms,
            retry_interval_ms,
            key_prefix,
            tls_ca_file,
            tls_cert_file,
            tls_key_file,
            tls_server_name,
            address_map: match address_function {
                Some(ask) => Some(addresses::map(ask)),
                None => address_map.map(AddressMap::from),
            },
            lazy,
            breaker_failures,
            breaker_pause_ms,
            on_unavailable: on_unavailable.and_then(OnUnavailable::parse),
            log: log.and_then(Level::parse),
            metrics,
            metrics_groups,
            metrics_queues,
            client_info: Some(client_info),
            client_label,
            program,
            language: Some(language),
            ..Options::default()
        };
        let bell = Arc::new(Bell::new()?);
        let rung = Arc::clone(&bell);
        let host = py
            .detach(|| Host::open(options, Box::new(move || ring_unless_ending(&rung))))
            .map_err(|error| convert::error(py, &error))?;
        Ok(Self {
            host,
            bell,
            taken: Mutex::default(),
            waits: Waits::default(),
        })
    }

    /// Returns a file descriptor that is readable while `drain()` has events, and a unique number for it. After a fork
    /// there is a new descriptor, and also after the program has closed the old one.
    fn fd(&self) -> PyResult<(RawFd, u64)> {
        Ok(self.bell.fd()?)
    }

    /// Takes the queued events: results of submitted requests, lost leases, and lines for the log.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Drained<'py>> {
        self.bell.silence();
        if ending::is_for_this_thread() {
            return Ok(Drained::default());
        }
        let mut events = mem::take(&mut *self.taken());
        self.host.drain(&mut events);
        drained(py, &events).inspect_err(|_| {
            // A signal handler has raised while an exception was made.
            let mut taken = self.taken();
            events.append(&mut taken);
            *taken = events;
            drop(taken);
            self.bell.ring();
        })
    }

    /// Returns the metrics in Prometheus' text format.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        self.host.metrics().map_err(|error| convert::error(py, &error))
    }

    /// Returns the label for the group of a lock of this name in the metrics.
    fn metrics_group(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        let group = self
            .host
            .metrics_group(name)
            .map_err(|error| convert::error(py, &error))?;
        Ok(group.as_ref().to_owned())
    }

    /// Makes `fd()` readable once, to wake the thread that polls it.
    fn ring(&self) {
        self.bell.ring();
    }

    /// Returns the server as messages name it, without user and password; all servers if there are several.
    fn server(&self) -> String {
        self.host.server()
    }

    /// Whether the client has begun to connect. A lazy client does so at its first use.
    fn is_started(&self) -> bool {
        self.host.is_started()
    }

    /// Sets the lowest level of the lines in `drain()`; `None` for no lines.
    #[pyo3(signature = (level))]
    fn set_log(&self, level: Option<&str>) {
        self.host.set_log(level.and_then(Level::parse));
    }

    /// Cancels a submitted request. A lock that is granted to it is released.
    fn cancel(&self, request: u64) {
        self.host.cancel(request);
    }

    /// Acquires a lock. Appends the lease to `granted`, so that an interrupt after the call cannot hide it.
    #[pyo3(signature = (granted, settings, context, blocked, interruptible))]
    fn acquire(
        &self,
        py: Python<'_>,
        granted: &Bound<'_, PyList>,
        settings: LockSettings,
        context: Option<u64>,
        blocked: Vec<u64>,
        interruptible: bool,
    ) -> PyResult<()> {
        let op = settings.acquire(context, blocked);
        match self.waits.wait(py, &self.host, op, interruptible)? {
            Completion::NotGranted(error) => Err(convert::error(py, &error)),
            done => {
                let appended = convert::completion(py, &done).and_then(|lease| granted.append(lease));
                if let (Err(_), Completion::Granted(lease)) = (&appended, &done) {
                    // There was no memory for the Python object, so the program could not release the lease.
                    self.release_later(lease.id());
                }
                appended
            }
        }
    }

    #[pyo3(signature = (settings, context))]
    fn submit_acquire(&self, settings: LockSettings, context: Option<u64>) -> u64 {
        if ending::is_for_this_thread() {
            return ending::unanswered();
        }
        self.host.submit(settings.acquire(context, Vec::new()))
    }

    fn release<'py>(&self, py: Python<'py>, lease: u64, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::Release { lease }, interruptible)
    }

    fn submit_release(&self, lease: u64) -> u64 {
        self.host.submit(Op::Release { lease })
    }

    /// Releases a lease without waiting for the reply.
    fn release_later(&self, lease: u64) {
        drop(self.host.start(Op::Release { lease }));
    }

    fn release_innermost<'py>(
        &self,
        py: Python<'py>,
        lock: String,
        context: u64,
        interruptible: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(
            py,
            Op::ReleaseInnermost {
                lock: lock.into(),
                context,
            },
            interruptible,
        )
    }

    fn submit_release_innermost(&self, lock: String, context: u64) -> u64 {
        self.host.submit(Op::ReleaseInnermost {
            lock: lock.into(),
            context,
        })
    }

    #[pyo3(signature = (lease, by_ms, interruptible))]
    fn extend<'py>(
        &self,
        py: Python<'py>,
        lease: u64,
        by_ms: Option<f64>,
        interruptible: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::Extend { lease, by_ms }, interruptible)
    }

    #[pyo3(signature = (lease, by_ms))]
    fn submit_extend(&self, lease: u64, by_ms: Option<f64>) -> u64 {
        self.host.submit(Op::Extend { lease, by_ms })
    }

    fn inspect<'py>(&self, py: Python<'py>, lock: String, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::Inspect { lock: lock.into() }, interruptible)
    }

    fn submit_inspect(&self, lock: String) -> u64 {
        self.host.submit(Op::Inspect { lock: lock.into() })
    }

    fn force_release<'py>(&self, py: Python<'py>, lock: String, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::ForceRelease { lock: lock.into() }, interruptible)
    }

    fn submit_force_release(&self, lock: String) -> u64 {
        self.host.submit(Op::ForceRelease { lock: lock.into() })
    }

    fn set_limit<'py>(&self, py: Python<'py>, lock: String, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::SetLimit { lock: lock.into() }, interruptible)
    }

    fn submit_set_limit(&self, lock: String) -> u64 {
        self.host.submit(Op::SetLimit { lock: lock.into() })
    }

    /// Closes the client; takes 500 ms at the most. An interrupted close goes on.
    fn close(&self, py: Python<'_>, interruptible: bool) -> PyResult<()> {
        wait::close(py, &self.host, interruptible)
    }

    fn submit_close(&self) -> u64 {
        self.host.submit(Op::Close)
    }

    /// Called at the end of the process. Ends all waits and releases leases, without waiting for replies.
    fn end_waits(&self, leases: Vec<u64>) {
        drop(self.waits.end(&self.host));
        for lease in leases {
            self.release_later(lease);
        }
    }

    /// Does the same as `end_waits`, and waits until no release is owed to the server any more, `timeout_ms` at the
    /// most. Without `ends_waits`, the waits of other threads go on.
    fn release_all(&self, py: Python<'_>, leases: Vec<u64>, timeout_ms: u64, ends_waits: bool) {
        py.detach(|| {
            let (start, limit) = (Instant::now(), Duration::from_millis(timeout_ms));
            let ended = if ends_waits { self.waits.end(&self.host) } else { None };
            self.host.release_blocking(&leases, limit);
            if let Some(mut ended) = ended {
                ended.wait(limit.saturating_sub(start.elapsed()));
            }
        });
    }
}

impl Client {
    pub(crate) const fn host(&self) -> &Host {
        &self.host
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Event>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocking<'py>(&self, py: Python<'py>, op: Op, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        let done: Completion = wait(py, &self.host, op, interruptible)?;
        convert::completion(py, &done)
    }
}

/// Rings the bell, except at the end of the interpreter: no thread takes events then, and a hub of gevent that wakes up
/// would crash the process.
fn ring_unless_ending(bell: &Bell) {
    if !ending::has_begun() {
        bell.ring();
    }
}

/// Converts events to Python objects.
fn drained<'py>(py: Python<'py>, events: &[Event]) -> PyResult<Drained<'py>> {
    let mut completed = Vec::with_capacity(events.len());
    let (mut lost, mut lines) = (Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Completed { request, result } => {
                let (done, error) = match result {
                    Ok(done) => (Some(convert::completion(py, done)?), None),
                    Err(error) => (None, Some(convert::exception(py, error)?)),
                };
                completed.push((*request, done, error));
            }
            Event::Lost { lease, reason, .. } => lost.push((*lease, reason.as_str())),
            Event::Observed(line) => lines.push(convert::line(py, line)?),
        }
    }
    Ok((completed, lost, lines))
}

/// The settings of an acquisition: an object of the package with these attributes. Times are in milliseconds.
#[derive(FromPyObject)]
struct LockSettings {
    address: String,
    wait: Option<f64>,
    lease: Option<f64>,
    renew: bool,
    max_hold: Option<f64>,
    fencing: bool,
    on_unavailable: Option<String>,
}

impl LockSettings {
    fn acquire(self, context: Option<u64>, blocked: Vec<u64>) -> Op {
        Op::Acquire(Acquire {
            lock: self.address.into(),
            context,
            wait_ms: self.wait,
            lease_ms: self.lease,
            renew: self.renew,
            max_hold_ms: self.max_hold,
            no_fencing: !self.fencing,
            on_unavailable: self.on_unavailable.as_deref().and_then(OnUnavailable::parse),
            blocked,
            ..Acquire::default()
        })
    }
}
