//! Finds the transitions in the drawings of the machines (`drawing.rs`) that no test has taken.

use std::collections::BTreeSet;

use super::channels::Channels;
use super::elections::Elections;
use super::fair_queue::FairQueue;
use super::holds::Holds;
use super::inspections::Inspections;
use super::releases::Releases;
use super::waiters::Waiters;
use crate::transitions::{Drawn, written};

fn rows<M: Drawn>() -> impl Iterator<Item = String> {
    M::ROWS.iter().map(|row| written(M::NAME, *row))
}

fn drawn() -> Vec<String> {
    let releases = rows::<Releases>()
        .chain(rows::<Inspections>())
        .chain(rows::<Channels>())
        .chain(rows::<Elections>());
    let waiters = rows::<Waiters>().chain(rows::<FairQueue>());
    releases.chain(rows::<Holds>()).chain(waiters).collect()
}

#[test]
fn no_transition_is_drawn_twice() {
    let all = drawn();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

/// The other tests record the transitions that they take in the file that `STEADLOCK_TRANSITIONS` names. This test
/// reads that file, so it must run after them: see `ci/transitions/check`.
#[test]
#[ignore = "reads what the other tests have recorded"]
fn every_drawn_transition_was_taken() {
    let path = std::env::var_os("STEADLOCK_TRANSITIONS").expect("STEADLOCK_TRANSITIONS names the record");
    let record = std::fs::read_to_string(path).unwrap();
    let taken: BTreeSet<&str> = record.lines().collect();
    let all = drawn();
    let missing: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|row| !taken.contains(row))
        .collect();
    let count = all.len();
    assert!(missing.is_empty(), "not taken, of {count}:\n{}", missing.join("\n"));
    println!("all {count} drawn transitions were taken");
}
