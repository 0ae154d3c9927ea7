//! The session: the calls of callers, operators and the driver, and the events that they cause.
//!
//! The session has no rule of its own. The machines (`locks`) have the rules of locks, and the groups those of composite
//! locks. The groups use locks as callers do.

use std::sync::Arc;

use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Cause, Error, ErrorKind, Operation};
use crate::groups::members::Members;
use crate::groups::multi::Multi;
use crate::groups::quorum::SIMPLE_LOCKS_ONLY;
use crate::groups::{Group, multi, quorum};
use crate::ids::{CallId, Context, LeaseId, NodeId, Primary, Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Kind, Permits};
use crate::lease::{LeasePlan, LeaseTerms};
use crate::locks::Locks;
use crate::machines::holds;
use crate::machines::holds::Hold;
use crate::machines::inspections::Question;
use crate::name::LockName;
use crate::observed::{Detail, Observed};
use crate::owner::Entropy;
use crate::reply::{CallError, Reply};
use crate::subject::Subject;
use crate::types::{AcquireRequest, Config, Event, Lane, Limits, Outcome, Transmit};

/// The local state of every lock of one client. See the crate's documentation
/// for the contract that its driver keeps.
pub struct Session {
    members: Members,
    group: Group,
}

impl Session {
    /// A session that holds nothing and is not connected.
    #[must_use]
    pub fn new(config: Config, entropy: Box<dyn Entropy>) -> Self {
        Self {
            group: Group::new(config.primaries),
            members: Members::new(Locks::new(Io::new(config, entropy))),
        }
    }

    /// Makes one call do less than it does for users, so that a simulator meets the limits.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.members.io_mut().set_limits(limits);
    }

    /// Tells those who watch so much, by [`Session::poll_observed`]; nothing at first.
    pub const fn set_detail(&mut self, detail: Detail) {
        self.members.io_mut().set_detail(detail);
    }

    /// Wants a lock. Completes with [`Outcome::Granted`], [`Outcome::NotGranted`]
    /// (the wait is over and the lock is held), or [`Outcome::Failed`].
    pub fn acquire(&mut self, mut request: AcquireRequest, now: Instant) -> Ticket {
        self.misread(&mut request);
        let ticket = self.members.ticket(Verb::Acquire);
        if self
            .members
            .fail_if_closed(ticket, Operation::Acquire, Some(&request.name))
        {
            return ticket;
        }
        match &mut self.group {
            Group::Quorum(quorum) => {
                quorum.input(&mut self.members, quorum::Input::Acquire(ticket, request), now);
            }
            Group::Multi(_) => {
                if let Some(error) = self.members.waits_in_vain(&request, now) {
                    self.members.complete(ticket, Outcome::Failed(error));
                } else {
                    let plan = LeasePlan::of(request.lease, self.members.io().config().lease);
                    self.members.acquire(ticket, request, (NodeId::default(), plan), now);
                }
            }
        }
        self.settle(now);
        ticket
    }

    /// Wants several locks, all or none; of each request the kind and the name
    /// count, the rest is the first one's. Completes like [`Session::acquire`];
    /// the lease is one, without a token.
    pub fn acquire_all(&mut self, requests: Vec<AcquireRequest>, now: Instant) -> Ticket {
        let ticket = self.members.ticket(Verb::Acquire);
        if self.members.fail_if_closed(ticket, Operation::Acquire, None) {
            return ticket;
        }
        let requests = multi::in_order(requests).and_then(|requests| match &self.group {
            Group::Quorum(_) => Err("a RedLock is one lock of several primaries, and no part of several locks"),
            Group::Multi(_) => Ok(requests),
        });
        match (&mut self.group, requests) {
            (Group::Multi(multi), Ok(requests)) => {
                multi.input(&mut self.members, multi::Input::Acquire(ticket, requests), now);
            }
            (_, requests) => {
                let message = requests.err().unwrap_or_default();
                let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message);
                self.members.complete(ticket, Outcome::Failed(error));
            }
        }
        self.settle(now);
        ticket
    }

    /// Releases one lease. Completes with [`Outcome::Released`], or fails with
    /// `NotOwner` if the session does not have it: it was released before, or it was
    /// a fixed lease that was lost, and forgotten. Releasing is idempotent.
    pub fn release(&mut self, lease: LeaseId, now: Instant) -> Ticket {
        let ticket = self.members.ticket(Verb::Release);
        self.release_any(ticket, lease, now);
        ticket
    }

    fn release_any(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) {
        if self.group.has(lease) {
            self.group.release(&mut self.members, ticket, lease, now);
        } else if self.members.locks().has_lease(lease) {
            self.members.release(ticket, lease, now);
        } else {
            self.members.complete(ticket, Outcome::Failed(unknown_lease()));
        }
        self.settle(now);
    }

    /// Releases the innermost lease of `context`. Completes with
    /// [`Outcome::Released`], or fails with `NotOwner` if it has none.
    pub fn release_innermost(&mut self, subject: &Subject, context: Context, now: Instant) -> Ticket {
        let ticket = self.members.ticket(Verb::Release);
        if self.members.fail_if_closed(ticket, Operation::Release, subject.name()) {
            return ticket;
        }
        match self.innermost(subject, context) {
            Some(lease) => self.release_any(ticket, lease, now),
            None => self.members.complete(ticket, Outcome::Failed(not_owner(subject))),
        }
        ticket
    }

    /// Makes a lease last `by` from now, or as long as it was given at first; never
    /// shorter than it does. Completes with [`Outcome::Extended`], or fails with
    /// `LockLost`, `NotOwner` (it was released, or was lost and forgotten) or
    /// `Unavailable`.
    pub fn extend(&mut self, lease: LeaseId, by: Option<crate::LeaseDuration>, now: Instant) -> Ticket {
        let ticket = self.members.ticket(Verb::Extend);
        if !self.members.fail_if_closed(ticket, Operation::Extend, None) {
            if self.group.has(lease) {
                self.group.extend(&mut self.members, ticket, (lease, by), now);
            } else {
                self.members.extend(ticket, lease, by, now);
            }
            self.settle(now);
        }
        ticket
    }

    /// Whether the session has a lease: it is held, or it was lost and is still to be
    /// released. A fixed lease that was lost is forgotten when its loss is told.
    #[must_use]
    pub fn has_lease(&self, lease: LeaseId) -> bool {
        self.group.has(lease) || self.members.locks().has_lease(lease)
    }

    /// The caller went away: no event follows. An acquisition leaves nothing
    /// behind; a release or an extension goes on.
    pub fn cancel(&mut self, ticket: Ticket, now: Instant) {
        self.group.cancel(&mut self.members, ticket, now);
        self.members.cancel(ticket, now);
        self.settle(now);
    }

    /// Ends the session: what waits fails with `Closed`, holds are lost with
    /// [`LostReason::Closed`] and then released. Idempotent.
    pub fn close(&mut self, now: Instant) {
        self.end(|_| None, now);
    }

    /// The same, and tells what these releases come to: each completes with [`Outcome::Released`] if the server
    /// answers. Gives their tickets, each with the leases that end by it; those of members are told apart by nobody.
    pub fn close_telling(&mut self, now: Instant) -> Vec<(Ticket, Vec<LeaseId>)> {
        self.end(|members| Some(members.ticket(Verb::Release)), now)
    }

    fn end(&mut self, ticket: impl Fn(&mut Members) -> Option<Ticket>, now: Instant) -> Vec<(Ticket, Vec<LeaseId>)> {
        let mut told = Vec::new();
        if !self.members.close() {
            return told;
        }
        // Composite locks first, so that their members are cancelled with them. The last one first, so
        // that none asks the server when the one before it ends.
        for ticket in self.group.waiting().into_iter().rev() {
            self.members.fail_if_closed(ticket, Operation::Acquire, None);
            self.cancel(ticket, now);
        }
        let waiting = self.members.locks().waiting();
        for ticket in &waiting {
            self.members.fail_if_closed(*ticket, Operation::Acquire, None);
        }
        // The last one first: the next waiter in the queue would ask the server.
        for ticket in waiting.into_iter().rev() {
            self.cancel(ticket, now);
        }
        for id in self.members.locks().holds().ids() {
            self.members.lose(id, LostReason::Closed, now);
            self.settle(now);
            let ticket = ticket(&mut self.members);
            let leases = self.members.locks().holds().get(id).map(|hold| hold.levels().to_vec());
            told.extend(ticket.zip(leases));
            self.members.hold(holds::Input::Dropped(id, ticket), now);
        }
        self.members.io_mut().closed();
        self.group.close(&mut self.members, now);
        self.members.with(|locks| locks.release_at_once(now));
        self.settle(now);
        told
    }

    /// Tells composite locks what happened to their members, and callers what waited for a name.
    fn settle(&mut self, now: Instant) {
        self.group.settle(&mut self.members, now);
        self.members.tell_refusals(now);
    }

    /// Whether nothing is owed to the server.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.members.locks().is_drained()
    }

    /// Whether a caller is refused already, and is told when the name of the holder has come. For those who watch a session.
    #[must_use]
    pub fn awaits_name(&self, ticket: Ticket) -> bool {
        self.members.awaits_name(ticket)
    }

    /// How often `context` holds the lock, or several together.
    #[must_use]
    pub fn levels(&self, subject: &Subject, context: Context) -> u32 {
        let levels = match (subject, &self.group) {
            (Subject::One(_, name), Group::Quorum(quorum)) => quorum.of_context(name, context).count(),
            (Subject::One(kind, name), Group::Multi(_)) => self.leases_of(*kind, name, context).count(),
            (Subject::All(locks), _) => self.multi().map_or(0, |multi| multi.of_context(locks, context).len()),
        };
        u32::try_from(levels).unwrap_or(u32::MAX)
    }

    /// The innermost lease of `context` on the lock, or on several together.
    #[must_use]
    pub fn innermost(&self, subject: &Subject, context: Context) -> Option<LeaseId> {
        match (subject, &self.group) {
            (Subject::One(_, name), Group::Quorum(quorum)) => quorum.of_context(name, context).last(),
            (Subject::One(kind, name), Group::Multi(_)) => self.leases_of(*kind, name, context).last(),
            (Subject::All(locks), _) => self.multi()?.of_context(locks, context).last().copied(),
        }
    }

    /// The locks of a lease that no server granted. A lease is degraded if there is one.
    #[must_use]
    pub fn degraded_locks(&self, lease: LeaseId) -> Vec<LockName> {
        let members = self.multi().map_or(&[][..], |multi| multi.members_of(lease));
        let leases = if members.is_empty() { &[lease][..] } else { members };
        let holds = self.members.locks().holds();
        let of_leases = leases.iter().filter_map(|lease| holds.get(holds.of_lease(*lease)?));
        let local = of_leases.filter(|hold| hold.is_local());
        local.map(|hold| hold.keys().name.clone()).collect()
    }

    const fn multi(&self) -> Option<&Multi> {
        match &self.group {
            Group::Multi(multi) => Some(multi),
            Group::Quorum(_) => None,
        }
    }

    /// The leases of `context` on the lock, outermost first. What it has as a member
    /// of a composite lock is that lock's.
    fn leases_of(&self, kind: Kind, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        let holds = self.members.locks().holds_of(kind, name, context);
        let leases = holds.flat_map(Hold::levels).copied();
        leases.filter(|lease| self.members.composite(*lease).is_none())
    }

    /// The node has both its lanes.
    pub fn on_connected(&mut self, node: NodeId, now: Instant) {
        self.lanes_opened(node, &[Lane::Renewal, Lane::Command], now);
    }

    /// The node has no connection any more, or none yet; the cause in words. The
    /// driver also answers every call that was on it.
    pub fn on_disconnected(&mut self, node: NodeId, cause: impl Into<Cause>, now: Instant) {
        let cause = cause.into();
        self.lane_closed(node, Lane::Command, cause.clone(), now);
        self.lane_closed(node, Lane::Renewal, cause, now);
        self.members.with(|locks| locks.subscriptions_lost(node));
    }

    /// One of the node's lanes is open.
    pub fn on_lane_opened(&mut self, node: NodeId, lane: Lane, now: Instant) {
        self.lanes_opened(node, &[lane], now);
    }

    /// One of the node's lanes is closed, or still is; the cause in words. The driver
    /// also answers every call that was on it.
    pub fn on_lane_closed(&mut self, node: NodeId, lane: Lane, cause: impl Into<Cause>, now: Instant) {
        if self.members.io().has(Defect::LaneLossIsOutage) {
            return self.on_disconnected(node, cause, now);
        }
        self.lane_closed(node, lane, cause.into(), now);
    }

    /// The connection that carried the node's subscriptions is gone. What is published
    /// until the driver has subscribed again on the next one is lost.
    pub fn on_subscriptions_lost(&mut self, node: NodeId) {
        self.members.with(|locks| locks.subscriptions_lost(node));
    }

    /// One of the node's subscriptions is gone, and the driver asks for it again, perhaps on
    /// another connection. What is published until then is lost.
    pub fn on_subscription_lost(&mut self, node: NodeId, channel: &[u8]) {
        self.members.with(|locks| locks.subscription_lost(node, channel));
    }

    /// Of a cluster, which of its primaries has which slot: for each of the 16,384 slots a number that
    /// stays the same primary's. Only the circuit breakers need it.
    pub fn on_slots(&mut self, node: NodeId, slots: Arc<[u16]>, now: Instant) {
        self.members.with(|locks| locks.slots_seen(node, slots, now));
        self.settle(now);
    }

    /// A connection to one of a cluster's primaries opened; or closed, or could not be made, for
    /// this cause. Only the circuit breakers need it.
    pub fn on_primary(&mut self, primary: Primary, failure: Option<&Cause>, now: Instant) {
        self.members.with(|locks| locks.primary_seen(primary, failure, now));
        self.settle(now);
    }

    fn lane_closed(&mut self, node: NodeId, lane: Lane, cause: Cause, now: Instant) {
        self.members.with(|locks| locks.lane_closed(node, lane, cause, now));
        self.settle(now);
    }

    fn lanes_opened(&mut self, node: NodeId, lanes: &[Lane], now: Instant) {
        self.members.with(|locks| locks.lanes_opened(node, lanes, now));
        self.settle(now);
    }

    /// The call's bytes are about to go to the socket.
    pub fn on_sent(&mut self, call: CallId, now: Instant) {
        self.members.with(|locks| locks.sent(call, now));
    }

    /// The call's answer.
    pub fn on_reply(&mut self, id: CallId, result: Result<Reply, CallError>, now: Instant) {
        self.members.with(|locks| locks.replied(id, result, now));
        self.settle(now);
    }

    /// The server confirmed a subscription.
    pub fn on_subscribed(&mut self, node: NodeId, channel: &[u8], now: Instant) {
        self.members.with(|locks| locks.subscribed(node, channel, now));
        self.settle(now);
    }

    /// A message came.
    pub fn on_message(&mut self, node: NodeId, channel: &[u8], payload: &[u8], now: Instant) {
        self.members.with(|locks| locks.message(node, channel, payload, now));
        self.settle(now);
    }

    /// Time passed. Spurious calls are harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.members.io_mut().take_due(now) {
            if timer.is_composites() {
                self.group.timer(&mut self.members, timer, now);
            } else {
                self.members.with(|locks| locks.timer(timer, now));
            }
            self.settle(now);
        }
    }

    /// When the next renewal is due, whatever else is due before. A hold whose renewal
    /// is under way has none. May change with any input.
    #[must_use]
    pub fn next_renewal(&self) -> Option<Instant> {
        self.members.io().next_renewal()
    }

    /// The next thing to send.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.members.io_mut().next_transmit()
    }

    /// The next thing to tell.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.members.next_event()
    }

    /// The next thing for those who watch. Drain it before the events, of which it says more.
    #[must_use]
    pub fn poll_observed(&mut self) -> Option<Observed> {
        self.members.io_mut().next_observed()
    }

    /// When to call [`Session::on_timeout`] if nothing else happens before; `None`
    /// while nothing is waited for. May change with any input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.members.io().next_due()
    }

    /// How many script calls were sent, or are to be, whose answers have not come.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.members.io().calls()
    }

    /// How many entries of any kind the session keeps. Zero when nothing is
    /// waited for, held, owed or listened to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len().saturating_add(self.group.len())
    }

    /// Whether the session keeps nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the session make a mistake from now on.
    #[cfg(feature = "defects")]
    pub fn switch_on(&mut self, defect: Defect) {
        self.members.io_mut().switch_on(defect);
    }

    /// Mistakes in what a caller asks for.
    fn misread(&mut self, request: &mut AcquireRequest) {
        if self.members.io().has(Defect::OwnerIsTheThread) {
            request.context = request.context.and(Some(Context::from_u64(0)));
        }
        if self.members.io().has(Defect::TokenIgnoresLease) && request.fencing {
            request.lease = LeaseTerms::CLIENT;
        }
        if self.members.io().has(Defect::LeaseLeaks)
            && let Some(lease) = request.lease.length()
        {
            self.members.io_mut().set_lease(lease);
        }
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

fn not_owner(subject: &Subject) -> Error {
    let error = Error::new(
        ErrorKind::NotOwner,
        Operation::Release,
        "the calling thread or task does not hold it; release it where it was acquired, or release its lease",
    );
    error.with_lock_if_known(subject.name().map(LockName::as_str))
}

impl Session {
    /// Asks the server who holds a lock. Completes with [`Outcome::State`].
    pub fn inspect(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.members.ticket(Verb::Inspect);
        if !self.members.fail_if_closed(ticket, Operation::Inspect, Some(name)) {
            self.put_question(ticket, kind, name, Question::State, now);
        }
        ticket
    }

    /// Asks the server how many wait in the queue of a fair lock. Completes with [`Outcome::State`], whose
    /// `waiting` says it.
    pub fn queue_length(&mut self, name: &LockName, now: Instant) -> Ticket {
        self.ask_of_one(Operation::Inspect, Kind::Fair, name, Question::Length, now)
    }

    /// Removes a lock from its holder: for operators. The holder learns of the
    /// loss at its next renewal. Completes with [`Outcome::Forced`].
    pub fn force_release(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.members.ticket(Verb::Inspect);
        if !self.members.fail_if_closed(ticket, Operation::Release, Some(name)) {
            self.put_question(ticket, kind, name, Question::Force, now);
        }
        ticket
    }

    /// Changes the limit on which those who hold permits of a semaphore agreed, to
    /// that of `permits`: for operators. Nobody loses a permit. Completes with
    /// [`Outcome::Forced`], false if none is held.
    pub fn set_limit(&mut self, permits: Permits, name: &LockName, now: Instant) -> Ticket {
        let question = Question::Limit(permits.limit());
        self.ask_of_one(Operation::SetLimit, Kind::Semaphore(permits), name, question, now)
    }

    /// Asks what a RedLock has not.
    fn ask_of_one(
        &mut self,
        operation: Operation,
        kind: Kind,
        name: &LockName,
        question: Question,
        now: Instant,
    ) -> Ticket {
        let ticket = self.members.ticket(Verb::Inspect);
        if self.members.fail_if_closed(ticket, operation, Some(name)) {
            return ticket;
        }
        if let Group::Quorum(_) = self.group {
            let error = Error::new(ErrorKind::InvalidArgument, operation, SIMPLE_LOCKS_ONLY);
            self.members
                .complete(ticket, Outcome::Failed(error.with_lock(name.as_str())));
        } else {
            self.put_question(ticket, kind, name, question, now);
        }
        ticket
    }

    fn put_question(&mut self, ticket: Ticket, kind: Kind, name: &LockName, question: Question, now: Instant) {
        match &mut self.group {
            Group::Quorum(quorum) => {
                let input = quorum::Input::Inspect(ticket, name.clone(), question);
                quorum.input(&mut self.members, input, now);
            }
            Group::Multi(_) => {
                let keys = Arc::new(Keys::new(kind, name, NodeId::default()));
                self.members.inspect(ticket, keys, question, now);
            }
        }
        self.settle(now);
    }
}
