//! The locks of a client, and the events for its callers.
//!
//! An event of a composite lock's member is for the composite lock, and every other event is for a caller. When
//! `change` passes the events on, the composite locks keep theirs.
//!
//! Some refusals wait for the name of the holder: which program on which machine it is. At first a refusal has only the
//! holder's owner id. If the client has an identity itself and does not know the program of this owner id, it asks the
//! server, and the answer arrives one round trip later. The refusal is reported with the name, or without it if the
//! question fails or the time limit is over. The lock is not delayed, because the caller has already left its queue.

use std::collections::VecDeque;

use crate::error::{Error, Operation};
use crate::ids::{Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::locks::{Locks, Output};
use crate::name::LockName;
use crate::periods::FIRST_ANSWER_GRACE;
use crate::timers::Timer;
use crate::types::{Event, Outcome};

/// The locks of a client, and the events for its callers.
pub(crate) struct Client {
    locks: Locks,
    is_closed: bool,
    /// The events for callers.
    events: VecDeque<Event>,
    /// The refusals that wait for the name of the holder.
    unnamed: Unnamed,
}

impl Client {
    pub(crate) fn new(locks: Locks) -> Self {
        Self {
            locks,
            is_closed: false,
            events: VecDeque::new(),
            unnamed: Unnamed::default(),
        }
    }

    pub(crate) const fn locks(&self) -> &Locks {
        &self.locks
    }

    pub(crate) const fn io(&self) -> &Io {
        self.locks.io()
    }

    pub(crate) const fn io_mut(&mut self) -> &mut Io {
        self.locks.io_mut()
    }

    /// Returns a new ticket.
    pub(crate) const fn ticket(&mut self, verb: Verb) -> Ticket {
        self.locks.io_mut().next_ticket(verb)
    }

    /// Changes the locks, and passes on the events that follow. `divert` keeps the events for composite locks, and
    /// returns those for callers.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Locks), mut divert: impl FnMut(Output) -> Option<Event>) {
        change(&mut self.locks);
        while let Some(output) = self.locks.next_output() {
            if let Some(event) = divert(output) {
                self.emit(event);
            }
        }
    }

    /// Passes an event to its caller. A refusal may be kept first, until the name of the holder is known.
    pub(crate) fn emit(&mut self, event: Event) {
        self.events.extend(self.unnamed.keep(self.locks.io(), event));
    }

    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.emit(Event::Completed { ticket, outcome });
    }

    /// Returns the next event for a caller.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Completes the refusals that need not wait any longer for the name of the holder.
    pub(crate) fn complete_refusals(&mut self, now: Instant) {
        if self.unnamed.len() > 0 {
            let due = self.unnamed.take_due(self.locks.io_mut(), self.is_closed, now);
            self.events.extend(due);
        }
    }

    /// Whether a caller is already refused, but not informed yet.
    pub(crate) fn awaits_name(&self, ticket: Ticket) -> bool {
        self.unnamed.contains(ticket)
    }

    /// Forgets the refusal of a caller that no longer waits for it.
    pub(crate) fn forget_refusal(&mut self, ticket: Ticket) {
        self.unnamed.forget(self.locks.io_mut(), ticket);
    }

    /// Closes the client, so that it acquires nothing any more. Returns `false` if it was closed before.
    pub(crate) const fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.is_closed, true)
    }

    /// Fails a ticket if the client is closed. Returns whether the client is closed.
    pub(crate) fn fail_if_closed(&mut self, ticket: Ticket, operation: Operation, lock: Option<&LockName>) -> bool {
        if self.is_closed {
            let error = Error::closed(operation).with_lock_if_known(lock.map(LockName::as_str));
            self.complete(ticket, Outcome::Failed(error));
        }
        self.is_closed
    }

    /// Returns the number of entries that are kept.
    pub(crate) fn len(&self) -> usize {
        self.unnamed.len().saturating_add(self.locks.len())
    }
}

/// The refusals that are not reported yet.
#[derive(Debug, Default)]
struct Unnamed(Vec<Refusal>);

#[derive(Debug)]
struct Refusal {
    ticket: Ticket,
    error: Error,
    /// The time limit for the name; `None` until the refusal is first checked.
    until: Option<Instant>,
}

impl Unnamed {
    const fn len(&self) -> usize {
        self.0.len()
    }

    fn contains(&self, ticket: Ticket) -> bool {
        self.0.iter().any(|refusal| refusal.ticket == ticket)
    }

    /// Keeps a refusal if the name of its holder is being asked for. Returns every other event.
    fn keep(&mut self, io: &Io, event: Event) -> Option<Event> {
        match event {
            Event::Completed {
                ticket,
                outcome: Outcome::NotGranted(error),
            } if io.is_name_asked(&error) => {
                self.0.push(Refusal {
                    ticket,
                    error,
                    until: None,
                });
                None
            }
            event => Some(event),
        }
    }

    /// Removes and returns the refusals that must be reported now.
    fn take_due(&mut self, io: &mut Io, is_closed: bool, now: Instant) -> Vec<Event> {
        let mut due = Vec::new();
        for mut refusal in std::mem::take(&mut self.0) {
            let timer = Timer::Name(refusal.ticket);
            // If the caller's wait was over before its refusal, `Io::name_by` has set the timer, and a part of the time
            // limit has passed.
            let until = refusal
                .until
                .or_else(|| io.due(timer))
                .unwrap_or(now + FIRST_ANSWER_GRACE);
            if is_closed || until <= now || !io.is_name_asked(&refusal.error) {
                io.stop(timer);
                due.push(refusal.into_event(io));
            } else {
                io.set(timer, until);
                refusal.until = Some(until);
                self.0.push(refusal);
            }
        }
        due
    }

    fn forget(&mut self, io: &mut Io, ticket: Ticket) {
        let before = self.0.len();
        self.0.retain(|refusal| refusal.ticket != ticket);
        if self.0.len() < before {
            io.stop(Timer::Name(ticket));
        }
    }
}

impl Refusal {
    fn into_event(self, io: &Io) -> Event {
        let client = self.error.holder().and_then(|holder| io.identity_of(&holder.owner));
        let error = match client {
            Some(client) => self.error.with_holders_client(client),
            None => self.error,
        };
        Event::Completed {
            ticket: self.ticket,
            outcome: Outcome::NotGranted(error),
        }
    }
}
