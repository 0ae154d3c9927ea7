//! Steadlock's simulator: whole histories of clients and servers in virtual time.
//!
//! A seed decides everything: how many clients there are, what their callers do,
//! how long each message takes, and which faults strike when. The sessions are
//! those that users run, and the servers run the shipped scripts. After every
//! step the promises are checked (see `checks`); the first one that is broken ends
//! the history, and its seed shows it again.
//!
//! Which faults a history has depends on its tier, so that every promise is checked
//! exactly where it is made: that there is at most one holder is not promised when
//! strangers delete records, clocks of servers are set, or a replica takes over that
//! has not heard the last of it. That a guarded resource takes no stale write is
//! promised in all of them.

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
mod kinds;
mod lapsing;
mod ledger;
mod links;
mod many;
mod node;
mod observer;
mod operation;
mod operator;
mod outcomes;
mod overheard;
mod plan;
mod random;
mod records;
mod route;
mod serving;
mod snapshot;
mod stores;
mod stranger;
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
pub use engine::{EngineDefect, EngineFault, EngineReport, EngineSummary, run_engine, run_many_engines_on};
pub use fault::{Fault, FaultCounts};
#[cfg(feature = "defects")]
pub use history::run_mistaken;
pub use history::{Report, Violation, run, run_printing_calls};
pub use kinds::Family;
pub use many::{Summary, fingerprints_on, run_many, run_many_on};
pub use operation::{Operation, OperationCounts};
