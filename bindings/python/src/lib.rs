//! The native part of the Python package `steadlock`.
//!
//! The binding converts types and does nothing else. Locks, defaults and checks are in `steadlock::host`; ownership,
//! `with` and asyncio are in the Python files of `packages/python`. `_native.pyi` there documents every class for its
//! callers.
//!
//! One file per class:
//! - [`client`]: `Client`, with the operations on locks twice: blocking, and submitted with the result in `drain()`
//! - [`lease`]: `Lease`, the result of a grant
//! - [`scope_end`]: `ScopeEnd` and `AsyncScopeEnd`, the ends of a `with` and an `async with`
//! - [`holds`]: `Holds`, the Python objects of the leases that a client holds
//! - [`uninterrupted`]: `Uninterrupted` and `AtEnd`, other calls that no interrupt can prevent
//!
//! The classes share these files: [`wake_descriptor`] (the file descriptor that wakes an event loop), [`requests`]
//! (requests and their results), [`convert`] (results and errors), [`names`] (names of attributes), [`interrupt`]
//! (exceptions of interrupts), [`addresses`] (an address map that is a function), [`interpreter_end`] (the end of the
//! interpreter).
//!
//! Signal handlers, garbage collections, finalizers and profilers of the program can call the client again in the
//! middle of its Python code, in the same thread. Therefore no mutex here is locked while a Python object is created,
//! dropped, compared or called, and changes that must be one step are one native call. Shared Python objects are made
//! at the import, by the functions `prepare`, and not at their first use: a second use in the middle of the first would
//! wait for itself, and a child that another thread forks at that moment would wait for ever.

#![warn(clippy::too_many_lines)]

mod addresses;
mod client;
mod convert;
mod holds;
mod interpreter_end;
mod interrupt;
mod lease;
mod names;
mod requests;
mod scope_end;
mod uninterrupted;
mod wake_descriptor;

use pyo3::prelude::*;

/// The module `steadlock._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::holds::Holds;
    #[pymodule_export]
    use crate::lease::Lease;
    #[pymodule_export]
    use crate::requests::{settle, submit};
    #[pymodule_export]
    use crate::scope_end::{AsyncScopeEnd, ScopeEnd};
    #[pymodule_export]
    use crate::uninterrupted::{AtEnd, Uninterrupted, uninterrupted};

    use std::time::Duration;

    use pyo3::prelude::*;
    use steadlock::host::Operation;

    /// Returns a lock's name as messages show it, without the userinfo of a URL.
    #[pyfunction]
    fn shown(name: &str) -> String {
        steadlock::host::shown(name).into_owned()
    }

    /// Returns the error that a release raises for a lease that was lost for this reason. `is_forgotten` means that the
    /// lease needs no release.
    #[pyfunction]
    fn lost_error(py: Python<'_>, name: &str, reason: &str, is_forgotten: bool) -> PyErr {
        crate::convert::error(
            py,
            &steadlock::host::lost_error(name, reason, is_forgotten, Operation::Release),
        )
    }

    /// Sets the function of the package that makes the exception for an error.
    #[pyfunction]
    fn make_errors_by(py: Python<'_>, make: Py<PyAny>) {
        crate::convert::make_errors_by(py, make);
    }

    /// Returns how many seconds a candidate waits before it campaigns again, after this many terms that it lost or could
    /// not have, one after another.
    #[pyfunction]
    fn campaign_pause(failures: u32) -> f64 {
        steadlock::host::campaign_pause(failures).as_secs_f64()
    }

    /// Called at the end of the interpreter. From now on no thread but the calling one gets a lock. Waits until the
    /// waiting threads have ended by `SystemExit`, at most `limit_ms`.
    #[pyfunction]
    fn grant_no_more(py: Python<'_>, limit_ms: u64) {
        crate::interpreter_end::begin(py, Duration::from_millis(limit_ms));
    }

    /// Called in the child of a fork, where the parent's other threads do not exist.
    #[pyfunction]
    fn has_forked() {
        crate::interpreter_end::after_fork();
        crate::addresses::after_fork();
    }

    /// Called at the end of the interpreter. From now on no function of an address map is called. Waits until no thread
    /// is about to start such a call, at most `limit_ms`.
    #[pyfunction]
    fn ask_no_more(py: Python<'_>, limit_ms: u64) {
        crate::addresses::end(py, Duration::from_millis(limit_ms));
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter_end::prepare(module.py())?;
        crate::client::prepare(module.py())?;
        crate::scope_end::prepare(module.py())?;
        crate::holds::prepare(module.py());
        crate::names::prepare(module.py());
        module.add("ERROR_KINDS", crate::convert::error_kinds())?;
        module.add("LOCK_KINDS", crate::convert::lock_kinds())?;
        module.add("ON_UNAVAILABLE", crate::convert::outage_policies())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
