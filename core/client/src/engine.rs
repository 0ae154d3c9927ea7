//! The engine: one thread for each client, which owns the session and the connections. The program's observers, wakers
//! and subscribers of `tracing` run on this thread, too, and must not block; no other code of the program does. Without
//! the feature `native` there is no thread: the program runs the engine itself.
//!
//! One turn of the engine:
//!
//! ```text
//!   callers' commands ─┐                       ┌─► calls, one batch for each lane
//!   what was seen ─────┼─► Session ─► drained ─┤
//!   the clock ─────────┘                       └─► completions: one wake-up for a batch
//! ```

mod arrived;
mod connecting;
#[cfg(not(feature = "native"))]
mod driven;
#[cfg(feature = "native")]
mod driver;
mod handle;
#[cfg(feature = "native")]
mod inbox;
mod leases;
mod metering;
mod observing;
mod outbox;
mod queues;
mod requests;
#[cfg(feature = "native")]
mod sentry;
mod short_leases;
#[cfg(feature = "native")]
mod spin;
#[cfg(feature = "native")]
mod thread;
#[cfg(feature = "native")]
mod timer;
mod turn;
#[cfg(feature = "native")]
mod who_drives;

#[cfg(not(feature = "native"))]
pub use self::driven::{Driven, Place, Server};
#[cfg(feature = "native")]
pub(crate) use self::driver::is_driving;
pub(crate) use self::handle::Handle;
