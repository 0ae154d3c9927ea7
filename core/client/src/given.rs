//! What WebAssembly has none of, and is given by its program: time and randomness.

use std::sync::OnceLock;

/// The program's clocks and its randomness.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Microseconds since some moment; never set, never back. `performance.now()` is good.
    pub steady_micros: fn() -> u64,
    /// Microseconds since 1970. `Date.now()` is good.
    pub wall_micros: fn() -> i64,
    /// 64 random bits that nobody can foresee, as of `crypto.getRandomValues()`: two owners
    /// with the same bits could release each other's locks.
    pub random: fn() -> u64,
}

static GIVEN: OnceLock<Given> = OnceLock::new();

/// Gives clocks and randomness, before anything else of this crate is used. They stay what
/// was given first.
pub fn give(given: Given) {
    let _ = GIVEN.set(given);
}

pub(crate) fn steady() -> u64 {
    // 0 is "no deadline" to a lease.
    (given().steady_micros)().saturating_add(1)
}

pub(crate) fn wall() -> i64 {
    (given().wall_micros)()
}

pub(crate) fn random() -> u64 {
    (given().random)()
}

fn given() -> &'static Given {
    GIVEN
        .get()
        .expect("the program calls steadlock::host::give before anything else")
}
