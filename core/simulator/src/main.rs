//! Runs histories: one by its seed, or many with a table at the end.

#![forbid(unsafe_code)]

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;
use steadlock_simulator::{
    EngineSummary, Family, Fingerprint, Summary, Violation, fingerprints_on, run, run_engine, run_many_engines_on,
    run_many_of, run_many_on, run_of, run_printing_calls,
};

/// Simulate clients and servers of Steadlock in virtual time, with faults, and check the promises after every step.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run the history of this seed
    #[arg(long, conflicts_with_all = ["histories", "start"])]
    seed: Option<u64>,
    /// Print everything that happens in the history
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Print a fingerprint of the calls that sessions hand out, one line for each history; with --trace print each
    /// call. Compare the output of two builds by diff
    #[arg(long)]
    calls: bool,
    /// Run histories of the whole engine: clients as users have them, with their connections
    #[arg(long, conflicts_with = "calls")]
    engine: bool,
    /// Run only histories of this family of locks, by its title in the table
    #[arg(long, conflicts_with_all = ["calls", "engine"])]
    family: Option<Family>,
    /// The number of histories to run
    #[arg(long, default_value_t = 10_000)]
    histories: u64,
    /// The seed of the first history
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// The number of threads [default: the number of processors]
    #[arg(long)]
    threads: Option<NonZeroUsize>,
}

impl Arguments {
    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().ok();
        self.threads.or_else(all).map_or(1, usize::from)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_good = match arguments.seed {
        Some(seed) if arguments.engine => one_of_the_engine(seed, arguments.trace),
        None if arguments.engine => many_of_the_engine(&arguments),
        Some(seed) if arguments.calls => calls_of_one(seed, arguments.trace),
        Some(seed) => one(seed, arguments.family, arguments.trace),
        None if arguments.calls => calls_of_many(&arguments),
        None => many(&arguments),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, family: Option<Family>, trace: bool) -> bool {
    let report = match family {
        Some(family) => run_of(seed, family, trace),
        None => run(seed, None, trace),
    };
    match &report.violation {
        Some(violation) => println!("{}", violation.report(seed)),
        None => println!(
            "seed {seed}: nothing is broken; {} steps, {} grants, trace {:016x}",
            report.steps, report.grants, report.trace_hash
        ),
    }
    report.violation.is_none()
}

fn one_of_the_engine(seed: u64, trace: bool) -> bool {
    let report = run_engine(seed, None, trace);
    match report.violation() {
        Some(violation) => println!("{violation}"),
        None => println!(
            "seed {seed} of the engine: nothing is broken; {} steps, {} grants, trace {:016x}",
            report.steps, report.grants, report.trace_hash
        ),
    }
    report.broken.is_none()
}

fn many_of_the_engine(arguments: &Arguments) -> bool {
    let summary: EngineSummary = run_many_engines_on(arguments.threads(), arguments.start, arguments.histories, None);
    for report in &summary.first {
        println!("{}\n", report.violation().unwrap_or_default());
    }
    println!("{summary}");
    summary.violations == 0
}

fn calls_of_one(seed: u64, trace: bool) -> bool {
    let report = if trace {
        run_printing_calls(seed)
    } else {
        run(seed, None, false)
    };
    print_calls(seed, &report.calls, report.violation.as_ref())
}

/// The number of histories that are run before their results are printed.
const PART: u64 = 10_000;

fn calls_of_many(arguments: &Arguments) -> bool {
    let (mut done, mut is_good) = (0, true);
    while done < arguments.histories {
        let count = PART.min(arguments.histories - done);
        let start = arguments.start.wrapping_add(done);
        for (seed, calls, violation) in fingerprints_on(arguments.threads(), start, count) {
            is_good &= print_calls(seed, &calls, violation.as_ref());
        }
        done += count;
    }
    is_good
}

/// Prints the line of one history. Returns whether it broke no promise.
fn print_calls(seed: u64, calls: &Fingerprint, violation: Option<&Violation>) -> bool {
    match violation {
        Some(violation) => println!("seed {seed}: {calls}, {} is broken", violation.broken.invariant),
        None => println!("seed {seed}: {calls}"),
    }
    violation.is_none()
}

fn many(arguments: &Arguments) -> bool {
    let mut summary = Summary::default();
    while summary.histories < arguments.histories {
        let start = arguments.start.wrapping_add(summary.histories);
        let count = PART.min(arguments.histories - summary.histories);
        let part = match arguments.family {
            Some(family) => run_many_of(arguments.threads(), start, count, family),
            None => run_many_on(arguments.threads(), start, count, None),
        };
        for (seed, violation) in &part.first {
            println!("{}\n", violation.report(*seed));
        }
        summary.merge(part);
    }
    println!("{summary}");
    // Histories of one family do not have the operations of the others.
    let missing = match arguments.family {
        Some(_) => Vec::new(),
        None => summary.missing(),
    };
    for what in &missing {
        println!("no history had this: {what}");
    }
    summary.violations == 0 && missing.is_empty()
}
