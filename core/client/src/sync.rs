//! What several threads share is made of these: the standard library's, and loom's in tests that
//! look at every schedule (`schedules.rs`).

#[cfg(not(all(test, feature = "schedules")))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
#[cfg(all(feature = "native", not(all(test, feature = "schedules"))))]
pub(crate) use std::{sync::Condvar, thread, thread_local};

#[cfg(all(test, feature = "schedules"))]
pub(crate) use self::explored::{Condvar, Mutex, MutexGuard, atomic, thread, thread_local};

#[cfg(all(test, feature = "schedules"))]
mod explored {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};

    /// loom's own `unpark` lets a thread go on that waits for a mutex.
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

        /// No time passes: what only a timeout would end is a deadlock.
        pub(crate) fn park_timeout(_: Duration) {
            park();
        }

        impl Thread {
            pub(crate) fn unpark(&self) {
                self.0.notify();
            }
        }
    }

    /// loom's own knows no `const` block.
    macro_rules! local {
        (static $name:ident: $type:ty = const { $init:expr };) => {
            loom::thread_local! { static $name: $type = $init; }
        };
    }
    pub(crate) use local as thread_local;
}
