//! Requests and their results: steps of the package that nothing may come between.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Submits a request, once, and files it in `waiting` under its number. In Python a signal handler could raise between
/// the two, or take results meanwhile, and this one would find nobody that waits for it.
#[pyfunction]
pub(crate) fn submit(waiting: &Bound<'_, PyDict>, request: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = request.py();
    // All of them first: a name that is used for the first time lets other threads go on.
    let (submit_name, args_name, number_name) = (intern!(py, "submit"), intern!(py, "args"), intern!(py, "number"));
    let submit = request.getattr(submit_name)?;
    if submit.is_none() {
        return Ok(());
    }
    let args = request.getattr(args_name)?.cast_into::<PyTuple>()?;
    // First: what is called may have garbage collected, and a finalizer come back here.
    request.setattr(submit_name, py.None())?;
    let number = submit.call1(args)?;
    request.setattr(number_name, &number)?;
    waiting.set_item(number, request)
}

/// Takes results out of `completed` and their requests out of `waiting`, and appends both to `settled`: the request or
/// `None`, the result, the exception.
#[pyfunction]
pub(crate) fn settle(
    completed: &Bound<'_, PyList>,
    waiting: &Bound<'_, PyDict>,
    settled: &Bound<'_, PyList>,
) -> PyResult<()> {
    let py = completed.py();
    while let Some((number, value, error)) = first(completed)? {
        let request = waiting.get_item(&number)?;
        let pair = (request, value, error).into_pyobject(py)?;
        // The pair may have had garbage collected, and a finalizer taken this result. No more memory is needed from here.
        let is_there = !completed.is_empty() && completed.get_item(0)?.cast::<PyTuple>()?.get_item(0)?.is(&number);
        if is_there {
            settled.append(pair)?;
            completed.del_item(0)?;
            if waiting.contains(&number)? {
                waiting.del_item(number)?;
            }
        }
    }
    Ok(())
}

type Completed<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

fn first<'py>(completed: &Bound<'py, PyList>) -> PyResult<Option<Completed<'py>>> {
    if completed.is_empty() {
        return Ok(None);
    }
    completed.get_item(0)?.extract().map(Some)
}
