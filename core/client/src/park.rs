//! A thread that sleeps until a result arrives.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::sync::{thread, thread_local};

/// Polls until the result is ready, and parks the calling thread in between. Returns `None` after `timeout`.
pub(crate) fn park_on<T>(timeout: Duration, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
    let waker = thread_waker();
    let mut deadline = None;
    loop {
        if let Poll::Ready(result) = poll(&waker) {
            return Some(result);
        }
        let now = Instant::now();
        // A timeout beyond the range of the clock means no timeout.
        match *deadline.get_or_insert_with(|| now.checked_add(timeout)) {
            None => thread::park(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(now);
                if left.is_zero() {
                    return None;
                }
                thread::park_timeout(left);
            }
        }
    }
}

struct ThreadWaker(thread::Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns a waker that unparks the calling thread. Each thread makes the waker once.
fn thread_waker() -> Waker {
    thread_local! {
        static WAKER: RefCell<Option<Waker>> = const { RefCell::new(None) };
    }
    let make = || Waker::from(Arc::new(ThreadWaker(thread::current())));
    WAKER
        .try_with(|cached| cached.borrow_mut().get_or_insert_with(make).clone())
        // The thread is ending and its locals have been dropped.
        .unwrap_or_else(|_| make())
}
