//! The queue of commands, from any thread to the engine.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use super::command::Command;
use crate::sync::{Mutex, MutexGuard};
use crate::unwind::quietly;

/// A queue that grew beyond this many commands frees its memory once it is empty.
const ROOM: usize = 1_024;

/// Where commands are put.
pub(super) struct Sender(Arc<Queue>);

/// What an engine takes its commands from.
pub(crate) struct Commands(Arc<Queue>);

#[derive(Default)]
struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    /// Whom to tell of the next command: somebody who found none.
    waker: Option<Waker>,
    is_closed: bool,
}

/// An empty queue.
pub(super) fn queue() -> (Sender, Commands) {
    let queue = Arc::new(Queue::default());
    (Sender(Arc::clone(&queue)), Commands(queue))
}

impl Sender {
    /// Gives the command back if nobody takes it any more.
    pub(super) fn send(&self, command: Command) -> Option<Command> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Some(command);
        }
        state.commands.push_back(command);
        let waker = state.waker.take();
        // Whoever is woken finds the queue free.
        drop(state);
        if let Some(waker) = waker {
            // Where the descriptors of the engine's runtime were closed, the engine finds out by itself.
            quietly(|| waker.wake());
        }
        None
    }
}

impl Commands {
    /// Takes so many at the most. If there are none, tells the task of `context` when there are.
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

    /// Nothing is taken any more; what was sent before can be taken still.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        // It keeps whoever drove the engine. Dropped when the lock is given back.
        let waker = state.waker.take();
        drop(state);
        drop(waker);
    }

    /// A command that was left.
    pub(crate) fn take_left(&self) -> Option<Command> {
        self.0.lock().commands.pop_front()
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.close();
        // What is left goes after the lock is given back.
        let left = mem::take(&mut self.0.lock().commands);
        drop(left);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding it; if something did, the state is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

#[cfg(test)]
mod tests {
    use super::super::counting::Counting;
    use super::*;

    /// The numbers of the commands that are there.
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
