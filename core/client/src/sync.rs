//! The locks, atomics and threads of code that several threads run: the standard library's, or those of the library
//! loom in tests that explore every schedule (`schedules.rs`).

#[cfg(not(all(test, feature = "schedules")))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
#[cfg(all(feature = "native", not(all(test, feature = "schedules"))))]
pub(crate) use std::{sync::Condvar, thread, thread_local};

#[cfg(all(test, feature = "schedules"))]
pub(crate) use self::explored::{Condvar, Mutex, MutexGuard, atomic, thread, thread_local};

#[cfg(all(test, feature = "schedules"))]
mod explored {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};

    /// Threads that park on a notification of their own, because loom's `unpark` also wakes a thread that waits for a
    /// mutex.
    pub(crate) mod thread {
        use std::sync::Arc;
        use std::time::Duration;

        use loom::sync::Notify;

        #[derive(Clone)]
        pub(crate) struct Thread(Arc<Notify>);

        loom::thread_local! {
            static CURRENT: Thread = Thread(Arc::new(Notify::new()));
        }

        pub(crate) fn current() -> Thread {
            CURRENT.with(Clone::clone)
        }

        pub(crate) fn park() {
            current().0.wait();
        }

        /// Parks without a timeout, because loom has no time: a test that only a timeout could continue is a deadlock.
        pub(crate) fn park_timeout(_: Duration) {
            park();
        }

        impl Thread {
            pub(crate) fn unpark(&self) {
                self.0.notify();
            }
        }
    }

    /// Declares a thread-local without a `const` block, which loom's macro does not accept.
    macro_rules! local {
        (static $name:ident: $type:ty = const { $init:expr };) => {
            loom::thread_local! { static $name: $type = $init; }
        };
    }
    pub(crate) use local as thread_local;
}
