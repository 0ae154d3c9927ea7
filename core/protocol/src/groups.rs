//! Composite locks: several locks as one (multi-lock), and one lock on several primaries (RedLock).
//!
//! They use locks as callers do. What happens to one of their members comes back to them
//! (`members`) instead of to a caller. A client has one of the two groups: with several primaries
//! every lock is a RedLock.

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
    /// What a client with so many primaries has.
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

    /// The tickets of callers that wait for a composite lock.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        match self {
            Self::Multi(multi) => multi.waiting(),
            Self::Quorum(quorum) => quorum.waiting(),
        }
    }

    /// How many entries are kept.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Multi(multi) => multi.len(),
            Self::Quorum(quorum) => quorum.len(),
        }
    }

    /// A caller releases a lease of a composite lock.
    pub(crate) fn release(&mut self, members: &mut Members, ticket: Ticket, lease: LeaseId, now: Instant) {
        match self {
            Self::Multi(multi) => multi.input(members, multi::Input::Release(ticket, lease), now),
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Release(ticket, lease), now),
        }
    }

    /// A caller extends a lease of a composite lock.
    pub(crate) fn extend(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        (lease, by): (LeaseId, Option<LeaseDuration>),
        now: Instant,
    ) {
        match self {
            Self::Multi(multi) => multi.input(members, multi::Input::Extend(ticket, lease, by), now),
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Extend(ticket, lease, by), now),
        }
    }

    /// The caller of a ticket went away.
    pub(crate) fn cancel(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        match self {
            Self::Multi(multi) => multi.input(members, multi::Input::Cancel(ticket), now),
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Cancel(ticket), now),
        }
    }

    /// One of the timers has run out.
    pub(crate) fn timer(&mut self, members: &mut Members, timer: Timer, now: Instant) {
        match self {
            Self::Multi(_) => {}
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Timer(timer), now),
        }
    }

    /// The client is closed: composite locks are no longer told what happens to their members.
    pub(crate) fn close(&mut self, members: &mut Members, now: Instant) {
        match self {
            Self::Multi(multi) => multi.input(members, multi::Input::Close, now),
            Self::Quorum(quorum) => quorum.input(members, quorum::Input::Close, now),
        }
    }

    /// Hears what happened to members, until nothing has.
    pub(crate) fn settle(&mut self, members: &mut Members, now: Instant) {
        match self {
            Self::Multi(multi) => multi.settle(members, now),
            Self::Quorum(quorum) => quorum.settle(members, now),
        }
    }
}
