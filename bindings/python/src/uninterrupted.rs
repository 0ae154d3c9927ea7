//! The classes `Uninterrupted` and `AtEnd`, and the function `uninterrupted`: calls that no interrupt can prevent.
//!
//! A signal handler or another thread can raise an exception in a Python function before its first line. If the end of
//! a thread or task were not reported because of that, its locks would stay held and renewed for ever.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::interpreter_end;
use crate::interrupt::LastInterrupt;

/// Calls a function, and repeats the call whenever an interrupt has ended it. Raises the last interrupt when the call
/// is done.
#[pyfunction]
#[pyo3(signature = (call, *arguments))]
pub(crate) fn uninterrupted(call: &Bound<'_, PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut interrupt = LastInterrupt::default();
    interrupt.until_done(|| call.call1(arguments))?;
    interrupt.raise()
}

/// A function that makes a call, and repeats it whenever an interrupt has ended it. Raises the last interrupt when the
/// call is done.
#[pyclass(frozen, module = "steadlock._native")]
pub(crate) struct Uninterrupted(Py<PyAny>);

#[pymethods]
impl Uninterrupted {
    #[new]
    const fn new(call: Py<PyAny>) -> Self {
        Self(call)
    }

    /// Calls the function without arguments; ignores its own arguments.
    #[pyo3(signature = (*_arguments))]
    fn __call__(&self, py: Python<'_>, _arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
        until_done(py, &self.0)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

/// An object that calls a function when it is dropped, except at the end of the interpreter.
///
/// The function is hidden from the garbage collector: otherwise a collection that drops this object would first clear
/// the objects that the function needs, and then call it. The collector cannot free a cycle through this object, so
/// nothing that the function needs may refer to this object.
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
            // The code that drops this object can be in the middle of raising an exception.
            let raising = PyErr::take(py);
            if !interpreter_end::is_finalizing(py).unwrap_or(true)
                && let Err(interrupt) = until_done(py, &self.0)
            {
                interrupt.write_unraisable(py, Some(self.0.bind(py)));
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
