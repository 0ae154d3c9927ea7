//! For tests that play a history in every schedule, by loom: in each order in which its threads can
//! take their steps, and with each value that an atomic may still show them. The locks and atomics of
//! `sync.rs` are loom's then, and work within such a history only; so the feature `schedules` is for
//! the tests named `schedules` alone (`./ci/just test-schedules`).
//!
//! A thread that nobody will wake is found: loom says "deadlock". Time stands still, so that a
//! timeout helps nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Plays `history` in every schedule, and prints how many there were until the end or a failure.
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
