//! Conversion of the core's results and errors to Python objects.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use steadlock::host::{
    ClientInfo, Completion, Error, ErrorKind, Field, Holder, Kind, LastRun, Leadership, Line, LostReason, Metric,
    OnUnavailable, OptionValue,
};

use crate::lease::Lease;

/// Returns the names of all kinds of error. A test compares the classes of the package with these names.
pub(crate) fn error_kinds() -> Vec<&'static str> {
    ErrorKind::ALL.iter().map(|kind| kind.name()).collect()
}

/// Returns the names of all kinds of lock. A test compares the kinds of the package with these names.
pub(crate) fn lock_kinds() -> Vec<&'static str> {
    Kind::NAMES.to_vec()
}

/// Returns the ways in which an acquisition can end in an outage. The package checks its arguments against them.
pub(crate) fn outage_policies() -> Vec<&'static str> {
    OnUnavailable::ALL.iter().map(|policy| policy.as_str()).collect()
}

/// Converts the value of an option. The package has checked its type.
pub(crate) fn option_value(value: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    // Must come before the numbers: in Python a bool is a number too.
    Ok(if value.is_instance_of::<PyBool>() {
        OptionValue::Flag(value.extract()?)
    } else if value.is_instance_of::<PyString>() {
        OptionValue::Text(value.extract()?)
    } else if value.is_instance_of::<PyList>() {
        OptionValue::Texts(value.extract()?)
    } else if value.is_instance_of::<PyTuple>() {
        let (low, high) = value.extract()?;
        OptionValue::Range(low, high)
    } else if value.is_instance_of::<PyDict>() {
        OptionValue::Table(value.extract()?)
    } else {
        OptionValue::Number(value.extract()?)
    })
}

/// Returns the exception to raise for `error`.
pub(crate) fn error(py: Python<'_>, error: &Error) -> PyErr {
    match exception(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    }
}

/// Converts the result of an operation. A refused acquisition is returned as an exception object and not raised,
/// because only the caller knows whether it means `None`, `False` or an error.
pub(crate) fn completion<'py>(py: Python<'py>, completion: &Completion) -> PyResult<Bound<'py, PyAny>> {
    Ok(match completion {
        Completion::Granted(lease) => Bound::new(py, Lease(Arc::clone(lease)))?.into_any(),
        Completion::NotGranted(error) => exception(py, error)?,
        Completion::Released(released) => {
            let lost = released.lost.map(LostReason::as_str);
            (released.lease, released.outcome.as_str(), lost)
                .into_pyobject(py)?
                .into_any()
        }
        Completion::State(state) => {
            let last_run = state.last_run.as_deref().map(last_run);
            let leadership = state.leadership.as_deref().map(leadership);
            (state.holder.as_ref().map(holder), state.permits, last_run, leadership)
                .into_pyobject(py)?
                .into_any()
        }
        Completion::Forced(was_held) => PyBool::new(py, *was_held).to_owned().into_any(),
        Completion::Held { .. } | Completion::Connected | Completion::Extended | Completion::Closed => {
            py.None().into_bound(py)
        }
    })
}

/// The information of a client, in the order of the package's `ClientInfo`.
type Info<'a> = (&'a str, u32, &'a str, &'a str, &'a str, u64, &'a str);

/// Converts a holder: the owner id, the rest of the lease in seconds, and the information of its client.
fn holder(holder: &Holder) -> (&str, Option<f64>, Option<Info<'_>>) {
    let left = holder.remaining.map(|left| left.as_secs_f64());
    (&holder.owner, left, holder.client.as_deref().map(client_info))
}

fn client_info(info: &ClientInfo) -> Info<'_> {
    (
        &info.host,
        info.pid,
        &info.program,
        &info.language,
        &info.version,
        info.since,
        &info.label,
    )
}

/// The last runs of a job, in the order of the package's `LastRun` and `EndedRun`. Times are in seconds.
type LastRunRow<'a> = (
    &'static str,
    Option<f64>,
    Option<Info<'a>>,
    Option<EndedRunRow<'a>>,
    Option<f64>,
);
type EndedRunRow<'a> = (f64, f64, &'static str, Option<Info<'a>>);

fn last_run(last: &LastRun) -> LastRunRow<'_> {
    let ended = last.ended.as_ref().map(|ended| {
        (
            seconds(ended.at),
            ended.took.as_secs_f64(),
            ended.outcome.as_str(),
            ended.client.as_deref().map(client_info),
        )
    });
    (
        last.state.as_str(),
        last.started.map(seconds),
        last.client.as_deref().map(client_info),
        ended,
        last.succeeded.map(seconds),
    )
}

/// The leader, as its term's number, its start in seconds and its holder; and the candidates, each as its owner id and
/// its client.
type LeadershipRow<'a> = (Option<TermRow<'a>>, Vec<(&'a str, Option<Info<'a>>)>);
type TermRow<'a> = (u64, f64, (&'a str, Option<f64>, Option<Info<'a>>));

fn leadership(leadership: &Leadership) -> LeadershipRow<'_> {
    let term = leadership.term.as_ref();
    let candidates = leadership.candidates.iter();
    (
        term.map(|term| (term.number, seconds(term.since), holder(&term.holder))),
        candidates
            .map(|candidate| (&*candidate.owner, candidate.client.as_deref().map(client_info)))
            .collect(),
    )
}

/// Returns a time in seconds that is given in milliseconds.
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1e3
}

/// Converts a line of the log: its level, its text, and its facts as named fields.
pub(crate) fn line<'py>(py: Python<'py>, line: &Line) -> PyResult<(&'static str, String, Bound<'py, PyDict>)> {
    let fields = PyDict::new(py);
    for (name, field) in line.fields() {
        match field {
            Field::Text(text) => fields.set_item(name, text)?,
            Field::Number(number) => fields.set_item(name, number)?,
        }
    }
    Ok((line.level().as_str(), line.to_string(), fields))
}

/// Converts metrics, in the order of the package's `Metric`. The number of a histogram is how many durations it
/// counted.
pub(crate) fn metrics<'py>(py: Python<'py>, metrics: &[Metric]) -> PyResult<Bound<'py, PyList>> {
    let tuple = |Metric { family, rows }: &Metric| {
        let numbers = PyDict::new(py);
        for row in rows {
            let labels = row.labels.iter().map(|(label, value)| (*label, &**value));
            numbers.set_item(PyTuple::new(py, labels)?, row.number)?;
        }
        (
            family.otel_name,
            family.otel_unit,
            family.kind,
            family.meaning,
            family.bounds(),
            numbers,
        )
            .into_pyobject(py)
    };
    PyList::new(py, metrics.iter().map(tuple).collect::<PyResult<Vec<_>>>()?)
}

/// The package's function that makes the exception for an error.
static MAKE_ERROR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Sets the function that makes exceptions. Only the first call counts.
pub(crate) fn make_errors_by(py: Python<'_>, make: Py<PyAny>) {
    let _ = MAKE_ERROR.set(py, make);
}

/// Returns the exception object for `error`.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let make = MAKE_ERROR
        .get(py)
        .ok_or_else(|| PyRuntimeError::new_err("import steadlock, not its native module"))?;
    make.bind(py).call1((
        error.kind().name(),
        error.to_string(),
        error.cause(),
        error.lock_name(),
        error.operation().to_string(),
        error.holder().map(holder),
        error.reason().map(LostReason::as_str),
        error.node(),
        error.is_retryable(),
        error.is_skipped(),
        error.skip().map(|skip| {
            (
                skip.reason.as_str(),
                skip.since.map(seconds),
                skip.took.map(|took| took.as_secs_f64()),
            )
        }),
    ))
}
