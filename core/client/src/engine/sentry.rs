//! Notices that the program closed descriptors that it did not open, as `os.closerange` does.
//!
//! tokio panics when it looks at descriptors that are gone, and then closes their numbers, which may be those of the
//! program's files by now. So each thread that drives a runtime looks here when it begins, and when it wakes up. Only
//! while an engine spins (`spin.rs`) may tokio be faster.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock;

/// Looking costs a system call: a thread that makes quick calls does not look at each of them.
const EVERY: Duration = Duration::from_micros(100);

/// Whether a runtime still has its descriptors.
#[derive(Debug, Default)]
pub(super) struct Sentry {
    /// A descriptor that nobody needs, opened just before the runtime's. Once it is gone, these are taken for gone, too.
    /// `None` if the runtime has no descriptors, or if one cannot be told from another.
    watched: Option<Watched>,
    due: AtomicU64,
    is_broken: AtomicBool,
    broke: Notify,
}

impl Sentry {
    /// For a runtime that is built next.
    pub(super) fn new() -> Self {
        Self {
            watched: Watched::open(),
            ..Self::default()
        }
    }

    /// Looks. Returns true if the descriptors are there, as far as is known.
    pub(super) fn look(&self) -> bool {
        if let Some(watched) = &self.watched {
            let now = clock::now();
            if now.as_micros() >= self.due.load(Ordering::Relaxed) {
                self.due.store((now + EVERY).as_micros(), Ordering::Relaxed);
                if !watched.is_there() {
                    self.give_up();
                }
            }
        }
        !self.is_broken()
    }

    /// The runtime cannot be used any more.
    pub(super) fn give_up(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
        self.broke.notify_waiters();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }

    /// Completes when the runtime cannot be used any more.
    pub(super) async fn broken(&self) {
        let broke = self.broke.notified();
        if !self.is_broken() {
            broke.await;
        }
    }
}

#[cfg(unix)]
use self::unix::Watched;

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::mem;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt as _;

    /// An end of a pipe: no other file is this one.
    #[derive(Debug)]
    pub(super) struct Watched {
        /// `None` in its drop only.
        file: Option<File>,
        identity: (u64, u64),
    }

    impl Watched {
        pub(super) fn open() -> Option<Self> {
            let (end, _) = io::pipe().ok()?;
            let file = File::from(OwnedFd::from(end));
            Some(Self {
                identity: identity(&file)?,
                file: Some(file),
            })
        }

        pub(super) fn is_there(&self) -> bool {
            self.file.as_ref().and_then(identity) == Some(self.identity)
        }
    }

    fn identity(file: &File) -> Option<(u64, u64)> {
        let known = file.metadata().ok()?;
        Some((known.dev(), known.ino()))
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            if !self.is_there() {
                // Its number is the program's now.
                mem::forget(self.file.take());
            }
        }
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
struct Watched;

#[cfg(not(unix))]
impl Watched {
    const fn open() -> Option<Self> {
        None
    }

    const fn is_there(&self) -> bool {
        true
    }
}
