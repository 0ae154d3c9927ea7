//! Decides which thread drives the engine: its own, or a caller that waits for it. This file has no runtime and reads
//! no clock; `driver.rs` has the drawing, and drives.

use std::sync::PoisonError;
use std::time::Duration;

use steadlock_protocol::Instant;

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};

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
