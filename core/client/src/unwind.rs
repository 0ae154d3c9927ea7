//! Panics of code that is not the engine's: what wakes a task, or a host, is the program's or its runtime's, and so are
//! observers and subscribers.
//!
//! A runtime panics when it is to wake a task, or to set a timer, and its descriptors were closed. A thread that has
//! a result to hand out, or a call to begin, must not end for it.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use steadlock_protocol::{Cause, Error, ErrorKind, Operation};

/// Does this, and goes on if it panics. Returns true if it did not.
pub(crate) fn quietly(work: impl FnOnce()) -> bool {
    caught(work).is_some()
}

/// Does this, and goes on if it panics: then there is no result.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(discard).ok()
}

/// Drops what was thrown, which may panic in its turn.
fn discard(thrown: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(thrown))) {
        mem::forget(second);
    }
}

/// Does what a host asked for. A panic is an error like any other to it: in Python it would pass `except Exception`.
pub(crate) fn or_error<T>(operation: Operation, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    caught(work).unwrap_or_else(|| Err(failed(operation)))
}

/// What is told where something panicked that never should.
pub(crate) fn failed(operation: Operation) -> Error {
    let cause = Cause::new("the client's engine failed").with_advice("make a new client, and please report this");
    Error::caused(ErrorKind::Unavailable, operation, cause)
}
