//! The session: the calls of callers, operators and the driver, and the events that they cause.
//!
//! The session has no rules of its own. The state machines that `locks` owns have the rules of locks, and `groups` has
//! the rules of composite locks. A composite lock uses locks as a caller does. `client` reports the outcomes to
//! callers.

use std::sync::Arc;

use crate::client::Client;
use crate::ending::LostReason;
use crate::error::{Cause, Error, ErrorKind, Operation};
use crate::groups::{self, Composites, Group, SIMPLE_LOCKS_ONLY};
use crate::ids::{CallId, Context, LeaseId, NodeId, Primary, Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Kind, Permits};
use crate::lease::LeasePlan;
use crate::locks::{Locks, Output};
use crate::machines::elections;
use crate::machines::holds::{self, Hold};
use crate::machines::inspections::{self, Question};
use crate::name::LockName;
use crate::observed::{Detail, Observed};
use crate::owner::Entropy;
use crate::reply::{CallError, Reply};
use crate::run::{Ending, RunEnd};
use crate::subject::Subject;
use crate::types::{AcquireRequest, Config, Event, Lane, Limits, Outcome, Transmit};

/// The local state of every lock of one client. See the crate's documentation for the contract that its driver keeps.
pub struct Session {
    client: Client,
    group: Group,
}

impl Session {
    /// Makes a session that holds nothing and is not connected.
    #[must_use]
    pub fn new(config: Config, entropy: Box<dyn Entropy>) -> Self {
        Self {
            group: Group::new(config.primaries),
            client: Client::new(Locks::new(Io::new(config, entropy))),
        }
    }

    /// Lowers the limits on the size of a server call, so that a simulator reaches them. Users cannot set them.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.client.io_mut().set_limits(limits);
    }

    /// Sets which observations [`Session::poll_observed`] returns; a new session makes none.
    pub const fn set_detail(&mut self, detail: Detail) {
        self.client.io_mut().set_detail(detail);
    }

    /// Requests a lock. Completes with [`Outcome::Granted`], [`Outcome::NotGranted`] or [`Outcome::Failed`].
    pub fn acquire(&mut self, request: AcquireRequest, now: Instant) -> Ticket {
        let ticket = self.client.ticket(Verb::Acquire);
        if self
            .client
            .fail_if_closed(ticket, Operation::Acquire, Some(&request.name))
        {
            return ticket;
        }
        if self.group.is_quorum() {
            self.composite(groups::Input::Acquire(ticket, request), now);
        } else if let Some(error) = self.group.self_wait_error(&mut self.client, &request, now) {
            self.client.complete(ticket, Outcome::Failed(error));
        } else {
            let length = request.kind.lease().unwrap_or_else(|| self.client.io().config().lease);
            let plan = LeasePlan::of(request.lease, length);
            self.with(|locks| locks.acquire(ticket, request, NodeId::default(), plan, now));
        }
        self.settle(now);
        ticket
    }

    /// Requests several locks, all or none. Completes like [`Session::acquire`]. The locks share one lease, which has
    /// no token. The wait, the lease terms and the context are those of the request whose key sorts first. `max_hold`,
    /// `on_unavailable` and `blocked` stay each request's own.
    pub fn acquire_all(&mut self, requests: Vec<AcquireRequest>, now: Instant) -> Ticket {
        let ticket = self.client.ticket(Verb::Acquire);
        if self.client.fail_if_closed(ticket, Operation::Acquire, None) {
            return ticket;
        }
        self.group.acquire_all(&mut self.client, ticket, requests, now);
        self.settle(now);
        ticket
    }

    /// Releases one lease. Completes with [`Outcome::Released`], or fails with `Misconfigured` if the server does not
    /// permit the release. Fails with `NotOwner` if the session does not know the lease: the lease was released before,
    /// or it was a fixed lease that was lost and forgotten. A second release changes nothing.
    pub fn release(&mut self, lease: LeaseId, now: Instant) -> Ticket {
        self.end_run(lease, RunEnd::Succeeded.into(), now)
    }

    /// Releases one lease, like [`Session::release`], and says how its run ended. A run whose lease is lost, or whose
    /// session closes, ends as `Failed`. For a lease of another kind than `once` the end means nothing.
    pub fn end_run(&mut self, lease: LeaseId, end: Ending, now: Instant) -> Ticket {
        let ticket = self.client.ticket(Verb::Release);
        self.hold(holds::Input::RunEnded(lease, end), now);
        self.release_any(ticket, lease, now);
        ticket
    }

    fn release_any(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) {
        if self.group.has(lease) {
            self.composite(groups::Input::Release(ticket, lease), now);
        } else if self.client.locks().has_lease(lease) {
            self.hold(holds::Input::Release(ticket, lease), now);
        } else {
            self.client.complete(ticket, Outcome::Failed(unknown_lease()));
        }
        self.settle(now);
    }

    /// Releases the innermost lease of `context` on `subject`. Completes like [`Session::release`], and also fails with
    /// `NotOwner` if there is no such lease.
    pub fn release_innermost(&mut self, subject: &Subject, context: Context, now: Instant) -> Ticket {
        let ticket = self.client.ticket(Verb::Release);
        if self.client.fail_if_closed(ticket, Operation::Release, subject.name()) {
            return ticket;
        }
        match self.innermost(subject, context) {
            Some(lease) => self.release_any(ticket, lease, now),
            None => self.client.complete(ticket, Outcome::Failed(not_owner(subject))),
        }
        ticket
    }

    /// Extends a lease to `by` from now, but not beyond the end of `max_hold`; `None` stands for the length of the
    /// hold's lease, which a re-entry may have changed. A call never shortens a lease. Completes with
    /// [`Outcome::Extended`], or fails with `LockLost`, `NotOwner` (the lease was released, or was lost and forgotten),
    /// `Unavailable`, `Misconfigured` or `Closed`.
    pub fn extend(&mut self, lease: LeaseId, by: Option<crate::LeaseDuration>, now: Instant) -> Ticket {
        let ticket = self.client.ticket(Verb::Extend);
        if !self.client.fail_if_closed(ticket, Operation::Extend, None) {
            if self.group.has(lease) {
                self.composite(groups::Input::Extend { ticket, lease, by }, now);
            } else {
                self.hold(holds::Input::Extend { ticket, lease, by }, now);
            }
            self.settle(now);
        }
        ticket
    }

    /// Whether the session knows a lease: the lease is held, or it was lost and not released yet. The session forgets a
    /// lost fixed lease as soon as it has reported the loss.
    #[must_use]
    pub fn has_lease(&self, lease: LeaseId) -> bool {
        self.group.has(lease) || self.client.locks().has_lease(lease)
    }

    /// Cancels the request of a ticket; no event follows for it. If a cancelled acquisition was granted, or may have
    /// been, the lock is released. A release or an extension goes on, and so does a question that was sent.
    pub fn cancel(&mut self, ticket: Ticket, now: Instant) {
        self.composite(groups::Input::Cancel(ticket), now);
        self.client.forget_refusal(ticket);
        self.with(|locks| locks.cancel(ticket, now));
        self.settle(now);
    }

    /// Ends the session: acquisitions and questions without an answer fail with `Closed`, and all holds are released. A
    /// hold that is not lost yet is first lost with [`LostReason::Closed`]. After that, [`Session::release`] fails with
    /// `NotOwner`, and every other request with `Closed`. Idempotent.
    pub fn close(&mut self, now: Instant) {
        self.end(|_| None, now);
    }

    /// Ends the session like [`Session::close`], and reports the outcomes of the releases. Returns the ticket of each
    /// release, with the leases that the release ends. For a composite lock, these are the leases of its members.
    pub fn close_with_outcomes(&mut self, now: Instant) -> Vec<(Ticket, Vec<LeaseId>)> {
        self.end(|client| Some(client.ticket(Verb::Release)), now)
    }

    fn end(&mut self, ticket: impl Fn(&mut Client) -> Option<Ticket>, now: Instant) -> Vec<(Ticket, Vec<LeaseId>)> {
        let mut releases = Vec::new();
        if !self.client.close() {
            return releases;
        }
        let closed = |ticket| Event::Completed {
            ticket,
            outcome: Outcome::Failed(Error::closed(Operation::Acquire)),
        };
        // Composite locks come first, so that their members are cancelled with them. The newest waiter is always
        // cancelled first: if an older one ended first, the next waiter would send an attempt.
        for ticket in self.group.waiting().into_iter().rev() {
            self.client.emit(closed(ticket));
            self.cancel(ticket, now);
        }
        let waiting = self.client.locks().waiting();
        for ticket in &waiting {
            // The ticket may be that of a RedLock's question to one primary; `divert` then keeps its event from the
            // callers.
            if let Some(event) = self.group.divert(Output::Event(closed(*ticket))) {
                self.client.emit(event);
            }
        }
        for ticket in waiting.into_iter().rev() {
            self.cancel(ticket, now);
        }
        for id in self.client.locks().holds().ids() {
            self.hold(holds::Input::Lost(id, LostReason::Closed), now);
            self.settle(now);
            let ticket = ticket(&mut self.client);
            let leases = self.client.locks().holds().get(id).map(|hold| hold.levels().to_vec());
            releases.extend(ticket.zip(leases));
            self.hold(holds::Input::ClientCloses { hold: id, ticket }, now);
        }
        self.client.io_mut().closed();
        self.composite(groups::Input::Close, now);
        self.with(|locks| locks.release_at_once(now));
        self.settle(now);
        releases
    }

    /// Changes the locks, and passes on the events that follow. Keeps the events of members of composite locks for
    /// [`Session::settle`].
    fn with(&mut self, change: impl FnOnce(&mut Locks)) {
        self.client.change(change, |output| self.group.divert(output));
    }

    fn hold(&mut self, input: holds::Input, now: Instant) {
        self.with(|locks| locks.pass_to_holds(input, now));
    }

    fn composite(&mut self, input: groups::Input, now: Instant) {
        self.group.input(&mut self.client, input, now);
    }

    /// Passes the kept events of members on to their composite locks. Also completes the refusals that waited for the
    /// name of the holder (`client.rs`) and need not wait any longer.
    fn settle(&mut self, now: Instant) {
        self.group.settle(&mut self.client, now);
        self.client.complete_refusals(now);
    }

    /// Whether no release is owed to the server.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.client.locks().is_drained()
    }

    /// Whether a caller is already refused, but not informed yet: the refusal waits to learn which program the holder
    /// is. For observers of a session.
    #[must_use]
    pub fn awaits_name(&self, ticket: Ticket) -> bool {
        self.client.awaits_name(ticket)
    }

    /// Returns how many levels `context` holds of `subject`.
    #[must_use]
    pub fn levels(&self, subject: &Subject, context: Context) -> u32 {
        let levels = match (subject, self.group.composites()) {
            (Subject::One(_, name), Composites::Quorum(quorum)) => quorum.of_context(name, context).count(),
            (Subject::One(kind, name), Composites::Multi(_)) => self.leases_of(*kind, name, context).count(),
            (Subject::All(locks), Composites::Multi(multi)) => multi.of_context(locks, context).len(),
            (Subject::All(_), Composites::Quorum(_)) => 0,
        };
        u32::try_from(levels).unwrap_or(u32::MAX)
    }

    /// Returns the innermost lease of `context` on `subject`, if it has one.
    #[must_use]
    pub fn innermost(&self, subject: &Subject, context: Context) -> Option<LeaseId> {
        match (subject, self.group.composites()) {
            (Subject::One(_, name), Composites::Quorum(quorum)) => quorum.of_context(name, context).last(),
            (Subject::One(kind, name), Composites::Multi(_)) => self.leases_of(*kind, name, context).last(),
            (Subject::All(locks), Composites::Multi(multi)) => multi.of_context(locks, context).last().copied(),
            (Subject::All(_), Composites::Quorum(_)) => None,
        }
    }

    /// Returns the names of a lease's locks that no server granted: none unless the lease is degraded, and several only
    /// for a multi-lock.
    #[must_use]
    pub fn degraded_locks(&self, lease: LeaseId) -> Vec<LockName> {
        let members = match self.group.composites() {
            Composites::Multi(multi) => multi.members_of(lease),
            Composites::Quorum(_) => &[],
        };
        let leases = if members.is_empty() { &[lease][..] } else { members };
        let holds = self.client.locks().holds();
        let of_leases = leases.iter().filter_map(|lease| holds.get(holds.of_lease(*lease)?));
        let local = of_leases.filter(|hold| hold.is_local());
        local.map(|hold| hold.keys().name.clone()).collect()
    }

    /// Returns the leases of `context` on the lock, outermost first. Leaves out the leases of the members of granted
    /// composite locks, because only the composite lock releases them.
    fn leases_of(&self, kind: Kind, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        let holds = self.client.locks().holds_of(kind, name, context);
        let leases = holds.flat_map(Hold::levels).copied();
        leases.filter(|lease| !self.group.has_member(*lease))
    }

    /// Notes that both lanes of a node are open.
    pub fn on_connected(&mut self, node: NodeId, now: Instant) {
        self.lanes_opened(node, &[Lane::Renewal, Lane::Command], now);
    }

    /// Notes that a node has no connection, or none yet; `cause` says why. The driver also answers every call that was
    /// on a connection of the node.
    pub fn on_disconnected(&mut self, node: NodeId, cause: impl Into<Cause>, now: Instant) {
        let cause = cause.into();
        self.lane_closed(node, Lane::Command, cause.clone(), now);
        self.lane_closed(node, Lane::Renewal, cause, now);
        self.with(|locks| locks.subscriptions_lost(node));
    }

    /// Notes that one of a node's lanes is open.
    pub fn on_lane_opened(&mut self, node: NodeId, lane: Lane, now: Instant) {
        self.lanes_opened(node, &[lane], now);
    }

    /// Notes that one of a node's lanes is closed, or could not be opened; `cause` says why. The driver also answers
    /// every call that was on the lane.
    pub fn on_lane_closed(&mut self, node: NodeId, lane: Lane, cause: impl Into<Cause>, now: Instant) {
        self.lane_closed(node, lane, cause.into(), now);
    }

    /// Notes that the connection of a node's subscriptions is closed. Messages are lost until the driver has subscribed
    /// again on the next connection.
    pub fn on_subscriptions_lost(&mut self, node: NodeId) {
        self.with(|locks| locks.subscriptions_lost(node));
    }

    /// Notes that one of a node's subscriptions is lost. The driver subscribes again, perhaps on another connection.
    /// Messages are lost until then.
    pub fn on_subscription_lost(&mut self, node: NodeId, channel: &[u8]) {
        self.with(|locks| locks.subscription_lost(node, channel));
    }

    /// Notes which primary of a cluster has each of the 16,384 slots. Each primary has a number that does not change.
    /// The circuit breakers need this, and the observation of the servers' clocks.
    pub fn on_slots(&mut self, node: NodeId, slots: Arc<[u16]>, now: Instant) {
        self.with(|locks| locks.slots_seen(node, slots, now));
        self.settle(now);
    }

    /// Notes that a connection to a primary of a cluster has opened or, with `failure`, that it closed or could not be
    /// made. Only the circuit breakers need this.
    pub fn on_primary(&mut self, primary: Primary, failure: Option<&Cause>, now: Instant) {
        self.with(|locks| locks.primary_seen(primary, failure, now));
        self.settle(now);
    }

    fn lane_closed(&mut self, node: NodeId, lane: Lane, cause: Cause, now: Instant) {
        self.with(|locks| locks.lane_closed(node, lane, cause, now));
        self.settle(now);
    }

    fn lanes_opened(&mut self, node: NodeId, lanes: &[Lane], now: Instant) {
        self.with(|locks| locks.lanes_opened(node, lanes, now));
        self.settle(now);
    }

    /// Notes that the bytes of a call are about to be written to the socket.
    pub fn on_sent(&mut self, call: CallId, now: Instant) {
        self.with(|locks| locks.sent(call, now));
    }

    /// Handles the answer to a call.
    pub fn on_reply(&mut self, id: CallId, result: Result<Reply, CallError>, now: Instant) {
        self.with(|locks| locks.replied(id, result, now));
        self.settle(now);
    }

    /// Notes that the server confirmed a subscription.
    pub fn on_subscribed(&mut self, node: NodeId, channel: &[u8], now: Instant) {
        self.with(|locks| locks.subscribed(node, channel, now));
        self.settle(now);
    }

    /// Handles a message that arrived on a channel.
    pub fn on_message(&mut self, node: NodeId, channel: &[u8], payload: &[u8], now: Instant) {
        self.with(|locks| locks.message(node, channel, payload, now));
        self.settle(now);
    }

    /// Handles all timers that are due. Spurious calls are harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.client.io_mut().take_due(now) {
            if timer.is_composites() {
                self.composite(groups::Input::Timer(timer), now);
            } else {
                self.with(|locks| locks.timer(timer, now));
            }
            self.settle(now);
        }
    }

    /// Returns when the next scheduled renewal is due, even if another timer is due earlier; `None` if no renewal is
    /// scheduled, for example because all are in flight or wait for a connection. The result may change with any input.
    #[must_use]
    pub fn next_renewal(&self) -> Option<Instant> {
        self.client.io().next_renewal()
    }

    /// Returns the next thing to send.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.client.io_mut().next_transmit()
    }

    /// Returns the next event for callers.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.client.next_event()
    }

    /// Returns the next observation. Drain the observations before the events, because an observation has details that
    /// its event lacks.
    #[must_use]
    pub fn poll_observed(&mut self) -> Option<Observed> {
        self.client.io_mut().next_observed()
    }

    /// Returns when to call [`Session::on_timeout`] if no other input comes first; `None` if no timer is set. The
    /// result may change with any input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.client.io().next_due()
    }

    /// Returns how many script calls are not answered yet, whether they were sent or wait to be sent.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.client.io().calls()
    }

    /// Returns how many entries the session keeps for its locks: zero when no request waits, no lock is held, no
    /// release is owed, no call is in flight, no timer is set, and no channel is subscribed to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.client.len().saturating_add(self.group.len())
    }

    /// Whether [`Session::len`] is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Makes the error for a release of a lease that the session does not know.
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
    /// Asks the server who holds a lock. If that succeeds, completes with [`Outcome::State`].
    pub fn inspect(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.client.ticket(Verb::Inspect);
        if !self.client.fail_if_closed(ticket, Operation::Inspect, Some(name)) {
            self.ask(ticket, kind, name, Question::State, now);
        }
        ticket
    }

    /// Asks the server how many waiters are in the queue of a fair lock. If that succeeds, completes with
    /// [`Outcome::State`], whose `waiting` has the number. Fails with `InvalidArgument` in a client with several
    /// primaries.
    pub fn queue_length(&mut self, name: &LockName, now: Instant) -> Ticket {
        self.ask_single_primary(Operation::Inspect, Kind::Fair, name, Question::Length, now)
    }

    /// Asks the server who leads. If that succeeds, completes with [`Outcome::State`], whose `leadership` says so. Fails
    /// with `InvalidArgument` in a client with several primaries.
    pub fn leadership(&mut self, name: &LockName, now: Instant) -> Ticket {
        self.ask_single_primary(Operation::Inspect, Kind::Leader, name, Question::Leadership, now)
    }

    /// Waits until another term than `seen` is known, or that nobody leads ([`Leadership::NOBODY`]), and completes with
    /// [`Outcome::State`], whose `leadership` has the newest state. The wait has no bound, also while the server is not
    /// reachable. Fails with `Misconfigured` if the server refuses the question, and with `InvalidArgument` in a client
    /// with several primaries.
    ///
    /// [`Leadership::NOBODY`]: crate::Leadership::NOBODY
    pub fn observe(&mut self, name: &LockName, seen: u64, now: Instant) -> Ticket {
        let ticket = self.client.ticket(Verb::Inspect);
        if self.client.fail_if_closed(ticket, Operation::Inspect, Some(name)) {
            return ticket;
        }
        if self.group.is_quorum() {
            let error = Error::new(ErrorKind::InvalidArgument, Operation::Inspect, SIMPLE_LOCKS_ONLY);
            self.client
                .complete(ticket, Outcome::Failed(error.with_lock(name.as_str())));
        } else {
            let keys = Arc::new(Keys::new(Kind::Leader, name, NodeId::default()));
            let input = elections::Input::Asked { ticket, keys, seen };
            self.with(|locks| locks.pass_to_elections(input, now));
        }
        self.settle(now);
        ticket
    }

    /// Asks the server for the last runs of a job. If that succeeds, completes with [`Outcome::State`], whose `last_run`
    /// has them. Fails with `InvalidArgument` in a client with several primaries.
    pub fn last_run(&mut self, name: &LockName, now: Instant) -> Ticket {
        self.ask_single_primary(Operation::Inspect, Kind::Once, name, Question::LastRun, now)
    }

    /// Removes the record of a lock, no matter who holds the lock: for operators. The holder learns of the loss at its
    /// next renewal; the holder of a fixed lease learns of it at the deadline, unless it extends or releases the lease
    /// before. If the call succeeds, it completes with [`Outcome::Forced`].
    pub fn force_release(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.client.ticket(Verb::Inspect);
        if !self.client.fail_if_closed(ticket, Operation::Release, Some(name)) {
            self.ask(ticket, kind, name, Question::Force, now);
        }
        ticket
    }

    /// Sets the limit of a semaphore to that of `permits`, while permits of it are held: for operators. No holder loses
    /// a permit. If the call succeeds, it completes with [`Outcome::Forced`], which is false if no permit is held.
    /// Fails with `InvalidArgument` in a client with several primaries.
    pub fn set_limit(&mut self, permits: Permits, name: &LockName, now: Instant) -> Ticket {
        let question = Question::Limit(permits.limit());
        self.ask_single_primary(Operation::SetLimit, Kind::Semaphore(permits), name, question, now)
    }

    /// Asks a question that a RedLock does not support. Fails in a client with several primaries.
    fn ask_single_primary(
        &mut self,
        operation: Operation,
        kind: Kind,
        name: &LockName,
        question: Question,
        now: Instant,
    ) -> Ticket {
        let ticket = self.client.ticket(Verb::Inspect);
        if self.client.fail_if_closed(ticket, operation, Some(name)) {
            return ticket;
        }
        if self.group.is_quorum() {
            let error = Error::new(ErrorKind::InvalidArgument, operation, SIMPLE_LOCKS_ONLY);
            self.client
                .complete(ticket, Outcome::Failed(error.with_lock(name.as_str())));
        } else {
            self.ask(ticket, kind, name, question, now);
        }
        ticket
    }

    fn ask(&mut self, ticket: Ticket, kind: Kind, name: &LockName, question: Question, now: Instant) {
        if self.group.is_quorum() {
            let name = name.clone();
            self.composite(groups::Input::Inspect { ticket, name, question }, now);
        } else {
            let keys = Arc::new(Keys::new(kind, name, NodeId::default()));
            let input = inspections::Input::Asked { ticket, keys, question };
            self.with(|locks| locks.pass_to_inspections(input, now));
        }
        self.settle(now);
    }
}
