//! An `address_map` that is a Python function.
//!
//! The core calls the map on a thread of its own, never on the engine's thread. This thread asks Python to start
//! another thread for the function, and waits for the result without the GIL. A Rust thread must not run the function
//! itself: at the end of the interpreter, every thread that requests the GIL is made to exit. A Python thread can exit,
//! but a Rust thread would crash the process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use steadlock::host::AddressMap;

/// Whether the interpreter is about to end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The number of Rust threads that are in Python, or wait for its GIL, to start the call of a function.
static CALLING_THREADS: AtomicUsize = AtomicUsize::new(0);

const ENDING: &str = "the interpreter is ending";

/// How often a thread that waits for a function checks whether the interpreter is ending.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How often the end of the interpreter checks whether the last thread has left Python.
const CALLS_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The result of a function: the address, `None` for the announced one; or the reason why there is no result.
type MapResult = Result<Option<String>, String>;

/// Makes an address map. `start_call(announced, report)` must start a thread that calls the function, and then `report`
/// with its result.
pub(crate) fn map(start_call: Py<PyAny>) -> AddressMap {
    AddressMap::by_fallible(move |announced| {
        let (sender, receiver) = mpsc::channel();
        begin(&start_call, announced, sender)?;
        loop {
            return match receiver.recv_timeout(END_CHECK_INTERVAL) {
                Ok(result) => result,
                Err(RecvTimeoutError::Timeout) if !IS_ENDING.load(Ordering::SeqCst) => continue,
                Err(_) => Err(ENDING.into()),
            };
        }
    })
}

/// Prevents further calls of functions. Blocks until the Rust threads that start a call have left Python, at most
/// `limit`.
pub(crate) fn end(py: Python<'_>, limit: Duration) {
    IS_ENDING.store(true, Ordering::SeqCst);
    // Returns without releasing the GIL: a subinterpreter that ends with the process would not get the GIL back.
    if CALLING_THREADS.load(Ordering::SeqCst) == 0 {
        return;
    }
    py.detach(|| {
        let deadline = Instant::now() + limit;
        while CALLING_THREADS.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            std::thread::sleep(CALLS_CHECK_INTERVAL);
        }
    });
}

fn begin(start_call: &Py<PyAny>, announced: &str, sender: Sender<MapResult>) -> Result<(), String> {
    let _calling = CallingThread::enter().ok_or(ENDING)?;
    let has_started = Python::try_attach(|py| start_call.call1(py, (announced, ResultReport(sender))).is_ok());
    match has_started {
        Some(true) => Ok(()),
        Some(false) => Err("no thread can be started for it".into()),
        None => Err(ENDING.into()),
    }
}

/// Called in the child of a fork, where the parent's other threads do not exist and the interpreter is not ending.
pub(crate) fn after_fork() {
    IS_ENDING.store(false, Ordering::SeqCst);
    CALLING_THREADS.store(0, Ordering::SeqCst);
}

/// While a value of this type exists, the end of the interpreter waits.
struct CallingThread;

impl CallingThread {
    fn enter() -> Option<Self> {
        // The count must come first, because the end of the interpreter sets its flag before it reads the count.
        CALLING_THREADS.fetch_add(1, Ordering::SeqCst);
        let calling = Self;
        (!IS_ENDING.load(Ordering::SeqCst)).then_some(calling)
    }
}

impl Drop for CallingThread {
    fn drop(&mut self) {
        let one_less = |count: usize| Some(count.saturating_sub(1));
        let _ = CALLING_THREADS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}

/// Passes the result of a function to the thread that waits for it.
#[pyclass(frozen, module = "steadlock._native")]
struct ResultReport(Sender<MapResult>);

#[pymethods]
impl ResultReport {
    fn __call__(&self, address: Option<String>, failure: Option<String>) {
        // Fails only if no thread waits any more.
        let _ = self.0.send(failure.map_or(Ok(address), Err));
    }
}
