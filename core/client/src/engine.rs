//! The engine: one thread for each client, which owns the session and the
//! connections. No code of the program runs on it.
//!
//! One turn of its loop:
//!
//! ```text
//!   callers' commands ─┐                       ┌─► calls, one batch for each lane
//!   what was seen ─────┼─► Session ─► drained ─┤
//!   the clock ─────────┘                       └─► completions: one wake-up for a batch
//! ```

mod spin;
mod timer;
mod wait;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_protocol::{
    ClientId, Config, Context, Error, ErrorKind, Event as Told, Grant, Instant, LeaseId, LeaseTerms, LostReason,
    NodeId, Operation, Outcome, ReleaseOutcome, Session, Ticket,
};
use tokio::runtime;
use tokio::sync::mpsc::UnboundedReceiver;

use self::spin::Spin;
use self::timer::Timer;
use crate::clock;
use crate::entropy::OsEntropy;
use crate::host::{
    Checked, Command, Completion, Core, Event, Host, Lease, Named, Sink, Slot, closed, host_id, retold, session_id,
};
use crate::transport::{self, First, Seen, Transport};

/// How long a closed client goes on to release what it held.
const CLOSE_LIMIT: Duration = Duration::from_millis(400);

/// Starts the engine's thread.
pub(crate) fn start(core: Arc<Core>, commands: UnboundedReceiver<Command>) -> Result<(), Error> {
    let unavailable = |error: std::io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            Operation::Connect,
            format!("the client's engine cannot start: {error}"),
        )
    };
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unavailable)?;
    let transport = transport::open(&core.settings, core.first())?;
    let engine = Engine::new(core, commands, transport);
    std::thread::Builder::new()
        .name("leasehold-engine".into())
        .spawn(move || {
            let core = Arc::clone(&engine.core);
            let task = runtime.spawn(tokio::task::unconstrained(engine.run()));
            // However it ends, its drop tells everybody.
            let _ = core.driver.run(runtime, task);
        })
        .map_err(unavailable)?;
    Ok(())
}

struct Engine {
    core: Arc<Core>,
    commands: UnboundedReceiver<Command>,
    transport: Box<dyn Transport>,
    session: Session,
    /// Who waits for what.
    tickets: HashMap<Ticket, Waiting>,
    requests: HashMap<u64, Ticket>,
    /// Every lease that the session has: held, or lost and not yet released. A fixed one
    /// that was lost is forgotten; what became of it, its object knows as long as the
    /// program keeps it.
    leases: HashMap<LeaseId, Arc<Lease>>,
    /// The host's next events.
    events: Vec<Event>,
    /// Completions for callers of their own.
    answers: Vec<(Arc<Slot>, Result<Completion, Error>)>,
    connecting: Connecting,
    closing: Option<Closing>,
    timer: Timer,
    spin: Spin,
    taken: Vec<Command>,
    seen: Vec<Seen>,
}

/// What a ticket stands for.
struct Waiting {
    request: u64,
    operation: Operation,
    sink: Sink,
    /// The lock's name as the caller gave it, for a grant.
    name: Option<Arc<str>>,
    /// The lease that a release or an extension is of.
    lease: Option<LeaseId>,
}

enum Connecting {
    /// Who is to be told.
    Tried(Vec<Sink>),
    Done,
    Failed(Error),
}

struct Closing {
    until: Instant,
    waiting: Vec<Sink>,
}

impl Engine {
    fn new(core: Arc<Core>, commands: UnboundedReceiver<Command>, transport: Box<dyn Transport>) -> Self {
        let settings = &core.settings;
        let config = Config {
            client: ClientId::random(&mut OsEntropy),
            lease: settings.lease,
            primaries: u16::try_from(settings.targets.len()).unwrap_or(u16::MAX),
            command_timeout: settings.command_timeout,
            retry_interval: settings.retry_interval,
        };
        // A host hears how its first connection went; that of a lazy client and that of a forked
        // child wait for none.
        let connecting = match core.first() {
            First::IsAwaited => vec![Sink::Queue(Host::CONNECT)],
            First::IsAtUse | First::WasMade => Vec::new(),
        };
        Self {
            session: Session::new(config, Box::new(OsEntropy)),
            core,
            commands,
            transport,
            tickets: HashMap::new(),
            requests: HashMap::new(),
            leases: HashMap::new(),
            events: Vec::new(),
            answers: Vec::new(),
            connecting: Connecting::Tried(connecting),
            closing: None,
            timer: Timer::default(),
            spin: Spin::on(std::thread::available_parallelism().map_or(1, Into::into)),
            taken: Vec::with_capacity(wait::BURST),
            seen: Vec::new(),
        }
    }

    async fn run(mut self) {
        loop {
            self.wait().await;
            self.feed();
            self.pump();
            let (lanes, renewal) = (self.transport.every_lane_is_open(), self.session.next_renewal());
            self.core.driver.allow_callers(lanes, renewal);
            self.deliver();
            if self.is_over() {
                return;
            }
            let_connections_run().await;
        }
    }

    /// Gives the session everything that came.
    fn feed(&mut self) {
        let now = clock::now();
        let mut seen = std::mem::take(&mut self.seen);
        for item in seen.drain(..) {
            self.saw(item, now);
        }
        self.seen = seen;
        let mut taken = std::mem::take(&mut self.taken);
        for command in taken.drain(..) {
            self.obey(command, now);
        }
        self.taken = taken;
        if self.session.poll_timeout().is_some_and(|due| now >= due) {
            self.session.on_timeout(now);
        }
    }

    fn saw(&mut self, seen: Seen, now: Instant) {
        match seen {
            Seen::Opened(node, lane) => self.session.on_lane_opened(node, lane, now),
            Seen::Closed(node, lane, cause) => self.session.on_lane_closed(node, lane, &cause, now),
            Seen::Deaf(node) => self.session.on_subscriptions_lost(node),
            Seen::Ready => self.tell_connected(Ok(())),
            Seen::Unreachable(error) => {
                self.session.on_disconnected(NodeId::default(), error.message(), now);
                self.tell_connected(Err(error));
            }
            Seen::Reply(call, result) => self.session.on_reply(call, result, now),
            Seen::Subscribed(node, channel) => self.session.on_subscribed(node, &channel, now),
            Seen::Message(node, channel, payload) => self.session.on_message(node, &channel, &payload, now),
        }
    }

    fn tell_connected(&mut self, result: Result<(), Error>) {
        let after = match &result {
            Ok(()) => Connecting::Done,
            Err(error) => Connecting::Failed(error.clone()),
        };
        if let Connecting::Tried(sinks) = std::mem::replace(&mut self.connecting, after) {
            for sink in sinks {
                self.answer(sink, result.clone().map(|()| Completion::Connected));
            }
        }
    }

    fn obey(&mut self, command: Command, now: Instant) {
        match command {
            Command::Run { request, op, sink } => self.start(request, op, sink, now),
            Command::AwaitConnected(sink) => match &mut self.connecting {
                Connecting::Tried(sinks) => sinks.push(sink),
                Connecting::Done => self.answer(sink, Ok(Completion::Connected)),
                Connecting::Failed(error) => {
                    let error = error.clone();
                    self.answer(sink, Err(error));
                }
            },
            Command::Cancel { request } => self.cancel(request, now),
            Command::Shutdown => self.close(now),
        }
    }

    /// What is to be renewed more often than the client's lease hurries the connections.
    fn note_length(&mut self, lease: LeaseTerms) {
        if let Some(length) = lease.length().filter(|_| lease.is_renewed()) {
            self.transport.set_shortest_lease(length.get());
        }
    }

    fn start(&mut self, request: u64, op: Checked, sink: Sink, now: Instant) {
        let (mut name, mut of) = (None, None);
        let operation = op.operation();
        let ticket = match op {
            Checked::Acquire(acquire) => {
                self.note_length(acquire.lease);
                name = Some(Arc::from(self.core.settings.without_prefix(acquire.name.as_str())));
                self.session.acquire(acquire, now)
            }
            Checked::AcquireAll(all) => {
                let names: Vec<&str> = all
                    .iter()
                    .map(|acquire| self.core.settings.without_prefix(acquire.name.as_str()))
                    .collect();
                name = Some(names.join(", ").into());
                all.iter().for_each(|acquire| self.note_length(acquire.lease));
                self.session.acquire_all(all, now)
            }
            Checked::Release(lease) => {
                of = Some(lease);
                self.mark_released(lease);
                self.session.release(lease, now)
            }
            Checked::ReleaseInnermost(lock, context) => {
                of = self.innermost(&lock, context);
                if let Some(lease) = of {
                    self.mark_released(lease);
                }
                match lock {
                    Named::One(kind, name) => self.session.release_innermost(kind, &name, context, now),
                    Named::All(locks) => self.session.release_innermost_of_all(&locks, context, now),
                }
            }
            Checked::Extend(lease, by) => {
                of = Some(lease);
                self.session.extend(lease, by, now)
            }
            Checked::Inspect(kind, name) => self.session.inspect(kind, &name, now),
            Checked::ForceRelease(kind, name) => self.session.force_release(kind, &name, now),
            Checked::SetLimit(permits, name) => self.session.set_limit(permits, &name, now),
            Checked::Held(lock, context) => {
                let levels = match &lock {
                    Named::One(kind, name) => self.session.levels(*kind, name, context),
                    Named::All(locks) => self.session.levels_of_all(locks, context),
                };
                let innermost = self.innermost(&lock, context);
                let lease = innermost.and_then(|lease| self.leases.get(&lease).cloned());
                return self.answer(sink, Ok(Completion::Held { levels, lease }));
            }
            Checked::Close => {
                self.close(now);
                if let Some(closing) = &mut self.closing {
                    closing.waiting.push(sink);
                }
                return;
            }
            Checked::Refused(error) => return self.answer(sink, Err(error)),
        };
        self.requests.insert(request, ticket);
        self.tickets.insert(
            ticket,
            Waiting {
                request,
                operation,
                sink,
                name,
                lease: of,
            },
        );
    }

    /// What a context took last of a lock.
    fn innermost(&self, lock: &Named, context: Context) -> Option<LeaseId> {
        match lock {
            Named::One(kind, name) => self.session.innermost(*kind, name, context),
            Named::All(locks) => self.session.innermost_of_all(locks, context),
        }
    }

    /// From here on the holder must not rely on it, whatever the server says. One that was
    /// lost and forgotten a moment ago is lost, though that is not told yet.
    fn mark_released(&self, lease: LeaseId) {
        if let Some(lease) = self.leases.get(&lease).filter(|_| self.session.has_lease(lease)) {
            lease.mark_released();
        }
    }

    fn cancel(&mut self, request: u64, now: Instant) {
        match self.requests.remove(&request) {
            Some(ticket) => {
                let release = self.tickets.remove(&ticket).and_then(|waiting| waiting.lease);
                self.session.cancel(ticket, now);
                if let Some(lease) = release
                    && self.leases.get(&lease).is_some_and(|lease| lease.is_released())
                {
                    self.leases.remove(&lease);
                }
            }
            // Its event was queued while the caller went away.
            None => {
                if let Some(Ok(Completion::Granted(lease))) = self.core.take_event(request) {
                    self.discard(&lease, now);
                }
            }
        }
    }

    /// Releases a lease that nobody took.
    fn discard(&mut self, lease: &Lease, now: Instant) {
        let id = LeaseId::from_u64(session_id(lease.id()));
        self.start(0, Checked::Release(id), Sink::Discard, now);
    }

    fn close(&mut self, now: Instant) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(Closing {
            until: now + CLOSE_LIMIT,
            waiting: Vec::new(),
        });
        self.session.close(now);
        self.tell_connected(Err(Error::new(
            ErrorKind::Closed,
            Operation::Connect,
            "the client was closed before it was connected",
        )));
    }

    /// Drains the session until nothing comes out of it any more.
    fn pump(&mut self) {
        // Calls that waited for a connection go out though nothing new is sent.
        let mut sends = true;
        loop {
            while let Some(item) = self.session.poll_transmit() {
                sends = true;
                self.transport.transmit(item);
            }
            if std::mem::take(&mut sends) {
                let now = clock::now();
                let session = &mut self.session;
                self.transport.set_in_use(!session.is_empty());
                self.transport.flush(now, &mut |call| session.on_sent(call, now));
            }
            let mut tells = false;
            while let Some(event) = self.session.poll_event() {
                tells = true;
                self.told(event);
            }
            // What was told may have something sent.
            if !tells {
                return;
            }
        }
    }

    fn told(&mut self, event: Told) {
        match event {
            Told::Completed { ticket, outcome } => self.completed(ticket, outcome),
            Told::Renewed { lease, deadline } => {
                if let Some(lease) = self.leases.get(&lease) {
                    lease.renewed(deadline);
                }
            }
            Told::Lost { lease: id, reason } => {
                if self.leases.get(&id).is_some_and(|lease| lease.is_released()) {
                    // Its release was asked for in the same turn, and says what it came to.
                    return;
                }
                let is_forgotten = !self.session.has_lease(id);
                let lease = if is_forgotten {
                    self.leases.remove(&id)
                } else {
                    self.leases.get(&id).cloned()
                };
                let Some(lease) = lease else { return };
                lease.mark_lost(reason, is_forgotten);
                self.events.push(Event::Lost {
                    lease: lease.id(),
                    reason,
                    is_forgotten,
                });
            }
        }
    }

    fn completed(&mut self, ticket: Ticket, outcome: Outcome) {
        let Some(waiting) = self.tickets.remove(&ticket) else {
            // Its caller went away in the very burst that granted it.
            if let Outcome::Granted(grant) = outcome {
                self.start(0, Checked::Release(grant.lease), Sink::Discard, clock::now());
            }
            return;
        };
        self.requests.remove(&waiting.request);
        let released = waiting.lease.filter(|_| waiting.operation == Operation::Release);
        if let Some(lease) = released.filter(|lease| !self.session.has_lease(*lease)) {
            self.leases.remove(&lease);
        }
        let result = match outcome {
            Outcome::Granted(grant) => Ok(Completion::Granted(self.granted(grant, waiting.name))),
            Outcome::NotGranted(error) => Ok(Completion::NotGranted(self.explain(error))),
            Outcome::Released(outcome) => Ok(Completion::Released(outcome)),
            Outcome::Extended(deadline) => {
                if let Some(lease) = waiting.lease.and_then(|lease| self.leases.get(&lease)) {
                    lease.renewed(deadline);
                }
                Ok(Completion::Extended)
            }
            Outcome::State(state) => Ok(Completion::State(state)),
            Outcome::Forced(was_held) => Ok(Completion::Forced(was_held)),
            // It was released before, or is lost and forgotten: its object says which.
            Outcome::Failed(error) if released.is_some() && error.kind() == ErrorKind::NotOwner => {
                Ok(Completion::Released(ReleaseOutcome::Released))
            }
            Outcome::Failed(error) => Err(self.explain(error)),
        };
        self.answer(waiting.sink, result);
    }

    fn granted(&mut self, grant: Grant, name: Option<Arc<str>>) -> Arc<Lease> {
        let lease = Arc::new(Lease::new(
            host_id(self.core.generation, grant.lease.get()),
            self.core.process,
            name.unwrap_or_else(|| "".into()),
            grant.token,
            grant.deadline,
        ));
        self.leases.insert(grant.lease, Arc::clone(&lease));
        lease
    }

    /// The session does not know how the caller calls the lock, nor what its
    /// server is called, nor why the engine never reached it.
    fn explain(&self, error: Error) -> Error {
        let name = error
            .lock_name()
            .map(|name| self.core.settings.without_prefix(name).to_owned());
        let error = match name {
            Some(name) => error.with_lock(name),
            None => error,
        };
        if error.kind() != ErrorKind::Unavailable {
            return error;
        }
        if let Connecting::Failed(cause) = &self.connecting {
            return retold(cause, error.operation(), cause.message());
        }
        let node = self.core.settings.server();
        if error.message().contains(&node) {
            return error;
        }
        retold(
            &error,
            error.operation(),
            &format!("{} (server {node})", error.message()),
        )
    }

    fn answer(&mut self, sink: Sink, result: Result<Completion, Error>) {
        match sink {
            Sink::Queue(request) => self.events.push(Event::Completed { request, result }),
            Sink::Slot(slot) => self.answers.push((slot, result)),
            Sink::Discard => {}
        }
    }

    /// Hands the results of this turn out: grants first, since a lock stands idle until
    /// its new holder runs, and nothing waits for the one that gave it back.
    fn deliver(&mut self) {
        let is_late = |result: &Result<Completion, Error>| !matches!(result, Ok(Completion::Granted(_)));
        self.events
            .sort_by_key(|event| !matches!(event, Event::Completed { result, .. } if !is_late(result)));
        self.core.publish(&mut self.events);
        let mut answers = std::mem::take(&mut self.answers);
        answers.sort_by_key(|(_, result)| is_late(result));
        let mut unwanted = Vec::new();
        for (slot, result) in answers.drain(..) {
            // The caller went away between the grant and now.
            if let Err(Ok(Completion::Granted(lease))) = slot.complete(result) {
                unwanted.push(lease);
            }
        }
        self.answers = answers;
        if !unwanted.is_empty() {
            for lease in unwanted {
                self.discard(&lease, clock::now());
            }
            self.pump();
        }
    }

    fn is_over(&self) -> bool {
        if matches!(self.connecting, Connecting::Failed(_)) && self.closing.is_none() {
            return true;
        }
        self.closing
            .as_ref()
            .is_some_and(|closing| self.session.is_drained() || clock::now() >= closing.until)
    }
}

/// The engine ends when it is dropped: in the end of its loop, or by a panic.
impl Drop for Engine {
    /// Answers everybody who still waits, and everybody who comes later.
    fn drop(&mut self) {
        let error = match (&self.connecting, &self.closing) {
            (Connecting::Failed(error), None) => error.clone(),
            (_, Some(_)) => closed(),
            (_, None) => Error::new(
                ErrorKind::Unavailable,
                Operation::Acquire,
                "the client's engine failed; make a new client, and please report this",
            ),
        };
        self.core.end(error.clone());
        self.commands.close();
        self.tell_connected(Err(error.clone()));
        for (_, lease) in std::mem::take(&mut self.leases) {
            // Nothing renews it any more. Closing has told those that it knew of.
            if lease.mark_lost(LostReason::Closed, true) {
                self.events.push(Event::Lost {
                    lease: lease.id(),
                    reason: LostReason::Closed,
                    is_forgotten: true,
                });
            }
        }
        for (_, waiting) in std::mem::take(&mut self.tickets) {
            self.answer(waiting.sink, Err(retold(&error, waiting.operation, error.message())));
        }
        if let Some(closing) = self.closing.take() {
            for sink in closing.waiting {
                self.answer(sink, Ok(Completion::Closed));
            }
        }
        self.core.publish(&mut self.events);
        for (slot, result) in self.answers.drain(..) {
            // A grant that nobody takes any more lapses.
            drop(slot.complete(result));
        }
        while let Ok(command) = self.commands.try_recv() {
            self.core.answer_ended(command, &error);
        }
    }
}

/// Lets every other task that is ready run once. Without it, callers that keep
/// the engine busy would keep it from sending.
async fn let_connections_run() {
    let mut has_run = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_run, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
