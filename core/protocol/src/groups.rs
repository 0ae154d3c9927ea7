//! Composite locks: several locks as one (multi-lock), and one lock on several primaries (RedLock).
//!
//! Composite locks use single locks as callers do. The events of a member reach its composite lock (`members`) instead
//! of a caller. A client has one of the two kinds: with several primaries, every lock is a RedLock.

mod members;
mod multi;
mod quorum;
mod self_wait;

use self::members::{Members, Table};
use self::multi::Multi;
use self::quorum::Quorum;
pub(crate) use self::quorum::SIMPLE_LOCKS_ONLY;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{LeaseId, Ticket};
use crate::instant::Instant;
use crate::lease::LeaseDuration;
use crate::locks::Output;
use crate::machines::inspections::Question;
use crate::name::LockName;
use crate::timers::Timer;
use crate::types::{AcquireRequest, Event, Outcome};

/// The composite locks of a client.
pub(crate) struct Group {
    composites: Composites,
    members: Table,
}

/// The composite locks of a client, by their kind.
pub(crate) enum Composites {
    Multi(Multi),
    Quorum(Quorum),
}

impl Group {
    /// Makes the group of a client with this many primaries.
    pub(crate) fn new(primaries: u16) -> Self {
        Self {
            composites: if primaries > 1 {
                Composites::Quorum(Quorum::default())
            } else {
                Composites::Multi(Multi::default())
            },
            members: Table::default(),
        }
    }

    pub(crate) const fn composites(&self) -> &Composites {
        &self.composites
    }

    /// Whether every lock of the client is a RedLock.
    pub(crate) const fn is_quorum(&self) -> bool {
        matches!(self.composites, Composites::Quorum(_))
    }

    /// Whether a lease is that of a composite lock.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        match &self.composites {
            Composites::Multi(multi) => multi.has(lease),
            Composites::Quorum(quorum) => quorum.has(lease),
        }
    }

    /// Whether a lease is that of a member of a composite lock.
    pub(crate) fn has_member(&self, lease: LeaseId) -> bool {
        self.members.composite(lease).is_some()
    }

    /// Returns the tickets of the callers that wait for a composite lock.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        match &self.composites {
            Composites::Multi(multi) => multi.waiting(),
            Composites::Quorum(quorum) => quorum.waiting(),
        }
    }

    /// Returns the number of entries that are kept.
    pub(crate) fn len(&self) -> usize {
        let composites = match &self.composites {
            Composites::Multi(multi) => multi.len(),
            Composites::Quorum(quorum) => quorum.len(),
        };
        composites.saturating_add(self.members.len())
    }

    /// Takes what concerns composite locks. Returns an event that is for a caller.
    pub(crate) fn divert(&mut self, output: Output) -> Option<Event> {
        self.members.divert(output)
    }

    /// Returns the error for a wait for one lock that no other caller could end.
    pub(crate) fn waits_in_vain(
        &mut self,
        client: &mut Client,
        request: &AcquireRequest,
        now: Instant,
    ) -> Option<Error> {
        Members::new(client, &mut self.members).waits_in_vain(request, now)
    }

    /// Acquires a RedLock.
    pub(crate) fn acquire(&mut self, client: &mut Client, ticket: Ticket, request: AcquireRequest, now: Instant) {
        let members = &mut Members::new(client, &mut self.members);
        if let Composites::Quorum(quorum) = &mut self.composites {
            quorum.input(members, quorum::Input::Acquire(ticket, request), now);
        }
    }

    /// Acquires several locks as one.
    pub(crate) fn acquire_all(
        &mut self,
        client: &mut Client,
        ticket: Ticket,
        requests: Vec<AcquireRequest>,
        now: Instant,
    ) {
        let members = &mut Members::new(client, &mut self.members);
        let why = match (&mut self.composites, multi::in_order(requests)) {
            (Composites::Multi(multi), Ok(requests)) => {
                return multi.input(members, multi::Input::Acquire(ticket, requests), now);
            }
            (Composites::Quorum(_), Ok(_)) => {
                "a RedLock is one lock of several primaries, and no part of several locks"
            }
            (_, Err(why)) => why,
        };
        let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, why);
        members.complete(ticket, Outcome::Failed(error));
    }

    /// Releases a lease of a composite lock.
    pub(crate) fn release(&mut self, client: &mut Client, ticket: Ticket, lease: LeaseId, now: Instant) {
        let members = &mut Members::new(client, &mut self.members);
        match &mut self.composites {
            Composites::Multi(multi) => multi.input(members, multi::Input::Release(ticket, lease), now),
            Composites::Quorum(quorum) => quorum.input(members, quorum::Input::Release(ticket, lease), now),
        }
    }

    /// Extends a lease of a composite lock.
    pub(crate) fn extend(
        &mut self,
        client: &mut Client,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) {
        let members = &mut Members::new(client, &mut self.members);
        match &mut self.composites {
            Composites::Multi(multi) => multi.input(members, multi::Input::Extend { ticket, lease, by }, now),
            Composites::Quorum(quorum) => quorum.input(members, quorum::Input::Extend { ticket, lease, by }, now),
        }
    }

    /// Asks all primaries a question about a RedLock.
    pub(crate) fn inspect(
        &mut self,
        client: &mut Client,
        ticket: Ticket,
        name: LockName,
        question: Question,
        now: Instant,
    ) {
        let members = &mut Members::new(client, &mut self.members);
        if let Composites::Quorum(quorum) = &mut self.composites {
            quorum.input(members, quorum::Input::Inspect { ticket, name, question }, now);
        }
    }

    /// Cancels the request of a ticket.
    pub(crate) fn cancel(&mut self, client: &mut Client, ticket: Ticket, now: Instant) {
        let members = &mut Members::new(client, &mut self.members);
        match &mut self.composites {
            Composites::Multi(multi) => multi.input(members, multi::Input::Cancel(ticket), now),
            Composites::Quorum(quorum) => quorum.input(members, quorum::Input::Cancel(ticket), now),
        }
    }

    /// Handles a timer of a composite lock.
    pub(crate) fn timer(&mut self, client: &mut Client, timer: Timer, now: Instant) {
        let members = &mut Members::new(client, &mut self.members);
        match &mut self.composites {
            Composites::Multi(_) => {}
            Composites::Quorum(quorum) => quorum.input(members, quorum::Input::Timer(timer), now),
        }
    }

    /// Closes the group: composite locks receive no more events of their members.
    pub(crate) fn close(&mut self, client: &mut Client, now: Instant) {
        let members = &mut Members::new(client, &mut self.members);
        match &mut self.composites {
            Composites::Multi(multi) => multi.input(members, multi::Input::Close, now),
            Composites::Quorum(quorum) => quorum.input(members, quorum::Input::Close, now),
        }
    }

    /// Handles the events of members until there are none.
    pub(crate) fn settle(&mut self, client: &mut Client, now: Instant) {
        let members = &mut Members::new(client, &mut self.members);
        match &mut self.composites {
            Composites::Multi(multi) => multi.settle(members, now),
            Composites::Quorum(quorum) => quorum.settle(members, now),
        }
    }
}
