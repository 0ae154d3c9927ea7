//! Script calls in flight: what each is for, and when it was sent.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::hold::HoldId;
use crate::instant::Instant;
use crate::queue::QueueId;
use crate::release::ReleaseId;
use crate::session::{CallId, Ticket};

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request's attempt; `ttl` is what it asks for.
    Acquire {
        /// The request.
        ticket: Ticket,
        /// The TTL that the record gets.
        ttl: Duration,
    },
    /// A hold's renewal.
    Renew {
        /// The hold.
        hold: HoldId,
        /// The TTL that the record gets.
        ttl: Duration,
    },
    /// A release that is owed.
    Release(ReleaseId),
    /// The heartbeat of waiters in the server's queue.
    Poll(QueueId),
    /// A question about a lock's state, or what an operator does.
    Inspect(Ticket),
}

/// A call whose answer has not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// When its bytes went to the socket; `None` until they did.
    pub(crate) sent: Option<Instant>,
}

/// The table of calls in flight. A call leaves it when its answer comes, never
/// by a timeout: a late grant must still find its way home.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    in_flight: BTreeMap<CallId, InFlight>,
}

impl Calls {
    /// Notes a new call.
    pub(crate) fn start(&mut self, purpose: Purpose) -> CallId {
        self.last = self.last.wrapping_add(1);
        let id = CallId::from_u64(self.last);
        self.in_flight.insert(id, InFlight { purpose, sent: None });
        id
    }

    /// Notes when a call was sent, and says what it is.
    pub(crate) fn sent(&mut self, id: CallId, now: Instant) -> Option<InFlight> {
        let call = self.in_flight.get_mut(&id)?;
        call.sent = Some(now);
        Some(*call)
    }

    /// A call in flight.
    pub(crate) fn get(&self, id: CallId) -> Option<InFlight> {
        self.in_flight.get(&id).copied()
    }

    /// Takes a call out, since its answer came.
    pub(crate) fn finish(&mut self, id: CallId) -> Option<InFlight> {
        self.in_flight.remove(&id)
    }

    /// What is in flight.
    pub(crate) fn purposes(&self) -> impl Iterator<Item = Purpose> {
        self.in_flight.values().map(|call| call.purpose)
    }

    /// How many are in flight.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }
}
