//! Time and randomness, which WebAssembly lacks and the program provides.

use std::sync::OnceLock;

/// The program's clocks and source of randomness.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Returns microseconds since a fixed moment. The clock must never be set and never go back: for example
    /// `performance.now()`.
    pub steady_micros: fn() -> u64,
    /// Returns microseconds since 1970: for example `Date.now()`, converted.
    pub wall_micros: fn() -> i64,
    /// Returns 64 random bits that nobody can predict: for example from `crypto.getRandomValues()`. Two owners with the
    /// same bits could release each other's locks.
    pub random: fn() -> u64,
}

static GIVEN: OnceLock<Given> = OnceLock::new();

/// Provides the clocks and the randomness. The program must call this before it uses anything else of this crate. Later
/// calls change nothing.
pub fn give(given: Given) {
    let _ = GIVEN.set(given);
}

pub(crate) fn steady() -> u64 {
    // A lease uses 0 for "no deadline".
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
