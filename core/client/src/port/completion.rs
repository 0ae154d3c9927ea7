//! The results of operations, and the other events for a host.

use std::sync::Arc;

use steadlock_protocol::{Error, LockState, LostReason};

use super::lease::Lease;
use super::released::Released;
use crate::observe::Line;

/// The result of a successful operation.
#[derive(Clone, Debug)]
pub enum Completion {
    /// The server was reached, and locks can work with it.
    Connected,
    /// The lock is held.
    Granted(Arc<Lease>),
    /// The wait timed out, or the acquisition was skipped. The error is for callers that want one.
    NotGranted(Error),
    /// The release ended.
    Released(Released),
    /// The lease was extended; `remaining()` returns the time that is left.
    Extended,
    /// The lock's state on the server.
    State(LockState),
    /// A forced release or a change of a limit was done. The value says whether the lock or a permit was held.
    Forced(bool),
    /// The holds of the context.
    Held {
        /// The number of levels; 0 if the context holds nothing.
        levels: u32,
        /// The innermost lease.
        lease: Option<Arc<Lease>>,
    },
    /// The client is closed.
    Closed,
}

/// An event for the host.
#[derive(Clone, Debug)]
pub enum Event {
    /// A submitted operation has ended.
    Completed {
        /// The number that `submit` returned, or [`Host::CONNECT`](crate::host::Host::CONNECT).
        request: u64,
        /// The result of the operation.
        result: Result<Completion, Error>,
    },
    /// A lease was lost for good. Arrives once for each lease, and never after its release.
    Lost {
        /// The lease's id.
        lease: u64,
        /// The reason of the loss.
        reason: LostReason,
        /// Whether the lease needs no release: see [`Lease::is_forgotten`].
        is_forgotten: bool,
    },
    /// A line for the host's log, if [`Options::log`](crate::host::Options::log) enables it.
    Observed(Box<Line>),
}
