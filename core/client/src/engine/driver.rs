//! Decides which thread drives the engine: its own thread, or a caller that would only wait for it.
//!
//! A blocking call costs its round trip and two wake-ups of a thread: one of the engine's thread, one of the caller. A
//! thread that calls again and again while no other thread calls saves both. Such a thread drives the engine itself
//! while it waits.
//!
//! ```text
//!              a run of quick calls by one thread
//!   Engine ───────────────────────────────────────► Caller
//!     ▲    the engine's thread stands by              │
//!     └───────────────────────────────────────────────┘
//!       a second caller, an event loop's call, a call
//!       that takes long, or no call for a millisecond,
//!       a lane that is not open, a renewal that is near
//! ```
//!
//! The caller runs the same engine on the same runtime; only the thread differs. Observers, wakers and subscribers of
//! the program then run on the caller's thread, too. Code in them must not wait for an engine; `is_driving` detects
//! such a wait (`host/pending.rs`).
//!
//! A caller can leave or be stopped at any time. Connecting and renewing, on which the locks depend, are therefore left
//! to the engine's thread.
//!
//! In a simulator's virtual time only the simulator drives: the engine never allows callers to (`thread.rs`). This file
//! therefore reads only the machine's clock.

use std::cell::Cell;
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};
use steadlock_protocol::Instant;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

use super::sentry::Sentry;
use super::who_drives::{Role, WhoDrives};
use crate::clock;
use crate::unwind::{caught, quietly};

/// The longest time for which a caller drives. During a longer call the engine's thread drives again.
const LONGEST_DRIVE: Duration = Duration::from_millis(5);

/// The engine's runtime, and the decision which thread drives it.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    /// `None` before the engine starts and after it ends.
    runtime: RwLock<Option<Arc<Watched>>>,
    who: WhoDrives,
    /// The signal for the engine's thread to stand by.
    stand_by: Notify,
}

/// A runtime, and the sentry that notices when its descriptors are closed.
#[derive(Debug)]
pub(super) struct Watched {
    runtime: Runtime,
    sentry: Arc<Sentry>,
}

impl Watched {
    pub(super) const fn new(runtime: Runtime, sentry: Arc<Sentry>) -> Self {
        Self { runtime, sentry }
    }

    pub(super) const fn sentry(&self) -> &Arc<Sentry> {
        &self.sentry
    }

    /// Runs this future and the other tasks of the runtime. Returns `None` if the runtime is unusable.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        if !self.sentry.look() {
            return None;
        }
        let until_broken = async {
            match select(pin!(future), pin!(self.sentry.broken())).await {
                Either::Left((result, _)) => Some(result),
                Either::Right(_) => None,
            }
        };
        let _driving = Driving::begin();
        // tokio panics if it meets a closed descriptor before the sentry does.
        caught(|| self.runtime.block_on(until_broken)).unwrap_or_else(|| {
            self.sentry.give_up();
            None
        })
    }
}

thread_local! {
    /// Whether the thread drives an engine. A `Cell` needs no destructor, so it can be read until the very end of the
    /// thread.
    static IS_DRIVING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread drives an engine. Such a thread must not block: the engine would stop.
pub(crate) fn is_driving() -> bool {
    IS_DRIVING.get()
}

/// The mark of a thread that drives an engine, until this is dropped.
struct Driving {
    before: bool,
}

impl Driving {
    fn begin() -> Self {
        Self {
            before: IS_DRIVING.replace(true),
        }
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        IS_DRIVING.set(self.before);
    }
}

impl Driver {
    /// Drives `engine` on this thread until the engine ends or the runtime becomes unusable, except while callers
    /// drive. Returns the result of `take_back`: the engine, if it has not ended.
    pub(super) fn run<E>(
        &self,
        runtime: Watched,
        engine: impl Future<Output = ()> + Send + 'static,
        take_back: impl FnOnce() -> Option<E>,
    ) -> Option<E> {
        let runtime = Arc::new(runtime);
        // Spawns from inside the runtime: a spawn from outside wakes the runtime, and that uses its descriptors, which
        // the program may have closed.
        if let Some(mut engine) = runtime.block_on(async { Some(tokio::spawn(engine)) }).flatten() {
            self.set_runtime(Some(Arc::clone(&runtime)));
            while let Some(Either::Right(_)) = runtime.block_on(select(&mut engine, pin!(self.stand_by.notified()))) {
                self.who.stand_by(clock::now);
            }
            self.set_runtime(None);
        }
        let left = take_back();
        if runtime.sentry.is_broken() {
            // A drop would close descriptor numbers that may belong to files of the program by now.
            mem::forget(runtime);
        }
        left
    }

    fn set_runtime(&self, runtime: Option<Arc<Watched>>) {
        let before = {
            let mut guard = self.runtime.write().unwrap_or_else(PoisonError::into_inner);
            mem::replace(&mut *guard, runtime)
        };
        drop(before);
    }

    /// Tells callers whether they may drive: while every lane is open, and until shortly before the next renewal. The
    /// engine calls this before it delivers the results of a turn.
    pub(crate) fn allow_callers(&self, every_lane_is_open: bool, next_renewal: Option<Instant>) {
        self.who.allow_callers(every_lane_is_open, next_renewal, clock::now);
    }

    /// Reports that the engine has work for which no waiting thread drives it.
    pub(crate) fn needs_engine(&self) {
        self.who.needs_engine();
    }

    /// Registers a thread that begins to wait for a result. Call `drive` on the returned `Caller`, and drop it when the
    /// result is there.
    pub(crate) fn enter(&self) -> Caller<'_> {
        Caller {
            is_alone: self.who.enter(),
            driver: self,
        }
    }

    /// Returns whether the calling thread, the only one that waits, must drive.
    fn elect(&self) -> bool {
        match self.who.elect(clock::now) {
            Role::Waits => false,
            Role::Drives => true,
            Role::TakesOver => {
                self.have_it_stand_by();
                true
            }
        }
    }

    /// Makes the engine's thread stand by. If the runtime's descriptors are closed, a wake-up would panic; it is then
    /// left out, as the engine's thread finds out by itself.
    fn have_it_stand_by(&self) {
        let has_descriptors = self.runtime().is_some_and(|runtime| runtime.sentry.look_now());
        if has_descriptors {
            quietly(|| self.stand_by.notify_one());
        }
    }

    fn runtime(&self) -> Option<Arc<Watched>> {
        self.runtime.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A thread that waits for a result.
pub(crate) struct Caller<'a> {
    driver: &'a Driver,
    is_alone: bool,
}

impl Caller<'_> {
    /// Drives the engine until `poll` is ready, if this thread may drive. Returns `None` if it may not, or if the
    /// result took too long: the caller then waits without driving.
    pub(crate) fn drive<T>(&self, timeout: Duration, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        if !self.is_alone || !may_enter_a_runtime() {
            self.driver.needs_engine();
            return None;
        }
        if !self.driver.elect() {
            return None;
        }
        let runtime = self.driver.runtime()?;
        let driven = runtime.block_on(async {
            tokio::time::timeout(timeout.min(LONGEST_DRIVE), poll_fn(&mut poll))
                .await
                .ok()
        });
        if driven.is_none() {
            self.driver.have_it_stand_by();
        }
        let result = driven.flatten();
        if result.is_none() {
            self.driver.needs_engine();
        }
        result
    }
}

/// Whether this thread may drive a runtime. A thread inside another runtime may not, nor one that is ending and has
/// lost its thread locals.
fn may_enter_a_runtime() -> bool {
    Handle::try_current().is_err_and(|error| error.is_missing_context())
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.driver.who.leave(clock::now());
    }
}
