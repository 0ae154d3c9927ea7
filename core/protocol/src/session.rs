//! The session: what callers and the driver say, and who is told what follows.
//!
//! It has no rule of its own. Locks are the machines' (`locks`), composite locks those of the
//! groups, which use locks as callers do.

use crate::composite::Composites;
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{CallId, Context, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Kind, Permits};
use crate::lease::LeasePlan;
use crate::locks::{Locks, Told};
use crate::machines::holds::{self, Hold};
use crate::machines::inspections::{self, Question};
use crate::name::LockName;
use crate::owner::Entropy;
use crate::quorum::SIMPLE_LOCKS_ONLY;
use crate::reply::{CallError, Reply};
use crate::timers::Timer;
use crate::types::{AcquireRequest, Config, Event, Lane, Limits, Outcome, Transmit};
use std::collections::VecDeque;
use std::sync::Arc;

/// The local state of every lock of one client. See the crate's documentation
/// for the law that its driver keeps.
pub struct Session {
    pub(crate) locks: Locks,
    pub(crate) composites: Composites,
    closed: bool,
    events: VecDeque<Event>,
}

impl Session {
    /// A session that holds nothing and is not connected.
    #[must_use]
    pub fn new(config: Config, entropy: Box<dyn Entropy>) -> Self {
        Self {
            locks: Locks::new(Io::new(config, entropy)),
            composites: Composites::default(),
            closed: false,
            events: VecDeque::new(),
        }
    }

    /// Makes one call do less than it does for users, so that a simulator meets the limits.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.locks.io_mut().set_limits(limits);
    }

    /// Wants a lock. Completes with [`Outcome::Granted`], [`Outcome::NotGranted`]
    /// (the wait is over and the lock is held), or [`Outcome::Failed`].
    pub fn acquire(&mut self, mut request: AcquireRequest, now: Instant) -> Ticket {
        self.misread(&mut request);
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Acquire) {
            let plan = LeasePlan::of(request.lease, self.locks.io().config().lease);
            if self.votes() {
                self.stand(ticket, request, now);
            } else if let Some(error) = self.waits_in_vain(&request, now) {
                self.complete(ticket, Outcome::Failed(error));
            } else {
                self.acquire_at(ticket, request, NodeId::default(), plan, now);
            }
            self.settle_composites(now);
        }
        ticket
    }

    /// Takes a lock of one node for `ticket`, to last as planned.
    pub(crate) fn acquire_at(
        &mut self,
        ticket: Ticket,
        request: AcquireRequest,
        node: NodeId,
        plan: LeasePlan,
        now: Instant,
    ) {
        self.locks.acquire(ticket, request, (node, plan), now);
        self.hand_on();
    }

    /// Gives one lease back. Completes with [`Outcome::Released`], or fails with
    /// `NotOwner` if the session does not have it: it was released before, or it was
    /// a fixed lease that was lost, and forgotten. Neither does any harm.
    pub fn release(&mut self, lease: LeaseId, now: Instant) -> Ticket {
        let ticket = self.ticket();
        self.release_any(ticket, lease, now);
        ticket
    }

    /// Gives back the innermost lease of `context` on several locks together.
    /// Completes as [`Session::release_innermost`].
    pub fn release_innermost_of_all(&mut self, locks: &[(Kind, LockName)], context: Context, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Release) {
            match self.innermost_of_all(locks, context) {
                Some(lease) => self.release_any(ticket, lease, now),
                None => self.complete(ticket, Outcome::Failed(not_owner())),
            }
        }
        ticket
    }

    fn release_any(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) {
        if !self.has_lease(lease) {
            self.complete(ticket, Outcome::Failed(unknown_lease()));
        } else if !self.release_whole(ticket, lease, now) && !self.release_vote(ticket, lease, now) {
            self.release_lease(ticket, lease, now);
        }
        self.settle_composites(now);
    }

    /// Gives back the innermost lease of `context`. Completes with
    /// [`Outcome::Released`], or fails with `NotOwner` if it has none.
    pub fn release_innermost(&mut self, kind: Kind, name: &LockName, context: Context, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if self.fail_if_closed(ticket, Operation::Release) {
            return ticket;
        }
        match self.innermost(kind, name, context) {
            Some(lease) => self.release_any(ticket, lease, now),
            None => self.complete(ticket, Outcome::Failed(not_owner().with_lock(name.as_str()))),
        }
        ticket
    }

    /// Makes a lease last `by` from now, or as long as it was given at first; never
    /// shorter than it does. Completes with [`Outcome::Extended`], or fails with
    /// `LockLost`, `NotOwner` (it was released, or was lost and forgotten) or
    /// `Unavailable`.
    pub fn extend(&mut self, lease: LeaseId, by: Option<crate::LeaseDuration>, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Extend) {
            if !self.extend_whole(ticket, lease, by, now) && !self.extend_vote(ticket, lease, by, now) {
                self.extend_lease(ticket, lease, by, now);
            }
            self.settle_composites(now);
        }
        ticket
    }

    /// Asks the server who holds a lock. Completes with [`Outcome::State`].
    pub fn inspect(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Inspect) {
            self.put_question(ticket, kind, name, Question::State, now);
        }
        ticket
    }

    /// Takes a lock from whoever holds it: for operators. Its holder hears of the
    /// loss at its next renewal. Completes with [`Outcome::Forced`].
    pub fn force_release(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Release) {
            self.put_question(ticket, kind, name, Question::Force, now);
        }
        ticket
    }

    /// Changes the limit on which those who hold permits of a semaphore agreed, to
    /// that of `permits`: for operators. Nobody loses a permit. Completes with
    /// [`Outcome::Forced`], false if none is held.
    pub fn set_limit(&mut self, permits: Permits, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if self.fail_if_closed(ticket, Operation::SetLimit) {
            return ticket;
        }
        if self.votes() {
            let error = Error::new(ErrorKind::InvalidArgument, Operation::SetLimit, SIMPLE_LOCKS_ONLY);
            self.complete(ticket, Outcome::Failed(error.with_lock(name.as_str())));
        } else {
            self.put_question(
                ticket,
                Kind::Semaphore(permits),
                name,
                Question::Limit(permits.limit()),
                now,
            );
        }
        ticket
    }

    fn put_question(&mut self, ticket: Ticket, kind: Kind, name: &LockName, question: Question, now: Instant) {
        if self.votes() {
            self.ask_every_primary(ticket, name, |session, part, node| {
                let keys = Arc::new(Keys::new(Kind::Mutex, name, node));
                session.ask(part, keys, question, now);
            });
            self.settle_composites(now);
        } else {
            let keys = Arc::new(Keys::new(kind, name, NodeId::default()));
            self.ask(ticket, keys, question, now);
        }
    }

    fn ask(&mut self, ticket: Ticket, keys: Arc<Keys>, question: Question, now: Instant) {
        self.locks
            .inspect(inspections::Input::Asked(ticket, keys, question), now);
        self.hand_on();
    }

    pub(crate) fn hold_by(&mut self, input: holds::Input, now: Instant) {
        self.locks.hold(input, now);
        self.hand_on();
    }

    /// Releases one lease; the last one takes the record with it.
    pub(crate) fn release_lease(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) {
        self.hold_by(holds::Input::Release(ticket, lease), now);
    }

    /// Makes the hold of `lease` last `by` from now, never shorter than it does.
    pub(crate) fn extend_lease(
        &mut self,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<crate::LeaseDuration>,
        now: Instant,
    ) {
        self.hold_by(holds::Input::Extend(ticket, lease, by), now);
    }

    pub(crate) fn lose(&mut self, id: crate::ids::HoldId, reason: LostReason, now: Instant) {
        self.hold_by(holds::Input::Lost(id, reason), now);
    }

    /// Gives callers and composite locks what the machines tell.
    fn hand_on(&mut self) {
        while let Some(told) = self.locks.next_told() {
            match told {
                Told::Event(event) => self.tell(event),
                Told::Entered(ticket, hold, plan) => self.stays_renewed(ticket, hold, plan),
            }
        }
    }

    /// Whether the session has a lease: it is held, or it was lost and is still to be
    /// released. A fixed lease that was lost is forgotten when its loss is told.
    #[must_use]
    pub fn has_lease(&self, lease: LeaseId) -> bool {
        self.locks.has_lease(lease) || self.composites.has_whole(lease)
    }

    /// The caller went away: no event follows. An acquisition leaves nothing
    /// behind; a release or an extension goes on.
    pub fn cancel(&mut self, ticket: Ticket, now: Instant) {
        self.cancel_whole(ticket, now);
        self.cancel_vote(ticket, now);
        self.cancel_one(ticket, now);
        self.settle_composites(now);
    }

    /// Cancels what is no composite lock's.
    pub(crate) fn cancel_one(&mut self, ticket: Ticket, now: Instant) {
        self.locks.cancel(ticket, now);
        self.hand_on();
    }

    /// Ends the session: what waits fails with `Closed`, holds are lost with
    /// [`LostReason::Closed`] and then released. Idempotent.
    pub fn close(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        self.closed = true;
        // Composite locks first: then their members are nobody's.
        let mut wholes = self.waiting_for_several();
        wholes.append(&mut self.candidates());
        // The last first, so that none of them asks in the place of one that has gone.
        for ticket in wholes.into_iter().rev() {
            self.fail_if_closed(ticket, Operation::Acquire);
            self.cancel(ticket, now);
        }
        let waiting = self.locks.waiting();
        for ticket in &waiting {
            self.fail_if_closed(*ticket, Operation::Acquire);
        }
        // The last ones first: whoever stood behind a waiter that goes would ask the server.
        for ticket in waiting.into_iter().rev() {
            self.cancel(ticket, now);
        }
        for id in self.locks.holds().ids() {
            self.lose(id, LostReason::Closed, now);
            self.settle_composites(now);
            self.hold_by(holds::Input::Dropped(id), now);
        }
        self.dissolve();
        self.dissolve_votes();
        self.locks.release_at_once(now);
        self.hand_on();
        self.settle_composites(now);
    }

    /// Whether nothing is owed to the server.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.locks.is_drained()
    }

    /// How often `context` holds the lock.
    #[must_use]
    pub fn levels(&self, kind: Kind, name: &LockName, context: Context) -> u32 {
        if self.votes() {
            return u32::try_from(self.votes_of(name, context).count()).unwrap_or(u32::MAX);
        }
        u32::try_from(self.leases_of(kind, name, context).count()).unwrap_or(u32::MAX)
    }

    /// The innermost lease of `context` on the lock.
    #[must_use]
    pub fn innermost(&self, kind: Kind, name: &LockName, context: Context) -> Option<LeaseId> {
        if self.votes() {
            return self.votes_of(name, context).last();
        }
        self.leases_of(kind, name, context).last()
    }

    /// The leases of `context` on the lock, outermost first. What it has as a part
    /// of several locks is the whole's.
    fn leases_of(&self, kind: Kind, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        let leases = self.locks.holds_of(kind, name, context).flat_map(Hold::levels);
        leases.copied().filter(|lease| self.composites.whole(*lease).is_none())
    }

    /// The node has both its lanes.
    pub fn on_connected(&mut self, node: NodeId, now: Instant) {
        self.lanes_opened(node, &[Lane::Renewal, Lane::Command], now);
    }

    /// The node has no connection any more, or none yet; the cause in words. The
    /// driver also answers every call that was on it.
    pub fn on_disconnected(&mut self, node: NodeId, cause: &str, now: Instant) {
        self.lane_closed(node, Lane::Command, cause, now);
        self.lane_closed(node, Lane::Renewal, cause, now);
        self.locks.subscriptions_lost(node);
    }

    /// One of the node's lanes is open.
    pub fn on_lane_opened(&mut self, node: NodeId, lane: Lane, now: Instant) {
        self.lanes_opened(node, &[lane], now);
    }

    /// One of the node's lanes is closed, or still is; the cause in words. The driver
    /// also answers every call that was on it.
    pub fn on_lane_closed(&mut self, node: NodeId, lane: Lane, cause: &str, now: Instant) {
        if self.locks.io().has(Defect::LaneLossIsOutage) {
            return self.on_disconnected(node, cause, now);
        }
        self.lane_closed(node, lane, cause, now);
    }

    /// The connection that carried the node's subscriptions is gone. What is published
    /// until the driver has subscribed again on the next one is lost.
    pub fn on_subscriptions_lost(&mut self, node: NodeId) {
        self.locks.subscriptions_lost(node);
    }

    fn lane_closed(&mut self, node: NodeId, lane: Lane, cause: &str, now: Instant) {
        self.locks.lane_closed(node, lane, cause, now);
        self.hand_on();
    }

    fn lanes_opened(&mut self, node: NodeId, lanes: &[Lane], now: Instant) {
        self.locks.lanes_opened(node, lanes, now);
        self.hand_on();
        self.settle_composites(now);
    }

    /// The call's bytes are about to go to the socket.
    pub fn on_sent(&mut self, call: CallId, now: Instant) {
        self.locks.sent(call, now);
    }

    /// The call's answer.
    pub fn on_reply(&mut self, id: CallId, result: Result<Reply, CallError>, now: Instant) {
        self.locks.replied(id, result, now);
        self.hand_on();
        self.settle_composites(now);
    }

    /// The server confirmed a subscription.
    pub fn on_subscribed(&mut self, node: NodeId, channel: &[u8], now: Instant) {
        self.locks.subscribed(node, channel, now);
        self.hand_on();
        self.settle_composites(now);
    }

    /// A message came.
    pub fn on_message(&mut self, node: NodeId, channel: &[u8], payload: &[u8], now: Instant) {
        self.locks.message(node, channel, payload, now);
        self.hand_on();
        self.settle_composites(now);
    }

    /// Time passed. Spurious calls are harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.locks.io_mut().take_due(now) {
            match timer {
                Timer::Share(ticket) => self.share_over(ticket, now),
                Timer::Majority(lease) => self.majority_over(lease, now),
                Timer::Wake(ticket) if self.ask_again(ticket, now) => {}
                Timer::Wait(ticket) if self.candidacy_over(ticket, now) => {}
                timer => {
                    self.locks.timer(timer, now);
                    self.hand_on();
                }
            }
            self.settle_composites(now);
        }
    }

    /// When the next renewal is due, whatever else is due before. A hold whose renewal
    /// is under way has none. May change with any input.
    #[must_use]
    pub fn next_renewal(&self) -> Option<Instant> {
        self.locks.io().next_renewal()
    }

    /// The next thing to send.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.locks.io_mut().next_transmit()
    }

    /// The next thing to tell.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Session::on_timeout`] if nothing else happens before; `None`
    /// while nothing is waited for. May change with any input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.locks.io().next_due()
    }

    /// Whether a script call was sent, or is to be, and its answer has not come.
    #[must_use]
    pub fn awaits_answers(&self) -> bool {
        self.locks.io().calls() > 0
    }

    /// How many entries of any kind the session keeps. Zero when nothing is
    /// waited for, held, owed or listened to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.locks.len().saturating_add(self.composites.len())
    }

    /// Whether the session keeps nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.tell(Event::Completed { ticket, outcome });
    }

    /// Tells the driver.
    pub(crate) fn publish(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) const fn ticket(&mut self) -> Ticket {
        self.locks.io_mut().next_ticket()
    }

    pub(crate) fn fail_if_closed(&mut self, ticket: Ticket, operation: Operation) -> bool {
        if self.closed {
            let error = Error::new(ErrorKind::Closed, operation, "the client is closed; connect a new one");
            self.complete(ticket, Outcome::Failed(error));
        }
        self.closed
    }
}

/// Why a lease is not released that the session does not have.
fn unknown_lease() -> Error {
    Error::new(
        ErrorKind::NotOwner,
        Operation::Release,
        "this lease was released before, or was lost and forgotten; nothing is left to release",
    )
}

fn not_owner() -> Error {
    Error::new(
        ErrorKind::NotOwner,
        Operation::Release,
        "the calling thread or task does not hold it; release it where it was acquired, or release its lease",
    )
}
