//! Blocking calls, which wait without the GIL and can be interrupted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use steadlock::host::{Completion, Error, Host, Op, Pending};

use crate::convert;
use crate::ending::{self, Inside};

/// The interval of checks for Ctrl-C, in the main thread, which runs signal handlers.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// The interval of checks for an exception that another thread raises in this one (`PyThreadState_SetAsyncExc`). Time
/// limits of task queues do that.
const LOOK: Duration = Duration::from_millis(100);

/// The limit for a close.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// Waits for `op`, and returns its result.
///
/// If a signal handler raises, or another thread raises an exception in this one, the caller gets that exception and
/// `op` is cancelled. A lock that is granted meanwhile is released.
pub(crate) fn wait(py: Python<'_>, host: &Host, op: Op, interruptible: bool) -> PyResult<Completion> {
    until_done(py, &mut host.start(op), interruptible, |result| result)?.map_err(|error| convert::error(py, &error))
}

/// Closes the client; takes 500 ms at the most. An interrupted close goes on.
pub(crate) fn close(py: Python<'_>, host: &Host, interruptible: bool) -> PyResult<()> {
    let slice = if interruptible { SIGNAL_CHECK } else { LOOK };
    let mut closing = host.start(Op::Close);
    let mut left = CLOSE_LIMIT;
    while !left.is_zero() && py.detach(|| closing.wait(slice.min(left))).is_none() {
        left = left.saturating_sub(slice);
        look_up(py)?;
    }
    Ok(())
}

/// Waits for the result, and passes it to `take` before it requests the GIL.
fn until_done<T: Send>(
    py: Python<'_>,
    pending: &mut Pending,
    interruptible: bool,
    take: impl Fn(Result<Completion, Error>) -> T + Sync,
) -> PyResult<T> {
    let slice = if interruptible { SIGNAL_CHECK } else { LOOK };
    loop {
        let inside = Inside::enter();
        let done = py.detach(|| {
            let done = pending.wait(slice).map(&take);
            if inside.is_to_leave() { Err(()) } else { Ok(done) }
        });
        drop(inside);
        if let Some(done) = done.map_err(|()| ending::leave())? {
            return Ok(done);
        }
        look_up(py)?;
    }
}

/// A Python function that does nothing.
static NOTHING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Runs at the import. Compiling the function can run code of the program (an audit hook). At the first use, that code
/// could wait for a lock itself, and so for this function.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    let nothing = py.eval(c"lambda: None", Some(&PyDict::new(py)), None)?;
    let _ = NOTHING.set(py, nothing.unbind());
    Ok(())
}

/// Raises pending exceptions of signal handlers and of other threads. Python raises the latter only where bytecode
/// runs, so this runs a function.
fn look_up(py: Python<'_>) -> PyResult<()> {
    py.check_signals()?;
    NOTHING.get(py).map_or(Ok(()), |nothing| nothing.call0(py).map(drop))
}

/// The waits for locks of one client's threads.
///
/// At the end of the interpreter no waiting thread gets a lock. A grant is stored here until its thread has the GIL,
/// and is released if the end comes first.
#[derive(Default)]
pub(crate) struct Waits {
    granted: Mutex<HashMap<u64, u64>>,
    count: AtomicU64,
}

impl Waits {
    /// Waits for a lock.
    pub(crate) fn wait(&self, py: Python<'_>, host: &Host, op: Op, interruptible: bool) -> PyResult<Completion> {
        if ending::is_for_this_thread() {
            return Err(ending::leave());
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let done = until_done(py, &mut host.start(op), interruptible, |result| {
            if let Ok(Completion::Granted(lease)) = &result {
                let mut granted = self.granted();
                if ending::is_for_this_thread() {
                    drop(host.start(Op::Release { lease: lease.id() }));
                } else {
                    granted.insert(number, lease.id());
                }
            }
            result
        })?;
        if matches!(done, Ok(Completion::Granted(_))) && self.granted().remove(&number).is_none() {
            // The end of the interpreter came first, and has released the lock.
            return Err(ending::leave());
        }
        done.map_err(|error| convert::error(py, &error))
    }

    /// Ends these waits, and all others of the client, at the end of the interpreter. The result comes when no release
    /// is owed to the server any more.
    pub(crate) fn end(&self, host: &Host) -> Option<Pending> {
        let granted: Vec<u64> = self.granted().drain().map(|(_, lease)| lease).collect();
        for lease in granted {
            drop(host.start(Op::Release { lease }));
        }
        host.end_waits()
    }

    fn granted(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
