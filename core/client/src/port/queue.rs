//! The queue of commands, from any thread to the engine; and the slot, the destination of one result for one caller.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use steadlock_protocol::{Error, ErrorKind, Operation};

use super::{Command, Completion};
use crate::sync::{Mutex, MutexGuard};
use crate::unwind::quietly;

/// The capacity in commands beyond which an emptied queue frees its memory.
const ROOM: usize = 1_024;

/// The sending side of the queue.
pub(super) struct Sender(Arc<Queue>);

/// The receiving side of the queue, which the engine owns.
pub(crate) struct Commands(Arc<Queue>);

#[derive(Default)]
struct Queue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    commands: VecDeque<Command>,
    /// The waker of the task that last found no command.
    waker: Option<Waker>,
    is_closed: bool,
}

/// Makes an empty queue.
pub(super) fn queue() -> (Sender, Commands) {
    let queue = Arc::new(Queue::default());
    (Sender(Arc::clone(&queue)), Commands(queue))
}

impl Sender {
    /// Sends a command. Returns it if the receiving side was closed.
    pub(super) fn send(&self, command: Command) -> Option<Command> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Some(command);
        }
        state.commands.push_back(command);
        let waker = state.waker.take();
        // Unlocked first, so that the woken task finds the queue free.
        drop(state);
        if let Some(waker) = waker {
            // If this fails, descriptors of the engine's runtime were closed. The engine notices that by itself.
            quietly(|| waker.wake());
        }
        None
    }
}

impl Commands {
    /// Takes at most `most` commands. If there are none, registers the task of `context` for the next one.
    pub(crate) fn poll_many(&self, context: &mut Context<'_>, into: &mut Vec<Command>, most: usize) -> Poll<()> {
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
        if state.commands.is_empty() && state.commands.capacity() > ROOM {
            state.commands = VecDeque::new();
        }
        Poll::Ready(())
    }

    /// Closes the queue for new commands. Earlier commands can still be taken.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        // Taken because it keeps the engine's driver in memory, and dropped only after the mutex is unlocked.
        let waker = state.waker.take();
        drop(state);
        drop(waker);
    }

    /// Takes a command that was left at the close.
    pub(crate) fn take_left(&self) -> Option<Command> {
        self.0.lock().commands.pop_front()
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.close();
        // The left commands are dropped after the mutex is unlocked.
        let left = mem::take(&mut self.0.lock().commands);
        drop(left);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // No code panics while it holds the mutex. Even if one did, the state would be consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

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
    /// Stores the result and wakes the caller. Returns the result as the error if the caller has gone.
    pub(crate) fn complete(&self, result: Result<Completion, Error>) -> Result<(), Result<Completion, Error>> {
        let mut state = self.lock();
        match &*state {
            SlotState::Empty | SlotState::Waiting(_) => {}
            SlotState::Done(_) | SlotState::Taken | SlotState::Abandoned => return Err(result),
        }
        let before = mem::replace(&mut *state, SlotState::Done(result));
        drop(state);
        if let SlotState::Waiting(waker) = before {
            quietly(|| waker.wake());
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
                SlotState::Taken | SlotState::Abandoned => return Poll::Ready(Err(taken())),
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

fn taken() -> Error {
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
    use super::super::counting::Counting;
    use super::*;

    /// Returns the numbers of the queued commands.
    fn take(commands: &Commands, waker: &Waker, most: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        let polled = commands.poll_many(&mut Context::from_waker(waker), &mut taken, most);
        assert_eq!(polled.is_ready(), !taken.is_empty());
        let number = |command| match command {
            Command::Cancel { request } => request,
            other => panic!("{other:?} was not sent"),
        };
        taken.into_iter().map(number).collect()
    }

    fn send(sender: &Sender, requests: std::ops::Range<u64>) {
        for request in requests {
            assert!(sender.send(Command::Cancel { request }).is_none());
        }
    }

    #[test]
    fn commands_come_in_order_and_no_more_at_once_than_asked() {
        let (sender, commands) = queue();
        send(&sender, 0..5);
        assert_eq!(take(&commands, Waker::noop(), 3), [0, 1, 2]);
        assert_eq!(take(&commands, Waker::noop(), 3), [3, 4]);
        assert!(take(&commands, Waker::noop(), 3).is_empty());
    }

    #[test]
    fn whoever_found_nothing_is_woken_once() {
        let (sender, commands) = queue();
        let count = Arc::new(Counting::default());
        let waker = Waker::from(Arc::clone(&count));
        send(&sender, 0..1);
        assert_eq!(count.told(), 0, "nobody waits");
        assert_eq!(take(&commands, &waker, 9), [0]);
        assert!(take(&commands, &waker, 9).is_empty());
        send(&sender, 1..4);
        assert_eq!(count.told(), 1);
        assert_eq!(take(&commands, &waker, 9), [1, 2, 3]);
    }

    #[test]
    fn the_last_one_who_looked_is_woken() {
        let (sender, commands) = queue();
        let (first, second) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
        for count in [&first, &second] {
            assert!(take(&commands, &Waker::from(Arc::clone(count)), 9).is_empty());
        }
        send(&sender, 0..1);
        assert_eq!(first.told(), 0);
        assert_eq!(second.told(), 1);
    }

    #[test]
    fn after_its_end_commands_are_given_back_and_what_was_sent_before_is_left() {
        let (sender, commands) = queue();
        send(&sender, 0..1);
        commands.close();
        assert!(sender.send(Command::Cancel { request: 1 }).is_some());
        assert!(matches!(commands.take_left(), Some(Command::Cancel { request: 0 })));
        assert!(commands.take_left().is_none());
        drop(commands);
        assert!(sender.send(Command::Cancel { request: 2 }).is_some());
    }
}
