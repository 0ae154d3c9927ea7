//! The interface between a host and its engine: commands go in, results and events come out. Neither side accesses the
//! other's state.
//!
//! ```text
//!   host ── Command ──► channel ──► engine
//!     ▲                               │
//!     ├── Slot, for one caller ◄──────┤  Sink says which
//!     └── queue of events, wake ◄─────┘
//! ```

mod command;
mod completion;
#[cfg(test)]
pub(crate) mod counting;
mod ids;
mod lease;
mod listeners;
mod queue;
mod released;
mod slot;

use std::mem;
use std::sync::{Arc, OnceLock, PoisonError};

use steadlock_protocol::{Error, LeaseId};

pub(crate) use self::command::{Checked, Command, Sink};
pub use self::completion::{Completion, Event};
pub(crate) use self::ids::{generation_of, host_id, session_id};
pub use self::lease::Lease;
pub(crate) use self::queue::Commands;
pub(crate) use self::released::Endings;
pub use self::released::Released;
pub(crate) use self::slot::Slot;

use self::queue::{Sender, queue};
use crate::errors::closed;
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
