//! Runs many histories of the engine on several threads, and adds up what happened in them; an `EngineSummary` is shown
//! as a table.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::faults::EngineFault;
use super::history::{EngineReport, run_engine};
use crate::defect::Defect;

/// The number of violations that a summary keeps.
const KEPT: usize = 10;

/// The totals of many engine histories.
#[derive(Clone, Debug, Default)]
pub struct EngineSummary {
    /// The number of histories.
    pub histories: u64,
    /// The number of histories that broke a promise.
    pub violations: u64,
    /// The violations with the lowest seeds.
    pub first: Vec<EngineReport>,
    /// How often each fault has struck.
    pub faults: BTreeMap<EngineFault, u64>,
    /// The number of granted leases.
    pub grants: u64,
    /// The number of auto-renewed leases that were lost.
    pub lost: u64,
    /// The number of lines of all traces.
    pub steps: u64,
    /// The virtual time that passed.
    pub virtual_time: Duration,
    /// The real time that passed.
    pub real_time: Duration,
}

/// Runs the histories of `count` seeds from `start` on, on this number of threads.
#[must_use]
pub fn run_many_engines_on(threads: usize, start: u64, count: u64, defect: Option<Defect>) -> EngineSummary {
    let (began, next) = (Instant::now(), AtomicU64::new(0));
    let summary = Mutex::new(EngineSummary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let report = run_engine(start.wrapping_add(number), defect, false);
                    summary.lock().unwrap_or_else(PoisonError::into_inner).add(report);
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.real_time = began.elapsed();
    summary
}

impl EngineSummary {
    fn add(&mut self, report: EngineReport) {
        self.histories += 1;
        self.grants += report.grants;
        self.lost += report.lost;
        self.steps += report.steps;
        self.virtual_time += report.virtual_time;
        for (fault, count) in &report.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        if report.broken.is_some() {
            self.violations += 1;
            let place = self.first.partition_point(|before| before.seed < report.seed);
            self.first.insert(place, report);
            self.first.truncate(KEPT);
        }
    }

    /// Returns the faults that no history had.
    #[must_use]
    pub fn missing(&self) -> Vec<EngineFault> {
        let all = EngineFault::ALL.into_iter();
        all.filter(|fault| !self.faults.contains_key(fault)).collect()
    }
}

impl fmt::Display for EngineSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>12}", "histories of the engine", self.histories)?;
        writeln!(f, "{:<24} {:>12}", "violations", self.violations)?;
        writeln!(f, "{:<24} {:>12}", "steps", self.steps)?;
        writeln!(f, "{:<24} {:>12}", "leases granted", self.grants)?;
        writeln!(f, "{:<24} {:>12}", "renewed leases lost", self.lost)?;
        writeln!(f, "faults")?;
        for fault in EngineFault::ALL {
            let count = self.faults.get(&fault).copied().unwrap_or(0);
            writeln!(f, "  {:<22} {count:>12}", format!("{fault:?}"))?;
        }
        let (shown, real) = (self.virtual_time.as_secs_f64(), self.real_time.as_secs_f64());
        writeln!(f, "{:<24} {shown:>12.0}", "virtual seconds")?;
        write!(f, "{:<24} {real:>12.1}", "real seconds")
    }
}
