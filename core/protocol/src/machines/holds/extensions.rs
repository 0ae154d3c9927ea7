//! Callers that wait for a hold to last longer, and what each is told.

use crate::cause::Cause;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{HoldId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::lease::LeasePlan;
use crate::table::Table;
use crate::timers::Timer;
use crate::types::Outcome;

/// What a caller wants it for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    /// A caller wants it to last longer.
    Extend,
    /// A caller enters again: the hold is renewed as this says, if that is for longer.
    Enter(LeasePlan),
    /// Several locks are held, and granted when each was confirmed.
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

/// A caller that waits for a hold to last longer.
#[derive(Debug)]
pub(super) struct Extension {
    pub(super) hold: HoldId,
    pub(super) since: Instant,
    /// What the record has to reach.
    pub(super) until: Instant,
    pub(super) aim: Aim,
}

impl Extension {
    /// The server did not confirm it in time.
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
}

impl Extensions {
    pub(super) fn insert(&mut self, ticket: Ticket, extension: Extension) {
        self.by_ticket.insert(ticket, extension);
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Extension> {
        self.by_ticket.get(&ticket)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Extension> {
        self.by_ticket.remove(&ticket)
    }

    /// Fails these, which wait for one hold.
    pub(super) fn fail(&mut self, io: &mut Io, tickets: Vec<Ticket>, error: impl Fn(Operation) -> Error) {
        for ticket in tickets {
            io.stop(Timer::Extension(ticket));
            if let Some(extension) = self.remove(ticket) {
                let outcome = Outcome::Failed(error(extension.aim.operation()));
                io.complete(ticket, outcome);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }
}
