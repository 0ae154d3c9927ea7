//! The callers that want several locks, and what becomes of each when a member is granted,
//! renewed, refused or lost.

use super::gathering::{Gathered, Gathering};
use crate::cause::Cause;
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Error, ErrorKind, Operation};
use crate::groups::members::Members;
use crate::ids::{HoldId, LeaseId, Ticket};
use crate::instant::Instant;
use crate::lease::LeasePlan;
use crate::sorted::SortedMap;
use crate::types::Outcome;

/// The callers that want several locks.
#[derive(Debug, Default)]
pub(super) struct Gatherings {
    by_ticket: SortedMap<Ticket, Gathering>,
}

impl Gatherings {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// The tickets of these callers.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.by_ticket.keys().copied().collect()
    }

    /// A caller wants several locks. Returns them once all are held.
    pub(super) fn start(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        gathering: Gathering,
        now: Instant,
    ) -> Option<Gathered> {
        self.by_ticket.insert(ticket, gathering);
        self.advance(members, ticket, now)
    }

    /// A member is granted, renewed, refused, or has failed. Returns all locks once they are held.
    pub(super) fn completed(
        &mut self,
        members: &mut Members,
        (ticket, member): (Ticket, Ticket),
        outcome: Outcome,
        now: Instant,
    ) -> Option<Gathered> {
        let gathering = self.by_ticket.get_mut(&ticket)?;
        gathering.done(member);
        match outcome {
            Outcome::Granted(grant) => {
                gathering.granted(members, grant.lease, now);
                self.advance(members, ticket, now)
            }
            Outcome::Extended(_) => self.finish(members, ticket, now),
            Outcome::Failed(error) if gathering.may_renew_again(&error, now) => {
                gathering.renewal_failed(members, now);
                if gathering.has_expired(members, now) {
                    self.expired(members, ticket, now);
                    None
                } else {
                    self.renew_all(members, ticket, now)
                }
            }
            refusal => {
                let is_unanswered =
                    matches!(&refusal, Outcome::Failed(error) if error.kind() == ErrorKind::Unavailable);
                let late = too_late(gathering).filter(|_| is_unanswered);
                self.stop(members, ticket, now);
                members.complete(ticket, late.unwrap_or(refusal));
                None
            }
        }
    }

    /// A lock that was granted is lost before the last one is granted.
    pub(super) fn lost(&mut self, members: &mut Members, (lease, reason): (LeaseId, LostReason), now: Instant) {
        if members.io().has(Defect::LostMemberIsGranted) {
            return;
        }
        let of = self.by_ticket.iter().find(|(_, gathering)| gathering.has(lease));
        match of.map(|(ticket, _)| *ticket) {
            Some(ticket) if reason == LostReason::Expired => self.expired(members, ticket, now),
            Some(ticket) => self.restart(members, ticket, now),
            None => {}
        }
    }

    /// The caller went away, or will not get the locks.
    pub(super) fn stop(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        if let Some(gathering) = self.by_ticket.remove(&ticket) {
            gathering.stop(members, now);
        }
    }

    /// A caller entered a hold, which stays renewed for it also if several locks are acquired
    /// meanwhile and this is one of them.
    pub(super) fn stays_renewed(&mut self, id: HoldId, plan: LeasePlan) {
        for gathering in self.by_ticket.values_mut() {
            gathering.stays_renewed(id, plan);
        }
    }

    /// Acquires the next lock, or renews all once the last one is held.
    fn advance(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> Option<Gathered> {
        let is_asked = self.by_ticket.get_mut(&ticket)?.ask_next(members, ticket, now);
        if is_asked {
            return None;
        }
        self.renew_all(members, ticket, now)
    }

    fn renew_all(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> Option<Gathered> {
        self.by_ticket.get_mut(&ticket)?.renew_all(members, ticket, now);
        self.finish(members, ticket, now)
    }

    /// Returns all locks if they are held for their full length.
    fn finish(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> Option<Gathered> {
        let gathering = self.by_ticket.get(&ticket)?;
        if gathering.is_under_way() {
            return None;
        }
        if gathering.has_expired(members, now) {
            self.expired(members, ticket, now);
            return None;
        }
        let gathering = self.by_ticket.remove(&ticket)?;
        Some(gathering.finish(members, now))
    }

    /// One lock expired before all were held: acquires all anew, unless that would be of no use.
    fn expired(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.by_ticket.get_mut(&ticket) else {
            return;
        };
        if !gathering.expired(now) {
            self.restart(members, ticket, now);
            return;
        }
        if let Some(outcome) = too_late(gathering) {
            self.stop(members, ticket, now);
            members.complete(ticket, outcome);
        }
    }

    /// Acquires all locks anew, unless the caller's wait is over.
    fn restart(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.by_ticket.get_mut(&ticket) else {
            return;
        };
        gathering.restart(members, now);
        if gathering.is_over(now) {
            self.stop(members, ticket, now);
            let cause = Cause::new("one of the locks was lost while the others were taken");
            let cause = cause.with_advice("acquire them again");
            let error = Error::caused(ErrorKind::LockLost, Operation::Acquire, cause);
            members.complete(ticket, Outcome::Failed(error));
        } else {
            gathering.ask_next(members, ticket, now);
        }
    }
}

/// What a caller is told whose locks expired one after the other.
fn too_late(gathering: &Gathering) -> Option<Outcome> {
    let error = Error::new(ErrorKind::Unavailable, Operation::Acquire, "not granted");
    Some(Outcome::Failed(error.with_cause(gathering.lateness()?)))
}
