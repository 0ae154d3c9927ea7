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
//!
//! `WhoDrives` has the decision. It has no runtime and reads no clock.

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
use crate::clock;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};
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

/// The engine's thread drives again when no call came for this long.
const QUIET: Duration = Duration::from_millis(1);
/// A thread drives the engine after this many consecutive fast calls.
const RUN: u32 = 8;
/// The engine's thread drives again this long before a renewal is due.
const BEFORE_RENEWAL: Duration = Duration::from_millis(50);

/// The role of a caller until its result is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The caller waits, and the engine's thread drives.
    Waits,
    /// The caller drives.
    Drives,
    /// The caller drives, and must first make the engine's thread stand by.
    TakesOver,
}

#[derive(Debug, Default)]
pub(super) struct WhoDrives {
    /// Whether callers drive.
    by_callers: AtomicBool,
    /// The time until which callers may drive, by the engine's clock. The engine sets it in each turn.
    open_until: AtomicU64,
    /// The number of threads that wait for a result.
    callers: AtomicUsize,
    /// The number of consecutive fast calls of threads that were the only caller.
    run: AtomicU32,
    /// The time at which the last caller left, by the engine's clock.
    last_left: AtomicU64,
    /// The signal for the engine's thread to drive again.
    drive_again: Condvar,
    standing_by: Mutex<()>,
}

impl WhoDrives {
    /// Blocks the engine's thread until it must drive again.
    pub(super) fn stand_by(&self, now: impl Fn() -> Instant) {
        let mut guard = self.standing_by.lock().unwrap_or_else(PoisonError::into_inner);
        while self.by_callers.load(Ordering::SeqCst) {
            let is_busy = self.callers.load(Ordering::SeqCst) > 0 || self.left_ago(&now) < QUIET;
            if !is_busy || !self.may_be_driven(&now) {
                self.by_callers.store(false, Ordering::SeqCst);
                break;
            }
            guard = match self.drive_again.wait_timeout(guard, QUIET) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        self.run.store(0, Ordering::Relaxed);
    }

    /// Tells callers whether they may drive: while every lane is open, and until shortly before the next renewal. The
    /// engine calls this before it delivers the results of a turn.
    pub(super) fn allow_callers(
        &self,
        every_lane_is_open: bool,
        next_renewal: Option<Instant>,
        now: impl Fn() -> Instant,
    ) {
        let until = match next_renewal {
            _ if !every_lane_is_open => Instant::ZERO,
            Some(due) => due - BEFORE_RENEWAL,
            None => Instant::FAR_FUTURE,
        };
        self.open_until.store(until.as_micros(), Ordering::SeqCst);
        if !self.may_be_driven(&now) {
            self.needs_engine();
        }
    }

    /// Reports that the engine has work for which no waiting thread drives it.
    pub(super) fn needs_engine(&self) {
        if self.by_callers.swap(false, Ordering::SeqCst) {
            drop(self.standing_by.lock().unwrap_or_else(PoisonError::into_inner));
            self.drive_again.notify_one();
        }
    }

    /// Registers a thread that begins to wait for a result. Returns whether it is the only one. If it is not, it must
    /// call `needs_engine` and wait.
    pub(super) fn enter(&self) -> bool {
        let is_alone = self.callers.fetch_add(1, Ordering::SeqCst) == 0;
        if !is_alone {
            self.run.store(0, Ordering::Relaxed);
        }
        is_alone
    }

    /// Unregisters a thread that has its result or gave up.
    pub(super) fn leave(&self, now: Instant) {
        self.last_left.store(now.as_micros(), Ordering::Relaxed);
        self.callers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns the role of a thread that began to wait alone. The thread drives after a run of fast calls.
    pub(super) fn elect(&self, now: impl Fn() -> Instant) -> Role {
        if !self.may_be_driven(&now) {
            self.run.store(0, Ordering::Relaxed);
            self.needs_engine();
            return Role::Waits;
        }
        if self.by_callers.load(Ordering::SeqCst) {
            return Role::Drives;
        }
        if self.left_ago(&now) >= QUIET {
            self.run.store(0, Ordering::Relaxed);
            return Role::Waits;
        }
        if self.run.fetch_add(1, Ordering::Relaxed) < RUN {
            return Role::Waits;
        }
        // A thread that entered after this one does not drive. It may have called `needs_engine` before `by_callers` is
        // set here; that call then had no effect, and the thread would wait while no thread drives. Hence the check of
        // `callers` below. A swap instead of a store, because the operation must also read what that thread wrote.
        self.by_callers.swap(true, Ordering::SeqCst);
        if self.callers.load(Ordering::SeqCst) > 1 {
            self.needs_engine();
            return Role::Waits;
        }
        Role::TakesOver
    }

    /// Whether a caller may drive now.
    fn may_be_driven(&self, now: impl Fn() -> Instant) -> bool {
        match Instant::from_micros(self.open_until.load(Ordering::SeqCst)) {
            Instant::ZERO => false,
            Instant::FAR_FUTURE => true,
            until => now() < until,
        }
    }

    fn left_ago(&self, now: impl Fn() -> Instant) -> Duration {
        now().saturating_since(Instant::from_micros(self.last_left.load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    /// Calls fast and often enough to drive. Returns whether it drove.
    fn comes_to_drive(who: &WhoDrives) -> bool {
        // The operating system may pause a thread between two calls for longer than a fast run allows.
        (0..100).any(|_| {
            (0..=2 * RUN).any(|_| {
                assert!(who.enter());
                let role = who.elect(clock::now);
                who.leave(clock::now());
                role != Role::Waits
            })
        })
    }

    fn in_an_hour() -> Instant {
        clock::now() + Duration::from_secs(3_600)
    }

    fn allow_callers(who: &WhoDrives, every_lane_is_open: bool, next_renewal: Option<Instant>) {
        who.allow_callers(every_lane_is_open, next_renewal, clock::now);
    }

    #[test]
    fn a_caller_drives_while_every_lane_is_open_and_no_renewal_is_near() {
        for next_renewal in [None, Some(in_an_hour())] {
            let who = WhoDrives::default();
            allow_callers(&who, true, next_renewal);
            assert!(comes_to_drive(&who));
        }
    }

    #[test]
    fn no_caller_drives_before_the_engine_has_run() {
        assert!(!comes_to_drive(&WhoDrives::default()));
    }

    #[test]
    fn no_caller_drives_while_a_lane_is_not_open() {
        let who = WhoDrives::default();
        allow_callers(&who, false, None);
        assert!(!comes_to_drive(&who));
        allow_callers(&who, true, None);
        assert!(comes_to_drive(&who));
        allow_callers(&who, false, None);
        assert!(
            !who.by_callers.load(Ordering::SeqCst),
            "the engine's thread is called back"
        );
        assert!(!comes_to_drive(&who));
    }

    #[test]
    fn no_caller_drives_when_a_renewal_is_near() {
        let who = WhoDrives::default();
        allow_callers(&who, true, Some(clock::now() + BEFORE_RENEWAL));
        assert!(!comes_to_drive(&who));
    }

    #[test]
    fn a_caller_that_drives_stops_when_a_renewal_comes_near() {
        let who = WhoDrives::default();
        allow_callers(&who, true, Some(in_an_hour()));
        assert!(comes_to_drive(&who));
        // The engine had no turn in between, but the time of the renewal has come.
        who.open_until.store(clock::now().as_micros(), Ordering::SeqCst);
        assert_eq!(who.elect(clock::now), Role::Waits);
        assert!(
            !who.by_callers.load(Ordering::SeqCst),
            "the engine's thread is called back"
        );
    }
}
