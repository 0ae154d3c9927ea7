//! What can happen in a history, and to whom.

use std::sync::Arc;

use steadlock_protocol::{Call, CallError, CallId, Reply, Ticket, Token};

use crate::fault::Fault;
use crate::route::Route;
use crate::time::Micros;

/// Something that is to happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A call reaches its server. `survives` says that it does so though its connection was cut.
    Call {
        route: Route,
        call: Box<Call>,
        survives: bool,
    },
    /// A wish to listen, or not to, reaches its server.
    Listen { route: Route, channel: Arc<[u8]>, on: bool },
    /// A reply reaches its client.
    Reply {
        route: Route,
        call: CallId,
        result: Result<Reply, CallError>,
        /// The owner that it grants a lock.
        granted: Option<usize>,
    },
    /// A confirmation reaches its client.
    Listening { route: Route, channel: Arc<[u8]> },
    /// A message reaches its client.
    Message {
        route: Route,
        channel: Arc<[u8]>,
        payload: Arc<[u8]>,
    },
    /// A connection is there.
    Opened { route: Route },
    /// A connection is seen to be gone.
    Closed { route: Route },
    /// A call has waited long for a connection.
    Overdue { route: Route, call: CallId },
    /// A call has waited long for its answer.
    Silent { route: Route, call: CallId },
    /// A client looks whether a server is still a primary.
    Look { client: usize, node: usize },
    /// A task does the next thing.
    Task { client: usize, task: usize },
    /// A task gives up what it waits for.
    Impatient { client: usize, task: usize, ticket: Ticket },
    /// What a task wrote reaches the guarded resource.
    Write {
        client: usize,
        name: usize,
        hold: u64,
        token: Token,
    },
    /// A fault strikes.
    Strike { fault: Fault, every: Micros },
    /// A fault is over.
    Over { fault: Fault, whom: usize },
    /// Somebody looks at the locks.
    Observe,
}

impl Event {
    /// The client that it happens to.
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

    /// The server that it happens to.
    pub(crate) fn node(&self) -> Option<usize> {
        match self {
            Self::Call { route, .. } | Self::Listen { route, .. } => Some(route.node),
            _ => None,
        }
    }
}
