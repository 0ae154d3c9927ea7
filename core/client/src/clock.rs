//! The one clock of the engine: microseconds that count suspend.

use leasehold_protocol::Instant;

/// Now, on a clock that goes on while the machine sleeps where the system has
/// one. A lease runs out on the server while a laptop's lid is closed, so a
/// clock that stands still then would call it valid.
pub(crate) fn now() -> Instant {
    Instant::from_micros(micros())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn micros() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000;
    // The origin is 0 for `Lease`'s "no deadline"; a machine is up longer than 1 µs.
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn micros() -> u64 {
    use std::sync::OnceLock;

    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    let origin = ORIGIN.get_or_init(std::time::Instant::now);
    u64::try_from(origin.elapsed().as_micros())
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward() {
        let first = now();
        while now() == first {}
        assert!(now() > first);
    }
}
