//! The queue of commands, from any thread to the engine.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Command;
use crate::sync::{Mutex, MutexGuard};
use crate::unwind::quietly;

/// The capacity in commands beyond which an emptied queue frees its memory.
const ROOM: usize = 1_024;

/// The sending side of the queue.
pub(super) struct Sender(Arc<Queue>);

/// The receiving side of the queue, which the engine owns.
pub(crate) struct Commands(Arc<Queue>);

#[derive(Default)]
struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
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
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the mutex. Even if one did, the state would be consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

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
