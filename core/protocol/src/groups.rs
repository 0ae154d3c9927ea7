//! Composite locks: several locks as one (multi-lock), and one lock on several primaries (RedLock).
//!
//! Composite locks use single locks as callers do. `members` passes the events of a member to its composite lock
//! instead of a caller. A client has composite locks of one kind only: with several primaries, every lock is a RedLock,
//! and there are no multi-locks.

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

/// The events that concern composite locks.
#[derive(Debug)]
pub(crate) enum Input {
    /// A caller requests a RedLock.
    Acquire(Ticket, AcquireRequest),
    /// A caller requests several locks as one, in the order of `multi::in_order`. The wait, the lease and the context
    /// (the calling thread or task) are those of the first request.
    AcquireAll(Ticket, Vec<AcquireRequest>),
    /// A caller releases one lease of a composite lock.
    Release(Ticket, LeaseId),
    /// A caller extends a lease of a composite lock.
    Extend {
        ticket: Ticket,
        lease: LeaseId,
        /// The new length, from now; `None` stands for the length that the lease of each member has.
        by: Option<LeaseDuration>,
    },
    /// A caller asks a question about a RedLock.
    Inspect {
        ticket: Ticket,
        name: LockName,
        question: Question,
    },
    /// The caller of a ticket no longer waits. An acquisition ends; a release, an extension or a question about a
    /// RedLock goes on.
    Cancel(Ticket),
    /// A timer of a RedLock has fired.
    Timer(Timer),
    /// The client closes: composite locks receive no more events of their members.
    Close,
}

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

    /// Whether a lease belongs to a member of a granted composite lock.
    pub(crate) fn has_member(&self, lease: LeaseId) -> bool {
        self.members.composite(lease).is_some()
    }

    /// Returns the tickets of the callers that wait for a multi-lock, or for a majority of the primaries.
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

    /// Keeps an event that is for a composite lock, and returns an event that is for a caller.
    pub(crate) fn divert(&mut self, output: Output) -> Option<Event> {
        self.members.divert(output)
    }

    /// Returns the error of a request for one lock, if no other caller could end its wait.
    pub(crate) fn self_wait_error(
        &mut self,
        client: &mut Client,
        request: &AcquireRequest,
        now: Instant,
    ) -> Option<Error> {
        Members::new(client, &mut self.members).self_wait_error(request, now)
    }

    /// Handles an input. The members are locks of `client`.
    pub(crate) fn input(&mut self, client: &mut Client, input: Input, now: Instant) {
        let members = &mut Members::new(client, &mut self.members);
        match &mut self.composites {
            Composites::Multi(multi) => multi.input(members, input, now),
            Composites::Quorum(quorum) => quorum.input(members, input, now),
        }
    }

    /// Acquires several locks as one. Fails if none is named, if one is named twice, or if the client has RedLocks.
    pub(crate) fn acquire_all(
        &mut self,
        client: &mut Client,
        ticket: Ticket,
        requests: Vec<AcquireRequest>,
        now: Instant,
    ) {
        let has_job = requests.iter().any(|request| request.kind.never_waits());
        let requests = multi::in_order(requests).and_then(|requests| match self.composites {
            _ if has_job => Err("a job is no part of several locks; acquire them inside its run"),
            Composites::Quorum(_) => Err("a RedLock is one lock of several primaries, and no part of several locks"),
            Composites::Multi(_) => Ok(requests),
        });
        match requests {
            Ok(requests) => self.input(client, Input::AcquireAll(ticket, requests), now),
            Err(why) => {
                let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, why);
                client.complete(ticket, Outcome::Failed(error));
            }
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
