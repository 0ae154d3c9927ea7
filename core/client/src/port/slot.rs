//! Where one result goes, for a caller of its own.

use std::mem;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use steadlock_protocol::{Error, ErrorKind, Operation};

use super::completion::Completion;
use crate::sync::{Mutex, MutexGuard};
use crate::unwind::quietly;

/// Where one result goes, once.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Nobody looked yet.
    #[default]
    Empty,
    /// Somebody is to be told.
    Waiting(Waker),
    Done(Result<Completion, Error>),
    Taken,
    /// The caller went away.
    Abandoned,
}

impl Slot {
    /// Puts the result in. Returns it as the error if the caller went away.
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

    /// The result, once; until it is there, `waker` is told of it.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<Completion, Error>> {
        // What a waker does when it is cloned or dropped is the program's affair: never under the lock.
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

    /// The caller goes away. Returns the result if it has come already.
    pub(crate) fn abandon(&self) -> Option<Result<Completion, Error>> {
        match mem::replace(&mut *self.lock(), State::Abandoned) {
            State::Done(result) => Some(result),
            State::Empty | State::Waiting(_) | State::Taken | State::Abandoned => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding it; if something did, the state is whole.
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
