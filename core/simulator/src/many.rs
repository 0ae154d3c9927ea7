//! Runs many histories on several threads, and adds up what happened in them; a `Summary` is shown as a table.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::calls::Fingerprint;
use crate::defect::Defect;
use crate::fault::{Fault, FaultCounts};
use crate::history::{Report, Violation, run, run_of};
use crate::kinds::{FAMILIES, Family};
use crate::operation::{Operation, OperationCounts};

/// The number of violations that a summary keeps.
const KEPT: usize = 10;

/// The totals of many histories.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The number of histories.
    pub histories: u64,
    /// The number of histories that broke a promise.
    pub violations: u64,
    /// The violations with the lowest seeds.
    pub first: Vec<(u64, Violation)>,
    /// The number of histories of each family.
    pub families: BTreeMap<Family, u64>,
    /// How often each kind of fault has struck.
    pub faults: FaultCounts,
    /// How often each operation was done.
    pub operations: OperationCounts,
    /// The virtual time that passed.
    pub virtual_time: Duration,
    /// The real time that passed.
    pub real_time: Duration,
    /// The number of steps: events that happened, and timers of sessions that fired.
    pub steps: u64,
    /// The number of granted leases.
    pub grants: u64,
    /// The number of scripts that the servers ran.
    pub script_runs: u64,
}

/// Runs the histories of `count` seeds from `start` on, on all processors.
#[must_use]
pub fn run_many(start: u64, count: u64, defect: Option<Defect>) -> Summary {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    run_many_on(threads, start, count, defect)
}

/// Runs the histories of `count` seeds from `start` on, on this number of threads.
#[must_use]
pub fn run_many_on(threads: usize, start: u64, count: u64, defect: Option<Defect>) -> Summary {
    sum(threads, start, count, |seed| run(seed, defect, false))
}

/// Runs the histories of `count` seeds from `start` on, for locks of one family, on this number of threads.
#[must_use]
pub fn run_many_of(threads: usize, start: u64, count: u64, family: Family) -> Summary {
    sum(threads, start, count, |seed| run_of(seed, family, false))
}

fn sum(threads: usize, start: u64, count: u64, run: impl Fn(u64) -> Report + Sync) -> Summary {
    let began = Instant::now();
    let mut summary = Summary::default();
    for part in on_threads(threads, start, count, run, Summary::add) {
        summary.merge(part);
    }
    summary.real_time = began.elapsed();
    summary
}

/// Returns the fingerprints of the histories of `count` seeds from `start` on, in the order of seeds, with the promise
/// that each history broke, if any.
#[must_use]
pub fn fingerprints_on(threads: usize, start: u64, count: u64) -> Vec<(u64, Fingerprint, Option<Violation>)> {
    let add = |of: &mut Vec<_>, report: Report| of.push((report.seed, report.calls, report.violation));
    let mut fingerprints = on_threads(threads, start, count, |seed| run(seed, None, false), add).concat();
    fingerprints.sort_by_key(|(seed, ..)| seed.wrapping_sub(start));
    fingerprints
}

/// Runs the histories of `count` seeds from `start` on. Returns what each thread has collected.
fn on_threads<T: Default + Send>(
    threads: usize,
    start: u64,
    count: u64,
    run: impl Fn(u64) -> Report + Sync,
    add: impl Fn(&mut T, Report) + Sync,
) -> Vec<T> {
    let next = AtomicU64::new(0);
    let parts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = T::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    add(&mut own, run(start.wrapping_add(number)));
                }
                parts.lock().unwrap_or_else(PoisonError::into_inner).push(own);
            });
        }
    });
    parts.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Summary {
    fn add(&mut self, report: Report) {
        self.histories += 1;
        *self.families.entry(report.family).or_default() += 1;
        self.faults += &report.faults;
        self.operations += &report.operations;
        self.virtual_time += Duration::from_micros(report.virtual_micros);
        self.steps += report.steps;
        self.grants += report.grants;
        self.script_runs += report.script_runs;
        if let Some(violation) = report.violation {
            self.violations += 1;
            self.keep(report.seed, violation);
        }
    }

    /// Adds the totals of other histories.
    pub fn merge(&mut self, other: Self) {
        self.histories += other.histories;
        self.real_time += other.real_time;
        for (family, count) in other.families {
            *self.families.entry(family).or_default() += count;
        }
        self.violations += other.violations;
        self.faults += &other.faults;
        self.operations += &other.operations;
        self.virtual_time += other.virtual_time;
        self.steps += other.steps;
        self.grants += other.grants;
        self.script_runs += other.script_runs;
        for (seed, violation) in other.first {
            self.keep(seed, violation);
        }
    }

    /// Returns the number of histories of a family.
    #[must_use]
    pub fn histories_of(&self, family: Family) -> u64 {
        self.families.get(&family).copied().unwrap_or(0)
    }

    /// Returns the families without a history.
    #[must_use]
    pub fn missing_families(&self) -> Vec<Family> {
        let all = FAMILIES.iter().copied();
        all.filter(|family| self.histories_of(*family) == 0).collect()
    }

    /// Returns the names of everything that no history had: families, operations and faults.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let families = self.missing_families().into_iter().map(Family::title);
        let operations = self.operations.missing().into_iter().map(Operation::name);
        let faults = self.faults.missing().into_iter().map(Fault::name);
        families.chain(operations).chain(faults).collect()
    }

    fn keep(&mut self, seed: u64, violation: Violation) {
        let place = self.first.partition_point(|(before, _)| *before < seed);
        self.first.insert(place, (seed, violation));
        self.first.truncate(KEPT);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, real) = (self.virtual_time.as_secs_f64(), self.real_time.as_secs_f64());
        writeln!(f, "{:<18} {:>12}", "histories", self.histories)?;
        for family in FAMILIES {
            writeln!(f, "  {:<16} {:>12}", family.title(), self.histories_of(*family))?;
        }
        writeln!(f, "{:<18} {:>12}", "violations", self.violations)?;
        writeln!(f, "{:<18} {:>12}", "steps", self.steps)?;
        writeln!(f, "{:<18} {:>12}", "script runs", self.script_runs)?;
        writeln!(f, "{:<18} {:>12}", "leases granted", self.grants)?;
        writeln!(f, "operations")?;
        for operation in Operation::ALL {
            writeln!(f, "  {:<16} {:>12}", operation.name(), self.operations.of(*operation))?;
        }
        writeln!(f, "faults")?;
        for fault in Fault::ALL {
            writeln!(f, "  {:<16} {:>12}", fault.name(), self.faults.of(*fault))?;
        }
        writeln!(f, "{:<18} {:>12.0}", "virtual seconds", shown)?;
        writeln!(f, "{:<18} {:>12.1}", "real seconds", real)?;
        write!(f, "{:<18} {:>12.0}", "virtual : real", shown / real)
    }
}

impl Violation {
    /// Returns the violation as text, with the command that reproduces it.
    #[must_use]
    pub fn report(&self, seed: u64) -> String {
        let Self {
            broken,
            step,
            tier,
            only,
            trace,
        } = self;
        let only = only.map_or_else(String::new, |family| format!(" --family '{}'", family.title()));
        format!(
            "seed {seed} ({tier}), step {step}: {} is broken: {}\n{}\nagain: \
             cargo run --release --package steadlock-simulator -- --seed {seed}{only} --trace",
            broken.invariant,
            broken.what,
            trace.join("\n")
        )
    }
}
