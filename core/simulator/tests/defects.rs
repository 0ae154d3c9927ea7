//! The proof that the checks find what they are for: with a known defect switched
//! on, some history among a few thousand is found to break a promise.

use leasehold_simulator::{Defect, run};

/// Within so many seeds a defect is to be found.
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
