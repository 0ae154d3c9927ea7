//! An `address_map` that is a function of Python.
//!
//! The core calls it on a thread that has nothing else to do, never on the engine's. That thread
//! has Python start another one, which runs the function, and waits without the GIL. For when the
//! interpreter ends, it makes every thread exit that wants the GIL: a thread of Python does, but
//! one of Rust would take the process down with it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use steadlock::host::AddressMap;

/// Set once, when the interpreter is about to end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// How many threads of Rust are in Python, or wait for its GIL, to ask a function.
static ASKING: AtomicUsize = AtomicUsize::new(0);

const ENDING: &str = "the interpreter is ending";

/// How often a thread that waits for a function looks whether the interpreter is ending.
const LOOK: Duration = Duration::from_millis(50);

/// How often the end looks whether the last has left.
const STEP: Duration = Duration::from_millis(1);

/// An address, or none; or why there is no answer.
type Said = Result<Option<String>, String>;

/// `ask(announced, answer)` starts a thread that calls `answer`.
pub(crate) fn map(ask: Py<PyAny>) -> AddressMap {
    AddressMap::by_fallible(move |announced| {
        let (tell, told) = mpsc::channel();
        begin(&ask, announced, tell)?;
        loop {
            return match told.recv_timeout(LOOK) {
                Ok(said) => said,
                Err(RecvTimeoutError::Timeout) if !IS_ENDING.load(Ordering::SeqCst) => continue,
                Err(_) => Err(ENDING.into()),
            };
        }
    })
}

/// From now on no function is asked. Blocks until those that ask have left Python, `limit` at the
/// most.
pub(crate) fn end(py: Python<'_>, limit: Duration) {
    IS_ENDING.store(true, Ordering::SeqCst);
    // A subinterpreter that ends with the process gets the GIL back from nobody.
    if ASKING.load(Ordering::SeqCst) == 0 {
        return;
    }
    py.detach(|| {
        let deadline = Instant::now() + limit;
        while ASKING.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            std::thread::sleep(STEP);
        }
    });
}

fn begin(ask: &Py<PyAny>, announced: &str, tell: Sender<Said>) -> Result<(), String> {
    let _asking = Asking::begin().ok_or(ENDING)?;
    let asked = Python::try_attach(|py| ask.call1(py, (announced, Answer(tell))).is_ok());
    match asked {
        Some(true) => Ok(()),
        Some(false) => Err("no thread can be started for it".into()),
        None => Err(ENDING.into()),
    }
}

/// While it is there, the interpreter's end waits.
struct Asking;

impl Asking {
    fn begin() -> Option<Self> {
        // Counted first: the end sets its flag before it looks at the count.
        ASKING.fetch_add(1, Ordering::SeqCst);
        let asking = Self;
        (!IS_ENDING.load(Ordering::SeqCst)).then_some(asking)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes what a function said to the thread that waits for it.
#[pyclass(frozen, module = "steadlock._native")]
struct Answer(Sender<Said>);

#[pymethods]
impl Answer {
    fn __call__(&self, address: Option<String>, failure: Option<String>) {
        // Refused only if nobody waits any more.
        let _ = self.0.send(failure.map_or(Ok(address), Err));
    }
}
