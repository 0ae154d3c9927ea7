//! The end of the interpreter, as the calls of other threads meet it.
//!
//! Those that wait then are daemons. First they are told to leave: they get no lock, and `SystemExit` ends them
//! silently, so that they let go of what their callers hold, as of a log handler's lock, which the end takes too.
//! A thread that asks for the GIL after that is ended where it stands; so the rest stays without it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
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

/// Whether the interpreter ends.
pub(crate) fn has_begun() -> bool {
    ENDING.get().is_some_and(|(process, _)| process.is_current())
}

/// Whether the interpreter ends, and this thread with it.
pub(crate) fn is_for_this_thread() -> bool {
    ENDING
        .get()
        .is_some_and(|(process, thread)| *thread != thread::current().id() && process.is_current())
}

/// What ends a thread at the end of the interpreter.
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
