//! The destination of one result, for one caller.

use std::mem;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use steadlock_protocol::{Error, ErrorKind, Operation};

use super::Completion;
use crate::sync::{Mutex, MutexGuard};
use crate::unwind::quietly;

/// The destination of one result, which arrives once.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// The caller has not polled yet.
    #[default]
    Empty,
    /// The caller waits to be woken.
    Waiting(Waker),
    Done(Result<Completion, Error>),
    Taken,
    /// The caller has gone.
    Abandoned,
}

impl Slot {
    /// Stores the result and wakes the caller. Returns the result as the error if the caller has gone.
    pub(crate) fn complete(&self, result: Result<Completion, Error>) -> Result<(), Result<Completion, Error>> {
        let mut state = self.lock();
        match &*state {
            State::Empty | State::Waiting(_) => {}
            State::Done(_) | State::Taken | State::Abandoned => return Err(result),
        }
        let before = mem::replace(&mut *state, State::Done(result));
        drop(state);
        if let State::Waiting(waker) = before {
            quietly(|| waker.wake());
        }
        Ok(())
    }

    /// Returns the result, once. Until it arrives, registers `waker` for it.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<Completion, Error>> {
        // Cloning or dropping a waker can run code of the program, so neither happens while the mutex is locked.
        let mut new = None;
        loop {
            let mut state = self.lock();
            let before = match mem::replace(&mut *state, State::Taken) {
                State::Done(result) => return Poll::Ready(result),
                State::Waiting(known) if known.will_wake(waker) => {
                    *state = State::Waiting(known);
                    return Poll::Pending;
                }
                before @ (State::Empty | State::Waiting(_)) => before,
                State::Taken | State::Abandoned => return Poll::Ready(Err(taken())),
            };
            if let Some(new) = new {
                *state = State::Waiting(new);
                drop(state);
                drop(before);
                return Poll::Pending;
            }
            *state = before;
            drop(state);
            new = Some(waker.clone());
        }
    }

    /// Marks the caller as gone. Returns the result if it has arrived already.
    pub(crate) fn abandon(&self) -> Option<Result<Completion, Error>> {
        match mem::replace(&mut *self.lock(), State::Abandoned) {
            State::Done(result) => Some(result),
            State::Empty | State::Waiting(_) | State::Taken | State::Abandoned => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the mutex. Even if one did, the state would be consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn taken() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Operation::Acquire,
        "the result was taken already; wait for it once",
    )
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;
