//! Drives the engine: on its own thread, or on that of a caller which would only wait for it.
//!
//! A call that blocks costs two wake-ups of a thread more than its round trip:
//! the engine's, and the caller's own. A thread that calls again and again, with
//! nobody else calling, saves both by driving the engine itself while it waits.
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
//! It is the same engine and the same runtime on another thread. Observers, wakers
//! and subscribers of the program run there, too: what they call may not wait for an
//! engine, which `is_driving` tells (`host/pending.rs`). And a caller comes and goes as it likes, and may be stopped
//! at any time; so what keeps locks, connecting and renewing, is left to the
//! engine's thread.
//!
//! In a simulator's virtual time nobody drives but the simulator: the engine never
//! allows it (`turn.rs`), so this reads the machine's clock only.

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

/// A call that takes longer is waited for without driving.
const LONGEST_DRIVE: Duration = Duration::from_millis(5);

/// The engine's runtime, and whose turn it is to drive it.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    /// `None` before the engine starts and after it ends.
    runtime: RwLock<Option<Arc<Watched>>>,
    who: WhoDrives,
    /// Tells the engine's thread to stand by.
    stand_by: Notify,
}

/// A runtime, and who notices that its descriptors are gone.
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

    /// Runs this future, and whatever else is of the runtime. `None` if that cannot be used any more.
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
        // tokio panics if it is faster than the sentry.
        caught(|| self.runtime.block_on(until_broken)).unwrap_or_else(|| {
            self.sentry.give_up();
            None
        })
    }
}

thread_local! {
    /// Whether the thread drives an engine. Of a type that is there until the thread's very end.
    static IS_DRIVING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread drives an engine: what blocks it keeps that engine from going on.
pub(crate) fn is_driving() -> bool {
    IS_DRIVING.get()
}

/// A thread drives an engine until this is dropped.
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
    /// Drives `engine` on this thread until it ends, except while callers do, or until the runtime cannot be used any
    /// more. Gives what `take_back` gives then: an engine that has not ended.
    pub(super) fn run<E>(
        &self,
        runtime: Watched,
        engine: impl Future<Output = ()> + Send + 'static,
        take_back: impl FnOnce() -> Option<E>,
    ) -> Option<E> {
        let runtime = Arc::new(runtime);
        // Inside of the runtime, which to wake from outside takes its descriptors.
        if let Some(mut engine) = runtime.block_on(async { Some(tokio::spawn(engine)) }).flatten() {
            self.set_runtime(Some(Arc::clone(&runtime)));
            while let Some(Either::Right(_)) = runtime.block_on(select(&mut engine, pin!(self.stand_by.notified()))) {
                self.who.stand_by(clock::now);
            }
            self.set_runtime(None);
        }
        let left = take_back();
        if runtime.sentry.is_broken() {
            // It would close numbers that may be those of the program's files by now.
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

    /// The engine says, before it hands out what a turn brought, whether callers may
    /// drive: while every lane is open, and until a renewal is near.
    pub(crate) fn allow_callers(&self, every_lane_is_open: bool, next_renewal: Option<Instant>) {
        self.who.allow_callers(every_lane_is_open, next_renewal, clock::now);
    }

    /// Something needs the engine that no waiting thread drives.
    pub(crate) fn needs_engine(&self) {
        self.who.needs_engine();
    }

    /// A thread begins to wait for a result. Call `drive`, and drop it when the
    /// result is there.
    pub(crate) fn enter(&self) -> Caller<'_> {
        Caller {
            is_alone: self.who.enter(),
            driver: self,
        }
    }

    /// Whether the calling thread, which waits alone, is to drive.
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

    /// Wakes the engine's thread. Where the runtime's descriptors were closed this would panic, and the engine's thread
    /// finds out by itself.
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
    /// Drives the engine until `poll` is ready, if that is this thread's to do;
    /// `None` if it is not, or took too long: then wait without driving.
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

/// Whether this thread may drive a runtime: not inside another one, nor when it ends and its locals are gone.
fn may_enter_a_runtime() -> bool {
    Handle::try_current().is_err_and(|error| error.is_missing_context())
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.driver.who.leave(clock::now());
    }
}
