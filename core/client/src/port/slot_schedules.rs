use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use loom::thread::{JoinHandle, spawn};

use crate::park::park_on;
use crate::port::{Completion, Slot};
use crate::schedules::in_every_schedule;

/// Starts a thread that stores a result. The thread returns whether the slot accepted the result.
fn complete(slot: &Arc<Slot>, with: Completion) -> JoinHandle<bool> {
    let slot = Arc::clone(slot);
    spawn(move || slot.complete(Ok(with)).is_ok())
}

#[test]
fn a_sleeping_caller_is_woken_and_receives_the_result_once() {
    in_every_schedule(|| {
        let slot = Arc::new(Slot::default());
        let engine = complete(&slot, Completion::Extended);
        // This poll leaves a waker that the next poll replaces, as if another task had polled before.
        let mut polled = slot.poll(Waker::noop());
        if polled.is_pending() {
            polled = park_on(Duration::MAX, |waker| slot.poll(waker)).map_or(Poll::Pending, Poll::Ready);
        }
        assert!(matches!(polled, Poll::Ready(Ok(Completion::Extended))));
        assert!(matches!(slot.poll(Waker::noop()), Poll::Ready(Err(_))), "once");
        assert!(engine.join().unwrap());
    });
}

#[test]
fn a_result_is_taken_or_returned_once_when_its_caller_gives_up() {
    in_every_schedule(|| {
        let slot = Arc::new(Slot::default());
        let engine = complete(&slot, Completion::Extended);
        let was_taken = slot.poll(Waker::noop()).is_ready();
        let was_returned_to_caller = slot.abandon().is_some();
        let was_returned_to_engine = !engine.join().unwrap();
        let ends = [was_taken, was_returned_to_caller, was_returned_to_engine];
        assert_eq!(ends.into_iter().filter(|is_end| *is_end).count(), 1, "{ends:?}");
    });
}

#[test]
fn a_slot_keeps_one_of_two_results_and_returns_the_other() {
    in_every_schedule(|| {
        let slot = Arc::new(Slot::default());
        let [first, second] = [true, false].map(|is_first| complete(&slot, Completion::Forced(is_first)));
        let result = park_on(Duration::MAX, |waker| slot.poll(waker));
        let Some(Ok(Completion::Forced(is_first))) = result else {
            panic!("{result:?} was not stored")
        };
        assert_eq!(first.join().unwrap(), is_first);
        assert_eq!(second.join().unwrap(), !is_first);
    });
}
