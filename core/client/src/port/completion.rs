//! What comes of an operation, and what else a host is told.

use std::sync::Arc;

use steadlock_protocol::{Error, LockState, LostReason};

use super::lease::Lease;
use super::released::Released;
use crate::observe::Line;

/// How an operation ended well.
#[derive(Clone, Debug)]
pub enum Completion {
    /// The server was reached, and is one that locks can work with.
    Connected,
    /// The lock is held.
    Granted(Arc<Lease>),
    /// The wait timed out. The error is the `LockTimeout` for callers that want one.
    NotGranted(Error),
    /// A release is done.
    Released(Released),
    /// The lease lasts longer; its `remaining()` says how long.
    Extended,
    /// The lock's state on the server.
    State(LockState),
    /// A forced release or a change of a limit is done; whether anybody held it.
    Forced(bool),
    /// What the context holds.
    Held {
        /// How many levels; 0 if nothing.
        levels: u32,
        /// Its innermost lease.
        lease: Option<Arc<Lease>>,
    },
    /// The client is closed.
    Closed,
}

/// Something for the host.
#[derive(Clone, Debug)]
pub enum Event {
    /// A submitted operation is done.
    Completed {
        /// The number that `submit` gave, or [`Host::CONNECT`](crate::host::Host::CONNECT).
        request: u64,
        /// How it ended.
        result: Result<Completion, Error>,
    },
    /// A lease is lost, finally. Comes once for each lease, never after its release.
    Lost {
        /// Its id.
        lease: u64,
        /// Why.
        reason: LostReason,
        /// Nobody need release it: see [`Lease::is_forgotten`].
        is_forgotten: bool,
    },
    /// Something for the host's log, if [`Options::log`](crate::host::Options::log) asks for it.
    Observed(Box<Line>),
}
