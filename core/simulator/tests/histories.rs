//! Thousands of histories, none of which breaks a promise.
//!
//! `STEADLOCK_HISTORIES` sets the number of histories, `STEADLOCK_SEED` the first seed.

use std::env;

use steadlock_simulator::{Family, run, run_many, run_of};

/// Returns a number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")),
        Err(_) => otherwise,
    }
}

#[test]
fn no_history_breaks_a_promise_and_everything_happens() {
    let (start, count) = (number("STEADLOCK_SEED", 0), number("STEADLOCK_HISTORIES", 10_000));
    let summary = run_many(start, count, None);
    println!("{summary}");
    let reports: Vec<String> = summary.first.iter().map(|(seed, of)| of.report(*seed)).collect();
    assert_eq!(summary.violations, 0, "{}", reports.join("\n\n"));
    if count >= 1_000 {
        assert_eq!(summary.missing(), [""; 0], "no history had these");
    }
}

/// An attempt of a waiting writer was cut off and ran after its release, and the server was demoted before the next
/// release arrived. The writer's mark stays in a key that others keep alive, but it has expired.
#[test]
fn an_expired_mark_belongs_to_no_writer() {
    let report = run_of(138_357, Family::OneName, false);
    let violation = report.violation.map(|violation| violation.report(138_357));
    assert_eq!(violation, None);
}

/// An operator removed a member of a degraded multi-lock that a server had granted, and the same client was granted
/// that lock again.
#[test]
fn a_name_of_a_degraded_multi_lock_that_a_server_granted_can_be_taken_by_force() {
    let report = run_of(1_248_862_762, Family::Several, false);
    let violation = report.violation.map(|violation| violation.report(1_248_862_762));
    assert_eq!(violation, None);
}

/// A run was lost: an operator had freed the job. Its release noted that in the history, and its reply did not arrive.
/// The repeated release must not be answered as if an earlier one had ended the run.
#[test]
fn a_repeated_release_of_a_lost_run_does_not_end_it_well() {
    let report = run_of(59, Family::Once, false);
    let violation = report.violation.map(|violation| violation.report(59));
    assert_eq!(violation, None);
}

/// The first call that ended a run did not arrive, and an operator freed the job. The caller must not be told that its
/// run ended, because its key is not done.
#[test]
fn a_run_whose_end_reached_no_server_is_not_reported_as_ended() {
    let report = run_of(202, Family::Once, false);
    let violation = report.violation.map(|violation| violation.report(202));
    assert_eq!(violation, None);
}

#[test]
fn a_seed_gives_one_history() {
    for seed in 0..50 {
        let (first, second) = (run(seed, None, false), run(seed, None, false));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.steps, second.steps, "seed {seed}");
    }
}

#[test]
fn two_seeds_give_two_histories() {
    assert_ne!(run(1, None, false).trace_hash, run(2, None, false).trace_hash);
}
