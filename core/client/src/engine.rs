//! The engine of a client: it owns the session and the connections, and has a thread of its own. A caller that waits
//! for a result can drive the engine, that is, run it, in place of that thread (`driver.rs`). The program's observers,
//! wakers and subscribers of `tracing` run on the thread that drives, so they must not block. The engine calls no other
//! code of the program on that thread. Without the feature `native` there is no thread: the program turns the engine
//! itself.
//!
//! One turn of the engine:
//!
//! ```text
//!   callers' commands ─┐                       ┌─► calls, one batch for each lane
//!   transport events ──┼─► Session ─► drained ─┤
//!   the clock ─────────┘                       └─► completions: one wake-up for a batch
//! ```
//!
//! A lane is a connection to a server for calls: commands have one, and renewals have another.

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
