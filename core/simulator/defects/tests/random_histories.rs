//! Proves that random histories find defects: with a defect switched on, one of a few thousand histories breaks a
//! promise. Without the defect the same history breaks no promise.

use steadlock_defects::{Family, run_engine, run_of};
use steadlock_protocol::defects::{Defect, with};

/// Defects of sessions. Each has the locks that show it, the promises that it can break, and the number of seeds within
/// which it must be found.
const OF_SESSIONS: &[(Defect, Family, &[&str], u64)] = &[
    (Defect::LostMemberIsGranted, Family::Several, &["I1"], 5_000),
    (Defect::SilenceOfTheHolder, Family::RedLock, &["I9"], 5_000),
    (Defect::CompositeWaitsForItself, Family::Several, &["I9", "I10"], 500),
    (Defect::CompositeWaitsForItself, Family::RedLock, &["I9", "I10"], 500),
    (Defect::MessagesWakeNobody, Family::Lock, &["I6"], 2_000),
    (Defect::DeadEndThePassing, Family::Fair, &["I6"], 2_000),
    (Defect::PollsAreNoAttempts, Family::Fair, &["I5"], 2_000),
    (Defect::AnyGrantMessageIsBelieved, Family::Fair, &["I1", "I2"], 2_000),
    (Defect::ExpiredLeaseStays, Family::Lock, &["I12"], 500),
    (Defect::ExpiredRecordStays, Family::Fair, &["I5"], 2_000),
    (Defect::LocalBesideHolder, Family::Lock, &["I14"], 2_000),
    (Defect::LocalLeavesRecord, Family::Lock, &["I5"], 2_000),
    (Defect::BreakerStaysOpen, Family::Lock, &["I6", "I9"], 2_000),
    (Defect::ReleaseEndsWithItsConnection, Family::Lock, &["I5"], 2_000),
    (Defect::LateAttemptsAreForgotten, Family::Semaphore, &["I5"], 2_000),
    (Defect::LateGrantStays, Family::Semaphore, &["I5"], 2_000),
    (Defect::LongestMemberCounts, Family::RedLock, &["I1"], 2_000),
    (Defect::LongestMemberIsGranted, Family::RedLock, &["I1"], 2_000),
    (Defect::FailedRunIsKept, Family::Once, &["I16"], 500),
    (Defect::UnusedRunIsKept, Family::Once, &["I16"], 500),
    (Defect::RunKeysCollide, Family::Once, &["I16"], 500),
    (Defect::DroppedRunSucceeds, Family::Once, &["I16"], 500),
    (Defect::RunWaits, Family::Once, &["I17"], 500),
    (Defect::SkipTellsTheEnd, Family::Once, &["I17"], 500),
];

#[test]
fn every_defect_of_sessions_is_found_by_the_promise_that_it_breaks() {
    let mut unseen = Vec::new();
    for (defect, family, promises, seeds) in OF_SESSIONS {
        let found = with(Some(*defect), || {
            (0..*seeds).find_map(|seed| Some((seed, run_of(seed, *family, false).violation?)))
        });
        match found {
            Some((seed, violation)) if promises.contains(&violation.broken.invariant) => {
                println!(
                    "{defect:?}: seed {seed}: {}: {}",
                    violation.broken.invariant, violation.broken.what
                );
                let sound = run_of(seed, *family, false).violation;
                assert!(
                    sound.is_none(),
                    "{}",
                    sound.map_or_else(String::new, |of| of.report(seed))
                );
            }
            Some((seed, violation)) => panic!("{defect:?} breaks another: {}", violation.report(seed)),
            None => unseen.push((defect, seeds)),
        }
    }
    assert!(unseen.is_empty(), "not found within these seeds: {unseen:?}");
}

/// Checks that one of the first `seeds` histories of whole clients finds the defect, and that the same history breaks
/// no promise without it.
fn found(defect: Defect, promises: &[&str], seeds: u64) {
    let broken = with(Some(defect), || {
        (0..seeds).find_map(|seed| Some((seed, run_engine(seed, None, false).broken?)))
    });
    let Some((seed, broken)) = broken else {
        panic!("{defect:?} is not found within {seeds} seeds");
    };
    println!("{defect:?}: seed {seed}: {}: {}", broken.invariant, broken.what);
    let is_it = promises.contains(&broken.invariant);
    assert!(is_it, "{defect:?}, seed {seed}: {}: {}", broken.invariant, broken.what);
    assert_eq!(run_engine(seed, None, false).violation(), None);
}

#[test]
fn a_client_that_stays_at_a_demoted_server_is_found() {
    found(Defect::DemotedServerStays, &["a demoted server is left"], 500);
}

#[test]
fn a_watchdog_that_stops_with_the_command_lane_is_found() {
    found(Defect::WatchdogStopsWithCommands, &["a renewed lease is kept"], 100);
}

#[test]
fn a_shard_that_delays_the_others_is_found() {
    found(
        Defect::StuckShardDelaysOthers,
        &["a shard delays its own calls only", "who waits is woken"],
        300,
    );
}

#[test]
fn a_redirect_to_the_new_node_of_a_slot_that_is_ignored_is_found() {
    found(
        Defect::MovedIsNotFollowed,
        &["errors have a reason", "a renewed lease is kept"],
        300,
    );
}

#[test]
fn a_call_to_an_importing_node_without_asking_is_found() {
    found(
        Defect::AskingIsLeftOut,
        &["errors have a reason", "a renewed lease is kept"],
        300,
    );
}

#[test]
fn a_call_that_runs_after_the_call_that_undoes_it_is_found() {
    found(Defect::UndoneCallsRunLate, &["what undoes a call comes after it"], 300);
}

#[test]
fn a_sentinel_that_is_believed_because_it_is_first_is_found() {
    found(
        Defect::FirstSentinelWins,
        &["at most one holder", "a valid lease has its record"],
        1_000,
    );
}

#[test]
fn connections_of_a_client_that_are_split_over_two_servers_are_found() {
    found(Defect::LanesSplit, &["a client is at one server"], 1_000);
}
