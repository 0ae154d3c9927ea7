//! What a turn brought the callers, until it is handed out.

use std::sync::Arc;

use steadlock_protocol::Error;

use crate::port::{Completion, Event, Lease, Port, Sink, Slot};

pub(super) struct Outbox {
    port: Arc<Port>,
    /// The host's next events.
    events: Vec<Event>,
    /// Completions for callers of their own.
    answers: Vec<(Arc<Slot>, Result<Completion, Error>)>,
}

impl Outbox {
    pub(super) const fn new(port: Arc<Port>) -> Self {
        Self {
            port,
            events: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(super) fn answer(&mut self, sink: Sink, result: Result<Completion, Error>) {
        match sink {
            Sink::Queue(request) => self.events.push(Event::Completed { request, result }),
            Sink::Slot(slot) => self.answers.push((slot, result)),
            Sink::Discard => {}
        }
    }

    pub(super) fn tell(&mut self, events: impl IntoIterator<Item = Event>) {
        self.events.extend(events);
    }

    /// Hands everything out: grants first, since a lock stands idle until its new holder
    /// runs, while nothing waits for the caller that released it. Returns the leases whose
    /// callers went away between the grant and now.
    pub(super) fn deliver(&mut self) -> Vec<Arc<Lease>> {
        let is_late = |result: &Result<Completion, Error>| !matches!(result, Ok(Completion::Granted(_)));
        move_back(
            &mut self.events,
            |event| !matches!(event, Event::Completed { result, .. } if !is_late(result)),
        );
        self.port.publish(&mut self.events);
        move_back(&mut self.answers, |(_, result)| is_late(result));
        let mut unwanted = Vec::new();
        for (slot, result) in self.answers.drain(..) {
            if let Err(Ok(Completion::Granted(lease))) = slot.complete(result) {
                unwanted.push(lease);
            }
        }
        unwanted
    }

    /// Hands everything out at the engine's end, in the order in which it came. A grant whose
    /// caller went away expires.
    pub(super) fn deliver_last(&mut self) {
        self.port.publish(&mut self.events);
        for (slot, result) in self.answers.drain(..) {
            drop(slot.complete(result));
        }
    }
}

/// Puts those for which it is so behind the others. Nothing else changes its order.
fn move_back<T>(items: &mut Vec<T>, is_late: impl Fn(&T) -> bool) {
    if !items.is_sorted_by_key(&is_late) {
        let late: Vec<T> = items.extract_if(.., |item| is_late(item)).collect();
        items.extend(late);
    }
}
