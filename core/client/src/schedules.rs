//! Helpers for tests that play a history, the steps of a few threads, in every schedule. The library loom tries each
//! order of the steps, and each value that a thread may read from an atomic. The locks and atomics of `sync.rs` are
//! loom's in these tests, and work only inside such a history. With the feature `schedules`, run only the tests named
//! `schedules` (`./ci/just test-schedules`).
//!
//! If no thread will wake a sleeping one, loom fails with "deadlock". Time stands still, so no timeout hides a
//! deadlock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Plays `history` in every schedule, and prints the number of schedules at the end or after a failure.
pub(crate) fn in_every_schedule(history: impl Fn() + Send + Sync + 'static) {
    let count = Count::default();
    let played = Arc::clone(&count.0);
    loom::model(move || {
        played.fetch_add(1, Ordering::Relaxed);
        history();
    });
}

#[derive(Default)]
struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        println!("{} schedules", self.0.load(Ordering::Relaxed));
    }
}
