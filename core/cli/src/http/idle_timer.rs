//! Limits how long a connection can be idle.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::{sleep, sleep_until};

/// The longest pause between two requests.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The time by which a connection must send a request, or `None` while a request is being answered.
pub(super) struct IdleTimer(Mutex<Option<Instant>>);

impl IdleTimer {
    pub(super) fn start(time: Duration) -> Self {
        Self(Mutex::new(Some(Instant::now() + time)))
    }

    fn set(&self, end: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn end(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the time has run out. The end never moves to an earlier time, so a check at the old end is early
    /// enough.
    pub(super) async fn expired(&self) {
        loop {
            match self.end() {
                Some(end) if end <= Instant::now() => return,
                Some(end) => sleep_until(end.into()).await,
                None => sleep(IDLE_TIME).await,
            }
        }
    }
}

/// A guard that exists while a request is being answered. The idle time starts when it is dropped.
pub(super) struct Busy(Arc<IdleTimer>);

impl Busy {
    pub(super) fn begin(idle_timer: &Arc<IdleTimer>) -> Self {
        idle_timer.set(None);
        Self(Arc::clone(idle_timer))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now() + IDLE_TIME));
    }
}
