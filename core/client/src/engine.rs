//! The engine: one thread for each client, which owns the session and the connections. The program's observers, wakers
//! and subscribers of `tracing` run on this thread, too, so they must not block. No other code of the program runs
//! here. Without the feature `native` there is no thread: the program runs the engine itself.
//!
//! One turn of the engine:
//!
//! ```text
//!   callers' commands ─┐                       ┌─► calls, one batch for each lane
//!   transport events ──┼─► Session ─► drained ─┤
//!   the clock ─────────┘                       └─► completions: one wake-up for a batch
//! ```
//!
//! A lane is a connection for calls: commands have one, and renewals have another.

mod connecting;
#[cfg(feature = "native")]
mod descriptor_monitor;
#[cfg(not(feature = "native"))]
mod driven;
#[cfg(feature = "native")]
mod driver;
mod handle;
mod metering;
mod observing;
mod queue_poller;
#[cfg(feature = "native")]
mod spin;
mod tables;
#[cfg(feature = "native")]
mod thread;
mod turn;

#[cfg(not(feature = "native"))]
pub use self::driven::{Driven, Server, ServerAddress};
#[cfg(feature = "native")]
pub(crate) use self::driver::is_driving;
pub(crate) use self::handle::Handle;
