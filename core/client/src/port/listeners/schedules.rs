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
struct Happening {
    has_happened: AtomicBool,
    listeners: Listeners,
}

impl Happening {
    fn happen(&self) {
        self.has_happened.store(true, Ordering::Release);
        self.listeners.notify();
    }

    fn find(&self) -> Option<()> {
        self.has_happened.load(Ordering::Acquire).then_some(())
    }
}

/// Plays a history of a thread that signals the event and a thread that waits twice at the same time.
fn play(wait: fn(&Happening)) {
    in_every_schedule(move || {
        let happening = Arc::new(Happening::default());
        let teller = Arc::clone(&happening);
        let teller = spawn(move || teller.happen());
        wait(&happening);
        teller.join().unwrap();
        let lock = happening.listeners.lock();
        assert!(
            lock.as_ref().is_none_or(|state| state.wakers.is_empty()),
            "nothing is left behind"
        );
    });
}

#[test]
fn all_who_wait_are_told() {
    play(|happening| {
        let mut first = pin!(happening.listeners.until(|| happening.find()));
        let mut second = pin!(happening.listeners.until(|| happening.find()));
        let mut results = (false, false);
        park_on(Duration::MAX, |waker| {
            let context = &mut Context::from_waker(waker);
            results.0 = results.0 || first.as_mut().poll(context).is_ready();
            results.1 = results.1 || second.as_mut().poll(context).is_ready();
            if results == (true, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
    });
}

#[test]
fn who_waits_is_told_though_another_gives_up() {
    play(|happening| {
        let mut waits = pin!(happening.listeners.until(|| happening.find()));
        let mut leaving = Some(Box::pin(happening.listeners.until(|| happening.find())));
        park_on(Duration::MAX, |waker| {
            let context = &mut Context::from_waker(waker);
            if let Some(other) = &mut leaving {
                let _ = other.as_mut().poll(context);
            }
            let results = waits.as_mut().poll(context);
            leaving = None;
            results
        });
    });
}
