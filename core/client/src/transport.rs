//! How calls reach a server.
//!
//! A [`Transport`] takes what the session wants to send, item by item, and
//! reports what it saw. It keeps the driver's half of the session's law: calls
//! of one lane stay in order, a call waits while its node is not connected, and
//! every call is answered once. Further transports (sentinel, cluster) are
//! further implementations; the engine does not know which one it drives.

mod fleet;
mod memory;
mod redis;

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use leasehold_protocol::{CallError, CallId, Error, Instant, Lane, NodeId, Reply, Transmit};

use crate::host::Settings;
use crate::target::{Scheme, Target};

use self::redis::Failing;
use self::redis::connect::Peers;

/// What a transport saw.
#[derive(Debug)]
pub(crate) enum Seen {
    /// One of the node's lanes is open.
    Opened(NodeId, Lane),
    /// It is open no more, or still not; the cause, naming the node.
    Closed(NodeId, Lane, String),
    /// The node's subscriptions are gone.
    Deaf(NodeId),
    /// The client can be used: its node has both lanes, or a majority of several has.
    Ready,
    /// The first try to connect failed. Nothing follows.
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

    /// Says how long a lease is that is to be renewed. A connection that is lost or silent is
    /// given up in time for the shortest, the client's or one of these.
    fn set_shortest_lease(&mut self, _lease: Duration) {}

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

/// The transport that the settings ask for. It starts to connect when it is polled.
pub(crate) fn open(settings: &Arc<Settings>, first: First) -> Result<Box<dyn Transport>, Error> {
    match settings.targets.as_slice() {
        [target] => {
            let first = match first {
                First::IsAwaited => Failing::IsFatal,
                First::IsAtUse => Failing::MayPass,
                First::WasMade => Failing::IsAnOutage,
            };
            open_one(settings, target, first, None)
        }
        targets => {
            let first = match first {
                First::IsAwaited | First::IsAtUse => Failing::MayPass,
                First::WasMade => Failing::IsAnOutage,
            };
            let peers = Peers::new(targets.len());
            let nodes = targets
                .iter()
                .zip(peers)
                .map(|(target, peers)| open_one(settings, target, first, Some(peers)))
                .collect::<Result<_, Error>>()?;
            Ok(Box::new(fleet::Fleet::new(nodes, settings.server())))
        }
    }
}

fn open_one(
    settings: &Arc<Settings>,
    target: &Target,
    first: Failing,
    peers: Option<Peers>,
) -> Result<Box<dyn Transport>, Error> {
    match &target.scheme {
        Scheme::Memory { name } => Ok(Box::new(memory::Memory::open(name.as_deref()))),
        Scheme::Tcp { .. } | Scheme::Unix { .. } => Ok(Box::new(redis::Redis::open(settings, target, first, peers))),
    }
}
