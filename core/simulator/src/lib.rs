//! Steadlock's simulator: whole histories of clients and servers in virtual time.
//!
//! A seed decides everything: the number of clients, the actions of their callers, the time that each message takes,
//! and the faults with their times. The sessions are those that users run, and the servers run the shipped scripts, in
//! some histories with lower limits. All the time, the promises are checked (see `checks`). The first broken promise
//! ends the history, and the seed reproduces it. `engine` does the same for whole clients.
//!
//! The tier of a history (see `plan`) decides which faults strike, and which promises are checked. For example, two
//! holders are possible where external clients delete records, where servers' clocks are set, or where a replica takes
//! over without the primary's last writes. In every tier, a guarded resource accepts no stale write.

#![forbid(unsafe_code)]

mod acquiring;
mod calls;
mod checks;
mod choices;
mod client;
mod counted;
mod defect;
mod driver;
mod engine;
mod event;
mod fault;
mod fnv;
mod history;
mod jobs;
mod kinds;
mod ledger;
mod links;
mod lost_leases;
mod malicious_client;
mod many;
mod node;
mod observer;
mod operation;
mod operator;
mod outcomes;
mod plan;
mod random;
mod recorded_messages;
mod records;
mod route;
mod serving;
mod snapshot;
mod stores;
mod strike;
mod task;
mod time;
mod together;
mod trace;
mod workload;
mod world;

pub use calls::Fingerprint;
pub use checks::Broken;
pub use defect::Defect;
pub use engine::{EngineFault, EngineReport, EngineSummary, run_engine, run_many_engines_on};
pub use fault::{Fault, FaultCounts};
pub use history::{Report, Violation, run, run_of, run_printing_calls};
pub use kinds::Family;
pub use many::{Summary, fingerprints_on, run_many, run_many_of, run_many_on};
pub use operation::{Operation, OperationCounts};
