//! The end of the interpreter, as the calls of other threads meet it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use steadlock::host::Process;

/// The process that ends, and its thread that does so.
static ENDING: OnceLock<(Process, ThreadId)> = OnceLock::new();

/// From now on no other thread gets a lock. Each of them ends with the interpreter, wherever it is.
pub(crate) fn begin() {
    let _ = ENDING.set((Process::current(), thread::current().id()));
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

/// Stays here until the process is gone. To be called without the GIL: a thread that asks for that now is
/// ended where it stands.
pub(crate) fn stop() -> ! {
    loop {
        thread::park();
    }
}

/// The number of a request that nobody answers.
pub(crate) fn unanswered() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    u64::MAX - COUNT.fetch_add(1, Ordering::Relaxed)
}
