//! Whose turn it is to drive the engine: its own thread's, or a caller's that waits for it. Only
//! that is decided here, with no runtime and no clock; `driver.rs` has the drawing, and drives.

use std::sync::PoisonError;
use std::time::Duration;

use steadlock_protocol::Instant;

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};

/// The engine's thread takes over when no call came for so long.
const QUIET: Duration = Duration::from_millis(1);
/// So many quick calls of one thread, and it drives.
const RUN: u32 = 8;
/// The engine's thread has taken over so long before a renewal is due.
const BEFORE_RENEWAL: Duration = Duration::from_millis(50);

/// What a caller does until its result is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Waits; the engine's thread drives.
    Waits,
    /// Drives.
    Drives,
    /// Drives, and the engine's thread is to be told to stand by.
    TakesOver,
}

#[derive(Debug, Default)]
pub(super) struct WhoDrives {
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
    /// Tells the engine's thread to drive again.
    drive_again: Condvar,
    standing_by: Mutex<()>,
}

impl WhoDrives {
    /// The engine's thread, told to stand by, does so until it is to drive again.
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

    /// The engine says, before it hands out what a turn brought, whether callers may
    /// drive: while every lane is open, and until a renewal is near.
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

    /// Something needs the engine that no waiting thread drives.
    pub(super) fn needs_engine(&self) {
        if self.by_callers.swap(false, Ordering::SeqCst) {
            drop(self.standing_by.lock().unwrap_or_else(PoisonError::into_inner));
            self.drive_again.notify_one();
        }
    }

    /// A thread begins to wait for a result. Says whether it is alone; if not, it is to say that
    /// it needs the engine, and wait.
    pub(super) fn enter(&self) -> bool {
        let is_alone = self.callers.fetch_add(1, Ordering::SeqCst) == 0;
        if !is_alone {
            self.run.store(0, Ordering::Relaxed);
        }
        is_alone
    }

    /// It has its result, or gave up.
    pub(super) fn leave(&self, now: Instant) {
        self.last_left.store(now.as_micros(), Ordering::Relaxed);
        self.callers.fetch_sub(1, Ordering::SeqCst);
    }

    /// What a thread is to do that began to wait alone: it drives if it calls in a quick run.
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
        // One who came since this thread entered, and does not drive, may have called the engine's
        // thread before it is sent away here, and would wait with nobody to drive. A swap, as it is
        // also to read what that thread wrote: a store would not.
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

    /// Calls as quickly as a thread that is to drive does. Says whether it came to drive.
    fn comes_to_drive(who: &WhoDrives) -> bool {
        // Another one may be stopped between two calls for longer than a quick run allows.
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
        // The engine had no turn since; the time has come all the same.
        who.open_until.store(clock::now().as_micros(), Ordering::SeqCst);
        assert_eq!(who.elect(clock::now), Role::Waits);
        assert!(
            !who.by_callers.load(Ordering::SeqCst),
            "the engine's thread is called back"
        );
    }
}
