//! Releases and extensions of multi-locks: each waits until the server has answered for all members.

use crate::ending::ReleaseOutcome;
use crate::groups::members::Members;
use crate::ids::{LeaseId, Ticket, Verb};
use crate::instant::Instant;
use crate::lease::LeaseDuration;
use crate::sorted::SortedMap;
use crate::types::Outcome;

/// The releases and the extensions that are under way.
#[derive(Debug, Default)]
pub(super) struct Endings {
    by_ticket: SortedMap<Ticket, Ending>,
}

/// A release or an extension of all members.
#[derive(Debug)]
struct Ending {
    /// The multi-lock that is extended.
    extends: Option<LeaseId>,
    under_way: Vec<Ticket>,
    /// The worst so far.
    outcome: Outcome,
}

/// A release or an extension of which all members are done.
pub(super) struct Ended {
    /// The multi-lock that was extended.
    pub(super) extends: Option<LeaseId>,
    /// The worst of all.
    pub(super) outcome: Outcome,
}

impl Endings {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// Whether the ticket is that of a release or of an extension.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    /// Releases members, the last one first. This is the outcome unless a server says worse.
    pub(super) fn release(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        (leases, outcome): (&[LeaseId], Outcome),
        now: Instant,
    ) {
        let mut under_way = Vec::new();
        for member in leases.iter().rev() {
            members.exclude(*member);
            let release = members.ticket_for(Some(ticket), Verb::Release);
            under_way.push(release);
            members.release(release, *member, now);
        }
        let ending = Ending {
            extends: None,
            under_way,
            outcome,
        };
        self.by_ticket.insert(ticket, ending);
    }

    /// Extends the members of a multi-lock.
    pub(super) fn extend(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        (first, leases, by): (LeaseId, &[LeaseId], Option<LeaseDuration>),
        now: Instant,
    ) {
        let mut under_way = Vec::new();
        for member in leases {
            let extension = members.ticket_for(Some(ticket), Verb::Extend);
            under_way.push(extension);
            members.extend(extension, *member, by, now);
        }
        let ending = Ending {
            extends: Some(first),
            under_way,
            outcome: Outcome::Extended(Instant::FAR_FUTURE),
        };
        self.by_ticket.insert(ticket, ending);
    }

    /// A member is released or extended. Returns the whole ending once all are.
    pub(super) fn completed(&mut self, ticket: Ticket, member: Ticket, outcome: Outcome) -> Option<Ended> {
        let ending = self.by_ticket.get_mut(&ticket)?;
        ending.under_way.retain(|under_way| *under_way != member);
        ending.outcome = worse(ending.outcome.clone(), outcome);
        if !ending.under_way.is_empty() {
            return None;
        }
        let ending = self.by_ticket.remove(&ticket)?;
        Some(Ended {
            extends: ending.extends,
            outcome: ending.outcome,
        })
    }

    /// The caller of a release or an extension went away.
    pub(super) fn cancel(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        if let Some(ending) = self.by_ticket.remove(&ticket) {
            members.cancel_all(&ending.under_way, now);
        }
    }
}

/// The one of two outcomes that the caller has to know.
fn worse(a: Outcome, b: Outcome) -> Outcome {
    let rank = |outcome: &Outcome| match outcome {
        // Another owner may have held it: no other failure must hide that.
        Outcome::Released(ReleaseOutcome::Stolen) => 4,
        Outcome::Released(ReleaseOutcome::Expired) => 3,
        Outcome::Failed(_) => 2,
        Outcome::Released(ReleaseOutcome::Unknown) => 1,
        _ => 0,
    };
    match (a, b) {
        (Outcome::Extended(a), Outcome::Extended(b)) => Outcome::Extended(a.min(b)),
        (a, b) if rank(&b) > rank(&a) => b,
        (a, _) => a,
    }
}
