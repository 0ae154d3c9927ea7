//! Who drives the engine: its own thread, or a caller that would only wait for it.
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
//! It is the same engine and the same runtime on another thread, and nobody else's
//! code runs meanwhile. But a caller comes and goes as it likes, and may be stopped
//! at any time; so what keeps locks, connecting and renewing, is left to the
//! engine's thread.
//!
//! In a simulator's virtual time nobody drives but the simulator: the engine never
//! allows it (`turn.rs`), so this reads the machine's clock only.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_protocol::Instant;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::clock;

/// The engine's thread takes over when no call came for so long.
const QUIET: Duration = Duration::from_millis(1);
/// So many quick calls of one thread, and it drives.
const RUN: u32 = 8;
/// A call that takes longer is waited for without driving.
const LONGEST_DRIVE: Duration = Duration::from_millis(5);
/// The engine's thread has taken over so long before a renewal is due.
const BEFORE_RENEWAL: Duration = Duration::from_millis(50);

/// The engine's runtime, and whose turn it is to drive it.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    /// `None` before the engine starts and after it ends.
    runtime: RwLock<Option<Runtime>>,
    /// Whether callers drive.
    by_callers: AtomicBool,
    /// Until when callers may drive, by the engine's clock. The engine says so at each turn.
    open_until: AtomicU64,
    /// Threads that wait for a result.
    callers: AtomicUsize,
    /// Quick calls in a row by a thread that was alone.
    run: AtomicU32,
    /// When the last caller left, by the engine's clock.
    last_left: AtomicU64,
    /// Tells the engine's thread to stand by.
    stand_by: Notify,
    /// Tells it to drive again.
    drive_again: Condvar,
    standing_by: Mutex<()>,
}

impl Driver {
    /// Drives `engine` on this thread until it ends, except while callers do.
    pub(crate) fn run<T>(&self, runtime: Runtime, mut engine: JoinHandle<T>) -> Option<T> {
        *self.runtime.write().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
        let result = {
            let runtime = self.runtime.read().unwrap_or_else(PoisonError::into_inner);
            loop {
                let Some(runtime) = &*runtime else { break None };
                match runtime.block_on(select(&mut engine, pin!(self.stand_by.notified()))) {
                    Either::Left((result, _)) => break result.ok(),
                    Either::Right(_) => self.wait_for_quiet(),
                }
            }
        };
        let runtime = self.runtime.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            // A name may still be being resolved; nobody waits for that.
            runtime.shutdown_background();
        }
        result
    }

    fn wait_for_quiet(&self) {
        let mut guard = self.standing_by.lock().unwrap_or_else(PoisonError::into_inner);
        while self.by_callers.load(Ordering::SeqCst) {
            let is_busy = self.callers.load(Ordering::SeqCst) > 0 || self.left_ago() < QUIET;
            if !is_busy || !self.may_be_driven() {
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

    /// The engine says, before it hands out what a turn brought, whether callers may
    /// drive: while every lane is open, and until a renewal is near.
    pub(crate) fn allow_callers(&self, every_lane_is_open: bool, next_renewal: Option<Instant>) {
        let until = match next_renewal {
            _ if !every_lane_is_open => Instant::ZERO,
            Some(due) => due - BEFORE_RENEWAL,
            None => Instant::FAR_FUTURE,
        };
        self.open_until.store(until.as_micros(), Ordering::SeqCst);
        if !self.may_be_driven() {
            self.needs_engine();
        }
    }

    /// Whether a caller may drive now.
    fn may_be_driven(&self) -> bool {
        match Instant::from_micros(self.open_until.load(Ordering::SeqCst)) {
            Instant::ZERO => false,
            Instant::FAR_FUTURE => true,
            until => clock::now() < until,
        }
    }

    /// Something needs the engine that no waiting thread drives.
    pub(crate) fn needs_engine(&self) {
        if self.by_callers.swap(false, Ordering::SeqCst) {
            drop(self.standing_by.lock().unwrap_or_else(PoisonError::into_inner));
            self.drive_again.notify_one();
        }
    }

    /// A thread begins to wait for a result. Call `drive`, and drop it when the
    /// result is there.
    pub(crate) fn enter(&self) -> Caller<'_> {
        let alone = self.callers.fetch_add(1, Ordering::SeqCst) == 0;
        if !alone {
            self.run.store(0, Ordering::Relaxed);
        }
        Caller { driver: self, alone }
    }

    fn left_ago(&self) -> Duration {
        clock::now().saturating_since(Instant::from_micros(self.last_left.load(Ordering::Relaxed)))
    }

    /// Whether the calling thread is to drive: it calls in a quick run, alone.
    fn elect(&self) -> bool {
        if !self.may_be_driven() {
            self.run.store(0, Ordering::Relaxed);
            self.needs_engine();
            return false;
        }
        if self.by_callers.load(Ordering::SeqCst) {
            return true;
        }
        if self.left_ago() >= QUIET {
            self.run.store(0, Ordering::Relaxed);
            return false;
        }
        if self.run.fetch_add(1, Ordering::Relaxed) < RUN {
            return false;
        }
        self.by_callers.store(true, Ordering::SeqCst);
        self.stand_by.notify_one();
        true
    }
}

/// A thread that waits for a result.
pub(crate) struct Caller<'a> {
    driver: &'a Driver,
    alone: bool,
}

impl Caller<'_> {
    /// Drives the engine until `poll` is ready, if that is this thread's to do;
    /// `None` if it is not, or took too long: then wait without driving.
    pub(crate) fn drive<T>(&self, timeout: Duration, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        // Inside another runtime a thread may not drive one.
        if !self.alone || Handle::try_current().is_ok() {
            self.driver.needs_engine();
            return None;
        }
        if !self.driver.elect() {
            return None;
        }
        let guard = self.driver.runtime.read().unwrap_or_else(PoisonError::into_inner);
        let runtime = guard.as_ref()?;
        let result = runtime.block_on(async {
            tokio::time::timeout(timeout.min(LONGEST_DRIVE), poll_fn(&mut poll))
                .await
                .ok()
        });
        if result.is_none() {
            self.driver.needs_engine();
        }
        result
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.driver.last_left.store(clock::now().as_micros(), Ordering::Relaxed);
        self.driver.callers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls as quickly as a thread that is to drive does. Says whether it came to drive.
    fn comes_to_drive(driver: &Driver) -> bool {
        // Another one may be stopped between two calls for longer than a quick run allows.
        (0..100).any(|_| {
            (0..=2 * RUN).any(|_| {
                let caller = driver.enter();
                assert!(caller.alone);
                driver.elect()
            })
        })
    }

    fn in_an_hour() -> Instant {
        clock::now() + Duration::from_secs(3_600)
    }

    #[test]
    fn a_caller_drives_while_every_lane_is_open_and_no_renewal_is_near() {
        for next_renewal in [None, Some(in_an_hour())] {
            let driver = Driver::default();
            driver.allow_callers(true, next_renewal);
            assert!(comes_to_drive(&driver));
        }
    }

    #[test]
    fn no_caller_drives_before_the_engine_has_run() {
        assert!(!comes_to_drive(&Driver::default()));
    }

    #[test]
    fn no_caller_drives_while_a_lane_is_not_open() {
        let driver = Driver::default();
        driver.allow_callers(false, None);
        assert!(!comes_to_drive(&driver));
        driver.allow_callers(true, None);
        assert!(comes_to_drive(&driver));
        driver.allow_callers(false, None);
        assert!(
            !driver.by_callers.load(Ordering::SeqCst),
            "the engine's thread is called back"
        );
        assert!(!comes_to_drive(&driver));
    }

    #[test]
    fn no_caller_drives_when_a_renewal_is_near() {
        let driver = Driver::default();
        driver.allow_callers(true, Some(clock::now() + BEFORE_RENEWAL));
        assert!(!comes_to_drive(&driver));
    }

    #[test]
    fn a_caller_that_drives_stops_when_a_renewal_comes_near() {
        let driver = Driver::default();
        let renewal = in_an_hour();
        driver.allow_callers(true, Some(renewal));
        assert!(comes_to_drive(&driver));
        // The engine had no turn since; the time has come all the same.
        driver.open_until.store(clock::now().as_micros(), Ordering::SeqCst);
        assert!(!driver.elect());
        assert!(
            !driver.by_callers.load(Ordering::SeqCst),
            "the engine's thread is called back"
        );
    }
}
