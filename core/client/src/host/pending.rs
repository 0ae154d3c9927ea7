//! A result that comes later: awaited, or waited for by a parked thread.

use std::cell::RefCell;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use leasehold_protocol::{Error, ErrorKind, Operation};

use super::{Completion, Core};

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
    /// Puts the result in. Gives it back if the caller went away.
    pub(crate) fn complete(&self, result: Result<Completion, Error>) -> Result<(), Result<Completion, Error>> {
        let mut state = self.lock();
        match &*state {
            State::Empty | State::Waiting(_) => {}
            State::Done(_) | State::Taken | State::Abandoned => return Err(result),
        }
        let before = mem::replace(&mut *state, State::Done(result));
        drop(state);
        if let State::Waiting(waker) = before {
            waker.wake();
        }
        Ok(())
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Completion, Error>> {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Taken) {
            State::Done(result) => Poll::Ready(result),
            State::Waiting(known) if known.will_wake(waker) => {
                *state = State::Waiting(known);
                Poll::Pending
            }
            State::Empty | State::Waiting(_) => {
                *state = State::Waiting(waker.clone());
                Poll::Pending
            }
            State::Taken | State::Abandoned => Poll::Ready(Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Acquire,
                "the result was taken already; wait for it once",
            ))),
        }
    }

    /// The caller goes away; what has come already is given back.
    fn abandon(&self) -> Option<Result<Completion, Error>> {
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

/// An operation under way. Dropping it before the result was taken cancels it:
/// a lock granted meanwhile is released.
///
/// It is also a future, for any async runtime. In a forked child it fails with
/// `Forked`.
#[must_use = "dropping it cancels the operation"]
#[derive(Debug)]
pub struct Pending {
    /// `None` once the result was taken.
    inner: Option<Inner>,
}

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    request: u64,
    slot: Arc<Slot>,
}

impl Pending {
    pub(crate) fn new(core: Arc<Core>, request: u64, slot: Arc<Slot>) -> Self {
        Self {
            inner: Some(Inner { core, request, slot }),
        }
    }

    /// Parks the calling thread until the result is there, at most for `timeout`.
    /// `None` means not yet: call again, perhaps after looking for signals.
    pub fn wait(&mut self, timeout: Duration) -> Option<Result<Completion, Error>> {
        let Some(core) = self.inner.as_ref().map(|inner| Arc::clone(&inner.core)) else {
            return park_on(timeout, |waker| self.poll_result(waker));
        };
        if core.is_inherited() {
            return park_on(timeout, |waker| self.poll_result(waker));
        }
        let caller = core.driver.enter();
        caller
            .drive(timeout, |context| self.poll_result(context.waker()))
            .or_else(|| park_on(timeout, |waker| self.poll_result(waker)))
    }

    /// Cancels the operation, as dropping does.
    pub fn cancel(self) {}

    /// Lets the operation go on without anybody waiting for it.
    pub(crate) fn forget(mut self) {
        if let Some(inner) = self.inner.take() {
            inner.disown();
        }
    }

    fn poll_result(&mut self, waker: &Waker) -> Poll<Result<Completion, Error>> {
        let Some(inner) = &self.inner else {
            return Poll::Pending;
        };
        let result = if inner.core.is_inherited() {
            // Another thread of the parent may have held the slot's mutex.
            Poll::Ready(Err(inner.core.forked(Operation::Acquire)))
        } else {
            inner.slot.poll(waker)
        };
        if result.is_ready()
            && let Some(inner) = self.inner.take()
        {
            inner.disown();
        }
        result
    }
}

impl Future for Pending {
    type Output = Result<Completion, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.poll_result(context.waker());
        if let Some(inner) = self.inner.as_ref().filter(|inner| !inner.core.is_inherited()) {
            inner.core.driver.needs_engine();
        }
        result
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        if !inner.core.is_inherited() {
            match inner.slot.abandon() {
                Some(result) => inner.core.give_back(result),
                None => inner.core.cancel(inner.request),
            }
        }
        inner.disown();
    }
}

impl Inner {
    fn disown(self) {
        if self.core.is_inherited() {
            // The engine's state of another process is leaked, never dropped.
            mem::forget(self);
        }
    }
}

/// Polls, parking the calling thread in between, at most for `timeout`.
pub(crate) fn park_on<T>(timeout: Duration, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
    let waker = thread_waker();
    let mut deadline = None;
    loop {
        if let Poll::Ready(result) = poll(&waker) {
            return Some(result);
        }
        let now = Instant::now();
        // A timeout that no clock can reach is none.
        match *deadline.get_or_insert_with(|| now.checked_add(timeout)) {
            None => std::thread::park(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(now);
                if left.is_zero() {
                    return None;
                }
                std::thread::park_timeout(left);
            }
        }
    }
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker that unparks the calling thread; made once for each thread.
fn thread_waker() -> Waker {
    thread_local! {
        static WAKER: RefCell<Option<Waker>> = const { RefCell::new(None) };
    }
    let make = || Waker::from(Arc::new(ThreadWaker(std::thread::current())));
    WAKER
        .try_with(|cached| cached.borrow_mut().get_or_insert_with(make).clone())
        // The thread is ending and its locals are gone.
        .unwrap_or_else(|_| make())
}
