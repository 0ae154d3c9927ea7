//! The public Rust API, on the same [`Host`](crate::host::Host) that language bindings use.
//!
//! A call makes an operation of its arguments, and a lease, an answer or an error of the
//! completion. The blocking twins wrap the others, and differ in how they wait.

mod asked;
pub mod blocking;
mod client;
mod convert;
mod kinds;
mod lease;
mod lock;
#[cfg(feature = "tracing")]
mod spans;

pub use self::client::{Builder, Client};
pub use self::kinds::{ReadWriteLock, Semaphore};
pub use self::lease::Lease;
pub use self::lock::Lock;
