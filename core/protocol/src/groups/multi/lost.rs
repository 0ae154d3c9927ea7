//! What becomes of several locks of which one is lost, or may be.
//!
//! Until the last one is granted nobody relies on the others, so a loss costs the
//! caller time alone: all are given back and gathered again. Where it had to wait for
//! one of them, those that it had before are asked for once more before the whole is
//! granted: a record that was removed meanwhile is seen by nothing else until its next
//! renewal.

use super::{Ending, whole_lost};
use crate::defects::Defect;
use crate::error::{Error, ErrorKind, Operation};
use crate::groups::members::Members;
use crate::groups::multi::Multis;
use crate::ids::{LeaseId, Ticket};
use crate::instant::Instant;
use crate::types::Outcome;
use std::time::Duration;

/// So long an answer may take; after that, what is held meanwhile is asked for once more.
const LATE: Duration = Duration::from_millis(500);

impl Multis {
    /// A lock that was granted is lost before the last one is.
    pub(super) fn gathered_lost(&mut self, members: &mut Members, lease: LeaseId, now: Instant) {
        let mut gatherings = self.gatherings.iter();
        let of = gatherings.find(|(_, gathering)| gathering.again.is_none() && gathering.leases.contains(&lease));
        let ticket = of.map(|(ticket, _)| *ticket);
        if let Some(ticket) = ticket.filter(|_| !members.io().has(Defect::LostMemberIsGranted)) {
            self.gather_again(members, ticket, now);
        }
    }

    /// Takes all locks anew, unless the caller's wait is over.
    pub(super) fn gather_again(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.gatherings.get_mut(&ticket) else {
            return;
        };
        let is_over = gathering.is_over(now);
        let leases = std::mem::take(&mut gathering.leases);
        let under_way = std::mem::take(&mut gathering.under_way);
        gathering.waited = false;
        gathering.renewed_in_vain = false;
        gathering.todo = gathering.all.clone().into();
        members.cancel_all(&under_way, now);
        self.give_back(members, &leases, now);
        if is_over {
            if let Some(gathering) = self.gatherings.remove(&ticket) {
                self.renew_as_before(members, &gathering.around, now);
            }
            let error = Error::new(
                ErrorKind::LockLost,
                Operation::Acquire,
                "one of the locks was lost while the others were taken; acquire them again",
            );
            members.complete(ticket, Outcome::Failed(error));
        } else {
            self.gather(members, ticket, now);
        }
    }

    /// One more lock is granted: did others have to be held meanwhile for longer than its
    /// first attempt took, or was the answer to that late?
    pub(super) fn note_wait(&mut self, members: &mut Members, ticket: Ticket, lease: LeaseId, now: Instant) {
        let hold = members
            .locks()
            .holds()
            .of_lease(lease)
            .and_then(|id| members.locks().holds().get(id));
        let Some((gathering, hold)) = self.gatherings.get_mut(&ticket).zip(hold) else {
            return;
        };
        // What the caller had before is entered again.
        let waited = hold.waited() && hold.levels().len() == 1;
        let is_late = now > gathering.asked + LATE;
        gathering.waited |= gathering.leases.len() > 1 && (waited || is_late);
    }

    /// Whether last renewals are worth another attempt after one failed: all locks were
    /// granted, and their caller still waits.
    pub(super) fn may_renew_again(&self, ticket: Ticket, error: &Error, now: Instant) -> bool {
        let gathering = self.gatherings.get(&ticket);
        gathering.is_some_and(|gathering| {
            let is_complete = gathering.leases.len() == gathering.all.len();
            let is_worth_it = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::LockLost);
            is_worth_it && gathering.again.is_none() && is_complete && !gathering.is_over(now)
        })
    }

    /// The last renewals are asked for again. A lock whose time is over meanwhile is lost.
    pub(super) fn renew_again(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.gatherings.get_mut(&ticket) else {
            return;
        };
        let under_way = std::mem::take(&mut gathering.under_way);
        let leases = gathering.leases.clone();
        gathering.renewed_in_vain = true;
        members.cancel_all(&under_way, now);
        if self.earliest_deadline(members, &leases) <= now {
            self.gather_again(members, ticket, now);
        } else {
            self.renew_gathered(members, ticket, now);
        }
    }

    /// What an extension of all members comes to: until when the whole may be relied on, if
    /// it may at all. `None` if the ending is none, or a member was not extended.
    pub(super) fn extended_whole(&self, ending: &Ending) -> Option<Outcome> {
        let multi = self.held.get(&ending.extends?);
        // One with a fixed lease that was lost is forgotten.
        let reason = multi.and_then(|multi| multi.lost);
        let Some(multi) = multi.filter(|multi| multi.lost.is_none()) else {
            return Some(Outcome::Failed(whole_lost(Operation::Extend, reason)));
        };
        match ending.outcome {
            Outcome::Extended(_) => Some(Outcome::Extended(multi.deadline)),
            _ => None,
        }
    }
}
