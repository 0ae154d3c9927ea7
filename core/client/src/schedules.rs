//! Helpers for tests that play a history in every schedule, by loom: each order of the steps of its threads, and each
//! value that an atomic can still show them. The locks and atomics of `sync.rs` are loom's in these tests, and work
//! only inside such a history. The feature `schedules` therefore is for the tests named `schedules` alone (`./ci/just
//! test-schedules`).
//!
//! If no thread will wake a sleeping one, loom fails with "deadlock". Time stands still, so no timeout hides that.

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
