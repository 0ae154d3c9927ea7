//! What a host and its engine share, one such thing for each process id.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_protocol::{
    AcquireRequest, Context, Error, ErrorKind, Kind, LeaseDuration, LeaseId, LeaseTerms, LockName, Operation, Permits,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::address::{LockRef, Locks};
use super::lease::{generation_of, host_id, session_id};
use super::options::duration;
use super::{Acquire, Completion, Event, Op, Settings, Slot};
use crate::driver::Driver;
use crate::engine;
use crate::process::Process;
use crate::transport::First;

/// What an engine is told.
#[derive(Debug)]
pub(crate) enum Command {
    Run {
        request: u64,
        op: Checked,
        sink: Sink,
    },
    /// Answered when it is known whether the server can be reached.
    AwaitConnected(Sink),
    /// The caller of a request went away.
    Cancel {
        request: u64,
    },
    /// Nobody uses the client any more.
    Shutdown,
}

/// An operation whose arguments are known to be good.
#[derive(Debug)]
pub(crate) enum Checked {
    Acquire(AcquireRequest),
    AcquireAll(Vec<AcquireRequest>),
    Release(LeaseId),
    ReleaseInnermost(Named, Context),
    Extend(LeaseId, Option<LeaseDuration>),
    Inspect(Kind, LockName),
    ForceRelease(Kind, LockName),
    SetLimit(Permits, LockName),
    Held(Named, Context),
    Close,
    /// The arguments were refused.
    Refused(Error),
}

/// A lock whose name was checked, or several.
#[derive(Debug)]
pub(crate) enum Named {
    One(Kind, LockName),
    All(Vec<(Kind, LockName)>),
}

impl Checked {
    pub(crate) const fn operation(&self) -> Operation {
        match self {
            Self::Acquire(_) | Self::AcquireAll(_) => Operation::Acquire,
            Self::Release(_) | Self::ReleaseInnermost(..) | Self::ForceRelease(..) | Self::Close => Operation::Release,
            Self::Extend(..) => Operation::Extend,
            Self::Inspect(..) | Self::Held(..) => Operation::Inspect,
            Self::SetLimit(..) => Operation::SetLimit,
            Self::Refused(error) => error.operation(),
        }
    }
}

/// Where a result goes.
#[derive(Debug)]
pub(crate) enum Sink {
    /// The event queue, under this request number.
    Queue(u64),
    /// A caller of its own.
    Slot(Arc<Slot>),
    /// Nobody waits for it.
    Discard,
}

/// A host's cores: the one of the process that made it and, in a forked child,
/// the child's.
///
/// A child must not touch its parent's core: threads that are gone in the child
/// may have held its mutexes. So the child appends its own here, reached by
/// atomics only, and leaks the parent's.
pub(crate) struct Generation {
    core: Option<Arc<Core>>,
    child: OnceLock<Box<Self>>,
}

impl Generation {
    pub(super) fn first(settings: Arc<Settings>, wake: Option<Arc<dyn Fn() + Send + Sync>>) -> Self {
        Self::new(Arc::new(Core::new(0, settings, wake)))
    }

    const fn new(core: Arc<Core>) -> Self {
        Self {
            core: Some(core),
            child: OnceLock::new(),
        }
    }

    /// The core of this process; its engine is started by its first command.
    pub(super) fn current(&self) -> &Arc<Core> {
        let mut generation = self;
        loop {
            let core = generation.own();
            if !core.is_inherited() {
                return core;
            }
            generation = generation
                .child
                .get_or_init(|| Box::new(Self::new(Arc::new(core.for_child()))));
        }
    }

    pub(super) fn server(&self) -> String {
        self.own().settings.server()
    }

    fn own(&self) -> &Arc<Core> {
        match &self.core {
            Some(core) => core,
            // `core` is taken by `drop` alone.
            None => unreachable!("a dropped generation is used"),
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        let Some(core) = self.core.take() else { return };
        if core.is_inherited() {
            // Leaked: its engine, its sockets and its mutexes are the parent's.
            mem::forget(core);
        } else if core.started.get().is_some() {
            core.send(Command::Shutdown);
        }
    }
}

/// What a host and its engine share.
pub(crate) struct Core {
    pub(crate) process: Process,
    pub(crate) generation: u64,
    pub(crate) settings: Arc<Settings>,
    wake: Option<Arc<dyn Fn() + Send + Sync>>,
    requests: AtomicU64,
    commands: UnboundedSender<Command>,
    /// Taken by the engine when it starts.
    receiver: Mutex<Option<UnboundedReceiver<Command>>>,
    started: OnceLock<Result<(), Error>>,
    pub(crate) driver: Driver,
    /// Whether the client was told to close.
    closed: AtomicBool,
    /// What every operation gets once the engine has ended.
    ended: OnceLock<Error>,
    queue: Mutex<Vec<Event>>,
}

impl Core {
    fn new(generation: u64, settings: Arc<Settings>, wake: Option<Arc<dyn Fn() + Send + Sync>>) -> Self {
        let (commands, receiver) = unbounded_channel();
        Self {
            process: Process::current(),
            generation,
            settings,
            wake,
            requests: AtomicU64::new(0),
            commands,
            receiver: Mutex::new(Some(receiver)),
            started: OnceLock::new(),
            driver: Driver::default(),
            closed: AtomicBool::new(false),
            ended: OnceLock::new(),
            queue: Mutex::new(Vec::new()),
        }
    }

    /// The core of a forked child, whose parent's is `self`.
    fn for_child(&self) -> Self {
        let child = Self::new(self.generation + 1, Arc::clone(&self.settings), self.wake.clone());
        // What the parent closed before the fork is closed here too.
        if self.closed.load(Ordering::Relaxed) {
            child.closed.store(true, Ordering::Relaxed);
            let _ = child.started.set(Err(closed()));
        }
        child
    }

    /// What its first connection is to the callers.
    pub(crate) fn first(&self) -> First {
        match self.generation {
            0 if self.settings.lazy => First::IsAtUse,
            0 => First::IsAwaited,
            _ => First::WasMade,
        }
    }

    /// Whether it is a parent's, of which this process is a fork.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    pub(super) fn next_request(&self) -> u64 {
        host_id(self.generation, self.requests.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Starts the engine, if nobody did yet.
    pub(super) fn ensure_started(self: &Arc<Self>) -> Result<(), Error> {
        self.started
            .get_or_init(|| {
                let receiver = lock(&self.receiver).take();
                match receiver {
                    Some(receiver) => engine::start(Arc::clone(self), receiver),
                    None => Ok(()),
                }
            })
            .clone()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Checks an operation and hands it to the engine.
    pub(super) fn run(self: &Arc<Self>, request: u64, op: Op, sink: Sink) {
        if matches!(op, Op::Close) {
            self.closed.store(true, Ordering::Relaxed);
            // What was never used connects to nothing for it.
            let _ = self.started.get_or_init(|| Err(closed()));
        }
        let op = self.check(op).unwrap_or_else(Checked::Refused);
        self.send(Command::Run { request, op, sink });
    }

    pub(super) fn cancel(self: &Arc<Self>, request: u64) {
        self.send(Command::Cancel { request });
    }

    /// Cancels a request whose event may be queued already.
    pub(super) fn cancel_queued(self: &Arc<Self>, request: u64) {
        if generation_of(request) != self.generation {
            return;
        }
        match self.take_event(request) {
            Some(result) => self.give_back(result),
            None => self.cancel(request),
        }
    }

    /// Releases a grant that nobody wants any more.
    pub(crate) fn give_back(self: &Arc<Self>, result: Result<Completion, Error>) {
        if let Ok(Completion::Granted(lease)) = result {
            self.run(0, Op::Release { lease: lease.id() }, Sink::Discard);
        }
    }

    pub(super) fn drain(&self, into: &mut Vec<Event>) {
        let mut queue = lock(&self.queue);
        if into.is_empty() {
            mem::swap(&mut *queue, into);
        } else {
            into.append(&mut queue);
        }
    }

    /// Hands a command to the engine, which is started first if need be.
    pub(crate) fn send(self: &Arc<Self>, command: Command) {
        // A thread that waits for its answer drives the engine if need be.
        let is_waited_for = matches!(
            &command,
            Command::Run {
                sink: Sink::Slot(_),
                ..
            }
        );
        let refused = match self.ensure_started() {
            Ok(()) => match self.commands.send(command) {
                Ok(()) if is_waited_for => return,
                Ok(()) => return self.driver.needs_engine(),
                Err(returned) => (returned.0, self.ended_error()),
            },
            Err(error) => (command, error),
        };
        self.answer_ended(refused.0, &refused.1);
    }

    /// Answers a command that comes after the engine's end.
    pub(crate) fn answer_ended(&self, command: Command, error: &Error) {
        let (sink, result) = match command {
            Command::Run {
                op: Checked::Close,
                sink,
                ..
            } => (sink, Ok(Completion::Closed)),
            Command::Run {
                op: Checked::Refused(error),
                sink,
                ..
            } => (sink, Err(error)),
            Command::Run { op, sink, .. } => (sink, Err(retold(error, op.operation(), error.message()))),
            Command::AwaitConnected(sink) => (sink, Err(error.clone())),
            Command::Cancel { .. } | Command::Shutdown => return,
        };
        match sink {
            Sink::Queue(request) => self.publish(&mut vec![Event::Completed { request, result }]),
            Sink::Slot(slot) => drop(slot.complete(result)),
            Sink::Discard => {}
        }
    }

    /// Queues a batch of events, with at most one wake-up.
    pub(crate) fn publish(&self, events: &mut Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let Some(wake) = &self.wake else {
            events.clear();
            return;
        };
        let was_empty = {
            let mut queue = lock(&self.queue);
            let was_empty = queue.is_empty();
            queue.append(events);
            was_empty
        };
        if was_empty {
            wake();
        }
    }

    /// Takes a request's event out of the queue.
    pub(crate) fn take_event(&self, wanted: u64) -> Option<Result<Completion, Error>> {
        let mut queue = lock(&self.queue);
        let position = queue
            .iter()
            .position(|event| matches!(event, Event::Completed { request, .. } if *request == wanted))?;
        match queue.remove(position) {
            Event::Completed { result, .. } => Some(result),
            Event::Lost { .. } => None,
        }
    }

    /// The engine says what operations get from now on.
    pub(crate) fn end(&self, error: Error) {
        let _ = self.ended.set(error);
    }

    pub(crate) fn ended_error(&self) -> Error {
        self.ended.get().cloned().unwrap_or_else(closed)
    }

    pub(crate) fn forked(&self, operation: Operation) -> Error {
        let message = if self.settings.is_private() {
            "this process is a fork, and a private memory:// client stays with its parent; make a client of its own here"
        } else {
            "this process is a fork, and the lease or call is its parent's; take the lock again here"
        };
        Error::new(ErrorKind::Forked, operation, message)
    }

    fn check(&self, op: Op) -> Result<Checked, Error> {
        if self.generation > 0 && self.settings.is_private() && !matches!(op, Op::Close) {
            return Err(self.forked(Operation::Acquire));
        }
        Ok(match op {
            Op::Acquire(acquire) => self.check_acquire(acquire)?,
            Op::Release { lease } => Checked::Release(self.check_lease(lease, Operation::Release)?),
            Op::ReleaseInnermost { lock, context } => {
                Checked::ReleaseInnermost(self.check_lock(lock)?, Context::from_u64(context))
            }
            Op::Extend { lease, by_ms } => Checked::Extend(
                self.check_lease(lease, Operation::Extend)?,
                by_ms
                    .map(|ms| LeaseDuration::fixed(duration("the extension", ms, Operation::Extend)?))
                    .transpose()?,
            ),
            Op::Inspect { lock } => match self.check_lock(lock)? {
                Named::One(kind, name) => Checked::Inspect(kind, name),
                Named::All(_) => return Err(several(Operation::Inspect)),
            },
            Op::ForceRelease { lock } => match self.check_lock(lock)? {
                Named::One(kind, name) => Checked::ForceRelease(kind, name),
                Named::All(_) => return Err(several(Operation::Release)),
            },
            Op::SetLimit { lock } => self
                .check_limit(lock)
                .map_err(|error| retold(&error, Operation::SetLimit, error.message()))?,
            Op::Held { lock, context } => Checked::Held(self.check_lock(lock)?, Context::from_u64(context)),
            Op::Close => Checked::Close,
        })
    }

    fn check_limit(&self, lock: LockRef) -> Result<Checked, Error> {
        match self.check_lock(lock)? {
            Named::One(Kind::Semaphore(permits), name) => Ok(Checked::SetLimit(permits, name)),
            _ => Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::SetLimit,
                "only a semaphore has a limit",
            )),
        }
    }

    fn check_lock(&self, lock: LockRef) -> Result<Named, Error> {
        Ok(match lock.parse()? {
            Locks::One(kind, name) => Named::One(kind, self.settings.lock_name(&name)?),
            Locks::All(locks) => {
                let checked = locks
                    .into_iter()
                    .map(|(kind, name)| Ok((kind, self.settings.lock_name(&name)?)));
                Named::All(checked.collect::<Result<_, Error>>()?)
            }
        })
    }

    fn check_acquire(&self, acquire: Acquire) -> Result<Checked, Error> {
        let lock = self.check_lock(acquire.lock)?;
        let first = match &lock {
            Named::One(_, name) => Some(name),
            Named::All(locks) => locks.first().map(|(_, name)| name),
        };
        let first = first
            .map_or("", |name| self.settings.without_prefix(name.as_str()))
            .to_owned();
        let named = |error: Error| error.with_lock(first.as_str());
        let bound = |what, ms: Option<f64>| -> Result<Option<Duration>, Error> {
            ms.map(|ms| duration(what, ms, Operation::Acquire))
                .transpose()
                .map_err(named)
        };
        let max_hold = bound("max_hold", acquire.max_hold_ms)?;
        if max_hold.is_some_and(|max_hold| max_hold < LeaseDuration::MIN.get()) {
            return Err(named(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Acquire,
                "max_hold is below 100 ms, the shortest lease; give more",
            )));
        }
        let context = acquire.context.map(Context::from_u64);
        let blocked: Vec<Context> = acquire.blocked.into_iter().map(Context::from_u64).collect();
        let within = acquire
            .within
            .map(|lease| self.check_lease(lease, Operation::Acquire))
            .transpose()
            .map_err(named)?;
        let wait = bound("the wait", acquire.wait_ms)?;
        let lease = match bound("the lease", acquire.lease_ms)? {
            None => Ok(LeaseTerms::CLIENT),
            Some(length) if acquire.renew => LeaseTerms::renewed(length),
            Some(length) => LeaseTerms::fixed(length),
        };
        let lease = lease.map_err(named)?;
        let request = |(kind, name)| AcquireRequest {
            kind,
            name,
            context,
            within,
            wait,
            lease,
            max_hold,
            fencing: !acquire.no_fencing,
            blocked: blocked.clone(),
        };
        Ok(match lock {
            Named::One(kind, name) => Checked::Acquire(request((kind, name))),
            Named::All(locks) => Checked::AcquireAll(locks.into_iter().map(request).collect()),
        })
    }

    fn check_lease(&self, lease: u64, operation: Operation) -> Result<LeaseId, Error> {
        if generation_of(lease) != self.generation {
            return Err(self.forked(operation));
        }
        Ok(LeaseId::from_u64(session_id(lease)))
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("process", &self.process)
            .field("server", &self.settings.server())
            .finish_non_exhaustive()
    }
}

/// Several locks are named where one is needed.
fn several(operation: Operation) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        operation,
        "several locks are no lock of their own; ask for each of them",
    )
}

/// What the operations of a closed client get.
pub(crate) fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        Operation::Acquire,
        "the client is closed; connect a new one",
    )
}

/// The same error, of another operation and in other words.
pub(crate) fn retold(error: &Error, operation: Operation, message: &str) -> Error {
    let retold = Error::new(error.kind(), operation, message)
        .with_holder(error.holder().cloned())
        .with_reason(error.reason());
    match error.lock_name() {
        Some(lock) => retold.with_lock(lock),
        None => retold,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while holding one; if something did, the data is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
