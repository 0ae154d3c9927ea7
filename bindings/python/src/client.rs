//! The class `Client`, and its blocking calls: without the GIL, and interruptible.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use steadlock::host::{
    self, Acquire, Completion, Error, ErrorKind, Event, Host, Kind, Level, OnUnavailable, Op, Operation, Options,
    Pending, PerProcess, Run, RunEnd,
};

use crate::interpreter_end::WaitingThread;
use crate::wake_descriptor::WakeDescriptor;
use crate::{addresses, convert, interpreter_end, names};

/// A client of one server, or of several primaries, with its engine thread.
///
/// The operations on locks, and `close`, exist twice: `name()` blocks without the GIL and returns the result;
/// `submit_name()` returns a request number, and `drain()` delivers the result.
#[pyclass(frozen, module = "steadlock._native")]
pub(crate) struct Client {
    host: Host,
    wake: Arc<WakeDescriptor>,
    /// The events of a `drain` that an interrupt ended while it made exceptions. The next `drain` returns them.
    undelivered: PerProcess<Mutex<Vec<Event>>>,
    waits: LockWaits,
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

    /// `options` has the core's names. `address_function` starts a call of the program's function that maps addresses;
    /// it replaces a table of addresses.
    #[new]
    #[pyo3(signature = (options, address_function))]
    fn new(py: Python<'_>, options: &Bound<'_, PyDict>, address_function: Option<Py<PyAny>>) -> PyResult<Self> {
        let mut core_options = Options::default();
        for (name, value) in options.iter() {
            let name: String = name.extract()?;
            let value = convert::option_value(&value)?;
            core_options
                .set(&name, value)
                .map_err(|error| convert::error(py, &error))?;
        }
        if let Some(start_call) = address_function {
            core_options.address_map = Some(addresses::map(start_call));
        }
        let wake = WakeDescriptor::new().map_err(|error| convert::error(py, &no_descriptor(&error)))?;
        let wake = Arc::new(wake);
        let engine_wake = Arc::clone(&wake);
        let host = py
            .detach(|| Host::open(core_options, Box::new(move || signal_unless_ending(&engine_wake))))
            .map_err(|error| convert::error(py, &error))?;
        Ok(Self {
            host,
            wake,
            undelivered: PerProcess::default(),
            waits: LockWaits::default(),
        })
    }

    /// Returns a file descriptor that is readable while `drain()` has events, and a unique number for it. After a fork
    /// there is a new descriptor, and also after the program has closed the old one.
    fn fd(&self) -> PyResult<(RawFd, u64)> {
        Ok(self.wake.fd()?)
    }

    /// Takes the queued events: results of submitted requests, lost leases, and lines for the log.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Drained<'py>> {
        self.wake.clear();
        if interpreter_end::must_end_thread() {
            return Ok(Drained::default());
        }
        let mut events = mem::take(&mut *self.undelivered());
        self.host.drain(&mut events);
        to_python(py, &events).inspect_err(|_| {
            // A signal handler has raised while an exception was made.
            let mut undelivered = self.undelivered();
            events.append(&mut undelivered);
            *undelivered = events;
            drop(undelivered);
            self.wake.signal();
        })
    }

    /// Returns the metrics in Prometheus' text format.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        self.host.metrics().map_err(|error| convert::error(py, &error))
    }

    /// Returns the metrics as rows, for OpenTelemetry.
    fn metric_rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let metrics = self.host.metric_rows().map_err(|error| convert::error(py, &error))?;
        convert::metrics(py, &metrics)
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
        self.wake.signal();
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

    /// Acquires a lock. Appends the lease to `granted`, so that an interrupt after the call cannot lose it.
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
                    // Python had no memory for the object, so the program could not release the lease.
                    self.return_grant(lease.id());
                }
                appended
            }
        }
    }

    #[pyo3(signature = (settings, context))]
    fn submit_acquire(&self, settings: LockSettings, context: Option<u64>) -> u64 {
        if interpreter_end::must_end_thread() {
            return interpreter_end::unanswered_request();
        }
        self.host.submit(settings.acquire(context, Vec::new()))
    }

    fn release<'py>(&self, py: Python<'py>, lease: u64, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::Release { lease }, interruptible)
    }

    fn submit_release(&self, lease: u64) -> u64 {
        self.host.submit(Op::Release { lease })
    }

    /// Releases a lease without waiting for the reply. A run of a job has failed then.
    fn release_later(&self, lease: u64) {
        drop(self.host.start(Op::Release { lease }));
    }

    /// Releases a lease that no caller got, without waiting for the reply. A run of a job has not begun then.
    fn return_grant(&self, lease: u64) {
        return_grant(&self.host, lease);
    }

    #[pyo3(signature = (lease, succeeded, at_least_ms, interruptible))]
    fn end_run<'py>(
        &self,
        py: Python<'py>,
        lease: u64,
        succeeded: bool,
        at_least_ms: Option<f64>,
        interruptible: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, end_of_run(lease, succeeded, at_least_ms), interruptible)
    }

    #[pyo3(signature = (lease, succeeded, at_least_ms))]
    fn submit_end_run(&self, lease: u64, succeeded: bool, at_least_ms: Option<f64>) -> u64 {
        self.host.submit(end_of_run(lease, succeeded, at_least_ms))
    }

    fn last_run<'py>(&self, py: Python<'py>, lock: LockRef, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::LastRun { lock: lock.0 }, interruptible)
    }

    fn submit_last_run(&self, lock: LockRef) -> u64 {
        self.host.submit(Op::LastRun { lock: lock.0 })
    }

    #[pyo3(signature = (lease, to, interruptible))]
    fn resign<'py>(
        &self,
        py: Python<'py>,
        lease: u64,
        to: Option<String>,
        interruptible: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::Resign { lease, to }, interruptible)
    }

    #[pyo3(signature = (lease, to))]
    fn submit_resign(&self, lease: u64, to: Option<String>) -> u64 {
        self.host.submit(Op::Resign { lease, to })
    }

    #[pyo3(signature = (lock, seen, interruptible))]
    fn leadership<'py>(
        &self,
        py: Python<'py>,
        lock: LockRef,
        seen: Option<u64>,
        interruptible: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::Leadership { lock: lock.0, seen }, interruptible)
    }

    #[pyo3(signature = (lock, seen))]
    fn submit_leadership(&self, lock: LockRef, seen: Option<u64>) -> u64 {
        self.host.submit(Op::Leadership { lock: lock.0, seen })
    }

    fn release_innermost<'py>(
        &self,
        py: Python<'py>,
        lock: LockRef,
        context: u64,
        interruptible: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lock = lock.0;
        self.blocking(py, Op::ReleaseInnermost { lock, context }, interruptible)
    }

    fn submit_release_innermost(&self, lock: LockRef, context: u64) -> u64 {
        let lock = lock.0;
        self.host.submit(Op::ReleaseInnermost { lock, context })
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

    fn inspect<'py>(&self, py: Python<'py>, lock: LockRef, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::Inspect { lock: lock.0 }, interruptible)
    }

    fn submit_inspect(&self, lock: LockRef) -> u64 {
        self.host.submit(Op::Inspect { lock: lock.0 })
    }

    fn force_release<'py>(&self, py: Python<'py>, lock: LockRef, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::ForceRelease { lock: lock.0 }, interruptible)
    }

    fn submit_force_release(&self, lock: LockRef) -> u64 {
        self.host.submit(Op::ForceRelease { lock: lock.0 })
    }

    fn set_limit<'py>(&self, py: Python<'py>, lock: LockRef, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        self.blocking(py, Op::SetLimit { lock: lock.0 }, interruptible)
    }

    fn submit_set_limit(&self, lock: LockRef) -> u64 {
        self.host.submit(Op::SetLimit { lock: lock.0 })
    }

    /// Closes the client. Returns after 500 ms at the latest; a close that is interrupted or not done by then goes on.
    fn close(&self, py: Python<'_>, interruptible: bool) -> PyResult<()> {
        close(py, &self.host, interruptible)
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
    /// most. Without `ends_waits`, the waits of other threads go on, and this call waits only for the releases of
    /// `leases`.
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

    fn undelivered(&self) -> MutexGuard<'_, Vec<Event>> {
        self.undelivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocking<'py>(&self, py: Python<'py>, op: Op, interruptible: bool) -> PyResult<Bound<'py, PyAny>> {
        let done: Completion = wait(py, &self.host, op, interruptible)?;
        convert::completion(py, &done)
    }
}

/// Releases a lease that no caller got, without waiting for the reply.
fn return_grant(host: &Host, lease: u64) {
    drop(host.start(Op::EndRun {
        lease,
        end: RunEnd::Unused,
        at_least_ms: None,
    }));
}

fn end_of_run(lease: u64, succeeded: bool, at_least_ms: Option<f64>) -> Op {
    let end = if succeeded { RunEnd::Succeeded } else { RunEnd::Failed };
    Op::EndRun {
        lease,
        end,
        at_least_ms,
    }
}

/// The error of a client for which the system has no descriptors.
fn no_descriptor(error: &io::Error) -> Error {
    let cause = format!("the client cannot signal its results: {error}");
    let advice = "allow this process more open files, or close some, and try again";
    Error::caused(ErrorKind::Unavailable, Operation::Connect, cause).with_advice(advice)
}

/// Signals the descriptor, except at the end of the interpreter: no thread takes events then, and a hub of gevent that
/// wakes up would crash the process.
fn signal_unless_ending(wake: &WakeDescriptor) {
    if !interpreter_end::has_begun() {
        wake.signal();
    }
}

/// Converts events to Python objects.
fn to_python<'py>(py: Python<'py>, events: &[Event]) -> PyResult<Drained<'py>> {
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
struct LockSettings {
    lock: host::LockRef,
    wait: Option<f64>,
    lease: Option<f64>,
    renew: bool,
    max_hold: Option<f64>,
    fencing: bool,
    on_unavailable: Option<String>,
    run: Run,
}

/// The terms of a run, in the order of the package's `RunTerms`.
type RunTerms = (Option<f64>, Option<String>, Option<f64>, Option<String>);

impl<'py> FromPyObject<'_, 'py> for LockSettings {
    type Error = PyErr;

    fn extract(settings: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = settings.py();
        let lock = settings.getattr(names::lock(py))?.extract::<LockRef>()?.0;
        let run = match &lock {
            host::LockRef::One(Kind::Once, _) => {
                let (at_least_ms, key, keep_ms, on_failure): RunTerms = settings.getattr(names::run(py))?.extract()?;
                Run {
                    at_least_ms,
                    key,
                    keep_ms,
                    on_failure,
                }
            }
            _ => Run::default(),
        };
        Ok(Self {
            lock,
            run,
            wait: settings.getattr(names::wait(py))?.extract()?,
            lease: settings.getattr(names::lease(py))?.extract()?,
            renew: settings.getattr(names::renew(py))?.extract()?,
            max_hold: settings.getattr(names::max_hold(py))?.extract()?,
            fencing: settings.getattr(names::fencing(py))?.extract()?,
            on_unavailable: settings.getattr(names::on_unavailable(py))?.extract()?,
        })
    }
}

impl LockSettings {
    fn acquire(self, context: Option<u64>, blocked: Vec<u64>) -> Op {
        let is_run = matches!(self.lock, host::LockRef::One(Kind::Once, _));
        Op::Acquire(Acquire {
            lock: self.lock,
            // A request for a run never waits, so it cannot wait for itself: another run of the caller is one as any.
            context: context.filter(|_| !is_run),
            wait_ms: self.wait,
            lease_ms: self.lease,
            renew: self.renew,
            max_hold_ms: self.max_hold,
            no_fencing: !self.fencing,
            on_unavailable: self.on_unavailable.as_deref().and_then(OnUnavailable::parse),
            blocked,
            run: self.run,
            ..Acquire::default()
        })
    }
}

/// A lock, from a tuple: its kind and its name; for a semaphore, also the wanted permits and the limit; for a composite
/// lock, its kind and a tuple of its members.
pub(crate) struct LockRef(pub(crate) host::LockRef);

impl<'py> FromPyObject<'_, 'py> for LockRef {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let given = given.cast::<PyTuple>()?;
        let (kind, second) = (given.get_borrowed_item(0)?, given.get_borrowed_item(1)?);
        let kind: &str = kind.extract()?;
        if kind == host::LockRef::COMPOSITE {
            let members = second.cast::<PyTuple>()?;
            let members = members.iter_borrowed().map(|member| Ok(member.extract::<Self>()?.0));
            return members.collect::<PyResult<_>>().map(host::LockRef::All).map(Self);
        }
        let number = |place| {
            let number = given.get_borrowed_item(place).and_then(|number| number.extract());
            number.unwrap_or(f64::NAN)
        };
        let lock = host::LockRef::of(kind, second.extract()?, || (number(2), number(3)));
        lock.map(Self).map_err(|error| convert::error(given.py(), &error))
    }
}

/// The interval of checks for Ctrl-C, in the main thread, which runs signal handlers.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// The interval of checks for an exception that another thread raises in this one (`PyThreadState_SetAsyncExc`). Task
/// queues raise such exceptions for their time limits.
const EXCEPTION_CHECK: Duration = Duration::from_millis(100);

/// The limit for a close.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// Waits for `op`, and returns its result.
///
/// If a signal handler raises, or another thread raises an exception in this one, the caller gets that exception. An
/// acquisition is then cancelled, and a lock that is granted meanwhile is released; any other `op` goes on.
pub(crate) fn wait(py: Python<'_>, host: &Host, op: Op, interruptible: bool) -> PyResult<Completion> {
    wait_for(py, &mut host.start(op), interruptible, |result| result)?.map_err(|error| convert::error(py, &error))
}

/// Closes the client. Returns after 500 ms at the latest; a close that is interrupted or not done by then goes on.
pub(crate) fn close(py: Python<'_>, host: &Host, interruptible: bool) -> PyResult<()> {
    let slice = if interruptible { SIGNAL_CHECK } else { EXCEPTION_CHECK };
    let mut closing = host.start(Op::Close);
    let mut left = CLOSE_LIMIT;
    while !left.is_zero() && py.detach(|| closing.wait(slice.min(left))).is_none() {
        left = left.saturating_sub(slice);
        raise_pending(py)?;
    }
    Ok(())
}

/// Waits for the result, and passes it to `take` before this thread requests the GIL.
fn wait_for<T: Send>(
    py: Python<'_>,
    pending: &mut Pending,
    interruptible: bool,
    take: impl Fn(Result<Completion, Error>) -> T + Sync,
) -> PyResult<T> {
    let slice = if interruptible { SIGNAL_CHECK } else { EXCEPTION_CHECK };
    loop {
        let waiting = WaitingThread::enter();
        let done = py.detach(|| {
            let done = pending.wait(slice).map(&take);
            if waiting.must_end() { Err(()) } else { Ok(done) }
        });
        drop(waiting);
        if let Some(done) = done.map_err(|()| interpreter_end::system_exit())? {
            return Ok(done);
        }
        raise_pending(py)?;
    }
}

/// A Python function that does nothing.
static DO_NOTHING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Makes the function at the import, because compiling it can run code of the program (an audit hook). In the middle of
/// a wait, that code could wait for a lock too, and would need the function that is not made yet.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    let do_nothing = py.eval(c"lambda: None", Some(&PyDict::new(py)), None)?;
    let _ = DO_NOTHING.set(py, do_nothing.unbind());
    Ok(())
}

/// Raises pending exceptions of signal handlers and of other threads. Python raises those of other threads only while
/// it runs bytecode, so a Python function is called here.
fn raise_pending(py: Python<'_>) -> PyResult<()> {
    py.check_signals()?;
    DO_NOTHING
        .get(py)
        .map_or(Ok(()), |do_nothing| do_nothing.call0(py).map(drop))
}

/// The waits for locks of one client's threads.
///
/// At the end of the interpreter no waiting thread gets a lock. A grant is stored here until its thread has the GIL,
/// and is released if the end comes first.
#[derive(Default)]
pub(crate) struct LockWaits {
    /// The leases by the numbers of the waits. The mutex is locked without the GIL, so another thread can fork while it
    /// is locked: each process has a mutex of its own.
    granted: PerProcess<Mutex<HashMap<u64, u64>>>,
    count: AtomicU64,
}

impl LockWaits {
    /// Waits for a lock.
    pub(crate) fn wait(&self, py: Python<'_>, host: &Host, op: Op, interruptible: bool) -> PyResult<Completion> {
        if interpreter_end::must_end_thread() {
            return Err(interpreter_end::system_exit());
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let done = wait_for(py, &mut host.start(op), interruptible, |result| {
            if let Ok(Completion::Granted(lease)) = &result {
                let mut granted = self.granted();
                if interpreter_end::must_end_thread() {
                    return_grant(host, lease.id());
                } else {
                    granted.insert(number, lease.id());
                }
            }
            result
        })?;
        if matches!(done, Ok(Completion::Granted(_))) && self.granted().remove(&number).is_none() {
            // The end of the interpreter came first, and has released the lock.
            return Err(interpreter_end::system_exit());
        }
        done.map_err(|error| convert::error(py, &error))
    }

    /// Ends these waits, and all others of the client, at the end of the interpreter. The result comes when no release
    /// is owed to the server any more; `None` if the client was never used.
    pub(crate) fn end(&self, host: &Host) -> Option<Pending> {
        let granted: Vec<u64> = self.granted().drain().map(|(_, lease)| lease).collect();
        for lease in granted {
            return_grant(host, lease);
        }
        host.end_waits()
    }

    fn granted(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
