//! The extensions of holds that callers wait for, and their results.

use crate::cause::Cause;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{HoldId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::lease::LeasePlan;
use crate::table::Table;
use crate::timers::Timer;
use crate::types::Outcome;

/// The reason for an extension.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    /// A caller extends its lease.
    Extend,
    /// A caller re-enters the lock. The hold is renewed by this plan if its lease is longer.
    Enter(LeasePlan),
    /// A composite lock is granted when the server has confirmed each member.
    Confirm,
}

impl Aim {
    pub(super) const fn operation(self) -> Operation {
        match self {
            Self::Extend => Operation::Extend,
            Self::Enter(_) | Self::Confirm => Operation::Acquire,
        }
    }
}

/// An extension that a caller waits for.
#[derive(Debug)]
pub(super) struct Extension {
    pub(super) hold: HoldId,
    pub(super) since: Instant,
    /// Until when the record must last.
    pub(super) until: Instant,
    pub(super) aim: Aim,
}

impl Extension {
    /// Returns the error for an extension that the server did not confirm in time.
    pub(super) fn not_confirmed(&self, cause: Cause) -> Error {
        let error = |what| Error::new(ErrorKind::Unavailable, self.aim.operation(), what).with_cause(cause);
        match self.aim {
            Aim::Confirm => error("not granted"),
            Aim::Extend | Aim::Enter(_) => error("not extended").with_advice("the lease goes on as it was"),
        }
    }
}

/// The extensions of a client.
#[derive(Debug, Default)]
pub(super) struct Extensions {
    by_ticket: Table<Ticket, Extension>,
    /// The extensions of each hold, oldest first. Few holds have any.
    by_hold: Table<HoldId, Vec<Ticket>>,
}

impl Extensions {
    pub(super) fn insert(&mut self, ticket: Ticket, extension: Extension) {
        self.by_hold.get_or_default(extension.hold).push(ticket);
        self.by_ticket.insert(ticket, extension);
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Extension> {
        let extension = self.by_ticket.remove(&ticket)?;
        if let Some(waiting) = self.by_hold.get_mut(&extension.hold) {
            waiting.retain(|other| *other != ticket);
            if waiting.is_empty() {
                self.by_hold.remove(&extension.hold);
            }
        }
        Some(extension)
    }

    /// Removes and returns the extensions of a hold that are done, oldest first.
    pub(super) fn take(&mut self, hold: HoldId, is_done: impl Fn(&Extension) -> bool) -> Vec<(Ticket, Extension)> {
        let waiting = self.by_hold.get(&hold).map_or(&[][..], Vec::as_slice);
        let is_done = |ticket: &&Ticket| self.by_ticket.get(ticket).is_some_and(&is_done);
        let done: Vec<Ticket> = waiting.iter().filter(is_done).copied().collect();
        let taken = done.into_iter();
        taken
            .filter_map(|ticket| Some((ticket, self.remove(ticket)?)))
            .collect()
    }

    /// Fails all extensions of a hold.
    pub(super) fn fail(&mut self, io: &mut Io, hold: HoldId, error: impl Fn(Operation) -> Error) {
        for (ticket, extension) in self.take(hold, |_| true) {
            io.stop(Timer::Extension(ticket));
            io.complete(ticket, Outcome::Failed(error(extension.aim.operation())));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_ticket.len().saturating_add(self.by_hold.len())
    }
}
