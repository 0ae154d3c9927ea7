//! Decides which thread drives the engine: its own thread, or a caller that would otherwise only wait.
//!
//! To drive the engine is to run its runtime, which runs the engine's task. A blocking call costs its round trip and
//! two wake-ups of a thread: one of the engine's thread, one of the caller. A thread that calls again and again while
//! no other thread calls saves both wake-ups: it drives the engine itself while it waits.
//!
//! ```text
//!              quick calls, one after the other
//!   Engine ───────────────────────────────────────► Caller
//!     ▲    the engine's thread stands by              │
//!     └───────────────────────────────────────────────┘
//!       two callers at once, a call by a task or an event loop,
//!       a thread inside another runtime, a call that takes long,
//!       no call for a millisecond, a lane that is not open,
//!       a renewal that is near, or an unusable runtime
//! ```
//!
//! A lane is a connection to a server for calls.
//!
//! The caller runs the same engine on the same runtime; only the thread differs. Observers, wakers and subscribers of
//! the program then run on the caller's thread, too. Code in them must not wait for an engine; `is_driving` detects
//! such a wait (`host/pending.rs`).
//!
//! A caller can leave or be stopped at any time. Connecting and renewing, on which the locks depend, are therefore left
//! to the engine's thread.
//!
//! In a simulator's virtual time only the simulator drives: the engine never allows callers to drive (`thread.rs`).
//! This file therefore reads only the machine's clock.
//!
//! `DrivingState` makes the decision. It has no runtime and reads no clock, so that loom can test it
//! (`driver/schedules.rs`).

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

use super::descriptor_monitor::DescriptorMonitor;
use super::turn::Readiness;
use crate::clock;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::unwind::{catch, catch_panic};

/// The longest time for which a caller drives in one call. If the call takes longer, the engine's thread drives again.
const LONGEST_DRIVE: Duration = Duration::from_millis(5);

/// The engine's runtime, and the decision which thread drives it.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    /// `None` before the engine starts, after it ends, and while a broken runtime is replaced.
    runtime: RwLock<Option<Arc<GuardedRuntime>>>,
    state: DrivingState,
    /// The signal for the engine's thread to stand by: to wait without driving.
    stand_by: Notify,
}

/// A runtime, and the monitor that notices when its descriptors are closed.
#[derive(Debug)]
pub(super) struct GuardedRuntime {
    runtime: Runtime,
    monitor: Arc<DescriptorMonitor>,
}

impl GuardedRuntime {
    pub(super) const fn new(runtime: Runtime, monitor: Arc<DescriptorMonitor>) -> Self {
        Self { runtime, monitor }
    }

    pub(super) const fn monitor(&self) -> &Arc<DescriptorMonitor> {
        &self.monitor
    }

    /// Runs the tasks of the runtime until this future is complete. Returns `None` if the runtime is unusable.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        if !self.monitor.check() {
            return None;
        }
        let until_broken = async {
            match select(pin!(future), pin!(self.monitor.wait_broken())).await {
                Either::Left((result, _)) => Some(result),
                Either::Right(_) => None,
            }
        };
        let _driving = Driving::begin();
        // tokio panics if it meets a closed descriptor before the monitor does.
        catch(|| self.runtime.block_on(until_broken)).unwrap_or_else(|| {
            self.monitor.give_up();
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

/// Marks the thread as one that drives an engine, from `begin` to the drop.
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
        runtime: GuardedRuntime,
        engine: impl Future<Output = ()> + Send + 'static,
        take_back: impl FnOnce() -> Option<E>,
    ) -> Option<E> {
        let runtime = Arc::new(runtime);
        // Spawns from inside the runtime: a spawn from outside would wake the runtime through its descriptors, which
        // the program may have closed.
        if let Some(mut engine) = runtime.block_on(async { Some(tokio::spawn(engine)) }).flatten() {
            self.set_runtime(Some(Arc::clone(&runtime)));
            while let Some(Either::Right(_)) = runtime.block_on(select(&mut engine, pin!(self.stand_by.notified()))) {
                self.state.stand_by(clock::now);
            }
            self.set_runtime(None);
        }
        let remaining = take_back();
        if runtime.monitor.is_broken() {
            // A drop would close descriptor numbers that may belong to files of the program by now.
            mem::forget(runtime);
        }
        remaining
    }

    fn set_runtime(&self, runtime: Option<Arc<GuardedRuntime>>) {
        let before = {
            let mut guard = self.runtime.write().unwrap_or_else(PoisonError::into_inner);
            mem::replace(&mut *guard, runtime)
        };
        drop(before);
    }

    /// Lets callers drive while every lane is open, until shortly before the next renewal. The engine calls this before
    /// it delivers the results of a turn.
    pub(super) fn allow_callers(&self, readiness: Readiness) {
        self.state.allow_callers(readiness, clock::now);
    }

    /// Makes the engine's thread drive again, unless it drives already. Needed for work whose caller does not drive the
    /// engine.
    pub(crate) fn request_engine(&self) {
        self.state.request_engine();
    }

    /// Registers a thread that begins to wait for a result. Call `drive` on the returned `Caller`, and drop the
    /// `Caller` when the thread has the result or gives up.
    pub(crate) fn enter(&self) -> Caller<'_> {
        Caller {
            is_alone: self.state.enter(),
            driver: self,
        }
    }

    /// Returns whether the calling thread, the only one that waits, must drive.
    fn must_drive(&self) -> bool {
        match self.state.choose_role(clock::now) {
            CallerRole::Waits => false,
            CallerRole::Drives => true,
            CallerRole::TakesOver => {
                self.signal_stand_by();
                true
            }
        }
    }

    /// Makes the engine's thread stand by. If the runtime's descriptors are closed, no signal is sent, because the
    /// wake-up would panic. The engine's thread notices the closed descriptors by itself.
    fn signal_stand_by(&self) {
        let has_descriptors = self.runtime().is_some_and(|runtime| runtime.monitor.check_now());
        if has_descriptors {
            catch_panic(|| self.stand_by.notify_one());
        }
    }

    fn runtime(&self) -> Option<Arc<GuardedRuntime>> {
        self.runtime.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A thread that waits for a result.
pub(crate) struct Caller<'a> {
    driver: &'a Driver,
    is_alone: bool,
}

impl Caller<'_> {
    /// Drives the engine until `poll` is ready, if this thread may drive. Returns `None` if the thread may not drive,
    /// if the result took too long, or if there is no usable runtime: the caller then waits without driving.
    pub(crate) fn drive<T>(&self, timeout: Duration, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        if !self.is_alone || !may_enter_a_runtime() {
            self.driver.request_engine();
            return None;
        }
        if !self.driver.must_drive() {
            return None;
        }
        let runtime = self.driver.runtime()?;
        let driven = runtime.block_on(async {
            tokio::time::timeout(timeout.min(LONGEST_DRIVE), poll_fn(&mut poll))
                .await
                .ok()
        });
        if driven.is_none() {
            self.driver.signal_stand_by();
        }
        let result = driven.flatten();
        if result.is_none() {
            self.driver.request_engine();
        }
        result
    }
}

/// Whether this thread may drive a runtime. It may not if it is inside another runtime, or if it is ending and has lost
/// its thread locals.
fn may_enter_a_runtime() -> bool {
    Handle::try_current().is_err_and(|error| error.is_missing_context())
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.driver.state.leave(clock::now());
    }
}

/// The engine's thread drives again when no call came for this long.
const IDLE_LIMIT: Duration = Duration::from_millis(1);
/// A caller drives the engine after this many consecutive calls that do not overlap. Each of them began within
/// `IDLE_LIMIT` after the end of the call before.
const FAST_CALLS: u32 = 8;
/// The engine's thread drives again this long before a renewal is due.
const BEFORE_RENEWAL: Duration = Duration::from_millis(50);

/// The role of a caller until its result is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerRole {
    /// The caller waits, and the engine's thread drives.
    Waits,
    /// The caller drives.
    Drives,
    /// The caller drives, and must first make the engine's thread stand by.
    TakesOver,
}

#[derive(Debug, Default)]
pub(super) struct DrivingState {
    /// Whether callers drive.
    by_callers: AtomicBool,
    /// The time until which callers may drive, by the engine's clock. The engine sets it in each turn.
    callers_may_drive_until: AtomicU64,
    /// The number of threads that wait for a result.
    callers: AtomicUsize,
    /// The number of consecutive calls, as `FAST_CALLS` counts them.
    fast_calls: AtomicU32,
    /// The time at which the last caller left, by the engine's clock.
    last_call_end: AtomicU64,
    /// The signal for the engine's thread to drive again.
    drive_again: Condvar,
    standing_by: Mutex<()>,
}

impl DrivingState {
    /// Blocks the engine's thread until it must drive again.
    pub(super) fn stand_by(&self, now: impl Fn() -> Instant) {
        let mut guard = self.standing_by.lock().unwrap_or_else(PoisonError::into_inner);
        while self.by_callers.load(Ordering::SeqCst) {
            let is_busy = self.callers.load(Ordering::SeqCst) > 0 || self.time_since_last_call(&now) < IDLE_LIMIT;
            if !is_busy || !self.may_be_driven(&now) {
                self.by_callers.store(false, Ordering::SeqCst);
                break;
            }
            guard = match self.drive_again.wait_timeout(guard, IDLE_LIMIT) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        self.fast_calls.store(0, Ordering::Relaxed);
    }

    /// Lets callers drive while every lane is open, until shortly before the next renewal. The engine calls this before
    /// it delivers the results of a turn.
    pub(super) fn allow_callers(&self, readiness: Readiness, now: impl Fn() -> Instant) {
        let until = match readiness.next_renewal {
            _ if !readiness.every_lane_is_open => Instant::ZERO,
            Some(due) => due - BEFORE_RENEWAL,
            None => Instant::FAR_FUTURE,
        };
        self.callers_may_drive_until.store(until.as_micros(), Ordering::SeqCst);
        if !self.may_be_driven(&now) {
            self.request_engine();
        }
    }

    /// Makes the engine's thread drive again, unless it drives already. Needed for work whose caller does not drive the
    /// engine.
    pub(super) fn request_engine(&self) {
        if self.by_callers.swap(false, Ordering::SeqCst) {
            drop(self.standing_by.lock().unwrap_or_else(PoisonError::into_inner));
            self.drive_again.notify_one();
        }
    }

    /// Registers a thread that begins to wait for a result. Returns whether it is the only one. If it is not, it must
    /// call `request_engine` and wait.
    pub(super) fn enter(&self) -> bool {
        let is_alone = self.callers.fetch_add(1, Ordering::SeqCst) == 0;
        if !is_alone {
            self.fast_calls.store(0, Ordering::Relaxed);
        }
        is_alone
    }

    /// Unregisters a thread that has its result or gave up.
    pub(super) fn leave(&self, now: Instant) {
        self.last_call_end.store(now.as_micros(), Ordering::Relaxed);
        self.callers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns the role of a thread that began to wait alone. The thread drives after a run of fast calls
    /// (`FAST_CALLS`).
    pub(super) fn choose_role(&self, now: impl Fn() -> Instant) -> CallerRole {
        if !self.may_be_driven(&now) {
            self.fast_calls.store(0, Ordering::Relaxed);
            self.request_engine();
            return CallerRole::Waits;
        }
        if self.by_callers.load(Ordering::SeqCst) {
            return CallerRole::Drives;
        }
        if self.time_since_last_call(&now) >= IDLE_LIMIT {
            self.fast_calls.store(0, Ordering::Relaxed);
            return CallerRole::Waits;
        }
        if self.fast_calls.fetch_add(1, Ordering::Relaxed) < FAST_CALLS {
            return CallerRole::Waits;
        }
        // Another thread that entered after this one does not drive. If it called `request_engine` before `by_callers`
        // is set here, that call had no effect, and the other thread would wait while no thread drives. `callers` is
        // therefore checked below. A store could miss what the other thread wrote, so a swap sets `by_callers`.
        self.by_callers.swap(true, Ordering::SeqCst);
        if self.callers.load(Ordering::SeqCst) > 1 {
            self.request_engine();
            return CallerRole::Waits;
        }
        CallerRole::TakesOver
    }

    /// Whether a caller may drive now.
    fn may_be_driven(&self, now: impl Fn() -> Instant) -> bool {
        match Instant::from_micros(self.callers_may_drive_until.load(Ordering::SeqCst)) {
            Instant::ZERO => false,
            Instant::FAR_FUTURE => true,
            until => now() < until,
        }
    }

    fn time_since_last_call(&self, now: impl Fn() -> Instant) -> Duration {
        now().saturating_since(Instant::from_micros(self.last_call_end.load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    /// Makes the calls of one thread, fast and often enough to drive. Returns whether the thread drove.
    fn becomes_driver(state: &DrivingState) -> bool {
        // One run may not be enough: the operating system may pause a thread for longer than a run of fast calls
        // allows.
        (0..100).any(|_| {
            (0..=2 * FAST_CALLS).any(|_| {
                assert!(state.enter());
                let role = state.choose_role(clock::now);
                state.leave(clock::now());
                role != CallerRole::Waits
            })
        })
    }

    fn one_hour_from_now() -> Instant {
        clock::now() + Duration::from_secs(3_600)
    }

    fn allow_callers(state: &DrivingState, next_renewal: Option<Instant>) {
        let readiness = Readiness {
            every_lane_is_open: true,
            next_renewal,
        };
        state.allow_callers(readiness, clock::now);
    }

    fn close_a_lane(state: &DrivingState) {
        let readiness = Readiness {
            every_lane_is_open: false,
            next_renewal: None,
        };
        state.allow_callers(readiness, clock::now);
    }

    #[test]
    fn a_caller_drives_while_every_lane_is_open_and_no_renewal_is_near() {
        for next_renewal in [None, Some(one_hour_from_now())] {
            let state = DrivingState::default();
            allow_callers(&state, next_renewal);
            assert!(becomes_driver(&state));
        }
    }

    #[test]
    fn no_caller_drives_before_the_engine_has_run() {
        assert!(!becomes_driver(&DrivingState::default()));
    }

    #[test]
    fn no_caller_drives_while_a_lane_is_not_open() {
        let state = DrivingState::default();
        close_a_lane(&state);
        assert!(!becomes_driver(&state));
        allow_callers(&state, None);
        assert!(becomes_driver(&state));
        close_a_lane(&state);
        assert!(
            !state.by_callers.load(Ordering::SeqCst),
            "the engine's thread is called back"
        );
        assert!(!becomes_driver(&state));
    }

    #[test]
    fn no_caller_drives_shortly_before_a_renewal() {
        let state = DrivingState::default();
        allow_callers(&state, Some(clock::now() + BEFORE_RENEWAL));
        assert!(!becomes_driver(&state));
    }

    #[test]
    fn a_caller_that_drives_stops_when_a_renewal_comes_near() {
        let state = DrivingState::default();
        allow_callers(&state, Some(one_hour_from_now()));
        assert!(becomes_driver(&state));
        // The engine had no turn in between, but the time shortly before the renewal has come.
        state
            .callers_may_drive_until
            .store(clock::now().as_micros(), Ordering::SeqCst);
        assert_eq!(state.choose_role(clock::now), CallerRole::Waits);
        assert!(
            !state.by_callers.load(Ordering::SeqCst),
            "the engine's thread is called back"
        );
    }
}
