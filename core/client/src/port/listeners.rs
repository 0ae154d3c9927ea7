//! Tasks that wait for an event that happens once.

use std::mem;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use crate::sync::{Mutex, MutexGuard};
use crate::unwind::catch_panic;

/// The waiting tasks. Most leases have none, so the list uses almost no memory until the first task waits.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Option<Box<State>>>);

#[derive(Default)]
struct State {
    last: u64,
    /// Each waker, under the number of its future.
    wakers: Vec<(u64, Waker)>,
}

impl Listeners {
    /// Completes when `find` returns a value. Each poll calls `find`, and `notify` causes another poll.
    pub(super) const fn until<T, L: FnMut() -> Option<T> + Unpin>(&self, find: L) -> Until<'_, L> {
        Until {
            listeners: self,
            number: None,
            find,
        }
    }

    /// Wakes all waiting tasks, after the event.
    pub(super) fn notify(&self) {
        let wakers = self.lock().as_mut().map(|state| mem::take(&mut state.wakers));
        for (_, waker) in wakers.unwrap_or_default() {
            catch_panic(|| waker.wake());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<State>>> {
        // No code panics while it holds the mutex. Even if one did, the state would be consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiting task. Dropping it removes it from the list.
pub(super) struct Until<'a, L> {
    listeners: &'a Listeners,
    /// The number under which the task is listed; `None` before the first poll.
    number: Option<u64>,
    find: L,
}

impl<T, L: FnMut() -> Option<T> + Unpin> Future for Until<'_, L> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let number = self.listen(context.waker());
        self.number = Some(number);
        // Registers first and calls `find` after that, so that an event in between is not missed.
        match (self.find)() {
            Some(found) => Poll::Ready(found),
            None => Poll::Pending,
        }
    }
}

impl<L> Until<'_, L> {
    fn listen(&self, waker: &Waker) -> u64 {
        // Cloning or dropping a waker can run code of the program, so neither happens while the mutex is locked.
        let new = waker.clone();
        let mut guard = self.listeners.lock();
        let state = guard.get_or_insert_default();
        let number = self.number.unwrap_or_else(|| {
            state.last += 1;
            state.last
        });
        let before = match state.wakers.iter_mut().find(|(listed, _)| *listed == number) {
            Some((_, known)) => Some(mem::replace(known, new)),
            None => {
                state.wakers.push((number, new));
                None
            }
        };
        drop(guard);
        drop(before);
        number
    }
}

impl<L> Drop for Until<'_, L> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.listeners.lock();
        let waker = state.as_mut().and_then(|state| {
            let position = state.wakers.iter().position(|(listed, _)| *listed == number)?;
            Some(state.wakers.swap_remove(position))
        });
        drop(state);
        drop(waker);
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::counting::CountingWaker;
    use super::*;

    #[test]
    fn the_event_wakes_each_waiting_task_and_later_tasks_do_not_wait() {
        let (listeners, happened) = (Listeners::default(), AtomicBool::new(false));
        let find = || happened.load(Ordering::Relaxed).then_some(7);
        let count = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let (mut first, mut second) = (pin!(listeners.until(find)), pin!(listeners.until(find)));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(first.as_mut().poll(&mut context).is_pending(), "listed only once");
        happened.store(true, Ordering::Relaxed);
        listeners.notify();
        assert_eq!(count.wake_count(), 2);
        assert_eq!(first.poll(&mut context), Poll::Ready(7));
        assert_eq!(pin!(listeners.until(find)).poll(&mut context), Poll::Ready(7));
    }

    #[test]
    fn a_dropped_wait_is_removed_from_the_list() {
        let listeners = Listeners::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Box::pin(listeners.until(|| None::<()>));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        for _ in 0..100 {
            let mut dropped = Box::pin(listeners.until(|| None::<()>));
            assert!(dropped.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(listeners.lock().as_ref().map(|state| state.wakers.len()), Some(1));
        drop(waiting);
        assert!(listeners.lock().as_ref().is_some_and(|state| state.wakers.is_empty()));
    }
}
