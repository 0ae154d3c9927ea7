//! Steadlock's lock protocol without I/O.
//!
//! A [`Session`] owns the local state of every lock of one client: waiters, holds, the reentrancy map, the renewal
//! schedule, subscriptions, and owed releases. A session opens no socket, reads no clock and has no source of entropy:
//! `now` is an argument, and randomness is injected. The same code runs under tokio, in a browser's event loop, and
//! under a simulator.
//!
//! # The driver contract
//!
//! **After any input, drain the polls**: [`Session::poll_transmit`] until it is empty, then [`Session::poll_event`]
//! until it is empty. A driver that wants observations drains [`Session::poll_observed`] before the events. An input is
//! any method that takes `now`. Then sleep until [`Session::poll_timeout`] or until the next input.
//!
//! # Duties of a driver
//!
//! 1. Pass every command of a caller to the session ([`Session::acquire`], [`Session::release`], [`Session::cancel`],
//!    …), and every event of the transport (`on_…`).
//! 2. Send the results of `poll_transmit` in their order. During the life of one connection, calls of one [`Lane`] of
//!    one node must reach the server in that order, unless [`Config::keeps_order`] is false. For the session, a node
//!    has three connections: one for each lane, and one for the subscriptions. The driver reports each of them
//!    separately: [`Session::on_lane_opened`], [`Session::on_lane_closed`], [`Session::on_subscriptions_lost`].
//! 3. Call [`Session::on_sent`] just before a call's bytes are written to the socket. A call waits in the driver while
//!    its lane is closed. The deadline of a grant counts from `on_sent`, so an early report is safe and a late one is
//!    not.
//! 4. Answer every call once, by [`Session::on_reply`], even if its connection closed. The driver needs no timeouts:
//!    the session has its own, and handles answers that come late.
//! 5. If a script is unknown to the server (NOSCRIPT), load it and send the call again, once. If the script is still
//!    unknown, pass the error on.
//!
//! Tickets, subscriptions and calls that were not sent yet stay valid across reconnects. On a new connection the driver
//! subscribes again to every channel that is still subscribed to, and calls [`Session::on_subscribed`] for each channel
//! that the server confirms.

#![warn(clippy::too_many_lines)]

mod breakers;
mod calls;
mod client;
mod client_info;
mod ending;
mod error;
mod foreign;
mod groups;
mod identities;
mod ids;
mod instant;
mod io;
mod kinds;
mod lateness;
mod leadership;
mod lease;
mod locks;
mod machines;
mod name;
mod observed;
mod owner;
mod periods;
mod reply;
mod run;
mod script;
mod server_clocks;
mod session;
mod shown;
mod skip;
mod slot;
mod step;
mod subject;
mod timers;
mod token;
mod transitions;
mod types;
mod wording;

pub use breakers::Breaker;
pub use client_info::ClientInfo;
pub use ending::{LostReason, ReleaseOutcome};
pub use error::{Cause, Error, ErrorKind, Holder, Operation};
pub use foreign::{around, is_harmful, readable, shown_owner, shown_words};
pub use identities::Identity;
pub use ids::{CallId, Context, LeaseId, NodeId, Primary, Ticket};
pub use instant::Instant;
pub use kinds::{Kind, LockKey, Permits};
pub use leadership::{Candidate, Leadership, TermSeen};
pub use lease::{LeaseDuration, LeaseTerms};
pub use name::{KeyPrefix, LockName, MAX_NAME_BYTES, Scratch, hash_tag};
pub use observed::{Attempted, Detail, Observed, Place};
pub use owner::{ClientId, Entropy, OwnerId};
pub use reply::{CallError, Reply};
pub use run::{EndedRun, Ending, LastRun, OnFailure, RunEnd, RunKey, RunOutcome, RunState, RunTerms};
pub use script::{SHARDED, Script};
pub use session::Session;
pub use shown::shown;
pub use skip::{Skip, SkipReason};
pub use slot::slot;
pub use subject::Subject;
pub use token::Token;
pub use types::{
    AcquireRequest, Call, Config, Event, Grant, Lane, Limits, LockState, OnUnavailable, Outcome, Transmit,
};
pub use wording::brief;
