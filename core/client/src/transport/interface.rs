//! What every transport does, and what it tells.

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use steadlock_protocol::{CallError, CallId, Cause, Error, Instant, Lane, NodeId, Reply, Transmit};

/// The node of a transport that reaches one server.
pub(super) const NODE: NodeId = NodeId(0);

/// What a transport saw.
#[derive(Debug)]
pub(crate) enum Seen {
    /// One of the node's lanes is open.
    Opened(NodeId, Lane),
    /// It is open no more, or still not; the cause, naming the node.
    Closed(NodeId, Lane, Cause),
    /// The node's subscriptions are gone.
    Deaf(NodeId),
    /// One of them is. It is asked for again.
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "only clusters lose them one by one")
    )]
    Unheard(NodeId, Arc<[u8]>),
    /// A lane to one of a cluster's nodes opened, or closed for this cause. For those who watch.
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "only clusters have such"))]
    Shard(Arc<str>, Lane, Option<Cause>),
    /// Of a cluster, which of its primaries has which slot, and what they are called; each keeps its
    /// number. Only if the client has circuit breakers.
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "only clusters have slots"))]
    Slots(NodeId, Arc<[u16]>, Arc<[Arc<str>]>),
    /// What was held back can be sent, or when it can be has changed.
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "only clusters hold back"))]
    Sendable,
    /// The client can be used: its node has both lanes, or a majority of several has.
    Ready,
    /// The first attempt to connect failed. Nothing follows.
    Unreachable(Error),
    Reply(CallId, Result<Reply, CallError>),
    Subscribed(NodeId, Arc<[u8]>),
    Message(NodeId, Arc<[u8]>, Vec<u8>),
}

/// One way to reach a server. Driven by the engine's task alone.
pub(crate) trait Transport: Send {
    /// Takes something to send with the next `flush`.
    fn transmit(&mut self, item: Transmit);

    /// Hands what was taken to the connections that are open; `sent` is told of
    /// each call just before. All calls of a lane go as one batch.
    fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId));

    /// Moves the connections on and appends what they saw. Wakes the task of
    /// `context` when there may be more.
    fn poll(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>);

    /// Says whether anything is held, waited for or owed. While that is so, the
    /// transport looks now and then whether its servers are what they were.
    fn set_in_use(&mut self, _is_in_use: bool) {}

    /// Says how long the shortest lease is that is held or asked for, and renewed, of those with a length of their
    /// own. A connection that is lost or silent is given up in time for it, and for the client's.
    fn set_shortest_lease(&mut self, _lease: Option<Duration>) {}

    /// Leaves everything that is of a runtime that is no more: connections, those that are being made, and timers.
    /// Appends what is lost with them, and makes new ones when it is polled. False if it cannot.
    #[cfg(feature = "native")]
    fn start_again(&mut self, now: Instant, seen: &mut Vec<Seen>) -> bool;

    /// When to poll if nothing happens before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether nothing is to be connected before calls and renewals can go out, to
    /// whatever node.
    fn every_lane_is_open(&self) -> bool;
}

/// What a client's first connection is to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// It is waited for before anything else.
    IsAwaited,
    /// It is made at the first use, which waits for it as it would in an outage.
    IsAtUse,
    /// There was one before, in the process that this one is a fork of.
    WasMade,
}
