//! For tests: a waker that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

/// How often it was told.
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
