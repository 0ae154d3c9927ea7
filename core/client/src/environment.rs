//! Time and randomness, which WebAssembly lacks and the program provides.

use std::sync::OnceLock;

/// The program's clocks and source of randomness.
#[derive(Clone, Copy, Debug)]
pub struct Environment {
    /// Returns microseconds since a fixed moment. The clock must never be set and never go back: for example
    /// `performance.now()`.
    pub steady_micros: fn() -> u64,
    /// Returns microseconds since 1970: for example `Date.now()`, converted.
    pub wall_micros: fn() -> i64,
    /// Returns 64 random bits that nobody can predict: for example from `crypto.getRandomValues()`. Two owners with the
    /// same bits could release each other's locks.
    pub random: fn() -> u64,
}

static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Provides the clocks and the randomness. The program must call this before it uses anything else of this crate. Later
/// calls change nothing.
pub fn provide(environment: Environment) {
    let _ = ENVIRONMENT.set(environment);
}

pub(crate) fn steady() -> u64 {
    // Never 0, because `Instant::ZERO` stands for "not set" elsewhere.
    (provided().steady_micros)().saturating_add(1)
}

pub(crate) fn wall() -> i64 {
    (provided().wall_micros)()
}

pub(crate) fn random() -> u64 {
    (provided().random)()
}

fn provided() -> &'static Environment {
    ENVIRONMENT
        .get()
        .expect("the program calls steadlock::host::provide before anything else")
}
