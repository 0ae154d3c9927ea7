//! A result that arrives later. A task can await it, and a thread can park until it arrives.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
#[cfg(feature = "native")]
use std::time::Duration;

#[cfg(feature = "native")]
use steadlock_protocol::ErrorKind;
use steadlock_protocol::{Error, Operation};

use super::Core;
#[cfg(feature = "native")]
use crate::engine::is_driving;
#[cfg(feature = "native")]
use crate::park::park_on;
use crate::port::{Completion, Slot};

/// An operation in progress. Dropping it before its result was taken cancels it: a lock that is granted meanwhile is
/// released, but a release or an extension goes on.
///
/// `Pending` is also a future, for any async runtime. A parent's `Pending` fails with `Forked` in a forked child.
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
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "no caller blocks"))]
    operation: Operation,
    slot: Arc<Slot>,
}

impl Pending {
    pub(super) fn new(core: Arc<Core>, request: u64, operation: Operation, slot: Arc<Slot>) -> Self {
        Self {
            inner: Some(Inner {
                core,
                request,
                operation,
                slot,
            }),
        }
    }

    /// Parks the calling thread until the result arrives, at most for `timeout`. Returns `None` if it has not arrived
    /// yet: call again, perhaps after checking for signals.
    ///
    /// On a thread that drives an engine, as in an observer, waiting would prevent the engine from answering. This call
    /// then fails with `InvalidArgument` if the result has not arrived yet.
    #[cfg(feature = "native")]
    pub fn wait(&mut self, timeout: Duration) -> Option<Result<Completion, Error>> {
        let Some((core, operation)) = self
            .inner
            .as_ref()
            .map(|inner| (Arc::clone(&inner.core), inner.operation))
        else {
            return park_on(timeout, |waker| self.poll_result(waker));
        };
        if is_driving() {
            return match self.poll_result(Waker::noop()) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => Some(Err(would_stop_the_engine(operation))),
            };
        }
        if core.is_forked() {
            return park_on(timeout, |waker| self.poll_result(waker));
        }
        let caller = core.engine().enter();
        caller
            .drive(timeout, |context| self.poll_result(context.waker()))
            .or_else(|| park_on(timeout, |waker| self.poll_result(waker)))
    }

    /// Cancels the operation, as dropping does.
    pub fn cancel(self) {}

    /// Lets the operation go on without a caller.
    #[cfg(feature = "native")]
    pub(super) fn detach(mut self) {
        if let Some(inner) = self.inner.take() {
            inner.leak_if_forked();
        }
    }

    fn poll_result(&mut self, waker: &Waker) -> Poll<Result<Completion, Error>> {
        let Some(inner) = &self.inner else {
            return Poll::Pending;
        };
        let result = if inner.core.is_forked() {
            // Another thread of the parent may have held the slot's mutex at the fork.
            Poll::Ready(Err(inner.core.forked(Operation::Acquire)))
        } else {
            inner.slot.poll(waker)
        };
        if result.is_ready()
            && let Some(inner) = self.inner.take()
        {
            inner.leak_if_forked();
        }
        result
    }
}

impl Future for Pending {
    type Output = Result<Completion, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.poll_result(context.waker());
        if let Some(inner) = self.inner.as_ref().filter(|inner| !inner.core.is_forked()) {
            inner.core.engine().request_engine();
        }
        result
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        if !inner.core.is_forked() {
            match inner.slot.abandon() {
                Some(result) => inner.core.release_unclaimed(result),
                None => inner.core.cancel(inner.request),
            }
        }
        inner.leak_if_forked();
    }
}

impl Inner {
    /// Leaks itself in a forked child, because the engine's state belongs to the parent.
    fn leak_if_forked(self) {
        if self.core.is_forked() {
            mem::forget(self);
        }
    }
}

#[cfg(feature = "native")]
fn would_stop_the_engine(operation: Operation) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        operation,
        "this would block the thread that is to answer it, as it is called by an observer, a waker or a subscriber; \
         do it on another thread",
    )
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;
