//! Histories of the whole engine: the clients that users have, with their connections and timers,
//! in virtual time.
//!
//! ```text
//!   task.rs ──► steadlock::Client ──► engine ──► connections ──► cable.rs ──► server.rs ──► the store
//!         world.rs gives the client its clock, its randomness and network.rs
//!   faults.rs: what happens to connections and servers      ledger.rs: the holders, and the promises
//! ```
//!
//! A history runs on one thread, in a tokio runtime whose time advances only when all tasks sleep.
//! A seed decides everything, so each run of a seed gives the same trace.

mod cable;
mod clock;
mod data;
mod excuses;
mod faults;
mod history;
mod ledger;
mod network;
mod plan;
mod processes;
mod sentinel_faults;
mod sentinels;
mod server;
mod server_per_client;
mod shard_faults;
mod shards;
mod summary;
mod task;
mod trace;
mod world;

pub use faults::EngineFault;
pub use history::{EngineReport, run_engine};
pub use summary::{EngineSummary, run_many_engines_on};
