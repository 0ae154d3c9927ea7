//! The public Rust API, on the same [`Host`](crate::host::Host) that language bindings use.
//!
//! Each call turns its arguments into an operation, and the completion into a lease, an answer or an error. The
//! blocking API wraps the asynchronous one and differs only in how it waits.

pub mod blocking;
mod client;
mod convert;
mod kinds;
mod leader;
mod lease;
mod lock;
mod once;
#[cfg(feature = "tracing")]
mod spans;

pub use self::client::{Builder, Client};
pub use self::kinds::{ReadWriteLock, Semaphore};
pub use self::leader::{Leader, Observer, Term};
pub use self::lease::Lease;
pub use self::lock::Lock;
pub use self::once::{Once, Run, RunResult, Skipped, Started};
