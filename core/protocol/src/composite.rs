//! Locks made of locks: which ticket and which lease is part of what, and the way
//! back for what happens to a part.
//!
//! A part is an ordinary acquisition and an ordinary hold; what it comes to goes
//! to the whole instead of the caller. The rules of each kind of whole are in a
//! room of its own.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::{LeaseId, Ticket};
use crate::instant::Instant;
use crate::multi::Multis;
use crate::quorum::Votes;
use crate::session::Session;
use crate::types::{Event, Grant, Outcome};

/// Which parts belong to which whole.
#[derive(Debug, Default)]
pub(crate) struct Composites {
    /// A part's ticket, and the whole's; `None` if nobody waits for the part.
    tickets: BTreeMap<Ticket, Option<Ticket>>,
    /// A part's lease, and the whole's; `None` if there is no whole yet, or no more.
    leases: BTreeMap<LeaseId, Option<LeaseId>>,
    /// What happened to parts.
    news: VecDeque<Event>,
    pub(crate) multis: Multis,
    pub(crate) votes: Votes,
}

impl Composites {
    pub(crate) fn len(&self) -> usize {
        let parts = self.tickets.len().saturating_add(self.leases.len());
        parts.saturating_add(self.multis.len()).saturating_add(self.votes.len())
    }

    /// Whether a lease is that of a whole.
    pub(crate) fn has_whole(&self, lease: LeaseId) -> bool {
        self.multis.has(lease) || self.votes.held.contains_key(&lease)
    }

    /// Makes a lease part of another.
    pub(crate) fn include(&mut self, part: LeaseId, whole: LeaseId) {
        self.leases.insert(part, Some(whole));
    }

    /// A lease is a part, and nobody is told of it.
    pub(crate) fn hush(&mut self, part: LeaseId) {
        self.leases.insert(part, None);
    }

    /// A lease is part of nothing any more.
    pub(crate) fn exclude(&mut self, part: LeaseId) {
        self.leases.remove(&part);
    }

    /// The whole that a lease is part of.
    pub(crate) fn whole(&self, part: LeaseId) -> Option<LeaseId> {
        self.leases.get(&part).copied().flatten()
    }
}

impl Session {
    /// Tells the driver, or the whole that the news is of a part of.
    pub(crate) fn tell(&mut self, event: Event) {
        let is_part = match &event {
            Event::Completed { ticket, .. } => self.composites.tickets.contains_key(ticket),
            Event::Lost { lease, .. } | Event::Renewed { lease, .. } => self.composites.leases.contains_key(lease),
        };
        if is_part {
            self.composites.news.push_back(event);
        } else {
            self.publish(event);
        }
    }

    /// A ticket for a part of `whole`, or for something that nobody waits for.
    pub(crate) fn part_ticket(&mut self, whole: Option<Ticket>) -> Ticket {
        let ticket = self.ticket();
        self.composites.tickets.insert(ticket, whole);
        ticket
    }

    /// Parts that nobody wants any more: what they may yet be granted is given back.
    pub(crate) fn call_off<'a>(&mut self, parts: impl IntoIterator<Item = &'a Ticket>, now: Instant) {
        for part in parts {
            self.composites.tickets.remove(part);
            self.cancel_one(*part, now);
        }
    }

    /// Whether a ticket is that of a part.
    pub(crate) fn is_part(&self, ticket: Ticket) -> bool {
        self.composites.tickets.contains_key(&ticket)
    }

    /// A part goes on, and nobody waits for it: what it is granted is given back.
    pub(crate) fn disown_part(&mut self, part: Ticket) {
        if let Some(whole) = self.composites.tickets.get_mut(&part) {
            *whole = None;
        }
    }

    /// Gives the wholes what happened to their parts. Ends every input.
    pub(crate) fn settle_composites(&mut self, now: Instant) {
        while let Some(news) = self.composites.news.pop_front() {
            match news {
                Event::Completed { ticket, outcome } => {
                    let whole = self.composites.tickets.remove(&ticket).flatten();
                    if let Outcome::Granted(grant) = &outcome {
                        self.composites.hush(grant.lease);
                    }
                    match whole {
                        Some(whole) => {
                            if !self.primary_answered(whole, ticket, outcome.clone(), now) {
                                self.part_completed(whole, ticket, outcome, now);
                            }
                        }
                        None => self.unwanted(outcome, now),
                    }
                }
                Event::Lost { lease, reason } => match self.composites.whole(lease) {
                    Some(whole) => {
                        if !self.primary_lost(whole, lease, reason, now) {
                            self.part_lost(whole, reason, now);
                        }
                    }
                    None => {
                        if !self.gathered_lost(lease, now) {
                            self.candidate_lost(lease, now);
                        }
                    }
                },
                Event::Renewed { lease, deadline } => {
                    if let Some(whole) = self.composites.whole(lease)
                        && !self.primary_renewed(whole, lease, deadline, now)
                    {
                        self.part_renewed(whole);
                    }
                }
            }
        }
    }

    /// A part was granted that nobody waits for.
    fn unwanted(&mut self, outcome: Outcome, now: Instant) {
        if let Outcome::Granted(grant) = outcome {
            self.discard_lease(grant.lease, now);
        }
    }

    /// The caller of a whole gets one more lease of it. A whole has no token.
    pub(crate) fn grant_whole(&mut self, ticket: Ticket, lease: LeaseId, deadline: Instant, levels: usize) {
        let grant = Grant {
            lease,
            token: None,
            deadline,
            levels: u32::try_from(levels).unwrap_or(u32::MAX),
        };
        self.complete(ticket, Outcome::Granted(grant));
    }

    /// A whole with a fixed lease was lost, and is forgotten: so are its parts. What one
    /// of them still has, since another level keeps it or it is renewed, it gives back.
    pub(crate) fn forget_parts<'a>(&mut self, parts: impl IntoIterator<Item = &'a LeaseId>, now: Instant) {
        for part in parts {
            if self.locks.holds().of_lease(*part).is_some() {
                self.discard_lease(*part, now);
            } else {
                self.composites.exclude(*part);
            }
        }
    }

    /// Gives back a lease without anybody waiting for it.
    pub(crate) fn discard_lease(&mut self, lease: LeaseId, now: Instant) {
        let ticket = self.part_ticket(None);
        self.release_lease(ticket, lease, now);
        self.composites.exclude(lease);
    }
}
