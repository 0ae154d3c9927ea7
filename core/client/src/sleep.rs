//! Timers whose failure does not end an engine.
//!
//! To set a timer that is due before all others, tokio wakes its runtime. If the program has closed the descriptor that
//! the wake-up needs, tokio panics, and the timer may never fire. The thread then remembers that a descriptor was
//! closed until its engine leaves the runtime (`engine/descriptor_monitor.rs`).

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::Instant;

use crate::unwind::catch_panic;

thread_local! {
    static DESCRIPTOR_CLOSED: Cell<bool> = const { Cell::new(false) };
}

/// Records that this thread found a descriptor of its runtime closed.
pub(crate) fn note_descriptor_closed() {
    DESCRIPTOR_CLOSED.set(true);
}

/// Returns whether this thread found a descriptor closed since the last call of this function.
pub(crate) fn take_descriptor_closed() -> bool {
    DESCRIPTOR_CLOSED.take()
}

/// A timer of tokio's clock that survives closed descriptors.
pub(crate) struct Sleep(Pin<Box<tokio::time::Sleep>>);

impl Sleep {
    pub(crate) fn until(at: Instant) -> Self {
        Self(Box::pin(tokio::time::sleep_until(at)))
    }

    pub(crate) fn reset(&mut self, at: Instant) {
        if !catch_panic(|| self.0.as_mut().reset(at)) {
            note_descriptor_closed();
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut polled = Poll::Pending;
        if !catch_panic(|| polled = self.0.as_mut().poll(context)) {
            note_descriptor_closed();
        }
        polled
    }
}

pub(crate) async fn sleep(length: Duration) {
    Sleep::until(Instant::now() + length).await;
}

/// Returns the result of `work`, or `None` if it takes longer than `length`.
pub(crate) async fn timeout<T>(length: Duration, work: impl Future<Output = T>) -> Option<T> {
    timeout_at(Instant::now() + length, work).await
}

/// Returns the result of `work`, or `None` if it is not ready by `at`, an instant of tokio's clock.
pub(crate) async fn timeout_at<T>(at: Instant, work: impl Future<Output = T>) -> Option<T> {
    match select(pin!(work), Sleep::until(at)).await {
        Either::Left((result, _)) => Some(result),
        Either::Right(_) => None,
    }
}
