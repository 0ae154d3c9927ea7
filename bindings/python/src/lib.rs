//! The native part of the Python package `steadlock`.
//!
//! It converts types and nothing else: locks, defaults and checks live in
//! `steadlock::host`, manners (ownership, `with`, asyncio) in the Python files
//! of `packages/python`. `_native.pyi` there documents every class for callers.
//!
//! One file per class:
//! - [`client`]: `Client`, every operation twice: blocking, and submitted with
//!   its result in `drain()`
//! - [`lease`]: `Lease`, what a grant gave
//! - [`scope_end`]: `ScopeEnd` and `AsyncScopeEnd`, the ends of a `with` and an `async with`
//! - [`holds`]: `Holds`, the Python objects of what a client holds
//! - [`ends`]: `Uninterrupted` and `AtEnd`, other calls that no interrupt skips
//!
//! and what they share: [`wait`] (blocking without the GIL), [`bell`] (the file
//! descriptor that wakes an event loop), [`requests`] (requests and their results),
//! [`convert`] (results and errors), [`struck`] (what interrupts raise),
//! [`addresses`] (an address map that is a function), [`ending`] (the end of the interpreter).
//!
//! Signal handlers, collections of garbage, finalizers and profilers of the program call the client again in the
//! midst of its Python code, from the same thread. So no mutex here is held while a Python object is created, dropped,
//! compared or called, and what must be done as one step is one native call. Nor is anything made at its first use, as
//! a use in the midst of that would wait for itself: `prepare` makes it at the import.

#![warn(clippy::too_many_lines)]

mod addresses;
mod bell;
mod client;
mod convert;
mod ending;
mod ends;
mod holds;
mod lease;
mod requests;
mod scope_end;
mod struck;

use pyo3::prelude::*;

/// The module `steadlock._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::ends::{AtEnd, Uninterrupted, uninterrupted};
    #[pymodule_export]
    use crate::holds::Holds;
    #[pymodule_export]
    use crate::lease::Lease;
    #[pymodule_export]
    use crate::requests::{settle, submit};
    #[pymodule_export]
    use crate::scope_end::{AsyncScopeEnd, ScopeEnd};

    use std::time::Duration;

    use pyo3::prelude::*;
    use steadlock::host::Operation;

    /// A lock's name as messages show it.
    #[pyfunction]
    fn shown(name: &str) -> String {
        steadlock::host::shown(name).into_owned()
    }

    /// The error that a release raises if the lease was lost for this reason, and perhaps forgotten.
    #[pyfunction]
    fn lost_error(py: Python<'_>, name: &str, reason: &str, is_forgotten: bool) -> PyErr {
        crate::convert::error(
            py,
            &steadlock::host::lost_error(name, reason, is_forgotten, Operation::Release),
        )
    }

    /// The package hands over how the exception for an error is made.
    #[pyfunction]
    fn make_errors_by(py: Python<'_>, make: Py<PyAny>) {
        crate::convert::make_errors_by(py, make);
    }

    /// At the interpreter's end: from now on no thread but the calling one gets a lock. Waits until those that wait
    /// have left, `limit_ms` at the most.
    #[pyfunction]
    fn grant_no_more(py: Python<'_>, limit_ms: u64) {
        crate::ending::begin(py, Duration::from_millis(limit_ms));
    }

    /// In the child of a fork: the other threads of its parent are not there.
    #[pyfunction]
    fn has_forked() {
        crate::ending::after_fork();
    }

    /// At the interpreter's end: from now on no function of an address map is asked. Waits
    /// `limit_ms` at the most.
    #[pyfunction]
    fn ask_no_more(py: Python<'_>, limit_ms: u64) {
        crate::addresses::end(py, Duration::from_millis(limit_ms));
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::ending::prepare(module.py())?;
        crate::client::prepare(module.py())?;
        crate::scope_end::prepare(module.py())?;
        crate::holds::prepare(module.py());
        module.add("ERROR_KINDS", crate::convert::error_kinds())?;
        module.add("LOCK_KINDS", crate::convert::lock_kinds())?;
        module.add("ON_UNAVAILABLE", crate::convert::outage_policies())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
