//! Timers that end no engine.
//!
//! tokio wakes its runtime for a timer that is to ring before all others, and panics if the program has closed the
//! descriptor which that takes. The timer may never ring then, so the thread remembers it until its engine leaves
//! the runtime (`engine/sentry.rs`).

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::Instant;

use crate::unwind::quietly;

thread_local! {
    static IS_LOST: Cell<bool> = const { Cell::new(false) };
}

/// This thread has met a descriptor of its runtime that is gone.
pub(crate) fn note_lost() {
    IS_LOST.set(true);
}

/// Whether this thread has met one since it was last asked.
pub(crate) fn has_lost() -> bool {
    IS_LOST.take()
}

/// Completes at a moment of tokio's clock.
pub(crate) struct Sleep(Pin<Box<tokio::time::Sleep>>);

impl Sleep {
    pub(crate) fn until(at: Instant) -> Self {
        Self(Box::pin(tokio::time::sleep_until(at)))
    }

    pub(crate) fn reset(&mut self, at: Instant) {
        if !quietly(|| self.0.as_mut().reset(at)) {
            note_lost();
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut rings = Poll::Pending;
        if !quietly(|| rings = self.0.as_mut().poll(context)) {
            note_lost();
        }
        rings
    }
}

pub(crate) async fn sleep(length: Duration) {
    Sleep::until(Instant::now() + length).await;
}

/// Gives the result of the work; `None` if it takes longer.
pub(crate) async fn timeout<T>(length: Duration, work: impl Future<Output = T>) -> Option<T> {
    timeout_at(Instant::now() + length, work).await
}

/// The same until a moment of tokio's clock.
pub(crate) async fn timeout_at<T>(at: Instant, work: impl Future<Output = T>) -> Option<T> {
    match select(pin!(work), Sleep::until(at)).await {
        Either::Left((result, _)) => Some(result),
        Either::Right(_) => None,
    }
}
