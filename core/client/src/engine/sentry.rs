//! Notices that the program closed descriptors that it did not open, as `os.closerange` does.
//!
//! tokio panics when it uses closed descriptors. Afterwards it closes their numbers, which may belong to files of the
//! program by now. Each thread that drives a runtime therefore checks here when it begins and when it wakes up. tokio
//! can be faster only while an engine is busy or spins (`spin.rs`).
//!
//! Another thread that wakes the runtime checks here, too: tokio would panic in that thread of the program.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::Notify;

use crate::clock;
#[cfg(unix)]
use crate::own_file::OwnFile;
use crate::unwind::quietly;

/// The interval between two checks. A check costs a system call, so a thread that makes fast calls does not check in
/// each of them.
const EVERY: Duration = Duration::from_micros(100);

/// The state of a runtime's descriptors.
#[derive(Debug, Default)]
pub(super) struct Sentry {
    /// Two unused descriptors, opened just before and just after those of the runtime. If either is closed, the sentry
    /// assumes that the runtime's are closed, too. If the program closes a single descriptor of the runtime, that shows
    /// when the runtime uses it. `None` if the runtime has no descriptors.
    before: Option<Watched>,
    after: OnceLock<Watched>,
    due: AtomicU64,
    is_broken: AtomicBool,
    broke: Notify,
}

impl Sentry {
    /// Creates the sentry of a runtime that is built next.
    ///
    /// # Errors
    /// The system's error, if it gives no descriptor.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            before: Some(Watched::open()?),
            ..Self::default()
        })
    }

    /// Completes the sentry once the runtime is built.
    ///
    /// # Errors
    /// The system's error, if it gives no descriptor.
    pub(super) fn built(&self) -> io::Result<()> {
        let after = Watched::open()?;
        self.after.get_or_init(|| after);
        Ok(())
    }

    /// Checks the descriptors, unless the last check was just now. Returns whether they are open as far as is known.
    pub(super) fn look(&self) -> bool {
        if self.before.is_none() {
            return !self.is_broken();
        }
        let now = clock::now();
        if now.as_micros() < self.due.load(Ordering::Relaxed) {
            return !self.is_broken();
        }
        self.due.store((now + EVERY).as_micros(), Ordering::Relaxed);
        self.look_now()
    }

    /// Checks the descriptors. Returns whether they are open.
    pub(super) fn look_now(&self) -> bool {
        let both = self.before.iter().chain(self.after.get());
        if !both.into_iter().all(Watched::is_there) {
            self.give_up();
        }
        !self.is_broken()
    }

    /// Checks the descriptors in a thread of the runtime that has just woken up.
    pub(super) fn woke(&self) {
        if !self.look() {
            self.broke.notify_waiters();
        }
    }

    /// Reports that a thread of the runtime met a closed descriptor.
    pub(super) fn lost(&self) {
        self.give_up();
        self.broke.notify_waiters();
    }

    /// Marks the runtime as unusable. A thread that sleeps in the runtime notices when it wakes up.
    pub(super) fn give_up(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }

    /// Completes when the runtime is unusable.
    pub(super) async fn broken(&self) {
        let broke = self.broke.notified();
        if !self.is_broken() {
            broke.await;
        }
    }
}

/// A waker for a task of a runtime whose descriptors may be closed.
struct Careful {
    task: Waker,
    sentry: Arc<Sentry>,
    runtime: runtime::Id,
}

/// The careful waker of the only task that is polled here.
#[derive(Default)]
pub(super) struct Wakers(Option<(Waker, Waker)>);

impl Wakers {
    /// Runs `poll` with a waker that never panics in a thread of the program.
    pub(super) fn with<T>(
        &mut self,
        sentry: &Arc<Sentry>,
        context: &Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> T,
    ) -> T {
        let (_, careful) = match &mut self.0 {
            Some(both) if both.0.will_wake(context.waker()) => both,
            other => other.insert((context.waker().clone(), Careful::waker(sentry, context.waker()))),
        };
        poll(&mut Context::from_waker(careful))
    }
}

impl Careful {
    fn waker(sentry: &Arc<Sentry>, task: &Waker) -> Waker {
        Waker::from(Arc::new(Self {
            task: task.clone(),
            sentry: Arc::clone(sentry),
            runtime: runtime::Handle::current().id(),
        }))
    }
}

impl Wake for Careful {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A wake-up from inside the runtime uses no descriptor.
        let is_here = runtime::Handle::try_current().is_ok_and(|here| here.id() == self.runtime);
        let wake = || self.task.wake_by_ref();
        if (is_here || self.sentry.look_now()) && !quietly(wake) {
            self.sentry.give_up();
        }
    }
}

/// One end of a pipe; nothing uses it.
#[cfg(unix)]
#[derive(Debug)]
struct Watched(OwnFile);

#[cfg(unix)]
impl Watched {
    fn open() -> io::Result<Self> {
        let (end, _) = io::pipe()?;
        OwnFile::new(end).map(Self)
    }

    fn is_there(&self) -> bool {
        self.0.is_there()
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
struct Watched;

#[cfg(not(unix))]
impl Watched {
    fn open() -> io::Result<Self> {
        Ok(Self)
    }

    const fn is_there(&self) -> bool {
        true
    }
}
