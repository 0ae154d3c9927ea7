//! The clock that measures leases and timeouts, in microseconds. It also counts the time for which a machine slept or
//! was paused.
//!
//! ```text
//!   now = the steady clock                     cannot be set; on Linux, also counts the machine's sleep
//!       + each step of the wall clock forward  measured against the steady clock
//! ```
//!
//! A virtual machine that its host pauses, or resumes from a snapshot, may have no clock that counted meanwhile. But
//! moments later its host or a time service usually sets the wall clock forward by the missed time. A step forward
//! therefore counts as time that passed. A wall clock that is set forward for another reason looks the same, and ends
//! leases early by the step. This is safe, because no holder relies on its lease for too long.
//!
//! Each reading also reads the wall clock, so the first check of a lease after the step notices it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use steadlock_protocol::Instant;

/// Returns the current time of a clock that goes on while the machine sleeps or is paused, as far as a program can
/// know. The record on the server expires while a laptop's lid is closed; a clock that stood still would call the lease
/// valid.
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = tests::test_now() {
        return now;
    }
    CLOCK.now(&System)
}

/// Returns the wall clock's microseconds since 1970, for people to read. No lease is measured by it.
pub(crate) fn wall() -> i64 {
    System.wall()
}

static CLOCK: Clock = Clock::new();

/// The two clocks of a machine, in microseconds.
trait ClockSources {
    /// Returns the time since a fixed moment, such as the start of the machine. The clock is never set and never goes
    /// back.
    fn steady(&self) -> u64;
    /// Returns the time since 1970.
    fn wall(&self) -> i64;
    /// Returns the wall clock, possibly as of some moments ago, where that is cheaper to read.
    fn wall_coarse(&self) -> i64 {
        self.wall()
    }
}

/// The largest change of the lead (wall clock minus steady clock) that does not count as a step. A deadline is at least
/// this much earlier than the record's end. Smaller changes add up, so many small steps count like one. On Linux,
/// slewing does not change the lead, because it changes the rate of both clocks.
const TOLERANCE: i64 = 20_000;

/// A wall clock that shows a year before 2026 was never set, because this program is younger. Setting it for the first
/// time is no sign of a pause. Boards without a battery-backed clock start in 1970, or at the build date of their
/// system.
const NEVER_SET: i64 = 1_767_225_600_000_000;

/// The value of `Clock::lead` before the first reading.
const UNKNOWN: i64 = i64::MIN;

/// The result of a comparison of the two clocks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Comparison {
    /// The lead of the wall clock over the steady one.
    lead: i64,
    /// The sum of all steps that counted.
    stepped: u64,
}

/// The last comparison of the two clocks, shared by all threads.
struct Clock {
    /// The lead of the wall clock over the steady one.
    lead: AtomicI64,
    /// The sum of all steps that counted. It is stored before `lead` and read after it: a thread that sees the `lead`
    /// of a step also sees the step counted.
    stepped: AtomicU64,
    /// Whether a thread is storing `lead` and `stepped`. Other threads retry only a limited number of times: in a
    /// forked child that thread may not exist.
    is_storing: AtomicBool,
}

impl Clock {
    const fn new() -> Self {
        Self {
            lead: AtomicI64::new(UNKNOWN),
            stepped: AtomicU64::new(0),
            is_storing: AtomicBool::new(false),
        }
    }

    fn now(&self, sources: &impl ClockSources) -> Instant {
        let steady = sources.steady();
        let Comparison { lead, stepped } = self.load();
        let difference = lead_of(sources.wall_coarse(), steady).wrapping_sub(lead);
        // The cheap reading can be one kernel tick old, at most 10 ms. A step forward of the whole tolerance can then
        // look like half of it, the upper bound here.
        if (-TOLERANCE..=TOLERANCE / 2).contains(&difference) {
            return Instant::from_micros(steady.saturating_add(stepped));
        }
        self.compare(sources)
    }

    /// Finds out how far the clocks have moved apart, and returns the time.
    #[cold]
    fn compare(&self, sources: &impl ClockSources) -> Instant {
        /// The limit of attempts to store a step. Another thread stores within a few nanoseconds, unless it is stopped
        /// meanwhile.
        const ATTEMPTS: u32 = 200;
        const ATTEMPTS_BEFORE_YIELD: u32 = 50;

        let mut attempts = 0;
        loop {
            let last @ Comparison { lead, stepped } = self.load();
            // The system may stop this thread between two readings. The true step lies between `at_least` and `at_most`
            // all the same, and a later call counts what is missed here.
            let before = sources.steady();
            let wall = sources.wall();
            let now = sources.steady();
            let at_least = lead_of(wall, now).wrapping_sub(lead);
            let at_most = lead_of(wall, before).wrapping_sub(lead);

            let was_never_set = lead == UNKNOWN || lead.saturating_add_unsigned(before) < NEVER_SET;
            let step = if was_never_set || at_least > TOLERANCE {
                at_least
            } else if at_most < -TOLERANCE {
                at_most
            } else {
                return Instant::from_micros(now.saturating_add(stepped));
            };
            // Counted time is never subtracted: that would lengthen leases.
            let counted_step = if was_never_set {
                0
            } else {
                u64::try_from(step).unwrap_or(0)
            };
            let next = Comparison {
                lead: lead.wrapping_add(step),
                stepped: stepped.saturating_add(counted_step),
            };
            attempts += 1;
            if self.replace(last, next) || attempts == ATTEMPTS {
                return Instant::from_micros(now.saturating_add(next.stepped));
            }
            if attempts.is_multiple_of(ATTEMPTS_BEFORE_YIELD) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    fn load(&self) -> Comparison {
        // The fields are evaluated in this order: see `stepped`.
        Comparison {
            lead: self.lead.load(Ordering::Acquire),
            stepped: self.stepped.load(Ordering::Acquire),
        }
    }

    /// Stores `next`, unless another thread has replaced `last` meanwhile or is storing now. Returns whether `next` was
    /// stored.
    fn replace(&self, last: Comparison, next: Comparison) -> bool {
        if self.is_storing.swap(true, Ordering::Acquire) {
            return false;
        }
        let is_current = last == self.load();
        if is_current {
            self.stepped.store(next.stepped, Ordering::Release);
            self.lead.store(next.lead, Ordering::Release);
        }
        self.is_storing.store(false, Ordering::Release);
        is_current
    }
}

/// Returns the lead of the wall clock over the steady one.
const fn lead_of(wall: i64, steady: u64) -> i64 {
    wall.wrapping_sub_unsigned(steady)
}

/// The clocks of the operating system.
struct System;

#[cfg(any(target_os = "linux", target_os = "android"))]
impl ClockSources for System {
    /// Reads a clock that also counts suspend.
    fn steady(&self) -> u64 {
        linux::micros(rustix::time::ClockId::Boottime).unsigned_abs()
    }

    fn wall(&self) -> i64 {
        linux::micros(rustix::time::ClockId::Realtime)
    }

    /// Reads the wall clock as of the kernel's last tick, at most 10 ms ago. A step shows at once, without waiting for
    /// a tick.
    fn wall_coarse(&self) -> i64 {
        linux::micros(rustix::time::ClockId::RealtimeCoarse)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn micros(clock: ClockId) -> i64 {
        let time = clock_gettime(clock);
        time.tv_sec
            .saturating_mul(1_000_000)
            .saturating_add(time.tv_nsec / 1_000)
    }
}

/// Here the steady clock may not count suspend, but the wall clock does. The sleep of a machine is then counted in the
/// same way as a pause.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl ClockSources for System {
    fn steady(&self) -> u64 {
        portable::steady()
    }

    fn wall(&self) -> i64 {
        portable::wall()
    }
}

#[cfg(target_family = "wasm")]
use crate::environment as portable;

#[cfg(all(
    any(test, not(any(target_os = "linux", target_os = "android"))),
    not(target_family = "wasm")
))]
mod portable {
    use std::time::{Instant, SystemTime};

    use once_cell::race::OnceBox;

    pub(super) fn steady() -> u64 {
        static ORIGIN: OnceBox<Instant> = OnceBox::new();
        let origin = ORIGIN.get_or_init(|| Box::new(Instant::now()));
        // The origin is 1, because `Instant::ZERO` stands for "not set" elsewhere.
        u64::try_from(origin.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .saturating_add(1)
    }

    pub(super) fn wall() -> i64 {
        let micros = |length: std::time::Duration| i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => micros(after),
            Err(before) => -micros(before.duration()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
