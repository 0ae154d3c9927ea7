use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use loom::thread::spawn;

use super::Listeners;
use crate::park::park_on;
use crate::schedules::in_every_schedule;
use crate::sync::atomic::{AtomicBool, Ordering};

/// An event that happens once, and its listeners.
#[derive(Default)]
struct OneEvent {
    has_happened: AtomicBool,
    listeners: Listeners,
}

impl OneEvent {
    fn happen(&self) {
        self.has_happened.store(true, Ordering::Release);
        self.listeners.notify();
    }

    fn find(&self) -> Option<()> {
        self.has_happened.load(Ordering::Acquire).then_some(())
    }
}

/// Plays a history of two threads: one signals the event, and the other waits for it with two futures at the same time.
fn play(wait: fn(&OneEvent)) {
    in_every_schedule(move || {
        let event = Arc::new(OneEvent::default());
        let signalling = Arc::clone(&event);
        let signalling = spawn(move || signalling.happen());
        wait(&event);
        signalling.join().unwrap();
        let lock = event.listeners.lock();
        assert!(
            lock.as_ref().is_none_or(|state| state.wakers.is_empty()),
            "nothing is left behind"
        );
    });
}

#[test]
fn all_waiting_tasks_are_woken() {
    play(|event| {
        let mut first = pin!(event.listeners.until(|| event.find()));
        let mut second = pin!(event.listeners.until(|| event.find()));
        let (mut is_first_ready, mut is_second_ready) = (false, false);
        park_on(Duration::MAX, |waker| {
            let context = &mut Context::from_waker(waker);
            is_first_ready = is_first_ready || first.as_mut().poll(context).is_ready();
            is_second_ready = is_second_ready || second.as_mut().poll(context).is_ready();
            if is_first_ready && is_second_ready {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
    });
}

#[test]
fn a_waiting_task_is_woken_although_another_gives_up() {
    play(|event| {
        let mut waiting = pin!(event.listeners.until(|| event.find()));
        let mut leaving = Some(Box::pin(event.listeners.until(|| event.find())));
        park_on(Duration::MAX, |waker| {
            let context = &mut Context::from_waker(waker);
            if let Some(other) = &mut leaving {
                let _ = other.as_mut().poll(context);
            }
            let polled = waiting.as_mut().poll(context);
            leaving = None;
            polled
        });
    });
}
