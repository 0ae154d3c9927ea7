//! The classes `ScopeEnd` and `AsyncScopeEnd`: the ends of a `with` and an `async with`, which no interrupt can
//! prevent.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::interrupt::LastInterrupt;
use crate::names;

/// The method `__exit__` of a lock, a semaphore or a hold.
///
/// An exception of a signal handler (Ctrl-C, a soft time limit) occurs at the start of a Python function, and after
/// each call in it. An `__exit__` in Python could end before its first line, and the lock would stay held. In native
/// code no such exception occurs. This `__exit__` asks the scope which lease ends, and repeats the question if an
/// interrupt ends it. Native code removes the lease from the scope. If an interrupt ends the release, this `__exit__`
/// has the lease released in the background. Finally, it raises the interrupt.
#[pyclass(frozen, weakref, module = "steadlock._native")]
pub(crate) struct ScopeEnd;

#[pymethods]
impl ScopeEnd {
    #[new]
    const fn new() -> Self {
        Self
    }

    /// Binds like a function: `scope.__exit__` is bound to the scope, `Scope.__exit__` is not.
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        scope: &Bound<'py, PyAny>,
        _class: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        bind(slf.as_any(), scope)
    }

    fn __call__(
        &self,
        scope: &Bound<'_, PyAny>,
        kind: &Bound<'_, PyAny>,
        raised: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        // The parameter exists because a caller can pass it by name.
        let _ = traceback;
        let py = scope.py();
        let mut interrupt = LastInterrupt::default();
        let lease = loop {
            let lease = interrupt.until_done(|| scope.call_method0(names::_innermost_scope(py)))?;
            if lease.is_none() || remove_entered(scope, &lease)? {
                break lease;
            }
        };
        let error = if lease.is_none() {
            interrupt.until_done(|| scope.call_method0(names::_not_entered(py)))?
        } else {
            if !kind.is_none() {
                interrupt.until_done(|| lease.call_method0(names::_body_raised(py)))?;
            }
            match lease.call_method0(names::_leave(py)) {
                Ok(error) => error,
                Err(raised) => {
                    interrupt.record(raised);
                    interrupt.until_done(|| lease.call_method0(names::_abandon(py)))?
                }
            }
        };
        if !kind.is_none() && !error.is_none() {
            add_note(raised, &error);
        }
        interrupt.raise()?;
        if !kind.is_none() || error.is_none() {
            return Ok(());
        }
        Err(with_handled_context(error)?)
    }

    #[getter(__name__)]
    const fn name(&self) -> &'static str {
        "__exit__"
    }

    #[getter(__qualname__)]
    const fn qualified_name(&self) -> &'static str {
        "ScopeEnd.__exit__"
    }
}

/// The method `__aexit__` of a lock, a semaphore or a hold of tasks.
///
/// In the client's loop the release begins with the call. If it began only at the `await`, an interrupt could come
/// before the release, and the task would go on, or end, with the lock held. Returns a coroutine that waits for the
/// release.
#[pyclass(frozen, weakref, module = "steadlock._native")]
pub(crate) struct AsyncScopeEnd;

#[pymethods]
impl AsyncScopeEnd {
    #[new]
    const fn new() -> Self {
        Self
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        scope: &Bound<'py, PyAny>,
        _class: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        bind(slf.as_any(), scope)
    }

    fn __call__<'py>(
        &self,
        scope: &Bound<'py, PyAny>,
        kind: &Bound<'py, PyAny>,
        raised: &Bound<'py, PyAny>,
        traceback: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // The parameter exists because a caller can pass it by name.
        let _ = traceback;
        let py = scope.py();
        let mut interrupt = LastInterrupt::default();
        let hold = interrupt.until_done(|| scope.call_method0(names::_innermost_scope(py)))?;
        let leaving = if hold.is_none() {
            scope.call_method1(names::_not_entered(py), (!kind.is_none(),))
        } else {
            interrupt.until_done(|| scope.call_method1(names::_take_out(py), (&hold,)))?;
            hold.call_method1(names::_begin_to_leave(py), (kind, raised))
        };
        match leaving {
            Ok(leaving) if interrupt.is_none() => return Ok(leaving),
            // No caller awaits the coroutine; the release goes on.
            Ok(leaving) => drop(leaving.call_method0(names::close(py))),
            Err(raised) => {
                interrupt.record(raised);
                if !hold.is_none() {
                    interrupt.until_done(|| hold.call_method0(names::_abandon(py)))?;
                }
            }
        }
        interrupt.raise().map(|()| py.None().into_bound(py))
    }

    #[getter(__name__)]
    const fn name(&self) -> &'static str {
        "__aexit__"
    }

    #[getter(__qualname__)]
    const fn qualified_name(&self) -> &'static str {
        "AsyncScopeEnd.__aexit__"
    }
}

/// The type of bound methods.
static METHOD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Runs at the import of this module, because an import at another time can run code of the program.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    let method = py.import("types")?.getattr("MethodType")?;
    let _ = METHOD.set(py, method.unbind());
    Ok(())
}

/// Returns the function bound to the scope; the function itself if it is read from the class.
fn bind<'py>(function: &Bound<'py, PyAny>, scope: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match METHOD.get(function.py()) {
        Some(method) if !scope.is_none() => method.bind(function.py()).call1((function, scope)),
        _ => Ok(function.clone()),
    }
}

/// Makes the error as `raise` does, with the handled exception as its context.
fn with_handled_context(error: Bound<'_, PyAny>) -> PyResult<PyErr> {
    let py = error.py();
    let handled = py.import(names::sys(py))?.call_method0(names::exception(py))?;
    let context = names::__context__(py);
    if !handled.is(&error) && error.getattr(context)?.is_none() {
        error.setattr(context, handled)?;
    }
    Ok(PyErr::from_value(error))
}

/// Adds a note about `error` to the exception of the body, because `error` is not raised: usually the lock was lost
/// meanwhile. Adds it once, even for several levels of one lock. Ignores exceptions that take no notes.
fn add_note(raised: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>) {
    let py = raised.py();
    let add = || -> PyResult<()> {
        let text = error.str()?;
        let notes = raised.getattr_opt(names::__notes__(py))?;
        if raised.is_none() || raised.is(error) || notes.is_some_and(|notes| notes.contains(&text).unwrap_or(false)) {
            return Ok(());
        }
        raised.call_method1(names::add_note(py), (text,)).map(drop)
    };
    drop(add());
}

/// Removes a lease from the entered ones. Returns false if another thread has removed it meanwhile.
fn remove_entered(scope: &Bound<'_, PyAny>, lease: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = scope.py();
    let entered = scope.getattr(names::_entered(py))?;
    match entered.call_method1(names::remove(py), (lease,)) {
        Ok(_) => Ok(true),
        Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(false),
        Err(error) => Err(error),
    }
}
