//! The end of the interpreter, as the calls of other threads meet it.
//!
//! The threads that wait then are daemons. First they are told to leave: they get no lock, and `SystemExit` ends them
//! silently, so that their callers let go of what they hold, as of a log handler's lock, which the end takes too.
//! A thread that asks for the GIL after that is ended where it stands; so the rest stays without it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use steadlock::host::Process;

/// The process that ends, and its thread that does so.
static ENDING: OnceLock<(Process, ThreadId)> = OnceLock::new();
/// How many threads wait without the GIL.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Nobody may ask for the GIL any more.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// From now on no other thread gets a lock. Those that wait leave; so long it waits for them, without the GIL.
pub(crate) fn begin(py: Python<'_>, limit: Duration) {
    const LOOK: Duration = Duration::from_millis(1);

    let _ = ENDING.set((Process::current(), thread::current().id()));
    let start = Instant::now();
    while INSIDE.load(Ordering::SeqCst) > 0 && start.elapsed() < limit {
        py.detach(|| thread::sleep(LOOK));
    }
    IS_OVER.store(true, Ordering::SeqCst);
}

/// The thread that ends the interpreter of this process, if it ends.
fn ender() -> Option<ThreadId> {
    let (process, thread) = ENDING.get()?;
    process.is_current().then_some(*thread)
}

/// Whether the interpreter ends.
pub(crate) fn has_begun() -> bool {
    ender().is_some()
}

/// Whether the interpreter ends, and this thread with it.
pub(crate) fn is_for_this_thread() -> bool {
    ender().is_some_and(|thread| thread != thread::current().id())
}

/// `sys.is_finalizing`.
static IS_FINALIZING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// At the import of this module, as another import runs code of the program.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    let is_finalizing = py.import("sys")?.getattr("is_finalizing")?;
    let _ = IS_FINALIZING.set(py, is_finalizing.unbind());
    Ok(())
}

/// Whether the interpreter is so near its end that no code of the program can run. Nothing strikes in it.
pub(crate) fn is_finalizing(py: Python<'_>) -> PyResult<bool> {
    IS_FINALIZING
        .get(py)
        .map_or(Ok(true), |is_finalizing| is_finalizing.bind(py).call0()?.is_truthy())
}

/// Ends a thread at the end of the interpreter.
pub(crate) fn leave() -> PyErr {
    PySystemExit::new_err(())
}

/// A thread that waits, until it has the GIL again.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Whether the thread has to leave, without an answer. It stays here until the process is gone if it is too late
    /// for that. To be called without the GIL.
    pub(crate) fn is_to_leave(&self) -> bool {
        let leaves = is_for_this_thread();
        while leaves && IS_OVER.load(Ordering::SeqCst) {
            thread::park();
        }
        leaves
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let one_less = |inside: usize| Some(inside.saturating_sub(1));
        let _ = INSIDE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}

/// In the child of a fork: other threads are not there.
pub(crate) fn after_fork() {
    INSIDE.store(0, Ordering::SeqCst);
}

/// The number of a request that nobody answers.
pub(crate) fn unanswered() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    u64::MAX - COUNT.fetch_add(1, Ordering::Relaxed)
}
