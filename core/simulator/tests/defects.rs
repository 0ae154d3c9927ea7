//! Proves that the checks find defects: with a known defect switched on, some history among a few thousand breaks a
//! promise.

use steadlock_simulator::{Defect, run, run_many};

/// The number of seeds within which a defect must be found.
const SEEDS: u64 = 2_000;

#[test]
fn every_known_defect_is_found() {
    let mut unseen = Vec::new();
    for defect in Defect::ALL {
        let found = (0..SEEDS).find_map(|seed| Some((seed, run(seed, Some(*defect), false).violation?)));
        match found {
            Some((seed, violation)) => {
                let broken = violation.broken;
                println!("{defect:?}: seed {seed}: {}: {}", broken.invariant, broken.what);
            }
            None => unseen.push(defect),
        }
    }
    assert!(unseen.is_empty(), "not found within {SEEDS} seeds: {unseen:?}");
}

/// Starvation breaks no promise other than I10.
#[test]
fn a_writer_that_is_never_granted_breaks_only_the_promise_of_no_starvation() {
    let summary = run_many(0, SEEDS / 2, Some(Defect::WaitingWriterIsIgnored));
    assert_ne!(summary.violations, 0);
    for (seed, violation) in summary.first {
        assert_eq!(violation.broken.invariant, "I10", "{}", violation.report(seed));
    }
}
