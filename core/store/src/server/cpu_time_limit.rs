//! Measures how long work has taken: in CPU time of its thread, or in wall-clock time on systems other than Unix.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::limits::CPU_TIME;
use crate::lua::TimeLimit;

/// For this long after the work begins, the CPU clock is not read, because reading it costs more than most scripts.
const SHORT: Duration = Duration::from_millis(20);

/// A time limit for the one thread that works on the store.
pub(super) struct CpuTimeLimit {
    base: Instant,
    /// The time from `base` to the start of the work.
    started: AtomicU64,
    /// The CPU time at the first check after [`SHORT`]; zero until then. The work before that check counts as
    /// [`SHORT`].
    cpu: AtomicU64,
}

impl CpuTimeLimit {
    pub(super) fn new() -> Self {
        Self {
            base: Instant::now(),
            started: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        nanos(self.base.elapsed())
    }
}

impl TimeLimit for CpuTimeLimit {
    fn start(&self) {
        self.started.store(self.now(), Ordering::Relaxed);
        self.cpu.store(0, Ordering::Relaxed);
    }

    fn is_over_time(&self) -> bool {
        if self.now().saturating_sub(self.started.load(Ordering::Relaxed)) < nanos(SHORT) {
            return false;
        }
        let cpu = nanos(cpu_time(self.base)).max(1);
        match self.cpu.load(Ordering::Relaxed) {
            0 => {
                self.cpu.store(cpu, Ordering::Relaxed);
                false
            }
            before => cpu.saturating_sub(before) > nanos(CPU_TIME - SHORT),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the CPU time of this thread. It does not advance while the process is stopped or waits for a processor.
#[cfg(unix)]
fn cpu_time(_base: Instant) -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(not(unix))]
fn cpu_time(base: Instant) -> Duration {
    base.elapsed()
}
