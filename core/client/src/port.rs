//! Where a host and its engine meet: commands go in, results and events come out. Neither
//! reaches into the other.
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

/// The request number of the event that says how connecting went.
pub(crate) const CONNECT: u64 = 0;

/// Tells a host that its queue has turned from empty to non-empty.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// What a host and its engine share, one such thing for each process id.
pub(crate) struct Port {
    process: Process,
    generation: u64,
    commands: Sender,
    wake: Option<Wake>,
    queue: Mutex<Vec<Event>>,
    /// What the engine counts, if it does.
    metrics: Option<Arc<Metrics>>,
    /// What every operation gets once the engine has ended.
    ended: OnceLock<Error>,
    /// The answers to releases then, if the client was closed.
    endings: OnceLock<Endings>,
}

impl Port {
    /// A port of this process, and what its engine takes the commands from. Without `wake`
    /// nobody drains the queue, and without `metrics` nothing is counted.
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

    /// The process that it belongs to.
    pub(crate) const fn process(&self) -> Process {
        self.process
    }

    /// How many forks lie between the process that made the client and its own.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether it is a parent's, of which this process is a fork.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    /// As `is_inherited`, as far as forks are counted: no system call.
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_unforked()
    }

    /// What the engine counts, if it does.
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

    /// Hands a command to the engine. Returns it, and what to answer, if that has ended.
    pub(crate) fn send(&self, command: Command) -> Result<(), Box<(Command, Error)>> {
        match self.commands.send(command) {
            None => Ok(()),
            Some(returned) => {
                let error = self.ended.get().cloned().unwrap_or_else(closed);
                Err(Box::new((returned, error)))
            }
        }
    }

    /// The engine says what operations get from now on, and what releases get, if the client was closed.
    pub(crate) fn end(&self, error: Error, endings: Option<Endings>) {
        if let Some(endings) = endings {
            let _ = self.endings.set(endings);
        }
        let _ = self.ended.set(error);
    }

    /// The answer to a release of this lease once the client is closed; `None` before that.
    pub(crate) fn ending(&self, lease: LeaseId) -> Option<Released> {
        let number = host_id(self.generation, lease.get());
        self.endings.get().map(|endings| endings.of(lease, number))
    }

    /// The answers to releases once the client is closed, where they are not `Released`.
    pub(crate) fn endings(&self) -> Vec<Released> {
        let leases = self.endings.get().into_iter().flat_map(Endings::leases);
        leases.filter_map(|lease| self.ending(lease)).collect()
    }

    /// Answers a command that comes after the engine's end.
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

    /// Answers somebody at once, in place of the engine.
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

    /// Takes a request's event out of the queue.
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

    /// Takes the grants out of the queue that nobody has drained.
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
        // Nothing panics while holding it; if something did, the queue is whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;
