//! True time, and the clocks that clients read instead of it.

use leasehold_protocol::Instant;

/// True time: microseconds since the history began. Nobody in the history sees it.
pub(crate) type Micros = u64;

/// A millisecond of true time.
pub(crate) const MS: Micros = 1_000;
/// A second of true time.
pub(crate) const SECOND: Micros = 1_000 * MS;

/// A client's clock: it starts anywhere and runs a little too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// What it shows at the beginning.
    pub(crate) origin: u64,
    /// Its error of rate, in millionths.
    pub(crate) drift_ppm: i64,
}

impl Clock {
    /// What it shows at a true time.
    pub(crate) fn at(self, time: Micros) -> Instant {
        let error = time.cast_signed() * self.drift_ppm / 1_000_000;
        Instant::from_micros((self.origin + time).saturating_add_signed(error))
    }

    /// The first true time at which it shows `instant` or more.
    pub(crate) fn when(self, instant: Instant) -> Micros {
        let since = i128::from(instant.as_micros()) - i128::from(self.origin);
        let estimate = since * 1_000_000 / (1_000_000 + i128::from(self.drift_ppm));
        let mut time = u64::try_from(estimate - 2).unwrap_or(0);
        while self.at(time) < instant {
            time += 1;
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_first_time_at_which_the_clock_shows_it() {
        for drift_ppm in [-5_000, -1, 0, 1, 4_999] {
            let clock = Clock {
                origin: 1_000,
                drift_ppm,
            };
            for micros in [1_000, 1_001, 2_500, 1_234_567, 9_876_543_210] {
                let time = clock.when(Instant::from_micros(micros));
                assert!(clock.at(time).as_micros() >= micros, "{drift_ppm} {micros}");
                assert!(
                    time == 0 || clock.at(time - 1).as_micros() < micros,
                    "{drift_ppm} {micros}"
                );
            }
        }
    }
}
