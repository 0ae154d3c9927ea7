//! Refusals that wait for the name of the holder.
//!
//! A client that is refused by an unknown holder knows only its owner id. The answer that names the holder's program
//! arrives one round trip later. The refusal is reported with the name, or without it when the time limit is over. The
//! lock is not delayed, because the caller has already left its queue.

use crate::error::Error;
use crate::ids::Ticket;
use crate::instant::Instant;
use crate::io::Io;
use crate::periods::FIRST_ANSWER_GRACE;
use crate::timers::Timer;
use crate::types::{Event, Outcome};

/// The refusals that are not reported yet.
#[derive(Debug, Default)]
pub(super) struct Unnamed(Vec<Refusal>);

#[derive(Debug)]
struct Refusal {
    ticket: Ticket,
    error: Error,
    /// The time limit for the name; `None` until the refusal is first checked.
    until: Option<Instant>,
}

impl Unnamed {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.0.iter().any(|refusal| refusal.ticket == ticket)
    }

    /// Keeps a refusal if the name of its holder is being asked for. Returns every other event.
    pub(super) fn keep(&mut self, io: &Io, event: Event) -> Option<Event> {
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
    pub(super) fn take_due(&mut self, io: &mut Io, is_closed: bool, now: Instant) -> Vec<Event> {
        let mut told = Vec::new();
        for mut refusal in std::mem::take(&mut self.0) {
            let timer = Timer::Name(refusal.ticket);
            // If the wait was over before, a part of the time limit has passed already.
            let until = refusal
                .until
                .or_else(|| io.due(timer))
                .unwrap_or(now + FIRST_ANSWER_GRACE);
            if is_closed || until <= now || !io.is_name_asked(&refusal.error) {
                io.stop(timer);
                told.push(refusal.into_event(io));
            } else {
                io.set(timer, until);
                refusal.until = Some(until);
                self.0.push(refusal);
            }
        }
        told
    }

    /// Forgets the refusal of a caller that no longer waits.
    pub(super) fn forget(&mut self, io: &mut Io, ticket: Ticket) {
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
