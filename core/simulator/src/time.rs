//! True time, and the clocks that clients and servers read instead of it.

use steadlock_protocol::Instant;

use crate::random::Random;

/// True time: microseconds since the history began. Nobody in the history sees it.
pub(crate) type Micros = u64;

/// A millisecond of true time.
pub(crate) const MS: Micros = 1_000;
/// A second of true time.
pub(crate) const SECOND: Micros = 1_000 * MS;

/// By how much the rates of two clocks may differ at the most, in millionths, for what is
/// promised to hold: a deadline leaves one hundredth of the lease for it.
const PROMISED_PPM: i64 = 10_000;

/// The rates that the clocks of a history have. The true rate is one of them, and no two
/// are further apart than is promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// The error of the slowest clock there may be, in millionths.
    slowest: i64,
    /// The error of the fastest.
    fastest: i64,
}

impl Rates {
    /// Any rates that keep the promise.
    pub(crate) fn new(random: &mut Random) -> Self {
        let slowest = -any(random, PROMISED_PPM);
        Self {
            slowest,
            fastest: slowest + PROMISED_PPM,
        }
    }

    /// The rate of one clock. Every other one is at the edge.
    pub(crate) fn draw(self, random: &mut Random) -> i64 {
        match random.between(0, 3) {
            0 => self.slowest,
            1 => self.fastest,
            _ => self.slowest + any(random, self.fastest - self.slowest),
        }
    }
}

/// A number from zero to `most`.
fn any(random: &mut Random, most: i64) -> i64 {
    random.between(0, most.unsigned_abs()).cast_signed()
}

/// A clock of a client or a server: it starts anywhere and runs a little too fast or too slow.
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

    /// How much true time passes until it has gone on by so much, rounded up.
    pub(crate) fn lasts(self, shown: Micros) -> Micros {
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
            // A deadline after 99 % of a lease, by the one clock, is no later than the lease's end by the other.
            let deadline = 990_000 * (1_000_000 + other);
            assert!(deadline <= 1_000_000 * (1_000_000 + one), "{one} {other}");
        }
        assert_eq!(widest, PROMISED_PPM);
    }
}
