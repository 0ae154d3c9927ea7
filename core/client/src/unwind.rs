//! Catches panics that would end the engine or a thread of the program: panics of tokio, and of the program's wakers,
//! observers, subscribers and other functions.
//!
//! A runtime of tokio whose descriptors were closed panics when it has to wake a task or set a timer. Such a panic must
//! not end a thread that delivers a result or begins a call.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use steadlock_protocol::{Cause, Error, ErrorKind, Operation};

/// Runs `work` and catches a panic. Returns true if there was none.
pub(crate) fn catch_panic(work: impl FnOnce()) -> bool {
    catch(work).is_some()
}

/// Runs `work` and catches a panic. Returns `None` after one.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(discard).ok()
}

/// Drops the payload of a panic. The drop itself can panic.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(second);
    }
}

/// Runs the request of a host, and turns a panic into an error. A host can handle errors only: Python's `except
/// Exception`, for example, does not catch a panic.
pub(crate) fn catch_as_error<T>(operation: Operation, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch(work).unwrap_or_else(|| Err(panicked_error(operation)))
}

/// Returns the error to report after a panic in the client's own code, which should never panic.
pub(crate) fn panicked_error(operation: Operation) -> Error {
    let cause = Cause::new("the client's engine failed").with_advice("make a new client, and please report this");
    Error::caused(ErrorKind::Unavailable, operation, cause)
}
