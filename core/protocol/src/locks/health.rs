//! What becomes of calls tells whether their primary serves: an answer, none in time, a connection that opened or closed.

use std::sync::Arc;

use super::Locks;
use crate::breakers::Health;
use crate::calls::{InFlight, Purpose};
use crate::cause::Cause;
use crate::ids::{CallId, NodeId, Primary};
use crate::instant::Instant;
use crate::machines::{holds, releases, waiters};
use crate::reply::{CallError, Reply};

impl Locks {
    /// The answer to a call is overdue.
    pub(super) fn call_overdue(&mut self, id: CallId, now: Instant) {
        let Some(call) = self.io.in_flight(id) else { return };
        match call.purpose {
            Purpose::Acquire { ticket, .. } => self.wait(waiters::Input::Overdue(ticket, id), now),
            Purpose::Renew { hold, .. } => self.hold(holds::Input::RenewalOverdue(hold, id), now),
            Purpose::Release(release) => self.release(releases::Input::Overdue(release, id), now),
            // Its caller's own wait ends at the same time; the next poll comes by itself.
            Purpose::Inspect(_) | Purpose::Poll(_) | Purpose::Identify | Purpose::Identity => {}
            Purpose::Probe(primary) => self.io.probe_failed(primary, id, now),
        }
        // A renewal of a short lease is asked for again before that.
        let timeout = self.io.config().command_timeout;
        let is_early = call.sent.is_none_or(|sent| now.saturating_since(sent) < timeout);
        if !(is_early && matches!(call.purpose, Purpose::Renew { .. })) {
            let silence = self.io.unreached(call.primary.node, timeout);
            self.note_failure(call.primary, Health::Fails(silence), now);
        }
    }

    /// Of a cluster, which of its primaries has which slot.
    pub(crate) fn slots_seen(&mut self, node: NodeId, slots: Arc<[u16]>, now: Instant) {
        self.io.set_slots(node, slots, now);
        self.route(now);
    }

    /// What an answer says. In a cluster a call that could not be sent in time is answered as one whose
    /// connection closed.
    pub(super) fn health_of(&self, call: &InFlight, result: &Result<Reply, CallError>) -> Health {
        match result {
            Err(CallError::Disconnected(cause))
                if call.sent.is_none() && self.io.breakers().is_cluster(call.primary.node) =>
            {
                Health::Fails(cause.clone())
            }
            _ => Health::of(result),
        }
    }

    /// A probe of this primary is due.
    pub(super) fn probe(&mut self, primary: Primary, now: Instant) {
        self.io.probe(primary, now);
        self.route(now);
    }

    /// A primary that answered serves. Before what else follows from the answer: whom it lets go on
    /// asks the server again.
    pub(super) fn note_answer(&mut self, call: &InFlight, health: &Health, now: Instant) {
        if *health == Health::Serves {
            self.io.note_round_trip(call, now);
        }
        if *health == Health::Serves && !self.io.breakers().is_quiet() {
            self.io.answered_by(call.primary, now);
            self.route(now);
        }
    }

    /// A primary gave no answer, or said that it cannot serve. After what else follows from that.
    pub(super) fn note_failure(&mut self, primary: Primary, health: Health, now: Instant) {
        if let Health::Fails(cause) = health {
            self.io.failed_at(primary, &cause, now);
            self.route(now);
        }
    }

    /// A connection to a primary opened, or closed, or could not be made for this cause.
    pub(crate) fn primary_seen(&mut self, primary: Primary, failure: Option<&Cause>, now: Instant) {
        match failure {
            Some(cause) => self.io.failed_at(primary, cause, now),
            None => self.io.connected_to(primary, now),
        }
        self.route(now);
    }

    /// A probe is over, wherever the slot of its lock may be by now.
    pub(super) fn probed(&mut self, (primary, call): (Primary, CallId), health: &Health, now: Instant) {
        if *health == Health::Serves {
            self.io.answered_by(primary, now);
            self.route(now);
        } else {
            self.io.probe_failed(primary, call, now);
        }
    }
}
