//! The classes `ScopeEnd` and `AsyncScopeEnd`: the ends of a `with` and an `async with`, which no interrupt skips.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::struck::Struck;

/// `__exit__` of a lock, a semaphore or a hold.
///
/// What a signal handler raises (Ctrl-C, a soft time limit) strikes where a Python function begins, and after
/// each call in it: an `__exit__` in Python may be struck before its first line, and the lock stays held. In
/// native code nothing strikes. So this one asks the scope which lease ends, again if that is struck; takes it out
/// itself; if its release is struck, has it done in the background; and at last raises what struck.
#[pyclass(frozen, weakref, module = "steadlock._native")]
pub(crate) struct ScopeEnd;

#[pymethods]
impl ScopeEnd {
    #[new]
    const fn new() -> Self {
        Self
    }

    /// As a function does: `scope.__exit__` is bound to the scope, `Scope.__exit__` is not.
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        scope: &Bound<'py, PyAny>,
        _class: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        bound(slf.as_any(), scope)
    }

    fn __call__(
        &self,
        scope: &Bound<'_, PyAny>,
        kind: &Bound<'_, PyAny>,
        raised: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        // Its caller may name it.
        let _ = traceback;
        let py = scope.py();
        let mut struck = Struck::default();
        let lease = loop {
            let lease = struck.until_done(|| scope.call_method0(intern!(py, "_innermost_scope")))?;
            if lease.is_none() || take_out(scope, &lease)? {
                break lease;
            }
        };
        let error = if lease.is_none() {
            struck.until_done(|| scope.call_method0(intern!(py, "_not_entered")))?
        } else {
            match lease.call_method0(intern!(py, "_leave")) {
                Ok(error) => error,
                Err(raised) => {
                    struck.note(raised);
                    struck.until_done(|| lease.call_method0(intern!(py, "_abandon")))?
                }
            }
        };
        if !kind.is_none() && !error.is_none() {
            note(raised, &error);
        }
        struck.raised()?;
        if !kind.is_none() || error.is_none() {
            return Ok(());
        }
        Err(raised_here(error)?)
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

/// `__aexit__` of a lock, a semaphore or a hold of tasks.
///
/// The release begins with the call. An `__aexit__` that first begins it when it is awaited may be struck before, and
/// its task goes on, or ends, with the lock held. It gives a coroutine, which awaits the release.
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
        bound(slf.as_any(), scope)
    }

    fn __call__<'py>(
        &self,
        scope: &Bound<'py, PyAny>,
        kind: &Bound<'py, PyAny>,
        raised: &Bound<'py, PyAny>,
        traceback: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Its caller may name it.
        let _ = traceback;
        let py = scope.py();
        let mut struck = Struck::default();
        let hold = struck.until_done(|| scope.call_method0(intern!(py, "_innermost_scope")))?;
        let leaving = if hold.is_none() {
            scope.call_method1(intern!(py, "_not_entered"), (!kind.is_none(),))
        } else {
            struck.until_done(|| scope.call_method1(intern!(py, "_take_out"), (&hold,)))?;
            hold.call_method1(intern!(py, "_begin_to_leave"), (kind, raised))
        };
        match leaving {
            Ok(leaving) if struck.is_none() => return Ok(leaving),
            // Nobody awaits it; the release goes on.
            Ok(leaving) => drop(leaving.call_method0(intern!(py, "close"))),
            Err(raised) => {
                struck.note(raised);
                if !hold.is_none() {
                    struck.until_done(|| hold.call_method0(intern!(py, "_abandon")))?;
                }
            }
        }
        struck.raised().map(|()| py.None().into_bound(py))
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

/// At the import of this module, as another import runs code of the program.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    let method = py.import("types")?.getattr("MethodType")?;
    let _ = METHOD.set(py, method.unbind());
    Ok(())
}

/// The function as a method of the scope; itself, if it is asked of the class.
fn bound<'py>(function: &Bound<'py, PyAny>, scope: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match METHOD.get(function.py()) {
        Some(method) if !scope.is_none() => method.bind(function.py()).call1((function, scope)),
        _ => Ok(function.clone()),
    }
}

/// An error as `raise` gives it, which adds what is being handled.
fn raised_here(error: Bound<'_, PyAny>) -> PyResult<PyErr> {
    let py = error.py();
    let handled = py.import(intern!(py, "sys"))?.call_method0(intern!(py, "exception"))?;
    let context = intern!(py, "__context__");
    if !handled.is(&error) && error.getattr(context)?.is_none() {
        error.setattr(context, handled)?;
    }
    Ok(PyErr::from_value(error))
}

/// Has what the body raised say what else went wrong, which is not raised: most of all that the lock was lost
/// meanwhile. Once, for several levels of one lock. An exception that takes no notes has none.
fn note(raised: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>) {
    let py = raised.py();
    let add = || -> PyResult<()> {
        let text = error.str()?;
        let notes = raised.getattr_opt(intern!(py, "__notes__"))?;
        if raised.is_none() || raised.is(error) || notes.is_some_and(|notes| notes.contains(&text).unwrap_or(false)) {
            return Ok(());
        }
        raised.call_method1(intern!(py, "add_note"), (text,)).map(drop)
    };
    drop(add());
}

/// Takes a lease out of those that were entered; says whether it was among them, as it is unless another thread
/// has left it meanwhile.
fn take_out(scope: &Bound<'_, PyAny>, lease: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = scope.py();
    let entered = scope.getattr(intern!(py, "_entered"))?;
    match entered.call_method1(intern!(py, "remove"), (lease,)) {
        Ok(_) => Ok(true),
        Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(false),
        Err(error) => Err(error),
    }
}
