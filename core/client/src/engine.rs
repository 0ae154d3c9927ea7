//! The engine: one thread for each client, which owns the session and the
//! connections. No code of the program runs on it.
//!
//! One turn of its loop:
//!
//! ```text
//!   callers' commands ─┐                       ┌─► calls, one batch for each lane
//!   what was seen ─────┼─► Session ─► drained ─┤
//!   the clock ─────────┘                       └─► completions: one wake-up for a batch
//! ```

mod connecting;
mod driver;
mod handle;
mod inbox;
mod leases;
mod observing;
mod outbox;
mod requests;
mod spin;
mod timer;
mod turn;

pub(crate) use self::handle::Handle;
