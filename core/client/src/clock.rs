//! The one clock of the engine: microseconds that count what a machine slept or was paused.
//!
//! ```text
//!   now = the steady clock                 counts running and suspend, cannot be set
//!       + each step of the wall clock      forward, against the steady one
//! ```
//!
//! A virtual machine that its host pauses, or that is resumed from a snapshot, has
//! no clock that counted meanwhile. What it does have, moments later, is a wall
//! clock that its host or a time service set forward by what was missed. So a step
//! forward counts as time that passed. A clock that is set for another reason
//! looks the same, and ends leases early by the step: that is the safe side.
//!
//! The wall clock is looked at in each reading, so that the first look at a lease
//! after the step tells.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use steadlock_protocol::Instant;

/// Now, on a clock that goes on while the machine sleeps or is paused, as far as
/// that can be known. A lease runs out on the server while a laptop's lid is
/// closed, so a clock that stands still then would call it valid.
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(pretended) = tests::pretended_now() {
        return pretended;
    }
    CLOCK.now(&System)
}

/// The wall clock, in microseconds since 1970: for people to read. No lease is measured by it.
pub(crate) fn wall() -> i64 {
    System.wall()
}

static CLOCK: Clock = Clock::new();

/// Where the time is read, in microseconds.
trait Sources {
    /// Since the machine started; never set, never back.
    fn steady(&self) -> u64;
    /// Since 1970.
    fn wall(&self) -> i64;
    /// The wall clock as it was moments ago at the earliest, where that is cheaper to read.
    fn wall_glance(&self) -> i64 {
        self.wall()
    }
}

/// How far the clocks may drift apart before it counts: what a deadline keeps from
/// the record's end in any case. Drift adds up until then, so that many small steps
/// count like one. Nothing that is slewed comes here on Linux: that moves both.
const TOLERANCE: i64 = 20_000;

/// A wall clock before the first of 2026 was never set: this program is younger. To
/// set it for the first time says nothing of a pause. Boards without a clock of
/// their own start in 1970, or when their system was built.
const NEVER_SET: i64 = 1_767_225_600_000_000;

/// Before the first reading.
const UNKNOWN: i64 = i64::MIN;

/// What is known of the two clocks.
struct Clock {
    /// How far the wall clock was ahead of the steady one when they were last compared.
    lead: AtomicI64,
    /// All steps that counted. Stored before `lead`, read after it: a thread that
    /// sees a step's `lead` sees it counted.
    stepped: AtomicU64,
    /// Somebody stores the two. Nobody waits for that: in a forked child, who did
    /// may be gone.
    is_stored: AtomicBool,
}

impl Clock {
    const fn new() -> Self {
        Self {
            lead: AtomicI64::new(UNKNOWN),
            stepped: AtomicU64::new(0),
            is_stored: AtomicBool::new(false),
        }
    }

    fn now(&self, sources: &impl Sources) -> Instant {
        let steady = sources.steady();
        let lead = self.lead.load(Ordering::Acquire);
        let stepped = self.stepped.load(Ordering::Acquire);
        let apart = ahead(sources.wall_glance(), steady).wrapping_sub(lead);
        // The glance may be a tick of the kernel old, 10 ms at the most.
        if (-TOLERANCE..=TOLERANCE / 2).contains(&apart) {
            return Instant::from_micros(steady.saturating_add(stepped));
        }
        self.compare(sources)
    }

    /// The clocks seem to have moved apart: finds out by how much, and what that means.
    #[cold]
    fn compare(&self, sources: &impl Sources) -> Instant {
        /// Who stores needs a few nanoseconds, unless it was stopped meanwhile.
        const TRIES: u32 = 200;
        const TRIES_AT_ONCE: u32 = 50;

        let mut tries = 0;
        loop {
            let lead = self.lead.load(Ordering::Acquire);
            let stepped = self.stepped.load(Ordering::Acquire);
            // This thread may be stopped between two readings. The truth lies between
            // the bounds all the same, and what is left of it is found the next time.
            let before = sources.steady();
            let wall = sources.wall();
            let now = sources.steady();
            let at_least = ahead(wall, now).wrapping_sub(lead);
            let at_most = ahead(wall, before).wrapping_sub(lead);

            let was_never_set = lead == UNKNOWN || lead.saturating_add_unsigned(before) < NEVER_SET;
            let step = if was_never_set || at_least > TOLERANCE {
                at_least
            } else if at_most < -TOLERANCE {
                at_most
            } else {
                return Instant::from_micros(now.saturating_add(stepped));
            };
            // Time that was counted is never taken back: that would lengthen leases.
            let counts = if was_never_set {
                0
            } else {
                u64::try_from(step).unwrap_or(0)
            };
            let counted = stepped.saturating_add(counts);
            tries += 1;
            if self.store((lead, stepped), (lead.wrapping_add(step), counted)) || tries == TRIES {
                return Instant::from_micros(now.saturating_add(counted));
            }
            if tries.is_multiple_of(TRIES_AT_ONCE) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Stores what was found, if nobody else did meanwhile or is about to.
    fn store(&self, before: (i64, u64), after: (i64, u64)) -> bool {
        if self.is_stored.swap(true, Ordering::Acquire) {
            return false;
        }
        let is_news = before == (self.lead.load(Ordering::Relaxed), self.stepped.load(Ordering::Relaxed));
        if is_news {
            self.stepped.store(after.1, Ordering::Release);
            self.lead.store(after.0, Ordering::Release);
        }
        self.is_stored.store(false, Ordering::Release);
        is_news
    }
}

/// How far the wall clock is ahead of the steady one.
const fn ahead(wall: i64, steady: u64) -> i64 {
    wall.wrapping_sub_unsigned(steady)
}

/// The clocks of the operating system.
struct System;

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Sources for System {
    /// Counts suspend.
    fn steady(&self) -> u64 {
        linux::micros(rustix::time::ClockId::Boottime).unsigned_abs()
    }

    fn wall(&self) -> i64 {
        linux::micros(rustix::time::ClockId::Realtime)
    }

    /// As of the kernel's last tick, 1–10 ms ago, or of the step that came since.
    fn wall_glance(&self) -> i64 {
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

/// Where no steady clock counts suspend, the wall clock does, and a sleep of the
/// machine is found as a pause is.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Sources for System {
    fn steady(&self) -> u64 {
        portable::steady()
    }

    fn wall(&self) -> i64 {
        portable::wall()
    }
}

#[cfg(target_family = "wasm")]
use crate::given as portable;

#[cfg(all(
    any(test, not(any(target_os = "linux", target_os = "android"))),
    not(target_family = "wasm")
))]
mod portable {
    use std::sync::OnceLock;
    use std::time::{Instant, SystemTime};

    pub(super) fn steady() -> u64 {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        let origin = ORIGIN.get_or_init(Instant::now);
        // The origin is 0 for `Lease`'s "no deadline".
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
