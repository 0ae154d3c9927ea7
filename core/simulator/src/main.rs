//! Runs histories: one by its seed, or many with a table at the end.

#![forbid(unsafe_code)]

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;
use leasehold_simulator::{Summary, run, run_many, run_many_on};

/// Simulates clients and servers of Leasehold in virtual time, with faults, and
/// checks what is promised after every step.
#[derive(Debug, Parser)]
struct Arguments {
    /// Runs the history of this seed
    #[arg(long, conflicts_with_all = ["histories", "start"])]
    seed: Option<u64>,
    /// Prints everything that happens in it
    #[arg(long, requires = "seed")]
    trace: bool,
    /// How many histories to run
    #[arg(long, default_value_t = 10_000)]
    histories: u64,
    /// The seed of the first of them
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// On how many threads; all processors unless it is said
    #[arg(long)]
    threads: Option<NonZeroUsize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_good = match arguments.seed {
        Some(seed) => one(seed, arguments.trace),
        None => many(&arguments),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, trace: bool) -> bool {
    let report = run(seed, None, trace);
    match &report.violation {
        Some(violation) => println!("{}", violation.report(seed)),
        None => println!(
            "seed {seed}: nothing is broken; {} steps, {} grants, trace {:016x}",
            report.steps, report.grants, report.trace_hash
        ),
    }
    report.violation.is_none()
}

/// After so many, what they broke is printed.
const PART: u64 = 10_000;

fn many(arguments: &Arguments) -> bool {
    let mut summary = Summary::default();
    while summary.histories < arguments.histories {
        let start = arguments.start.wrapping_add(summary.histories);
        let count = PART.min(arguments.histories - summary.histories);
        let part = match arguments.threads {
            Some(threads) => run_many_on(threads.get(), start, count, None),
            None => run_many(start, count, None),
        };
        for (seed, violation) in &part.first {
            println!("{}\n", violation.report(*seed));
        }
        summary.merge(part);
    }
    println!("{summary}");
    let missing = summary.missing();
    for what in &missing {
        println!("no history had this: {what}");
    }
    summary.violations == 0 && missing.is_empty()
}
