//! The classes `Uninterrupted` and `AtEnd`, and `uninterrupted`: calls that no interrupt skips.
//!
//! An exception of a signal handler or of another thread may strike before the first line of a Python function. An end
//! that nobody is told of would leave the locks of a thread or task held and renewed for ever.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::ending;
use crate::struck::Struck;

/// Calls a function again while interrupts strike, and raises the last one when it is done.
#[pyfunction]
#[pyo3(signature = (call, *given))]
pub(crate) fn uninterrupted(call: &Bound<'_, PyAny>, given: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut struck = Struck::default();
    struck.until_done(|| call.call1(given))?;
    struck.raised()
}

/// A function that is called again while interrupts strike, and raises the last one when it is done.
#[pyclass(frozen, module = "steadlock._native")]
pub(crate) struct Uninterrupted(Py<PyAny>);

#[pymethods]
impl Uninterrupted {
    #[new]
    const fn new(call: Py<PyAny>) -> Self {
        Self(call)
    }

    /// Whatever its caller gives, the function is called with nothing.
    #[pyo3(signature = (*_given))]
    fn __call__(&self, py: Python<'_>, _given: &Bound<'_, PyTuple>) -> PyResult<()> {
        until_done(py, &self.0)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

/// Calls a function when it is dropped itself, unless that is at the end of the interpreter.
///
/// Collections of garbage do not see the function: dropped in one of them, it would be called with what was taken apart
/// already. So nothing that it needs may refer to this.
#[pyclass(frozen, module = "steadlock._native")]
pub(crate) struct AtEnd(Py<PyAny>);

#[pymethods]
impl AtEnd {
    #[new]
    const fn new(call: Py<PyAny>) -> Self {
        Self(call)
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        Python::try_attach(|py| {
            // The code that drops it may be raising something.
            let raising = PyErr::take(py);
            if !ending::is_finalizing(py).unwrap_or(true)
                && let Err(struck) = until_done(py, &self.0)
            {
                struck.write_unraisable(py, Some(self.0.bind(py)));
            }
            if let Some(raising) = raising {
                raising.restore(py);
            }
        });
    }
}

fn until_done(py: Python<'_>, call: &Py<PyAny>) -> PyResult<()> {
    uninterrupted(call.bind(py), &PyTuple::empty(py))
}
