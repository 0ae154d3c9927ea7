//! Notices that the program closed descriptors that it did not open, as `os.closerange` does.
//!
//! tokio panics when it looks at descriptors that are gone, and then closes their numbers, which may be those of the
//! program's files by now. So each thread that drives a runtime looks here when it begins, and when it wakes up. Only
//! while an engine is busy or spins (`spin.rs`) may tokio be faster.
//!
//! Another thread that wakes the runtime looks here, too: there tokio would panic in the program's thread.

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

/// Looking costs a system call: a thread that makes quick calls does not look at each of them.
const EVERY: Duration = Duration::from_micros(100);

/// Whether a runtime still has its descriptors.
#[derive(Debug, Default)]
pub(super) struct Sentry {
    /// Descriptors that nobody needs, one opened just before the runtime's and one just after. Once either is gone, these
    /// are taken for gone, too. One that is closed alone shows when it is used. `None` if the runtime has no descriptors.
    before: Option<Watched>,
    after: OnceLock<Watched>,
    due: AtomicU64,
    is_broken: AtomicBool,
    broke: Notify,
}

impl Sentry {
    /// For a runtime that is built next.
    ///
    /// # Errors
    /// The system's, if it gives no descriptor.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            before: Some(Watched::open()?),
            ..Self::default()
        })
    }

    /// The runtime has been built.
    ///
    /// # Errors
    /// The system's, if it gives no descriptor.
    pub(super) fn built(&self) -> io::Result<()> {
        let after = Watched::open()?;
        self.after.get_or_init(|| after);
        Ok(())
    }

    /// Looks, unless somebody did just now. Returns true if the descriptors are there, as far as is known.
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

    /// Looks. Returns true if the descriptors are there.
    pub(super) fn look_now(&self) -> bool {
        let both = self.before.iter().chain(self.after.get());
        if !both.into_iter().all(Watched::is_there) {
            self.give_up();
        }
        !self.is_broken()
    }

    /// Looks in a thread of the runtime, which has just woken up.
    pub(super) fn woke(&self) {
        if !self.look() {
            self.broke.notify_waiters();
        }
    }

    /// Its engine has met a descriptor that is gone, in a thread of the runtime.
    pub(super) fn lost(&self) {
        self.give_up();
        self.broke.notify_waiters();
    }

    /// The runtime cannot be used any more. A thread that sleeps there finds out when it wakes up.
    pub(super) fn give_up(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
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

/// Wakes a task of a runtime that may have lost its descriptors.
struct Careful {
    task: Waker,
    sentry: Arc<Sentry>,
    runtime: runtime::Id,
}

/// The careful waker of the one task that is polled here.
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
        // There it needs no descriptor.
        let is_here = runtime::Handle::try_current().is_ok_and(|here| here.id() == self.runtime);
        let wake = || self.task.wake_by_ref();
        if (is_here || self.sentry.look_now()) && !quietly(wake) {
            self.sentry.give_up();
        }
    }
}

/// An end of a pipe that nobody needs.
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
