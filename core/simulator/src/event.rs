//! The events of a history, and their targets.

use std::sync::Arc;

use steadlock_protocol::{Call, CallError, CallId, Reply, Ticket, Token};

use crate::fault::Fault;
use crate::route::Route;
use crate::time::Micros;

/// An event that will happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A call reaches its server. With `survives`, the server runs the call although its connection was cut.
    Call {
        route: Route,
        call: Box<Call>,
        survives: bool,
    },
    /// A subscribe or unsubscribe request reaches its server.
    Listen { route: Route, channel: Arc<[u8]>, on: bool },
    /// A reply reaches its client.
    Reply {
        route: Route,
        call: CallId,
        result: Result<Reply, CallError>,
        /// The number of the owner to which the reply grants a lock.
        granted: Option<usize>,
    },
    /// The confirmation of a subscription reaches its client.
    Listening { route: Route, channel: Arc<[u8]> },
    /// A message reaches its client.
    Message {
        route: Route,
        channel: Arc<[u8]>,
        payload: Arc<[u8]>,
    },
    /// A client tries to open a connection.
    Opened { route: Route },
    /// A client notices that a connection is gone.
    Closed { route: Route },
    /// A call has waited too long for a connection.
    Overdue { route: Route, call: CallId },
    /// A call has waited too long for its reply.
    Silent { route: Route, call: CallId },
    /// A client checks whether a server is still a primary.
    Look { client: usize, node: usize },
    /// A task takes its next action.
    Task { client: usize, task: usize },
    /// A task gives up its wait.
    Impatient { client: usize, task: usize, ticket: Ticket },
    /// A write by a task reaches the guarded resource.
    Write {
        client: usize,
        name: usize,
        hold: u64,
        token: Token,
    },
    /// A fault strikes.
    Strike { fault: Fault, every: Micros },
    /// A fault ends.
    Over { fault: Fault, target: usize },
    /// The observer looks at the locks.
    Observe,
}

impl Event {
    /// Returns the client that the event happens to.
    pub(crate) fn client(&self) -> Option<usize> {
        match self {
            Self::Reply { route, .. }
            | Self::Listening { route, .. }
            | Self::Message { route, .. }
            | Self::Opened { route }
            | Self::Closed { route }
            | Self::Overdue { route, .. }
            | Self::Silent { route, .. } => Some(route.client),
            Self::Task { client, .. } | Self::Look { client, .. } | Self::Impatient { client, .. } => Some(*client),
            Self::Call { .. }
            | Self::Listen { .. }
            | Self::Write { .. }
            | Self::Strike { .. }
            | Self::Over { .. }
            | Self::Observe => None,
        }
    }

    /// Returns the server that the event happens to.
    pub(crate) fn node(&self) -> Option<usize> {
        match self {
            Self::Call { route, .. } | Self::Listen { route, .. } => Some(route.node),
            _ => None,
        }
    }
}
