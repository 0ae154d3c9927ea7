//! Histories of the whole engine, in virtual time. None breaks a promise, and known defects of scripts are found.
//!
//! `STEADLOCK_ENGINE_HISTORIES` sets the number of histories, `STEADLOCK_SEED` the first seed.

use std::env;
use std::thread::available_parallelism;

use steadlock_simulator::{Defect, run_engine, run_many_engines_on};

/// Returns a number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")),
        Err(_) => otherwise,
    }
}

#[test]
fn no_history_of_the_engine_breaks_a_promise() {
    let (start, count) = (number("STEADLOCK_SEED", 0), number("STEADLOCK_ENGINE_HISTORIES", 300));
    let threads = available_parallelism().map_or(1, usize::from);
    let summary = run_many_engines_on(threads, start, count, None);
    println!("{summary}");
    let violations: Vec<String> = summary.first.iter().filter_map(|of| of.violation()).collect();
    assert_eq!(summary.violations, 0, "{}", violations.join("\n\n"));
    if count >= 300 {
        assert_eq!(summary.missing(), [], "no history had these");
    }
}

#[test]
fn a_seed_gives_one_history_of_the_engine() {
    for seed in 0..40 {
        let first = run_engine(seed, None, false);
        // The second run has a new thread, so that it uses script engines that no other history has used.
        let second = std::thread::spawn(move || run_engine(seed, None, false))
            .join()
            .unwrap();
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.steps, second.steps, "seed {seed}");
    }
    assert_ne!(
        run_engine(1, None, false).trace_hash,
        run_engine(2, None, false).trace_hash
    );
}

/// Checks that one of the first seeds finds the defect, and that the same seed breaks no promise without it.
fn found(defect: Defect, promises: &[&str], seeds: u64) {
    let broken = (0..seeds).find_map(|seed| Some((seed, run_engine(seed, Some(defect), false).broken?)));
    let Some((seed, broken)) = broken else {
        panic!("{defect:?} is not found within {seeds} seeds");
    };
    println!("{defect:?}: seed {seed}: {}: {}", broken.invariant, broken.what);
    let is_it = promises.contains(&broken.invariant);
    assert!(is_it, "{defect:?}, seed {seed}: {}: {}", broken.invariant, broken.what);
    assert_eq!(run_engine(seed, None, false).violation(), None);
}

/// The checks of engine histories find defects of scripts.
#[test]
fn defects_of_scripts_are_found_through_whole_clients() {
    for (defect, promises) in [
        (
            Defect::AcquireBesideHolder,
            ["at most one holder", "a valid lease has its record"],
        ),
        (Defect::AcquireForEver, ["every key has a TTL", "nothing is left"]),
        (Defect::TokenCounts, ["tokens rise", "tokens rise"]),
        (
            Defect::RenewalForgets,
            ["a valid lease has its record", "at most one holder"],
        ),
        (Defect::ReleaseForgets, ["nothing is left", "nothing is left"]),
        (Defect::ReleaseWakesNobody, ["who waits is woken", "who waits is woken"]),
        (
            Defect::DoneJobRunsAgain,
            ["a job that is done is not run", "a job that is done is not run"],
        ),
        (
            Defect::LateReleaseEndsNextRun,
            ["a valid lease has its record", "at most one holder"],
        ),
        (
            Defect::MutexReleaseWakesNobody,
            ["who waits is woken", "who waits is woken"],
        ),
    ] {
        found(defect, &promises, 300);
    }
}
