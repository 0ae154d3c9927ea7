//! The interface between a host (the Rust API or a language binding) and its engine: commands go in, results and events
//! come out. Neither side accesses the other's state.
//!
//! ```text
//!   host ── Command ──► channel ──► engine
//!     ▲                               │
//!     ├── Slot, for one caller ◄──────┤  Sink says which
//!     └── queue of events, wake ◄─────┘
//! ```
//!
//! This file also has the commands, the results of operations, and the conversion between the ids that hosts see and
//! those of a session (the state machines that the engine drives).
//!
//! `CommandQueue` takes commands from any thread to the engine. A `Slot` is the destination of one result, for one
//! caller.

mod close_outcomes;
#[cfg(test)]
pub(crate) mod counting;
mod lease;
mod listeners;

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{self, Poll, Waker};

use steadlock_protocol::{
    AcquireRequest, Context, Ending, Error, ErrorKind, Kind, LeaseDuration, LeaseId, LockName, LockState, LostReason,
    Operation, Permits, ReleaseOutcome, Subject,
};

pub(crate) use self::close_outcomes::CloseOutcomes;
pub use self::lease::Lease;
pub(crate) use self::lease::Loss;
use crate::errors::closed;
use crate::observe::Line;
use crate::observe::metrics::Metrics;
use crate::process::Process;
use crate::sync::{Mutex, MutexGuard};
use crate::unwind::catch_panic;

/// The request number of the event that reports the result of connecting.
pub(crate) const CONNECT: u64 = 0;

/// The request number of operations that have no caller.
pub(crate) const NO_CALLER: u64 = 0;

/// The callback that is called when a host's queue of events turns from empty to non-empty.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// The state that a host and its engine share. Each process, also a forked child, has its own.
pub(crate) struct Port {
    process: Process,
    generation: u64,
    commands: CommandSender,
    wake: Option<Wake>,
    /// The events that the host has not drained.
    events: Mutex<Vec<Event>>,
    /// The client's counts; `None` if the client counts nothing.
    metrics: Option<Arc<Metrics>>,
    /// The error of operations after the engine's end.
    end_error: OnceLock<Error>,
    /// The outcomes of releases after the engine's end, if the client was closed.
    close_outcomes: OnceLock<CloseOutcomes>,
}

impl Port {
    /// Opens a port of this process. Returns it with the engine's receiver of the commands. Without `wake` the host
    /// does not drain the queue of events, and without `metrics` nothing is counted.
    pub(crate) fn open(generation: u64, wake: Option<Wake>, metrics: Option<Arc<Metrics>>) -> (Self, CommandReceiver) {
        let (commands, receiver) = command_queue();
        let port = Self {
            process: Process::current(),
            generation,
            commands,
            wake,
            events: Mutex::new(Vec::new()),
            metrics,
            end_error: OnceLock::new(),
            close_outcomes: OnceLock::new(),
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

    /// Whether the port belongs to a parent from which this process was forked. Usually needs no system call: see
    /// [`Process::is_unforked`].
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_unforked()
    }

    /// Returns the client's counts; `None` if the client counts nothing.
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
    pub(crate) fn send(&self, command: Command) -> Result<(), Box<RefusedCommand>> {
        match self.commands.send(command) {
            None => Ok(()),
            Some(command) => {
                let error = self.end_error.get().cloned().unwrap_or_else(closed);
                Err(Box::new(RefusedCommand { command, error }))
            }
        }
    }

    /// Sets the error of all later operations and, if the client was closed, the outcomes of later releases.
    pub(crate) fn set_ended(&self, error: Error, close_outcomes: Option<CloseOutcomes>) {
        if let Some(close_outcomes) = close_outcomes {
            let _ = self.close_outcomes.set(close_outcomes);
        }
        let _ = self.end_error.set(error);
    }

    /// Returns the outcome of a release of this lease after the client was closed; `None` unless a close has ended the
    /// engine.
    pub(crate) fn close_outcome(&self, lease: LeaseId) -> Option<Released> {
        let number = host_id(self.generation, lease.get());
        self.close_outcomes
            .get()
            .map(|close_outcomes| close_outcomes.of(lease, number))
    }

    /// Returns the outcomes of releases after the client was closed, where they are not `Released`.
    pub(crate) fn close_outcomes(&self) -> Vec<Released> {
        let leases = self.close_outcomes.get().into_iter().flat_map(CloseOutcomes::leases);
        leases.filter_map(|lease| self.close_outcome(lease)).collect()
    }

    /// Answers a command that no engine executes, because the engine has ended or could not start.
    pub(crate) fn answer_ended(&self, command: Command, error: Error) {
        let (sink, result) = match command {
            Command::Run {
                op: CheckedOp::Close,
                sink,
                ..
            } => (sink, Ok(Completion::Closed)),
            Command::Run {
                op: CheckedOp::Refused(error),
                sink,
                ..
            } => (sink, Err(error)),
            Command::Run { op, sink, .. } => {
                let close_outcome = match &op {
                    CheckedOp::Release(lease, _) => self.close_outcome(*lease),
                    _ => None,
                };
                let refused = error.with_operation(op.operation());
                (sink, close_outcome.map(Completion::Released).ok_or(refused))
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

    /// Queues a batch of events, with at most one wake-up. Drops the events if the host does not drain the queue.
    pub(crate) fn publish(&self, events: &mut Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let Some(wake) = &self.wake else {
            events.clear();
            return;
        };
        let was_empty = {
            let mut queued = self.events();
            let was_empty = queued.is_empty();
            queued.append(events);
            was_empty
        };
        if was_empty {
            catch_panic(|| wake());
        }
    }

    /// Takes all queued events, in order.
    pub(crate) fn drain(&self, into: &mut Vec<Event>) {
        let mut queued = self.events();
        if into.is_empty() {
            mem::swap(&mut *queued, into);
        } else {
            into.append(&mut queued);
        }
    }

    /// Takes the event of one request out of the queue; `None` if it is not in the queue.
    pub(crate) fn take_event(&self, number: u64) -> Option<Result<Completion, Error>> {
        let mut queued = self.events();
        let position = queued
            .iter()
            .position(|event| matches!(event, Event::Completed { request, .. } if *request == number))?;
        match queued.remove(position) {
            Event::Completed { result, .. } => Some(result),
            Event::Lost { .. } | Event::Observed(_) => None,
        }
    }

    /// Removes the undrained grants from the queue, and returns them.
    pub(crate) fn take_grants(&self) -> Vec<Arc<Lease>> {
        let mut grants = Vec::new();
        self.events().retain(|event| match event {
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

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        // No code panics while it holds the mutex. Even if one did, the queue would be consistent.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

/// A command that the engine did not take, and the error for its caller.
pub(crate) struct RefusedCommand {
    pub(crate) command: Command,
    pub(crate) error: Error,
}

/// A command of the host to the engine.
#[derive(Debug)]
pub(crate) enum Command {
    Run {
        request: u64,
        op: CheckedOp,
        sink: Sink,
    },
    /// Answered when the client is connected, or when connecting has failed.
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
    /// Adds the name of the command's lock to an error, if the command has one name. `without_prefix` turns the full
    /// name into the caller's.
    pub(crate) fn with_lock_name(&self, error: Error, without_prefix: impl Fn(&str) -> &str) -> Error {
        let name = match self {
            Self::Run { op, .. } => op.lock_name(),
            _ => None,
        };
        error.with_lock_if_known(name.map(without_prefix))
    }
}

/// An operation whose arguments were checked.
#[derive(Debug)]
pub(crate) enum CheckedOp {
    Acquire(AcquireRequest),
    AcquireAll(Vec<AcquireRequest>),
    Release(LeaseId, Ending),
    ReleaseInnermost {
        lock: Subject,
        context: Context,
    },
    Extend {
        lease: LeaseId,
        /// `None` for the lease's own length.
        by: Option<LeaseDuration>,
    },
    Inspect {
        kind: Kind,
        name: LockName,
    },
    ForceRelease {
        kind: Kind,
        name: LockName,
    },
    LastRun {
        name: LockName,
    },
    Leadership {
        name: LockName,
        seen: Option<u64>,
    },
    SetLimit {
        permits: Permits,
        name: LockName,
    },
    Held {
        lock: Subject,
        context: Context,
    },
    Close,
    /// The arguments were refused.
    Refused(Error),
}

impl CheckedOp {
    pub(crate) const fn operation(&self) -> Operation {
        match self {
            Self::Acquire(_) | Self::AcquireAll(_) => Operation::Acquire,
            Self::Release(..) | Self::ReleaseInnermost { .. } | Self::ForceRelease { .. } | Self::Close => {
                Operation::Release
            }
            Self::Extend { .. } => Operation::Extend,
            Self::Inspect { .. } | Self::Leadership { .. } | Self::LastRun { .. } | Self::Held { .. } => {
                Operation::Inspect
            }
            Self::SetLimit { .. } => Operation::SetLimit,
            Self::Refused(error) => error.operation(),
        }
    }

    /// Returns the full name of the lock, if the operation names a single lock.
    pub(crate) fn lock_name(&self) -> Option<&str> {
        match self {
            Self::Acquire(acquire) => Some(acquire.name.as_str()),
            Self::ReleaseInnermost { lock, .. } | Self::Held { lock, .. } => lock.name().map(LockName::as_str),
            Self::Inspect { name, .. }
            | Self::ForceRelease { name, .. }
            | Self::LastRun { name }
            | Self::Leadership { name, .. }
            | Self::SetLimit { name, .. } => Some(name.as_str()),
            Self::AcquireAll(_) | Self::Release(..) | Self::Extend { .. } | Self::Close | Self::Refused(_) => None,
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
    /// The client is connected, and locks can work with its server, or with a majority of its primaries.
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
    /// A forced release or a change of a limit has ended. The value says whether the lock or a permit was held.
    Forced(bool),
    /// The hold of the context on the lock.
    Held {
        /// The number of levels; 0 if the context does not hold the lock.
        levels: u32,
        /// The innermost lease; `None` if the context does not hold the lock.
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
    /// A lease was lost for good. Arrives at most once for a lease, and never after its release.
    Lost {
        /// The lease's id.
        lease: u64,
        /// The reason for the loss.
        reason: LostReason,
        /// Whether the lease needs no release: see [`Lease::is_forgotten`].
        is_forgotten: bool,
    },
    /// A line for the host's log, if [`Options::log`](crate::host::Options::log) enables it.
    Observed(Box<Line>),
}

/// The number of low bits in a host's id that hold the session's id; the generation is above them. The session of a
/// forked child counts from the start again, so without a generation its lease 1 would be mistaken for the parent's.
const GENERATION_SHIFT: u32 = 40;

/// Returns the id that hosts see for an id of the session.
pub(crate) const fn host_id(generation: u64, id: u64) -> u64 {
    (generation << GENERATION_SHIFT) | id
}

/// Returns the generation of an id that hosts see.
pub(crate) const fn generation_of(host_id: u64) -> u64 {
    host_id >> GENERATION_SHIFT
}

/// Returns the session's id for an id that hosts see.
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
    /// The reason for the loss, if the outcome is `Expired` or `Stolen`: the releasing caller learns that it did not
    /// hold the lock to the end.
    pub lost: Option<LostReason>,
}

impl Released {
    /// Makes the result of a release. `lost` is the reason for an earlier loss, if there was one.
    pub(crate) fn new(lease: u64, outcome: ReleaseOutcome, lost: Option<LostReason>) -> Self {
        Self {
            lease,
            outcome,
            lost: outcome.lost_reason().map(|found_out| lost.unwrap_or(found_out)),
        }
    }
}

/// The capacity in commands beyond which an emptied queue frees its memory.
const KEPT_CAPACITY: usize = 1_024;

/// The sending side of the queue of commands.
struct CommandSender(Arc<CommandQueue>);

/// The receiving side of the queue of commands, which the engine owns.
pub(crate) struct CommandReceiver(Arc<CommandQueue>);

#[derive(Default)]
struct CommandQueue(Mutex<CommandQueueState>);

#[derive(Default)]
struct CommandQueueState {
    commands: VecDeque<Command>,
    /// The waker of the task that last found no command.
    waker: Option<Waker>,
    is_closed: bool,
}

/// Makes an empty queue of commands.
fn command_queue() -> (CommandSender, CommandReceiver) {
    let queue = Arc::new(CommandQueue::default());
    (CommandSender(Arc::clone(&queue)), CommandReceiver(queue))
}

impl CommandSender {
    /// Sends a command. Returns it if the receiving side was closed.
    fn send(&self, command: Command) -> Option<Command> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Some(command);
        }
        state.commands.push_back(command);
        let waker = state.waker.take();
        // Unlocked first, so that the woken task finds the queue free.
        drop(state);
        if let Some(waker) = waker {
            // If the wake-up panics, descriptors of the engine's runtime were closed. The engine notices by itself.
            catch_panic(|| waker.wake());
        }
        None
    }
}

impl CommandReceiver {
    /// Takes at most `most` commands. If there are none, registers the task of `context` for the next one.
    pub(crate) fn poll_many(&self, context: &mut task::Context<'_>, into: &mut Vec<Command>, most: usize) -> Poll<()> {
        let mut state = self.0.lock();
        if state.commands.is_empty() {
            match &mut state.waker {
                Some(known) => known.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let count = state.commands.len().min(most);
        into.extend(state.commands.drain(..count));
        if state.commands.is_empty() && state.commands.capacity() > KEPT_CAPACITY {
            state.commands = VecDeque::new();
        }
        Poll::Ready(())
    }

    /// Closes the queue for new commands. Earlier commands can still be taken.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        // The waker would keep the engine's driver in memory. It is dropped only after the mutex is unlocked, because
        // dropping it can run other code.
        let waker = state.waker.take();
        drop(state);
        drop(waker);
    }

    /// Takes a command that was left at the close.
    pub(crate) fn take_remaining(&self) -> Option<Command> {
        self.0.lock().commands.pop_front()
    }
}

impl Drop for CommandReceiver {
    fn drop(&mut self) {
        self.close();
        // The remaining commands are dropped after the mutex is unlocked.
        let left = mem::take(&mut self.0.lock().commands);
        drop(left);
    }
}

impl CommandQueue {
    fn lock(&self) -> MutexGuard<'_, CommandQueueState> {
        // No code panics while it holds the mutex. Even if one did, the state would be consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, feature = "schedules"))]
mod command_queue_schedules;

/// The destination of one result, which arrives once.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<SlotState>);

#[derive(Debug, Default)]
enum SlotState {
    /// The caller has not polled yet.
    #[default]
    Empty,
    /// The caller waits to be woken.
    Waiting(Waker),
    Done(Result<Completion, Error>),
    Taken,
    /// The caller has gone.
    Abandoned,
}

impl Slot {
    /// Stores the result and wakes the caller. Returns the result as the error if the caller has gone, or if another
    /// result came before.
    pub(crate) fn complete(&self, result: Result<Completion, Error>) -> Result<(), Result<Completion, Error>> {
        let mut state = self.lock();
        match &*state {
            SlotState::Empty | SlotState::Waiting(_) => {}
            SlotState::Done(_) | SlotState::Taken | SlotState::Abandoned => return Err(result),
        }
        let before = mem::replace(&mut *state, SlotState::Done(result));
        drop(state);
        if let SlotState::Waiting(waker) = before {
            catch_panic(|| waker.wake());
        }
        Ok(())
    }

    /// Returns the result, once. Until it arrives, registers `waker` for it.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<Completion, Error>> {
        // Cloning or dropping a waker can run code of the program, so neither happens while the mutex is locked.
        let mut new = None;
        loop {
            let mut state = self.lock();
            let before = match mem::replace(&mut *state, SlotState::Taken) {
                SlotState::Done(result) => return Poll::Ready(result),
                SlotState::Waiting(known) if known.will_wake(waker) => {
                    *state = SlotState::Waiting(known);
                    return Poll::Pending;
                }
                before @ (SlotState::Empty | SlotState::Waiting(_)) => before,
                SlotState::Taken | SlotState::Abandoned => return Poll::Ready(Err(already_taken())),
            };
            if let Some(new) = new {
                *state = SlotState::Waiting(new);
                drop(state);
                drop(before);
                return Poll::Pending;
            }
            *state = before;
            drop(state);
            new = Some(waker.clone());
        }
    }

    /// Marks the caller as gone. Returns the result if it has arrived already.
    pub(crate) fn abandon(&self) -> Option<Result<Completion, Error>> {
        match mem::replace(&mut *self.lock(), SlotState::Abandoned) {
            SlotState::Done(result) => Some(result),
            SlotState::Empty | SlotState::Waiting(_) | SlotState::Taken | SlotState::Abandoned => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        // No code panics while it holds the mutex. Even if one did, the state would be consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn already_taken() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Operation::Acquire,
        "the result was taken already; wait for it once",
    )
}

#[cfg(all(test, feature = "schedules"))]
mod slot_schedules;

#[cfg(test)]
mod tests {
    use super::counting::CountingWaker;
    use super::*;

    #[test]
    fn ids_of_two_generations_differ() {
        let (parent, child) = (host_id(0, 7), host_id(1, 7));
        assert_ne!(parent, child);
        assert_eq!((generation_of(child), session_id(child)), (1, 7));
    }

    /// Takes queued commands, and returns their numbers.
    fn take(commands: &CommandReceiver, waker: &Waker, most: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        let polled = commands.poll_many(&mut task::Context::from_waker(waker), &mut taken, most);
        assert_eq!(polled.is_ready(), !taken.is_empty());
        let number = |command| match command {
            Command::Cancel { request } => request,
            other => panic!("{other:?} was not sent"),
        };
        taken.into_iter().map(number).collect()
    }

    fn send(sender: &CommandSender, requests: std::ops::Range<u64>) {
        for request in requests {
            assert!(sender.send(Command::Cancel { request }).is_none());
        }
    }

    #[test]
    fn commands_arrive_in_order_and_at_most_as_many_as_requested() {
        let (sender, commands) = command_queue();
        send(&sender, 0..5);
        assert_eq!(take(&commands, Waker::noop(), 3), [0, 1, 2]);
        assert_eq!(take(&commands, Waker::noop(), 3), [3, 4]);
        assert!(take(&commands, Waker::noop(), 3).is_empty());
    }

    #[test]
    fn a_task_that_found_no_command_is_woken_once() {
        let (sender, commands) = command_queue();
        let count = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&count));
        send(&sender, 0..1);
        assert_eq!(count.wake_count(), 0, "no task waits");
        assert_eq!(take(&commands, &waker, 9), [0]);
        assert!(take(&commands, &waker, 9).is_empty());
        send(&sender, 1..4);
        assert_eq!(count.wake_count(), 1);
        assert_eq!(take(&commands, &waker, 9), [1, 2, 3]);
    }

    #[test]
    fn only_the_task_that_polled_last_is_woken() {
        let (sender, commands) = command_queue();
        let (first, second) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        for count in [&first, &second] {
            assert!(take(&commands, &Waker::from(Arc::clone(count)), 9).is_empty());
        }
        send(&sender, 0..1);
        assert_eq!(first.wake_count(), 0);
        assert_eq!(second.wake_count(), 1);
    }

    #[test]
    fn a_closed_queue_returns_new_commands_and_keeps_earlier_ones() {
        let (sender, commands) = command_queue();
        send(&sender, 0..1);
        commands.close();
        assert!(sender.send(Command::Cancel { request: 1 }).is_some());
        assert!(matches!(
            commands.take_remaining(),
            Some(Command::Cancel { request: 0 })
        ));
        assert!(commands.take_remaining().is_none());
        drop(commands);
        assert!(sender.send(Command::Cancel { request: 2 }).is_some());
    }
}
