//! Steps for requests and their results that nothing may interrupt.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::names;

/// Submits a request once, and stores it in `waiting` under its number. In Python code, a signal handler could run
/// between these two steps: it could raise, or take the result of the request and not find the request in `waiting`.
#[pyfunction]
pub(crate) fn submit(waiting: &Bound<'_, PyDict>, request: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = request.py();
    let submit = request.getattr(names::submit(py))?;
    if submit.is_none() {
        return Ok(());
    }
    let args = request.getattr(names::args(py))?.cast_into::<PyTuple>()?;
    // Must be cleared before the call: the call can start a garbage collection, and a finalizer can call this function
    // again.
    request.setattr(names::submit(py), py.None())?;
    let number = submit.call1(args)?;
    request.setattr(names::number(py), &number)?;
    waiting.set_item(number, request)
}

/// Moves results from `completed`, and their requests from `waiting`, to `settled`: the request or `None`, the result,
/// the exception.
#[pyfunction]
pub(crate) fn settle(
    completed: &Bound<'_, PyList>,
    waiting: &Bound<'_, PyDict>,
    settled: &Bound<'_, PyList>,
) -> PyResult<()> {
    let py = completed.py();
    while let Some((number, value, error)) = first_completed(completed)? {
        let request = waiting.get_item(&number)?;
        let row = (request, value, error).into_pyobject(py)?;
        // Making the tuple can have started a garbage collection, in which a finalizer took this result. From here on
        // no object is made, so no collection starts.
        let is_there = !completed.is_empty() && completed.get_item(0)?.cast::<PyTuple>()?.get_item(0)?.is(&number);
        if is_there {
            settled.append(row)?;
            completed.del_item(0)?;
            if waiting.contains(&number)? {
                waiting.del_item(number)?;
            }
        }
    }
    Ok(())
}

type Completed<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

fn first_completed<'py>(completed: &Bound<'py, PyList>) -> PyResult<Option<Completed<'py>>> {
    if completed.is_empty() {
        return Ok(None);
    }
    completed.get_item(0)?.extract().map(Some)
}
