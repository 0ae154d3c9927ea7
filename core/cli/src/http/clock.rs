//! How long a connection may keep silent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::{sleep, sleep_until};

/// Between two requests.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// When a connection must have asked something; not while it is answered.
pub(super) struct Clock(Mutex<Option<Instant>>);

impl Clock {
    pub(super) fn start(time: Duration) -> Self {
        Self(Mutex::new(Some(Instant::now() + time)))
    }

    fn set(&self, end: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn end(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until its time is over. Looks again after that time, which only grows.
    pub(super) async fn run_out(&self) {
        loop {
            match self.end() {
                Some(end) if end <= Instant::now() => return,
                Some(end) => sleep_until(end.into()).await,
                None => sleep(IDLE_TIME).await,
            }
        }
    }
}

/// A request that is being answered.
pub(super) struct Busy(Arc<Clock>);

impl Busy {
    pub(super) fn begin(clock: &Arc<Clock>) -> Self {
        clock.set(None);
        Self(Arc::clone(clock))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now() + IDLE_TIME));
    }
}
