//! Proves that random histories find mistakes of the session: with a mistake switched on, some history among a few
//! thousand breaks a promise, and without it none does.

use steadlock_protocol::Defect;
use steadlock_simulator::{Family, run_mistaken};

/// Each mistake, with the locks that show it, the promises that it can break, and the number of seeds within which it
/// must be found.
const MISTAKES: &[(Defect, Family, &[&str], u64)] = &[
    (Defect::LostMemberIsGranted, Family::Several, &["I1"], 5_000),
    (Defect::SilenceOfTheHolder, Family::RedLock, &["I9"], 5_000),
    (Defect::CompositeWaitsForItself, Family::Several, &["I9", "I10"], 500),
    (Defect::CompositeWaitsForItself, Family::RedLock, &["I9", "I10"], 500),
    (Defect::MessagesWakeNobody, Family::Lock, &["I6"], 2_000),
    (Defect::DeadEndThePassing, Family::Fair, &["I6"], 2_000),
    (Defect::PollsAreNoAttempts, Family::Fair, &["I5"], 2_000),
    (Defect::NewsIsBelieved, Family::Fair, &["I1", "I2"], 2_000),
    (Defect::LapsedLeaseStays, Family::Lock, &["I12"], 500),
    (Defect::LapsedRecordStays, Family::Fair, &["I5"], 2_000),
    (Defect::LocalBesideHolder, Family::Lock, &["I14"], 2_000),
    (Defect::LocalLeavesRecord, Family::Lock, &["I5"], 2_000),
    (Defect::BreakerStaysOpen, Family::Lock, &["I6", "I9"], 2_000),
    (Defect::ReleaseEndsWithItsConnection, Family::Lock, &["I5"], 2_000),
    (Defect::LateAttemptsAreForgotten, Family::Semaphore, &["I5"], 2_000),
    (Defect::LateGrantStays, Family::Semaphore, &["I5"], 2_000),
    (Defect::LongestMemberCounts, Family::RedLock, &["I1"], 2_000),
    (Defect::LongestMemberIsGranted, Family::RedLock, &["I1"], 2_000),
];

#[test]
fn every_mistake_is_found_by_the_promise_that_it_breaks() {
    let mut unseen = Vec::new();
    for (mistake, family, promises, seeds) in MISTAKES {
        let found = (0..*seeds).find_map(|seed| {
            let violation = run_mistaken(seed, *family, Some(*mistake)).violation?;
            Some((seed, violation))
        });
        match found {
            Some((seed, violation)) if promises.contains(&violation.broken.invariant) => {
                println!(
                    "{mistake:?}: seed {seed}: {}: {}",
                    violation.broken.invariant, violation.broken.what
                );
                let sound = run_mistaken(seed, *family, None).violation;
                assert!(
                    sound.is_none(),
                    "{}",
                    sound.map_or_else(String::new, |of| of.report(seed))
                );
            }
            Some((seed, violation)) => panic!("{mistake:?} breaks another: {}", violation.report(seed)),
            None => unseen.push((mistake, seeds)),
        }
    }
    assert!(unseen.is_empty(), "not found within so many seeds: {unseen:?}");
}
