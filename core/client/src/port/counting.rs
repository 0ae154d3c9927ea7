//! A waker for tests that counts its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

/// The number of wake-ups.
#[derive(Default)]
pub(crate) struct Counting(AtomicUsize);

impl Counting {
    pub(crate) fn told(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
