//! Measures how many script calls one core runs: `cargo run --release -p steadlock-store --example speed`. With `--
//! limited` the store has the limits of the server.

use std::time::Instant;

use steadlock_protocol::Script;
use steadlock_store::{Limits, ServerTime, Store};

fn main() {
    const ROUNDS: u64 = 300_000;
    let is_limited = std::env::args().any(|argument| argument == "limited");
    let limits = if is_limited { Limits::SERVED } else { Limits::NONE };
    let mut store = Store::with_limits(limits);
    let start = Instant::now();
    for round in 0..ROUNDS {
        let now = ServerTime::from_micros(1_700_000_000_000_000 + round * 5);
        let lock = "user:42";
        let owner = "6f9c1e0a-8d1f-4f43-9f43-1f6d3c0f9f11:1234567890123456789";
        let _ = store.run_script(
            Script::LockAcquire,
            &[lock, "steadlock:{user:42}:token"],
            &["30000", owner],
            now,
        );
        let _ = store.run_script(
            Script::LockRelease,
            &[lock],
            &[owner, "redisson_lock__channel:{user:42}"],
            now,
        );
    }
    let elapsed = start.elapsed();
    let rate = 2.0 * 300_000.0 / elapsed.as_secs_f64();
    println!("{} script calls in {elapsed:.2?}: {rate:.0} a second", 2 * ROUNDS);
}
