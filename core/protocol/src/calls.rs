//! Script calls in flight: their purposes, when they were sent, and the attempts whose results are unknown.

use std::time::Duration;

use steadlock_collections::Table;

use crate::ids::{CallId, ElectionId, HoldId, LockId, Primary, ReleaseId, Ticket};
use crate::instant::Instant;
use crate::reply::{CallError, Reply};

/// The unresolved attempts of one owner id: attempts whose results are unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unresolved {
    /// The calls in flight.
    open: Vec<CallId>,
    /// Whether a call was sent and its connection closed. Such a call can run after a release on the next connection.
    cut: bool,
    /// Whether a call failed with an error that does not exclude a grant.
    failed: bool,
}

impl Unresolved {
    /// Whether an attempt is unresolved, so that the server may have a record for the owner id.
    pub(crate) fn is_any(&self) -> bool {
        !self.open.is_empty() || self.cut || self.failed
    }

    /// Adds a call.
    pub(crate) fn sent(&mut self, call: CallId) {
        self.open.push(call);
    }

    /// Returns the calls in flight.
    pub(crate) fn in_flight(&self) -> &[CallId] {
        &self.open
    }

    /// Notes that a call failed, perhaps with an error that does not exclude a grant.
    pub(crate) const fn failed(&mut self, may_be_granted: bool) {
        self.failed |= may_be_granted;
    }

    /// Takes out all attempts that may still run. Only failed ones stay.
    pub(crate) fn take_late_ones(&mut self) -> Self {
        Self {
            open: std::mem::take(&mut self.open),
            cut: std::mem::take(&mut self.cut),
            failed: false,
        }
    }

    /// Notes that an attempt was answered, or that its connection closed.
    pub(crate) fn resolved(&mut self, resolved: Resolved) {
        self.open.retain(|open| *open != resolved.attempt);
        self.cut |= resolved.was_cut;
    }
}

/// An attempt that is no longer in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    pub(crate) attempt: CallId,
    /// Whether the attempt was sent and its connection closed, so that it may still run.
    pub(crate) was_cut: bool,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// An attempt of a request.
    Acquire {
        /// The request.
        ticket: Ticket,
        /// The TTL that the attempt asks for.
        ttl: Duration,
    },
    /// The renewal of a hold.
    Renew {
        hold: HoldId,
        /// The TTL that the renewal asks for.
        ttl: Duration,
    },
    /// A release that is owed.
    Release(ReleaseId),
    /// A poll, which keeps waiters in the server's queue alive.
    Poll(LockId),
    /// A question about the state of a lock, or the operation of an operator.
    Inspect(Ticket),
    /// Asks who leads.
    Observe(ElectionId),
    /// Stores on a server which program this client is.
    Identify,
    /// Asks which program another client is.
    Identity,
    /// Asks whether a primary serves again.
    Probe(Primary),
}

/// The hold or the release that takes over an unresolved attempt, when the request that sent the attempt ends, or
/// continues under a new owner id. The successor gets the result of the attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Successor {
    /// A hold of the same owner id, which another call acquired.
    Hold(HoldId),
    /// A release for the same owner id.
    Release(ReleaseId),
}

/// A call that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) purpose: Purpose,
    /// When the driver was about to write the bytes of the call to the socket; `None` before that.
    pub(crate) sent: Option<Instant>,
    /// The primary that must answer the call.
    pub(crate) primary: Primary,
}

/// A call that was answered, or whose connection closed.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) id: CallId,
    /// The call as it was in flight.
    pub(crate) call: InFlight,
    pub(crate) result: Result<Reply, CallError>,
}

impl Answered {
    /// Whether the call was sent and its connection closed. The call may then still run.
    pub(crate) fn was_cut(&self) -> bool {
        self.call.sent.is_some() && matches!(self.result, Err(CallError::Disconnected(_)))
    }

    /// Returns the call as an attempt that is no longer in flight.
    pub(crate) fn resolved(&self) -> Resolved {
        Resolved {
            attempt: self.id,
            was_cut: self.was_cut(),
        }
    }
}

/// The table of calls in flight. A call is removed only by its answer, never by a timeout, because the client must
/// recognize a late grant.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    in_flight: Table<CallId, InFlight>,
    successors: Table<CallId, Vec<Successor>>,
}

impl Calls {
    /// Adds a new call.
    pub(crate) fn start(&mut self, purpose: Purpose, primary: Primary) -> CallId {
        self.last = self.last.wrapping_add(1);
        let id = CallId::from_u64(self.last);
        let call = InFlight {
            purpose,
            sent: None,
            primary,
        };
        self.in_flight.insert(id, call);
        id
    }

    /// Notes when a call was sent, and returns the call.
    pub(crate) fn sent(&mut self, id: CallId, now: Instant) -> Option<InFlight> {
        let call = self.in_flight.get_mut(&id)?;
        call.sent = Some(now);
        Some(*call)
    }

    /// Returns a call in flight.
    pub(crate) fn get(&self, id: CallId) -> Option<InFlight> {
        self.in_flight.get(&id).copied()
    }

    /// Makes a hold or a release a successor for these attempts.
    pub(crate) fn add_successor(&mut self, attempts: &[CallId], successor: Successor) {
        for id in attempts {
            if self.in_flight.contains_key(id) {
                self.successors.get_or_default(*id).push(successor);
            }
        }
    }

    /// Removes an answered call, and returns it with the successors that get its result.
    pub(crate) fn finish(&mut self, id: CallId) -> Option<(InFlight, Vec<Successor>)> {
        let call = self.in_flight.remove(&id)?;
        Some((call, self.successors.remove(&id).unwrap_or_default()))
    }

    /// Returns the number of calls in flight.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }
}
