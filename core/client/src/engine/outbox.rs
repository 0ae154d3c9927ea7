//! The results of a turn for the callers, until they are delivered.

use std::sync::Arc;

use steadlock_protocol::Error;

use crate::port::{Completion, Event, Lease, Port, Sink, Slot};

pub(super) struct Outbox {
    port: Arc<Port>,
    /// The next events for the host.
    events: Vec<Event>,
    /// Results for callers that wait on a slot of their own.
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

    /// Delivers everything, grants first: a granted lock stays idle until its new holder runs, while the result of a
    /// release can wait. Returns the leases whose callers went away between the grant and now.
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

    /// Delivers everything at the engine's end, in the order in which it arrived. A grant whose caller went away
    /// expires on the server.
    pub(super) fn deliver_last(&mut self) {
        self.port.publish(&mut self.events);
        for (slot, result) in self.answers.drain(..) {
            drop(slot.complete(result));
        }
    }
}

/// Moves the items for which `is_late` is true behind the others. Keeps the order otherwise.
fn move_back<T>(items: &mut Vec<T>, is_late: impl Fn(&T) -> bool) {
    if !items.is_sorted_by_key(&is_late) {
        let late: Vec<T> = items.extract_if(.., |item| is_late(item)).collect();
        items.extend(late);
    }
}
