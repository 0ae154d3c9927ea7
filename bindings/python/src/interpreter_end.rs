//! The calls of other threads at the end of the interpreter.
//!
//! Threads that wait at that time are daemon threads. At first they get no lock, and `SystemExit` ends them silently.
//! The exception makes the functions of such a thread release what they hold, such as a log handler's lock, which the
//! end of the interpreter needs too. After that, Python ends any thread that requests the GIL, wherever it is. Threads
//! that still wait then must never request the GIL again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use once_cell::race::OnceBox;
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use steadlock::host::PerProcess;

/// The thread that ends the interpreter of a process.
static ENDING_THREAD: OnceBox<PerProcess<OnceLock<ThreadId>>> = OnceBox::new();
/// The number of threads that wait without the GIL.
static WAITING_THREADS: AtomicUsize = AtomicUsize::new(0);
/// Whether no thread may request the GIL any more.
static IS_GIL_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Starts the end: from now on no other thread gets a lock. Waits without the GIL until the waiting threads have left,
/// `limit` at most.
pub(crate) fn begin(py: Python<'_>, limit: Duration) {
    const CHECK_INTERVAL: Duration = Duration::from_millis(1);

    let _ = ENDING_THREAD.get_or_init(Box::default).set(thread::current().id());
    let start = Instant::now();
    while WAITING_THREADS.load(Ordering::SeqCst) > 0 && start.elapsed() < limit {
        py.detach(|| thread::sleep(CHECK_INTERVAL));
    }
    IS_GIL_FORBIDDEN.store(true, Ordering::SeqCst);
}

/// Returns the thread that ends the interpreter of this process, if it ends.
fn ending_thread() -> Option<ThreadId> {
    ENDING_THREAD.get()?.get().copied()
}

/// Whether the end of the interpreter has begun.
pub(crate) fn has_begun() -> bool {
    ending_thread().is_some()
}

/// Whether the end of the interpreter has begun in another thread, so that this thread must end.
pub(crate) fn must_end_thread() -> bool {
    ending_thread().is_some_and(|thread| thread != thread::current().id())
}

/// `sys.is_finalizing`.
static IS_FINALIZING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Runs at the import of this module, because an import at another time can run code of the program.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    let is_finalizing = py.import("sys")?.getattr("is_finalizing")?;
    let _ = IS_FINALIZING.set(py, is_finalizing.unbind());
    Ok(())
}

/// Whether the interpreter is so near its end that no code of the program can run. No interrupt can end this call.
pub(crate) fn is_finalizing(py: Python<'_>) -> PyResult<bool> {
    IS_FINALIZING
        .get(py)
        .map_or(Ok(true), |is_finalizing| is_finalizing.bind(py).call0()?.is_truthy())
}

/// Returns the exception that ends a thread at the end of the interpreter.
pub(crate) fn system_exit() -> PyErr {
    PySystemExit::new_err(())
}

/// Marks a thread that waits without the GIL, until it has the GIL again.
pub(crate) struct WaitingThread(());

impl WaitingThread {
    pub(crate) fn enter() -> Self {
        WAITING_THREADS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Whether the thread must end without a result. If it is too late to end, because the GIL may not be requested any
    /// more, blocks here until the process has ended. Must be called without the GIL.
    pub(crate) fn must_end(&self) -> bool {
        let must_end = must_end_thread();
        while must_end && IS_GIL_FORBIDDEN.load(Ordering::SeqCst) {
            thread::park();
        }
        must_end
    }
}

impl Drop for WaitingThread {
    fn drop(&mut self) {
        let one_less = |count: usize| Some(count.saturating_sub(1));
        let _ = WAITING_THREADS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}

/// Called in the child of a fork, where other threads do not exist and the interpreter is not ending.
pub(crate) fn after_fork() {
    WAITING_THREADS.store(0, Ordering::SeqCst);
    IS_GIL_FORBIDDEN.store(false, Ordering::SeqCst);
}

/// Returns the number of a request that is never answered.
pub(crate) fn unanswered_request() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    u64::MAX - COUNT.fetch_add(1, Ordering::Relaxed)
}
