//! The interface between a host and its engine: commands go in, results and events come out. Neither side accesses the
//! other's state.
//!
//! ```text
//!   host ── Command ──► channel ──► engine
//!     ▲                               │
//!     ├── Slot, for one caller ◄──────┤  Sink says which
//!     └── queue of events, wake ◄─────┘
//! ```
//!
//! This file also has the commands, the results of operations, and the ids of requests and leases in the form of hosts
//! and in the form of a session.

#[cfg(test)]
pub(crate) mod counting;
mod lease;
mod listeners;
mod queue;

use std::mem;
use std::sync::{Arc, OnceLock, PoisonError};

use steadlock_protocol::{
    AcquireRequest, Context, Error, Kind, LeaseDuration, LeaseId, LockName, LockState, LostReason, Operation, Permits,
    ReleaseOutcome, Subject, Table,
};

pub use self::lease::Lease;
pub(crate) use self::queue::Commands;
pub(crate) use self::queue::Slot;
use self::queue::{Sender, queue};
use crate::errors::closed;
use crate::observe::Line;
use crate::observe::metrics::Metrics;
use crate::process::Process;
use crate::sync::{Mutex, MutexGuard};
use crate::unwind::quietly;

/// The request number of the event that reports the result of connecting.
pub(crate) const CONNECT: u64 = 0;

/// A callback for the moment at which a host's queue turns from empty to non-empty.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// The state that a host and its engine share. Each process, also a forked child, has its own.
pub(crate) struct Port {
    process: Process,
    generation: u64,
    commands: Sender,
    wake: Option<Wake>,
    queue: Mutex<Vec<Event>>,
    /// The client's counts, if it counts metrics.
    metrics: Option<Arc<Metrics>>,
    /// The error of every operation after the engine's end.
    ended: OnceLock<Error>,
    /// The outcomes of releases after the engine's end, if the client was closed.
    endings: OnceLock<Endings>,
}

impl Port {
    /// Opens a port of this process. Returns it with the engine's receiver of the commands. Without `wake` the host
    /// does not drain the queue, and without `metrics` nothing is counted.
    pub(crate) fn open(generation: u64, wake: Option<Wake>, metrics: Option<Arc<Metrics>>) -> (Self, Commands) {
        let (commands, receiver) = queue();
        let port = Self {
            process: Process::current(),
            generation,
            commands,
            wake,
            queue: Mutex::new(Vec::new()),
            metrics,
            ended: OnceLock::new(),
            endings: OnceLock::new(),
        };
        (port, receiver)
    }

    /// Returns the process to which the port belongs.
    pub(crate) const fn process(&self) -> Process {
        self.process
    }

    /// Returns the number of forks between the process that made the client and this port's process.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the port belongs to a parent from which this process was forked.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    /// As `is_inherited`, but by the counted forks alone, without a system call.
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_unforked()
    }

    /// Returns the client's counts, if it counts metrics.
    pub(crate) const fn metrics(&self) -> Option<&Arc<Metrics>> {
        self.metrics.as_ref()
    }

    /// Whether the host drains the queue of events.
    pub(crate) const fn is_drained(&self) -> bool {
        self.wake.is_some()
    }

    pub(crate) fn wake(&self) -> Option<Wake> {
        self.wake.clone()
    }

    /// Sends a command to the engine. If the engine has ended, returns the command and the error for its caller.
    pub(crate) fn send(&self, command: Command) -> Result<(), Box<(Command, Error)>> {
        match self.commands.send(command) {
            None => Ok(()),
            Some(returned) => {
                let error = self.ended.get().cloned().unwrap_or_else(closed);
                Err(Box::new((returned, error)))
            }
        }
    }

    /// Sets the error of all later operations and, if the client was closed, the outcomes of later releases.
    pub(crate) fn end(&self, error: Error, endings: Option<Endings>) {
        if let Some(endings) = endings {
            let _ = self.endings.set(endings);
        }
        let _ = self.ended.set(error);
    }

    /// Returns the outcome of a release of this lease after the client was closed; `None` before.
    pub(crate) fn ending(&self, lease: LeaseId) -> Option<Released> {
        let number = host_id(self.generation, lease.get());
        self.endings.get().map(|endings| endings.of(lease, number))
    }

    /// Returns the outcomes of releases after the client was closed, where they are not `Released`.
    pub(crate) fn endings(&self) -> Vec<Released> {
        let leases = self.endings.get().into_iter().flat_map(Endings::leases);
        leases.filter_map(|lease| self.ending(lease)).collect()
    }

    /// Answers a command that arrives after the engine's end.
    pub(crate) fn answer_ended(&self, command: Command, error: Error) {
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
            Command::Run { op, sink, .. } => {
                let ending = match &op {
                    Checked::Release(lease) => self.ending(*lease),
                    _ => None,
                };
                let refused = error.with_operation(op.operation());
                (sink, ending.map(Completion::Released).ok_or(refused))
            }
            Command::AwaitConnected(sink) => (sink, Err(error)),
            Command::EndWaits(sink) => (sink, Ok(Completion::Closed)),
            Command::Cancel { .. } | Command::Shutdown => return,
        };
        self.answer(sink, result);
    }

    /// Answers a caller at once, in place of the engine.
    pub(crate) fn answer(&self, sink: Sink, result: Result<Completion, Error>) {
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
            let mut queue = self.queue();
            let was_empty = queue.is_empty();
            queue.append(events);
            was_empty
        };
        if was_empty {
            quietly(|| wake());
        }
    }

    /// Takes all queued events, in order.
    pub(crate) fn drain(&self, into: &mut Vec<Event>) {
        let mut queue = self.queue();
        if into.is_empty() {
            mem::swap(&mut *queue, into);
        } else {
            into.append(&mut queue);
        }
    }

    /// Takes the event of one request out of the queue.
    pub(crate) fn take_event(&self, wanted: u64) -> Option<Result<Completion, Error>> {
        let mut queue = self.queue();
        let position = queue
            .iter()
            .position(|event| matches!(event, Event::Completed { request, .. } if *request == wanted))?;
        match queue.remove(position) {
            Event::Completed { result, .. } => Some(result),
            Event::Lost { .. } | Event::Observed(_) => None,
        }
    }

    /// Takes the grants that were not drained out of the queue.
    pub(crate) fn take_grants(&self) -> Vec<Arc<Lease>> {
        let mut grants = Vec::new();
        self.queue().retain(|event| match event {
            Event::Completed {
                result: Ok(Completion::Granted(lease)),
                ..
            } => {
                grants.push(Arc::clone(lease));
                false
            }
            _ => true,
        });
        grants
    }

    fn queue(&self) -> MutexGuard<'_, Vec<Event>> {
        // No code panics while it holds the mutex. Even if one did, the queue would be consistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

/// A command of the host to the engine.
#[derive(Debug)]
pub(crate) enum Command {
    Run {
        request: u64,
        op: Checked,
        sink: Sink,
    },
    /// Answered when it is known whether the server can be reached.
    AwaitConnected(Sink),
    /// The caller of this request has gone.
    Cancel {
        request: u64,
    },
    /// Ends every wait for a lock. Answered when no release is owed to the server any more.
    EndWaits(Sink),
    /// The client has no users left.
    Shutdown,
}

impl Command {
    /// Adds the command's lock to an error; `given` turns the full name into the caller's.
    pub(crate) fn naming_its_lock(&self, error: Error, given: impl Fn(&str) -> &str) -> Error {
        let name = match self {
            Self::Run { op, .. } => op.lock_name(),
            _ => None,
        };
        error.with_lock_if_known(name.map(given))
    }
}

/// An operation whose arguments were checked.
#[derive(Debug)]
pub(crate) enum Checked {
    Acquire(AcquireRequest),
    AcquireAll(Vec<AcquireRequest>),
    Release(LeaseId),
    ReleaseInnermost(Subject, Context),
    Extend(LeaseId, Option<LeaseDuration>),
    Inspect(Kind, LockName),
    ForceRelease(Kind, LockName),
    SetLimit(Permits, LockName),
    Held(Subject, Context),
    Close,
    /// The arguments were refused.
    Refused(Error),
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

    /// Returns the full name of the lock, if the operation names a single lock.
    pub(crate) fn lock_name(&self) -> Option<&str> {
        match self {
            Self::Acquire(acquire) => Some(acquire.name.as_str()),
            Self::ReleaseInnermost(lock, _) | Self::Held(lock, _) => lock.name().map(LockName::as_str),
            Self::Inspect(_, name) | Self::ForceRelease(_, name) | Self::SetLimit(_, name) => Some(name.as_str()),
            Self::AcquireAll(_) | Self::Release(_) | Self::Extend(..) | Self::Close | Self::Refused(_) => None,
        }
    }
}

/// The destination of a result.
#[derive(Clone, Debug)]
pub(crate) enum Sink {
    /// The event queue, under this request number.
    Queue(u64),
    /// The slot of one caller.
    Slot(Arc<Slot>),
    /// No caller waits for the result.
    Discard,
}

/// The result of a successful operation.
#[derive(Clone, Debug)]
pub enum Completion {
    /// The server was reached, and locks can work with it.
    Connected,
    /// The lock is held.
    Granted(Arc<Lease>),
    /// The wait timed out, or the acquisition was skipped. The error is for callers that want one.
    NotGranted(Error),
    /// The release ended.
    Released(Released),
    /// The lease was extended; `remaining()` returns the time that is left.
    Extended,
    /// The lock's state on the server.
    State(LockState),
    /// A forced release or a change of a limit was done. The value says whether the lock or a permit was held.
    Forced(bool),
    /// The holds of the context.
    Held {
        /// The number of levels; 0 if the context holds nothing.
        levels: u32,
        /// The innermost lease.
        lease: Option<Arc<Lease>>,
    },
    /// The client is closed.
    Closed,
}

/// An event for the host.
#[derive(Clone, Debug)]
pub enum Event {
    /// A submitted operation has ended.
    Completed {
        /// The number that `submit` returned, or [`Host::CONNECT`](crate::host::Host::CONNECT).
        request: u64,
        /// The result of the operation.
        result: Result<Completion, Error>,
    },
    /// A lease was lost for good. Arrives once for each lease, and never after its release.
    Lost {
        /// The lease's id.
        lease: u64,
        /// The reason of the loss.
        reason: LostReason,
        /// Whether the lease needs no release: see [`Lease::is_forgotten`].
        is_forgotten: bool,
    },
    /// A line for the host's log, if [`Options::log`](crate::host::Options::log) enables it.
    Observed(Box<Line>),
}

/// The place of the generation in an id. The session of a forked child counts from the start again, so without a
/// generation its lease 1 would be mistaken for the parent's.
const GENERATION_SHIFT: u32 = 40;

/// Returns the id in the form of hosts.
pub(crate) const fn host_id(generation: u64, id: u64) -> u64 {
    (generation << GENERATION_SHIFT) | id
}

/// Returns the generation of an id in the form of hosts.
pub(crate) const fn generation_of(host_id: u64) -> u64 {
    host_id >> GENERATION_SHIFT
}

/// Returns the id in the form of the session.
pub(crate) const fn session_id(host_id: u64) -> u64 {
    host_id & ((1 << GENERATION_SHIFT) - 1)
}

/// The lease that was released, and the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The lease's id.
    pub lease: u64,
    /// The outcome of the release.
    pub outcome: ReleaseOutcome,
    /// The reason of the loss, if the outcome is `Expired` or `Stolen`: the releasing caller learns that it did not
    /// hold the lock to the end.
    pub lost: Option<LostReason>,
}

impl Released {
    /// Makes the result of a release. `lost` is the reason for which the lease was lost before, if it was.
    pub(crate) fn new(lease: u64, outcome: ReleaseOutcome, lost: Option<LostReason>) -> Self {
        Self {
            lease,
            outcome,
            lost: outcome.lost_reason().map(|found_out| lost.unwrap_or(found_out)),
        }
    }
}

/// The outcomes of releases of a closed client, whose leases have all ended.
#[derive(Default)]
pub(crate) struct Endings(Table<LeaseId, Ending>);

#[derive(Clone, Copy)]
enum Ending {
    /// The lease was lost before the close.
    Lost(LostReason),
    /// The close released the lease, and the server replied with this outcome.
    Released(ReleaseOutcome),
    /// The close released the lease, and no reply has arrived.
    Owed,
}

impl Endings {
    /// Begins a close that ends these leases. The reason is set for a lease that was lost before.
    pub(crate) fn new(leases: Vec<(LeaseId, Option<LostReason>)>) -> Self {
        let mut endings = Table::default();
        for (id, lost) in leases {
            endings.insert(id, lost.map_or(Ending::Owed, Ending::Lost));
        }
        Self(endings)
    }

    /// Whether the outcome of the close's release of this lease is still unknown.
    pub(crate) fn is_owed(&self, id: LeaseId) -> bool {
        matches!(self.0.get(&id), Some(Ending::Owed))
    }

    /// Records the server's reply to the release of this lease.
    pub(crate) fn released(&mut self, id: LeaseId, outcome: ReleaseOutcome) {
        if let Some(ending) = self.0.get_mut(&id).filter(|ending| matches!(ending, Ending::Owed)) {
            *ending = Ending::Released(outcome);
        }
    }

    /// Records that all other leases were released, since no release is owed any more. A composite lock counts as
    /// released by its members.
    pub(crate) fn all_released(&mut self) {
        for (_, ending) in self.0.iter_mut() {
            if let Ending::Owed = ending {
                *ending = Ending::Released(ReleaseOutcome::Released);
            }
        }
    }

    /// Returns the outcome of a release of this lease; `lease` is its number in the form of hosts. An unknown lease was
    /// released before the close.
    pub(crate) fn of(&self, id: LeaseId, lease: u64) -> Released {
        match self.0.get(&id) {
            Some(Ending::Lost(reason)) => Released::new(lease, reason.outcome(), Some(*reason)),
            Some(Ending::Released(outcome)) => Released::new(lease, *outcome, None),
            Some(Ending::Owed) => Released::new(lease, ReleaseOutcome::Unknown, None),
            None => Released::new(lease, ReleaseOutcome::Released, None),
        }
    }

    /// Returns the leases whose releases have another outcome than `Released`.
    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> + '_ {
        let is_special = |ending: &Ending| !matches!(ending, Ending::Released(ReleaseOutcome::Released));
        self.0
            .iter()
            .filter_map(move |(id, ending)| is_special(ending).then_some(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_two_generations_differ() {
        let (parent, child) = (host_id(0, 7), host_id(1, 7));
        assert_ne!(parent, child);
        assert_eq!((generation_of(child), session_id(child)), (1, 7));
    }
}
