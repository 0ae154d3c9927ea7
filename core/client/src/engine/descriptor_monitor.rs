//! Notices that the program closed descriptors that it did not open, as `os.closerange` does.
//!
//! tokio panics when it uses a closed descriptor. When the runtime is dropped, it closes the descriptor's number again,
//! which may belong to a file of the program by then. Each thread that drives a runtime therefore checks here when it
//! begins and when it wakes up, at most once per `CHECK_INTERVAL`. tokio can meet a closed descriptor before the check
//! only while an engine is busy or spins (`spin.rs`).
//!
//! Another thread that wakes the runtime checks here, too: otherwise tokio would panic in that thread of the program.

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
use crate::unwind::catch_panic;

/// The interval between two checks. A check costs a system call, so a thread that makes fast calls does not check in
/// each of them.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// The state of a runtime's descriptors.
#[derive(Debug, Default)]
pub(super) struct DescriptorMonitor {
    /// This and `after` are two unused descriptors, opened just before and just after those of the runtime. If either
    /// is closed, the monitor assumes that the runtime's are closed, too. A single closed descriptor of the runtime is
    /// noticed when the runtime uses it. `None` if the runtime has no descriptors.
    before: Option<Canary>,
    after: OnceLock<Canary>,
    next_check: AtomicU64,
    is_broken: AtomicBool,
    became_broken: Notify,
}

impl DescriptorMonitor {
    /// Creates the monitor of a runtime that is built next.
    ///
    /// # Errors
    /// The system's error, if it gives no descriptor.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            before: Some(Canary::open()?),
            ..Self::default()
        })
    }

    /// Completes the monitor once the runtime is built.
    ///
    /// # Errors
    /// The system's error, if it gives no descriptor.
    pub(super) fn complete(&self) -> io::Result<()> {
        let after = Canary::open()?;
        self.after.get_or_init(|| after);
        Ok(())
    }

    /// Checks the descriptors, unless the last check was just now. Returns whether they are open as far as is known.
    pub(super) fn check(&self) -> bool {
        if self.before.is_none() {
            return !self.is_broken();
        }
        let now = clock::now();
        if now.as_micros() < self.next_check.load(Ordering::Relaxed) {
            return !self.is_broken();
        }
        self.next_check
            .store((now + CHECK_INTERVAL).as_micros(), Ordering::Relaxed);
        self.check_now()
    }

    /// Checks the descriptors. Returns whether they are open.
    pub(super) fn check_now(&self) -> bool {
        let mut canaries = self.before.iter().chain(self.after.get());
        if !canaries.all(Canary::is_still_ours) {
            self.give_up();
        }
        !self.is_broken()
    }

    /// Checks the descriptors when a thread of the runtime has just woken up.
    pub(super) fn on_wake(&self) {
        if !self.check() {
            self.became_broken.notify_waiters();
        }
    }

    /// Reports that a thread of the runtime met a closed descriptor.
    pub(super) fn report_lost(&self) {
        self.give_up();
        self.became_broken.notify_waiters();
    }

    /// Marks the runtime as unusable. A thread that sleeps in the runtime notices when it wakes up.
    pub(super) fn give_up(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }

    /// Completes when the runtime is unusable.
    pub(super) async fn wait_broken(&self) {
        let became_broken = self.became_broken.notified();
        if !self.is_broken() {
            became_broken.await;
        }
    }
}

/// A waker for a task of a runtime whose descriptors may be closed.
struct CheckingWaker {
    task: Waker,
    monitor: Arc<DescriptorMonitor>,
    runtime: runtime::Id,
}

/// The checking waker of one task, kept from one poll to the next.
#[derive(Default)]
pub(super) struct WakerCache(Option<CachedWaker>);

struct CachedWaker {
    /// The runtime's own waker of the task.
    task: Waker,
    checking: Waker,
}

impl WakerCache {
    /// Runs `poll` with a waker that never panics in a thread of the program.
    pub(super) fn with<T>(
        &mut self,
        monitor: &Arc<DescriptorMonitor>,
        context: &Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> T,
    ) -> T {
        let cached = match &mut self.0 {
            Some(cached) if cached.task.will_wake(context.waker()) => cached,
            other => other.insert(CachedWaker {
                task: context.waker().clone(),
                checking: CheckingWaker::waker(monitor, context.waker()),
            }),
        };
        poll(&mut Context::from_waker(&cached.checking))
    }
}

impl CheckingWaker {
    fn waker(monitor: &Arc<DescriptorMonitor>, task: &Waker) -> Waker {
        Waker::from(Arc::new(Self {
            task: task.clone(),
            monitor: Arc::clone(monitor),
            runtime: runtime::Handle::current().id(),
        }))
    }
}

impl Wake for CheckingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A wake-up from inside the runtime uses no descriptor.
        let is_inside_runtime = runtime::Handle::try_current().is_ok_and(|here| here.id() == self.runtime);
        let wake = || self.task.wake_by_ref();
        if (is_inside_runtime || self.monitor.check_now()) && !catch_panic(wake) {
            self.monitor.give_up();
        }
    }
}

/// One end of a pipe; nothing uses it.
#[cfg(unix)]
#[derive(Debug)]
struct Canary(OwnFile);

#[cfg(unix)]
impl Canary {
    fn open() -> io::Result<Self> {
        let (end, _) = io::pipe()?;
        OwnFile::new(end).map(Self)
    }

    fn is_still_ours(&self) -> bool {
        self.0.is_still_ours()
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
struct Canary;

#[cfg(not(unix))]
impl Canary {
    fn open() -> io::Result<Self> {
        Ok(Self)
    }

    const fn is_still_ours(&self) -> bool {
        true
    }
}
