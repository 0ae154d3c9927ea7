//! One turn of the engine: passes everything that arrived to the session, and sends what the session produces.
//!
//! This file also passes the requests of callers to the session, and closes the client. `Closing` has the time limit of
//! the close, the callers that wait for its end, and how each lease ended.

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::{SortedMap, Table};
use steadlock_protocol::{
    AcquireRequest, Cause, ClientId, Config, Context, Ending, Error, ErrorKind, Event as SessionEvent, Grant, Instant,
    Lane, LeaseId, LeaseTerms, LostReason, NodeId, Operation, Outcome, Primary, ReleaseOutcome, RunEnd, Session,
    Subject, Ticket,
};

use super::connecting::Connecting;
use super::observing::Observing;
use super::queue_poller::QueuePoller;
use super::tables::{Arrivals, Leases, Outbox, Request, Requests, ShortLeases, Sources};
use crate::errors::closed;
use crate::port::{
    CONNECT, CheckedOp, CloseOutcomes, Command, CommandReceiver, Completion, Lease, Loss, NO_CALLER, Port, Released,
    Sink, host_id, session_id,
};
use crate::settings::Settings;
use crate::target::Target;
use crate::transport::{FirstConnection, Transport, TransportEvent};
use crate::unwind::panicked_error;

/// The longest time for which a closed client keeps releasing its leases. It is shorter than the 500 ms that a close
/// may take (`docs/guarantees.md`).
const CLOSE_LIMIT: Duration = Duration::from_millis(400);

/// The facts that decide whether a thread other than the engine's own may drive the engine, that is, run it
/// (`driver.rs`).
#[cfg(feature = "native")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness {
    pub(super) every_lane_is_open: bool,
    pub(super) next_renewal: Option<Instant>,
}

/// The session and the connections of one client, and its requests without an answer.
pub(super) struct Engine {
    settings: Arc<Settings>,
    port: Arc<Port>,
    commands: CommandReceiver,
    transport: Box<dyn Transport>,
    session: Session,
    arrivals: Arrivals,
    outbox: Outbox,
    requests: Requests,
    leases: Leases,
    short_leases: ShortLeases,
    /// The length that `set_shortest_lease` of the transport was last given.
    passed_shortest_lease: Option<Duration>,
    connecting: Connecting,
    closing: Option<Closing>,
    /// The callers to answer when nothing is owed to the server any more.
    drain_waiters: Vec<Sink>,
    /// Requests the lengths of chosen wait queues on the server, for the metrics. `None` if there are none to request.
    queue_poller: Option<QueuePoller>,
    /// For each node that is a whole cluster: the names of its primaries, by primary number.
    primaries: SortedMap<NodeId, Arc<[Arc<str>]>>,
    /// `None` if nothing can ever observe this engine.
    observing: Option<Box<Observing>>,
    /// The time at which this turn began.
    now: Instant,
}

impl Engine {
    pub(super) fn new(
        settings: &Arc<Settings>,
        port: &Arc<Port>,
        commands: CommandReceiver,
        transport: Box<dyn Transport>,
        first: FirstConnection,
    ) -> Self {
        let config = Config {
            client: ClientId::random(&mut *settings.world.entropy()),
            lease: settings.lease,
            primaries: u16::try_from(settings.targets.len()).unwrap_or(u16::MAX),
            command_timeout: settings.command_timeout,
            keeps_order: settings.targets.iter().all(Target::keeps_order),
            retry_interval: settings.retry_interval.clone(),
            breaker: settings.breaker,
            identity: settings.identity(),
        };
        // A host that waits for the first connection gets the result as an event.
        let connecting = match first {
            FirstConnection::Awaited => vec![Sink::Queue(CONNECT)],
            FirstConnection::Lazy | FirstConnection::Inherited => Vec::new(),
        };
        let mut session = Session::new(config, settings.world.entropy());
        let observing = Observing::new(settings, port);
        if let Some(observing) = &observing {
            session.set_detail(observing.detail());
        }
        Self {
            settings: Arc::clone(settings),
            port: Arc::clone(port),
            commands,
            transport,
            session,
            arrivals: Arrivals::default(),
            outbox: Outbox::new(Arc::clone(port)),
            requests: Requests::default(),
            leases: Leases::default(),
            short_leases: ShortLeases::default(),
            passed_shortest_lease: None,
            connecting: Connecting::Pending(connecting),
            closing: None,
            drain_waiters: Vec::new(),
            queue_poller: QueuePoller::new(port.metrics(), &settings.queues, settings.world.now()),
            primaries: SortedMap::new(),
            observing,
            now: settings.world.now(),
        }
    }

    /// Returns what the engine waits for: the transport, the commands, and the next time at which it has work.
    pub(super) fn sources(&mut self) -> Sources<'_> {
        let due = [
            self.session.poll_timeout(),
            self.closing.as_ref().map(Closing::deadline),
            self.queue_poller.as_ref().map(QueuePoller::due),
        ];
        let due = due.into_iter().flatten().min();
        Sources::new(&mut *self.transport, &self.commands, due, &mut self.arrivals)
    }

    /// Returns the number of calls without a reply, sent or not.
    #[cfg(feature = "native")]
    pub(super) fn calls_in_flight(&self) -> usize {
        self.session.calls_in_flight()
    }

    /// Passes everything that arrived to the session, and sends what the session produces. The callers get their
    /// results later, from `deliver`.
    pub(super) fn work(&mut self) {
        self.pass_arrivals();
        self.drain_session();
    }

    /// Whether every lane is open, so that calls and renewals can be sent at once.
    pub(super) fn every_lane_is_open(&self) -> bool {
        self.transport.every_lane_is_open()
    }

    #[cfg(feature = "native")]
    pub(super) fn readiness(&self) -> Readiness {
        Readiness {
            every_lane_is_open: self.every_lane_is_open(),
            next_renewal: self.session.next_renewal(),
        }
    }

    /// Passes everything that arrived to the session.
    fn pass_arrivals(&mut self) {
        let now = self.settings.world.now();
        self.now = now;
        if let Some(observing) = &mut self.observing
            && observing.update_log_level()
        {
            self.session.set_detail(observing.detail());
        }
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for item in arrivals.events.drain(..) {
            self.on_transport_event(item, now);
        }
        for command in arrivals.commands.drain(..) {
            self.execute(command, now);
        }
        self.arrivals = arrivals;
        if self.session.poll_timeout().is_some_and(|due| now >= due) {
            self.session.on_timeout(now);
        }
        if let Some(poller) = &mut self.queue_poller {
            poller.request_lengths(&mut self.session, now);
        }
        let (requests, session) = (&self.requests, &self.session);
        let is_open = |ticket| requests.is_open(ticket);
        let shortest = self
            .short_leases
            .shortest(now, is_open, |lease| session.has_lease(lease));
        if self.passed_shortest_lease != shortest {
            self.passed_shortest_lease = shortest;
            self.transport.set_shortest_lease(shortest);
        }
    }

    fn on_transport_event(&mut self, event: TransportEvent, now: Instant) {
        if let Some(observing) = &mut self.observing {
            observing.on_transport_event(&event, now);
        }
        match event {
            TransportEvent::LaneOpened { node, lane } => self.session.on_lane_opened(node, lane, now),
            TransportEvent::LaneClosed { node, lane, cause } => self.session.on_lane_closed(node, lane, cause, now),
            TransportEvent::SubscriptionsLost(node) => self.session.on_subscriptions_lost(node),
            TransportEvent::SubscriptionLost { node, channel } => self.session.on_subscription_lost(node, &channel),
            // Nothing is left to do: `drain_session` sends in every turn.
            TransportEvent::Sendable => {}
            TransportEvent::Slots {
                node,
                primary_of_slot,
                primaries,
            } => {
                self.session.on_slots(node, primary_of_slot, now);
                self.primaries.insert(node, primaries);
            }
            TransportEvent::ShardLaneOpened { server, lane } => self.on_shard_lane(&server, lane, None, now),
            TransportEvent::ShardLaneClosed { server, lane, cause } => {
                self.on_shard_lane(&server, lane, Some(&cause), now)
            }
            TransportEvent::Ready => self.answer_connecting(Ok(())),
            TransportEvent::Unreachable(error) => {
                self.session.on_disconnected(NodeId::default(), &error, now);
                self.answer_connecting(Err(error));
            }
            TransportEvent::Reply { call, result } => self.session.on_reply(call, result, now),
            TransportEvent::Subscribed { node, channel } => self.session.on_subscribed(node, &channel, now),
            TransportEvent::Message { node, channel, payload } => {
                self.session.on_message(node, &channel, &payload, now)
            }
        }
    }

    /// Tells the circuit breaker of a cluster's primary that a lane to it opened (`failure` is `None`), or closed
    /// because of `failure`. Only the command lane counts, because a breaker stops only acquisitions.
    fn on_shard_lane(&mut self, server: &str, lane: Lane, failure: Option<&Cause>, now: Instant) {
        if lane == Lane::Command
            && let Some(primary) = self.primary(server)
        {
            self.session.on_primary(primary, failure, now);
        }
    }

    /// Returns the primary of a cluster that has this name.
    fn primary(&self, server: &str) -> Option<Primary> {
        self.primaries.iter().find_map(|(node, names)| {
            let number = names.iter().position(|name| &**name == server)?;
            Some(Primary {
                node: *node,
                number: u16::try_from(number).ok()?,
            })
        })
    }

    fn answer_connecting(&mut self, result: Result<(), Error>) {
        for sink in self.connecting.complete(&result) {
            self.outbox.answer(sink, result.clone().map(|()| Completion::Connected));
        }
    }

    /// Drains the session until it produces nothing more.
    fn drain_session(&mut self) {
        // The first flush always happens: calls that waited for a connection may be ready to send.
        let mut has_new_items = true;
        loop {
            while let Some(item) = self.session.poll_transmit() {
                has_new_items = true;
                self.transport.transmit(item);
            }
            if std::mem::take(&mut has_new_items) {
                let now = self.settings.world.now();
                let session = &mut self.session;
                self.transport.set_in_use(!session.is_empty());
                self.transport.flush(now, &mut |call| session.on_sent(call, now));
            }
            self.forward_observations();
            let mut has_new_events = false;
            while let Some(event) = self.session.poll_event() {
                has_new_events = true;
                self.on_session_event(event);
            }
            // Handling an event can produce more to send.
            if !has_new_events {
                return;
            }
        }
    }

    fn on_session_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Completed { ticket, outcome } => {
                let closing = self.closing.as_mut();
                if !closing.is_some_and(|closing| closing.record_outcome(ticket, &outcome)) {
                    self.on_completed(ticket, outcome);
                }
            }
            SessionEvent::Renewed { lease, deadline } => self.leases.renewed(lease, deadline),
            SessionEvent::Lost { lease, reason } => {
                let is_forgotten = !self.session.has_lease(lease);
                let object = self.observing.as_ref().and_then(|_| self.leases.get(lease).cloned());
                let event = self.leases.lose(lease, Loss { reason, is_forgotten });
                if let (Some(observing), Some(object), Some(_)) = (&mut self.observing, object, &event) {
                    observing.lost(lease, &object, reason, self.settings.world.now());
                }
                self.outbox.add_events(event);
            }
        }
    }

    /// Passes the observations of the session to `observing`.
    fn forward_observations(&mut self) {
        let Some(observing) = &mut self.observing else { return };
        observing.clear_losses();
        while let Some(observed) = self.session.poll_observed() {
            observing.on_session_observation(observed, self.settings.world.now());
        }
    }

    /// Answers the request behind a ticket.
    fn on_completed(&mut self, ticket: Ticket, outcome: Outcome) {
        if self
            .queue_poller
            .as_mut()
            .is_some_and(|poller| poller.record_outcome(ticket, &outcome))
        {
            return;
        }
        if let Outcome::Granted(grant) = &outcome {
            self.short_leases.request_granted(ticket, grant.lease);
        }
        let request = self.requests.complete(ticket);
        if let Some(observing) = &mut self.observing {
            let lease = request.as_ref().and_then(|request| request.lease);
            observing.completed(ticket, &outcome, lease, self.now);
        }
        let Some(request) = request else {
            // A lock is released if its caller went away in the turn of the grant.
            if let Outcome::Granted(grant) = outcome {
                self.start(
                    NO_CALLER,
                    CheckedOp::Release(grant.lease, RunEnd::Unused.into()),
                    Sink::Discard,
                    self.settings.world.now(),
                );
            }
            return;
        };
        let lease = request.lease.and_then(|lease| self.leases.find(lease));
        let released = request.lease.filter(|_| request.operation == Operation::Release);
        if let Some(lease) = released.filter(|lease| !self.session.has_lease(*lease)) {
            self.leases.forget(lease);
        }
        let result = match outcome {
            Outcome::Granted(grant) => Ok(Completion::Granted(self.add_lease(grant, request.name))),
            Outcome::NotGranted(error) => Ok(Completion::NotGranted(self.add_context(error, None))),
            Outcome::Released(outcome) => Ok(self.release_result(released, lease.as_deref(), outcome)),
            Outcome::Extended(deadline) => {
                if let Some(lease) = request.lease {
                    self.leases.renewed(lease, deadline);
                }
                Ok(Completion::Extended)
            }
            Outcome::State(state) => Ok(Completion::State(state)),
            Outcome::Forced(was_held) => Ok(Completion::Forced(was_held)),
            // The lease was released before, or it was lost and the session has forgotten it. The result shows the loss
            // only while the program keeps the object of the lease.
            Outcome::Failed(error) if released.is_some() && error.kind() == ErrorKind::NotOwner => {
                Ok(self.release_result(released, lease.as_deref(), ReleaseOutcome::Released))
            }
            Outcome::Failed(error) => {
                let is_forgotten = request.lease.is_some_and(|lease| !self.session.has_lease(lease));
                let forgotten = lease.as_deref().filter(|_| is_forgotten);
                let named = request.name.as_deref().or_else(|| lease.as_deref().map(Lease::name));
                Err(error_of_forgotten_lease(forgotten, &error).unwrap_or_else(|| self.add_context(error, named)))
            }
        };
        self.outbox.answer(request.sink, result);
    }

    /// Returns the result of a release. The session's outcome counts, except a plain `Released` of a lease that its
    /// object knows as lost: then the reason of the loss counts.
    fn release_result(&self, id: Option<LeaseId>, lease: Option<&Lease>, answered: ReleaseOutcome) -> Completion {
        Completion::Released(lease.map_or_else(
            || {
                let id = id.map_or(0, |id| host_id(self.port.generation(), id.get()));
                Released::new(id, answered, None)
            },
            |lease| lease.released(answered),
        ))
    }

    /// Makes the object of a granted lease.
    fn add_lease(&mut self, grant: Grant, name: Option<Arc<str>>) -> Arc<Lease> {
        let lease = Lease::new(
            host_id(self.port.generation(), grant.lease.get()),
            self.port.process(),
            name.unwrap_or_else(|| "".into()),
            grant.token,
            grant.deadline,
            self.settings.world.clone(),
        );
        let lease = Arc::new(lease.with_degraded(grant.degraded));
        self.leases.add(grant.lease, Arc::clone(&lease));
        lease
    }

    /// Adds to an error what the session does not know: the caller's name for the lock and, for a problem with the
    /// server, the server's name. If the first connection failed or the client was closed, that reason replaces an
    /// `Unavailable` error. `default_name` is the name of the lock if the error has none.
    fn add_context(&self, error: Error, default_name: Option<&str>) -> Error {
        let named = error.lock_name().map(|name| self.settings.without_prefix(name));
        let name = named.or(default_name).map(str::to_owned);
        let error = match (error.kind(), self.connecting.failure()) {
            (ErrorKind::Unavailable, Some(cause)) => {
                cause.clone().with_operation(error.operation()).with_lasting_cause()
            }
            (ErrorKind::Unavailable | ErrorKind::Misconfigured, _) => error.with_node(self.settings.server()),
            _ => error,
        };
        error.with_lock_if_known(name.as_deref())
    }

    /// Replaces every connection, because the runtime of the old ones is broken. Returns false if that is impossible.
    #[cfg(feature = "native")]
    pub(super) fn restart(&mut self) -> bool {
        let now = self.settings.world.now();
        self.transport.restart(now, &mut self.arrivals.events)
    }

    /// Ends the engine with this error. The drop of the engine reports the error to every caller.
    #[cfg(feature = "native")]
    pub(super) fn fail(&mut self, error: Error) {
        self.answer_connecting(Err(error));
    }

    /// Delivers the results of this turn.
    pub(super) fn deliver(&mut self) {
        if let Some(observing) = &mut self.observing {
            self.outbox.add_events(observing.take_events());
        }
        let unclaimed = self.outbox.deliver();
        if !unclaimed.is_empty() {
            for lease in unclaimed {
                self.discard(&lease, self.settings.world.now());
            }
            self.drain_session();
        }
        if !self.drain_waiters.is_empty() {
            self.answer_drain_waiters();
        }
    }

    /// Releases the grants that are still in the queue of events after all waits were ended, and answers
    /// `drain_waiters` once nothing is owed to the server.
    fn answer_drain_waiters(&mut self) {
        for lease in self.port.take_grants() {
            self.discard(&lease, self.settings.world.now());
        }
        self.drain_session();
        if self.session.is_drained() {
            for sink in std::mem::take(&mut self.drain_waiters) {
                self.port.answer(sink, Ok(Completion::Closed));
            }
        }
    }

    /// Whether the engine ends now: its first connection failed, or the close is complete or out of time. The drop of
    /// the engine then answers every remaining caller.
    pub(super) fn is_over(&self) -> bool {
        if self.connecting.failure().is_some() && self.closing.is_none() {
            return true;
        }
        self.closing
            .as_ref()
            .is_some_and(|closing| self.session.is_drained() || self.settings.world.now() >= closing.deadline())
    }
}

/// The engine ends when it is dropped: at the end of its loop, in a panic or, without a thread of its own, when the
/// program drops it.
impl Drop for Engine {
    /// Answers every caller that still waits, and prepares the answer to later requests.
    fn drop(&mut self) {
        let was_closed = self.closing.is_some();
        let error = match (self.connecting.failure(), &self.closing) {
            (Some(error), None) => error.clone().with_lasting_cause(),
            (_, Some(_)) => closed(),
            (None, None) => panicked_error(Operation::Acquire).with_lasting_cause(),
        };
        let mut closing = self.closing.take().unwrap_or_default();
        if self.session.is_drained() {
            closing.close_outcomes.all_released();
        }
        self.port
            .set_ended(error.clone(), was_closed.then_some(closing.close_outcomes));
        self.commands.close();
        self.answer_connecting(Err(error.clone()));
        // A lease that was lost before adds no event here.
        self.outbox.add_events(self.leases.lose_all(LostReason::Closed));
        for request in self.requests.take_all() {
            let released = match request.operation {
                Operation::Release => request.lease.and_then(|lease| self.port.close_outcome(lease)),
                _ => None,
            };
            let own_error = error.clone().with_operation(request.operation);
            let refused = own_error.with_lock_if_known(request.name.as_deref());
            self.outbox
                .answer(request.sink, released.map(Completion::Released).ok_or(refused));
        }
        for late in closing.late_releases {
            let released = self.port.close_outcome(late.lease).map(Completion::Released);
            self.outbox.answer(late.sink, released.ok_or_else(|| error.clone()));
        }
        for sink in closing
            .waiters
            .into_iter()
            .chain(std::mem::take(&mut self.drain_waiters))
        {
            self.outbox.answer(sink, Ok(Completion::Closed));
        }
        self.outbox.deliver_last();
        while let Some(command) = self.commands.take_remaining() {
            let error = command.with_lock_name(error.clone(), |name| self.settings.without_prefix(name));
            self.port.answer_ended(command, error);
        }
    }
}

/// Returns the error to report instead of the session's `error`. `lease` is the lease that the operation relied on, if
/// the session has forgotten it. If that lease was lost, `error` would mislead: it says that there is no such lease.
fn error_of_forgotten_lease(lease: Option<&Lease>, error: &Error) -> Option<Error> {
    let is_of_lease = matches!(error.kind(), ErrorKind::NotOwner | ErrorKind::InvalidArgument);
    lease.filter(|_| is_of_lease)?.lost_error(error.operation())
}

impl Engine {
    /// Executes a command of a caller or of the host.
    fn execute(&mut self, command: Command, now: Instant) {
        match command {
            Command::Run { request, op, sink } => self.start(request, op, sink, now),
            Command::AwaitConnected(sink) => {
                if let Some((sink, result)) = self.connecting.add_caller(sink) {
                    self.outbox.answer(sink, result);
                }
            }
            Command::Cancel { request } => self.cancel(request, now),
            Command::EndWaits(sink) => {
                for request in self.requests.ids_of_waiting() {
                    self.cancel(request, now);
                }
                self.drain_waiters.push(sink);
            }
            Command::Shutdown => self.close(now),
        }
    }

    fn start(&mut self, request: u64, op: CheckedOp, sink: Sink, now: Instant) {
        if let (CheckedOp::Release(lease, _), Some(closing)) = (&op, &mut self.closing)
            && closing.close_outcomes.is_owed(*lease)
        {
            return closing.late_releases.push(LateRelease { sink, lease: *lease });
        }
        let operation = op.operation();
        let kind = match &op {
            CheckedOp::Acquire(acquire) => Some(acquire.kind),
            _ => None,
        };
        let mut entry = Request {
            id: request,
            operation,
            sink,
            name: None,
            lease: None,
        };
        let ticket = match op {
            CheckedOp::Acquire(acquire) => self.acquire(acquire, &mut entry, now),
            CheckedOp::AcquireAll(all) => self.acquire_all(all, &mut entry, now),
            CheckedOp::Release(lease, end) => self.release(lease, end, &mut entry, now),
            CheckedOp::ReleaseInnermost { lock, context } => self.release_innermost(&lock, context, &mut entry, now),
            CheckedOp::Extend { lease, by } => {
                entry.lease = Some(lease);
                self.session.extend(lease, by, now)
            }
            CheckedOp::Inspect { kind, name } => self.session.inspect(kind, &name, now),
            CheckedOp::ForceRelease { kind, name } => self.session.force_release(kind, &name, now),
            CheckedOp::LastRun { name } => self.session.last_run(&name, now),
            CheckedOp::Leadership { name, seen } => match seen {
                Some(seen) => self.session.observe(&name, seen, now),
                None => self.session.leadership(&name, now),
            },
            CheckedOp::SetLimit { permits, name } => self.session.set_limit(permits, &name, now),
            CheckedOp::Held { lock, context } => {
                let held = self.held_result(&lock, context);
                return self.outbox.answer(entry.sink, Ok(held));
            }
            CheckedOp::Close => {
                self.close(now);
                if let Some(closing) = &mut self.closing {
                    closing.waiters.push(entry.sink);
                }
                return;
            }
            CheckedOp::Refused(error) => return self.outbox.answer(entry.sink, Err(error)),
        };
        // Only a request that waits for a lock has a name at this point.
        if let (Some(observing), Some(name)) = (&mut self.observing, &entry.name) {
            observing.wait_began(ticket, kind, name, now);
        }
        self.requests.add(ticket, entry);
    }

    fn acquire(&mut self, acquire: AcquireRequest, entry: &mut Request, now: Instant) -> Ticket {
        entry.name = Some(self.settings.name_without_prefix(&acquire.name));
        entry.lease = acquire.within;
        let terms = acquire.lease;
        let ticket = self.session.acquire(acquire, now);
        self.short_leases.add_request(ticket, terms);
        ticket
    }

    fn acquire_all(&mut self, all: Vec<AcquireRequest>, entry: &mut Request, now: Instant) -> Ticket {
        let names: Vec<&str> = all
            .iter()
            .map(|acquire| self.settings.without_prefix(acquire.name.as_str()))
            .collect();
        entry.name = Some(names.join(", ").into());
        entry.lease = all.first().and_then(|acquire| acquire.within);
        let terms: Vec<LeaseTerms> = all.iter().map(|acquire| acquire.lease).collect();
        let ticket = self.session.acquire_all(all, now);
        for terms in terms {
            self.short_leases.add_request(ticket, terms);
        }
        ticket
    }

    fn release(&mut self, lease: LeaseId, end: Ending, entry: &mut Request, now: Instant) -> Ticket {
        self.mark_released(lease);
        entry.lease = Some(lease);
        if let Some(observing) = &mut self.observing {
            observing.run_ends(lease, end.end);
        }
        self.session.end_run(lease, end, now)
    }

    fn release_innermost(&mut self, lock: &Subject, context: Context, entry: &mut Request, now: Instant) -> Ticket {
        entry.lease = self.session.innermost(lock, context);
        if let Some(lease) = entry.lease {
            self.mark_released(lease);
        }
        self.session.release_innermost(lock, context, now)
    }

    fn held_result(&self, lock: &Subject, context: Context) -> Completion {
        let innermost = self.session.innermost(lock, context);
        Completion::Held {
            levels: self.session.levels(lock, context),
            lease: innermost.and_then(|lease| self.leases.get(lease).cloned()),
        }
    }

    /// Marks a lease as released: its holder must not rely on it from now on, whatever the server replies. A lease that
    /// the session has just lost and forgotten stays lost, even if that loss is not reported yet.
    fn mark_released(&self, lease: LeaseId) {
        if self.session.has_lease(lease) {
            self.leases.mark_released(lease);
        }
    }

    fn cancel(&mut self, request: u64, now: Instant) {
        match self.requests.cancel(request) {
            Some((ticket, request)) => {
                self.session.cancel(ticket, now);
                if let Some(observing) = &mut self.observing {
                    observing.cancelled(ticket, now);
                }
                let released = request.lease.filter(|_| request.operation == Operation::Release);
                if let Some(lease) = released {
                    if let Some(observing) = &mut self.observing {
                        observing.release_detached(ticket, lease);
                    }
                    // The session answers the release of a lost lease at once, and does not have the lease any more.
                    if self.leases.is_released(lease) || !self.session.has_lease(lease) {
                        self.leases.forget(lease);
                    }
                }
            }
            // The request was answered before its caller went away: the result may still be in the queue.
            None => {
                if let Some(Ok(Completion::Granted(lease))) = self.port.take_event(request) {
                    self.discard(&lease, now);
                }
            }
        }
    }

    /// Releases a lease whose grant no caller received.
    fn discard(&mut self, lease: &Lease, now: Instant) {
        let id = LeaseId::from_u64(session_id(lease.id()));
        self.start(
            NO_CALLER,
            CheckedOp::Release(id, RunEnd::Unused.into()),
            Sink::Discard,
            now,
        );
    }

    fn close(&mut self, now: Instant) {
        if self.closing.is_some() {
            return;
        }
        let mut closing = Closing {
            deadline: now + CLOSE_LIMIT,
            close_outcomes: CloseOutcomes::new(self.leases.loss_reasons()),
            ..Closing::default()
        };
        for (ticket, leases) in self.session.close_with_outcomes(now) {
            closing.releases.insert(ticket, leases);
        }
        self.closing = Some(closing);
        self.queue_poller = None;
        if self.connecting.is_pending() {
            self.answer_connecting(Err(Error::new(
                ErrorKind::Closed,
                Operation::Connect,
                "the client was closed before it was connected",
            )));
        }
    }
}

/// The state of a client that is closing.
#[derive(Default)]
struct Closing {
    /// The time at which the close ends at the latest.
    deadline: Instant,
    /// The callers to answer when the close ends.
    waiters: Vec<Sink>,
    /// The releases that the close requested, each with the leases that it ends. A composite lock has no entry of its
    /// own: each of its members has one.
    releases: Table<Ticket, Vec<LeaseId>>,
    /// The outcomes of these releases, and the reasons why other leases were lost before the close.
    close_outcomes: CloseOutcomes,
    /// The callers that released a lease after the close had already requested that release. They are answered when the
    /// close ends.
    late_releases: Vec<LateRelease>,
}

struct LateRelease {
    sink: Sink,
    lease: LeaseId,
}

impl Closing {
    const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Handles the outcome of a ticket. Returns whether the ticket is a release by the close.
    fn record_outcome(&mut self, ticket: Ticket, outcome: &Outcome) -> bool {
        let leases = self.releases.remove(&ticket);
        if let (Some(leases), Outcome::Released(outcome)) = (&leases, outcome) {
            for lease in leases {
                self.close_outcomes.released(*lease, *outcome);
            }
        }
        leases.is_some()
    }
}
