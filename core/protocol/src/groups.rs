//! Composite locks: several locks as one (multi-lock), and one lock on several primaries (RedLock).
//!
//! Composite locks use single locks as callers do. The events of a member reach its composite lock (`members`) instead
//! of a caller. A client has one of the two groups: with several primaries, every lock is a RedLock.

pub(crate) mod members;
pub(crate) mod multi;
pub(crate) mod quorum;
mod self_wait;
mod unnamed;

use self::members::Members;
use self::multi::Multi;
use self::quorum::Quorum;

use crate::ids::{LeaseId, Ticket};
use crate::instant::Instant;
use crate::lease::LeaseDuration;
use crate::timers::Timer;

/// The composite locks of a client.
pub(crate) enum Group {
    Multi(Multi),
    Quorum(Quorum),
}

impl Group {
    /// Makes the group of a client with this many primaries.
    pub(crate) fn new(primaries: u16) -> Self {
        if primaries > 1 {
            Self::Quorum(Quorum::default())
        } else {
            Self::Multi(Multi::default())
        }
    }

    /// Whether a lease is that of a composite lock.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        match self {
            Self::Multi(multi) => multi.has(lease),
            Self::Quorum(quorum) => quorum.has(lease),
        }
    }

    /// Returns the tickets of the callers that wait for a composite lock.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        match self {
            Self::Multi(multi) => multi.waiting(),
            Self::Quorum(quorum) => quorum.waiting(),
        }
    }

    /// Returns the number of entries that are kept.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Multi(multi) => multi.len(),
            Self::Quorum(quorum) => quorum.len(),
        }
    }

    /// Releases a lease of a composite lock.
    pub(crate) fn release(&mut self, members: &mut Members, ticket: Ticket, lease: LeaseId, now: Instant) {
        match self {
            Self::Multi(multi) => multi.input(members, multi::Input::Release(ticket, lease), now),
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Release(ticket, lease), now),
        }
    }

    /// Extends a lease of a composite lock.
    pub(crate) fn extend(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) {
        match self {
            Self::Multi(multi) => multi.input(members, multi::Input::Extend { ticket, lease, by }, now),
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Extend { ticket, lease, by }, now),
        }
    }

    /// Cancels the request of a ticket.
    pub(crate) fn cancel(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        match self {
            Self::Multi(multi) => multi.input(members, multi::Input::Cancel(ticket), now),
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Cancel(ticket), now),
        }
    }

    /// Handles a timer of a composite lock.
    pub(crate) fn timer(&mut self, members: &mut Members, timer: Timer, now: Instant) {
        match self {
            Self::Multi(_) => {}
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Timer(timer), now),
        }
    }

    /// Closes the group: composite locks receive no more events of their members.
    pub(crate) fn close(&mut self, members: &mut Members, now: Instant) {
        match self {
            Self::Multi(multi) => multi.input(members, multi::Input::Close, now),
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Close, now),
        }
    }

    /// Handles the events of members until there are none.
    pub(crate) fn settle(&mut self, members: &mut Members, now: Instant) {
        match self {
            Self::Multi(multi) => multi.settle(members, now),
            Self::Quorum(quorum) => quorum.settle(members, now),
        }
    }
}
