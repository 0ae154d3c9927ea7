//! True time, and the clocks that clients and servers read instead of it.

use steadlock_protocol::Instant;

use crate::random::Random;

/// True time: microseconds since the history began. No participant of the history can read it.
pub(crate) type Micros = u64;

/// A millisecond of true time.
pub(crate) const MS: Micros = 1_000;
/// A second of true time.
pub(crate) const SECOND: Micros = 1_000 * MS;

/// The largest difference between the rates of two clocks for which the promises hold, in millionths. A deadline comes
/// earlier by this part of the lease, one hundredth.
const PROMISED_PPM: i64 = 10_000;

/// The range of the rates of a history's clocks. It includes the true rate, and is as wide as the promises allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// The error of the slowest possible clock, in millionths.
    slowest: i64,
    /// The error of the fastest possible clock.
    fastest: i64,
}

impl Rates {
    pub(crate) fn new(random: &mut Random) -> Self {
        let slowest = -any(random, PROMISED_PPM);
        Self {
            slowest,
            fastest: slowest + PROMISED_PPM,
        }
    }

    /// Draws the rate of one clock. About half of the clocks have the slowest or the fastest rate.
    pub(crate) fn draw(self, random: &mut Random) -> i64 {
        match random.between(0, 3) {
            0 => self.slowest,
            1 => self.fastest,
            _ => self.slowest + any(random, self.fastest - self.slowest),
        }
    }
}

/// Draws a number from zero to `most`.
fn any(random: &mut Random, most: i64) -> i64 {
    random.between(0, most.unsigned_abs()).cast_signed()
}

/// A clock of a client or a server. It may show any time at the beginning, and runs a little too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The time that the clock shows at the beginning.
    pub(crate) origin: u64,
    /// The error of its rate, in millionths.
    pub(crate) drift_ppm: i64,
}

impl Clock {
    /// Returns what the clock shows at a true time.
    pub(crate) fn at(self, time: Micros) -> Instant {
        let error = time.cast_signed() * self.drift_ppm / 1_000_000;
        Instant::from_micros((self.origin + time).saturating_add_signed(error))
    }

    /// Returns the first true time at which the clock shows `instant` or more.
    pub(crate) fn when(self, instant: Instant) -> Micros {
        let since = i128::from(instant.as_micros()) - i128::from(self.origin);
        let estimate = since * 1_000_000 / (1_000_000 + i128::from(self.drift_ppm));
        let mut time = u64::try_from(estimate - 2).unwrap_or(0);
        while self.at(time) < instant {
            time += 1;
        }
        time
    }

    /// Returns the true time in which the clock advances by this much, rounded up.
    pub(crate) fn true_duration(self, shown: Micros) -> Micros {
        let rate = i128::from(1_000_000 + self.drift_ppm);
        u64::try_from((i128::from(shown) * 1_000_000 + rate - 1) / rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_first_time_at_which_the_clock_shows_it() {
        for drift_ppm in [-10_000, -5_000, -1, 0, 1, 4_999, 10_000] {
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

    #[test]
    fn rates_are_no_further_apart_than_promised_and_reach_the_edge() {
        let mut random = Random::new(7);
        let mut widest = 0;
        for _ in 0..1_000 {
            let rates = Rates::new(&mut random);
            let (one, other) = (rates.draw(&mut random), rates.draw(&mut random));
            assert!(rates.slowest <= 0 && rates.fastest >= 0, "{rates:?}");
            widest = widest.max((one - other).abs());
            // A deadline after 99 % of a lease on one clock is no later than the end of the lease on the other.
            let deadline = 990_000 * (1_000_000 + other);
            assert!(deadline <= 1_000_000 * (1_000_000 + one), "{one} {other}");
        }
        assert_eq!(widest, PROMISED_PPM);
    }
}
