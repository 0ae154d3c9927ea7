//! Carries calls to servers, and their replies back.
//!
//! A [`Transport`] takes the items that the session wants to send, one by one, and reports what it saw. It fulfils the
//! transport's part of the driver contract: the calls of one lane (a connection for calls) stay in order, a call waits
//! for its lane to open, but no longer than the response timeout, and every call is answered once. The engine does not
//! know whether it talks to one server, a cluster or several primaries.

#[cfg(not(feature = "native"))]
mod external;
#[cfg(feature = "native")]
mod memory;
#[cfg(feature = "native")]
mod open;
mod quorum;
#[cfg(feature = "native")]
mod redis;

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use steadlock_protocol::{CallError, CallId, Cause, Error, Instant, Lane, NodeId, Reply, Transmit};

#[cfg(not(feature = "native"))]
pub(crate) use self::external::{NodeLink, open};
#[cfg(feature = "native")]
pub(crate) use self::open::open;
#[cfg(feature = "admin")]
pub(crate) use self::redis::tools;

/// The node of a transport that reaches one server.
const NODE: NodeId = NodeId(0);

/// An event of a transport.
#[derive(Debug)]
pub(crate) enum TransportEvent {
    /// A lane of the node has opened.
    LaneOpened {
        node: NodeId,
        lane: Lane,
    },
    /// The lane is no longer open, or could not be opened. If there are several nodes, the cause names the node.
    LaneClosed {
        node: NodeId,
        lane: Lane,
        cause: Cause,
    },
    /// The node has lost all its subscriptions.
    SubscriptionsLost(NodeId),
    /// The node has lost one subscription. The transport subscribes again.
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "only clusters lose them one by one")
    )]
    SubscriptionLost {
        node: NodeId,
        channel: Arc<[u8]>,
    },
    /// A lane to one node of a cluster opened. For observers, metrics and circuit breakers.
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "only clusters report it"))]
    ShardLaneOpened {
        server: Arc<str>,
        lane: Lane,
    },
    /// A lane to one node of a cluster closed, or could not be opened.
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "only clusters report it"))]
    ShardLaneClosed {
        server: Arc<str>,
        lane: Lane,
        cause: Cause,
    },
    /// The primaries of a cluster's slots. Only reported if the client has circuit breakers.
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "only clusters have slots"))]
    Slots {
        node: NodeId,
        /// For each slot the number of its primary; `u16::MAX` if it has none. Each primary keeps its number.
        primary_of_slot: Arc<[u16]>,
        /// The names of the primaries, by number.
        primaries: Arc<[Arc<str>]>,
    },
    /// The engine must flush again: a call that was held back may be ready to send, or its time has changed.
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "only clusters hold back"))]
    Sendable,
    /// The client can be used: both lanes of its node are open, or those of a majority of several nodes.
    Ready,
    /// The first attempt to connect failed, and the client cannot be used. The engine ends.
    Unreachable(Error),
    Reply {
        call: CallId,
        result: Result<Reply, CallError>,
    },
    Subscribed {
        node: NodeId,
        channel: Arc<[u8]>,
    },
    Message {
        node: NodeId,
        channel: Arc<[u8]>,
        payload: Vec<u8>,
    },
}

/// The connections to a server, a cluster or several servers. Only the engine's task drives them.
pub(crate) trait Transport: Send {
    /// Adds an item to send with the next `flush`.
    fn transmit(&mut self, item: Transmit);

    /// Sends the added items on the connections that are open. Calls `sent` just before it sends a call. All calls of a
    /// lane go as one batch.
    fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId));

    /// Advances the connections and appends their events. Wakes the task of `context` when there may be more.
    fn poll(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>);

    /// Sets whether the client is in use: it holds, waits for or owes something. While it is, the transport regularly
    /// checks whether its servers are still primaries.
    fn set_in_use(&mut self, _is_in_use: bool) {}

    /// Sets the length of the shortest auto-renewed lease that is held or waited for, among those with a length of
    /// their own; `None` if there are none. The transport gives up silent connections and slow attempts to connect in
    /// time to renew this lease, and also a lease of the client's length.
    fn set_shortest_lease(&mut self, _lease: Option<Duration>) {}

    /// Abandons everything that belongs to a broken runtime: connections, attempts to connect, and timers. Appends the
    /// events of the connections that are lost. Later polls connect again. Returns false if that is impossible.
    #[cfg(feature = "native")]
    fn restart(&mut self, now: Instant, events: &mut Vec<TransportEvent>) -> bool;

    /// Returns the time of the next poll if no connection has an event before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether every lane of every node is open, so that calls and renewals can be sent at once.
    fn every_lane_is_open(&self) -> bool;
}

/// How a client's callers depend on its first connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstConnection {
    /// The callers wait for the first connection before they do anything else.
    Awaited,
    /// The first operation connects, and waits for the connection as it would in an outage.
    Lazy,
    /// This process is a fork, and the client was made before the fork. Failures to connect are an ordinary outage.
    Inherited,
}
