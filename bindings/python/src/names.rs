//! Names of Python attributes and methods, as Python strings that are made at the import.
//!
//! Making such a string at its first use would let other threads run in the middle of it. If one of them forked then,
//! the child would wait for the string for ever.

use pyo3::prelude::*;
use pyo3::types::PyString;

macro_rules! names {
    ($($name:ident)*) => {
        $(
            pub(crate) fn $name(py: Python<'_>) -> &Bound<'_, PyString> {
                pyo3::intern!(py, stringify!($name))
            }
        )*

        /// Makes all names.
        pub(crate) fn prepare(py: Python<'_>) {
            $($name(py);)*
        }
    };
}

names! {
    __context__
    __notes__
    _abandon
    _begin_to_leave
    _body_raised
    _entered
    _innermost_scope
    _leave
    _not_entered
    _owner
    _take_out
    add_note
    args
    close
    exception
    fencing
    kind
    lease
    lock
    max_hold
    number
    on_unavailable
    remove
    renew
    run
    submit
    sys
    wait
}
