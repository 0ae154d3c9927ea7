//! Script calls in flight: what each is for, when it was sent, and what it may have done if nobody knows.

use std::time::Duration;

use crate::ids::{CallId, HoldId, LockId, Primary, ReleaseId, Ticket};
use crate::instant::Instant;
use crate::reply::{CallError, Reply};
use crate::table::Table;

/// Attempts of one owner id whose outcome is not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unresolved {
    /// Calls in flight.
    open: Vec<CallId>,
    /// A call was sent and its connection closed: it may run after a release
    /// that takes the next connection.
    cut: bool,
    /// A call failed in a way that does not exclude a grant.
    failed: bool,
}

impl Unresolved {
    /// Whether there may be a record.
    pub(crate) fn is_any(&self) -> bool {
        !self.open.is_empty() || self.cut || self.failed
    }

    /// A call was sent.
    pub(crate) fn sent(&mut self, call: CallId) {
        self.open.push(call);
    }

    /// Those that are in flight.
    pub(crate) fn in_flight(&self) -> &[CallId] {
        &self.open
    }

    /// A call failed, perhaps in a way that does not exclude a grant.
    pub(crate) const fn failed(&mut self, may_be_granted: bool) {
        self.failed |= may_be_granted;
    }

    /// Those that may yet run, of which it knows nothing any more.
    pub(crate) fn take_late_ones(&mut self) -> Self {
        Self {
            open: std::mem::take(&mut self.open),
            cut: std::mem::take(&mut self.cut),
            failed: false,
        }
    }

    /// A call's answer came, or its connection closed.
    pub(crate) fn answered(&mut self, call: CallId, was_cut: bool) {
        self.open.retain(|open| *open != call);
        self.cut |= was_cut;
    }
}

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
    Poll(LockId),
    /// A question about a lock's state, or what an operator does.
    Inspect(Ticket),
    /// Says which program this client is.
    Identify,
    /// Which program another client is.
    Identity,
    /// Whether a primary serves again.
    Probe(Primary),
}

/// Who took over what an unresolved attempt may yet get, from the request that sent it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heir {
    /// Its owner id has the lock by another call.
    Hold(HoldId),
    /// What its owner id may have is released.
    Release(ReleaseId),
}

/// A call whose answer has not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// When its bytes went to the socket; `None` until they did.
    pub(crate) sent: Option<Instant>,
    /// Who is to answer it.
    pub(crate) primary: Primary,
}

impl InFlight {
    /// Whether it was sent and its connection closed: then it may still run.
    pub(crate) fn was_cut(&self, result: &Result<Reply, CallError>) -> bool {
        self.sent.is_some() && matches!(result, Err(CallError::Disconnected(_)))
    }
}

/// The table of calls in flight. A call leaves it when its answer comes, never
/// by a timeout: a late grant must still find its way home.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    in_flight: Table<CallId, InFlight>,
    heirs: Table<CallId, Vec<Heir>>,
}

impl Calls {
    /// Notes a new call.
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

    /// What attempts in flight may yet get is a hold's or a release's from now on.
    pub(crate) fn leave_to(&mut self, attempts: &[CallId], heir: Heir) {
        for id in attempts {
            if self.in_flight.contains_key(id) {
                self.heirs.get_or_default(*id).push(heir);
            }
        }
    }

    /// Takes a call out, since its answer came, and says who has waited for it beside the
    /// one that sent it.
    pub(crate) fn finish(&mut self, id: CallId) -> Option<(InFlight, Vec<Heir>)> {
        let call = self.in_flight.remove(&id)?;
        Some((call, self.heirs.remove(&id).unwrap_or_default()))
    }

    /// What is in flight.
    pub(crate) fn purposes(&self) -> impl Iterator<Item = Purpose> {
        self.in_flight.iter().map(|(_, call)| call.purpose)
    }

    /// How many are in flight.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }
}
