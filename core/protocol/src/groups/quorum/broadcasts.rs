//! Broadcasts: releases, extensions and questions that go to every primary.
//!
//! The caller is answered as soon as a majority agrees, or when all primaries have answered. What is still
//! under way then goes on.

use std::sync::Arc;

use super::holds::QuorumHolds;
use super::majority::{last_of_majority, majority, primaries};
use crate::defects::Defect;
use crate::ending::ReleaseOutcome;
use crate::error::{Error, ErrorKind, Operation};
use crate::groups::members::Members;
use crate::ids::{LeaseId, Ticket, Verb};
use crate::instant::Instant;
use crate::kinds::{Keys, Kind};
use crate::machines::inspections::Question;
use crate::name::LockName;
use crate::sorted::{SortedMap, SortedSet};
use crate::types::{LockState, Outcome};

/// The broadcasts of a client.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    by_ticket: SortedMap<Ticket, Broadcast>,
}

/// A release, an extension or a question whose outcome a majority decides.
#[derive(Debug, Default)]
struct Broadcast {
    /// The lock to name in an error, if the primaries' own errors do not.
    name: Option<LockName>,
    extension: Option<Extension>,
    unanswered: Vec<Ticket>,
    outcomes: Vec<Outcome>,
}

/// The extension of a quorum hold.
#[derive(Debug)]
struct Extension {
    lease: LeaseId,
    /// The member that each ticket extends.
    members: SortedMap<Ticket, LeaseId>,
    /// The members that were extended.
    done: SortedSet<LeaseId>,
}

impl Broadcast {
    /// A primary answered.
    fn answered(&mut self, member: Ticket, outcome: Outcome) {
        self.unanswered.retain(|unanswered| *unanswered != member);
        if let (Some(extension), Outcome::Extended(_)) = (&mut self.extension, &outcome) {
            extension.done.extend(extension.members.get(&member).copied());
        }
        self.outcomes.push(outcome);
    }

    /// What it comes to, once that is known.
    fn outcome(&self, members: &Members, holds: &QuorumHolds) -> Option<Outcome> {
        let majority = majority(members.io());
        match &self.extension {
            Some(extension) if !members.io().has(Defect::ExtensionOfMembers) => {
                self.extended(extension, holds, majority)
            }
            _ => result_of(&self.outcomes, majority, self.unanswered.is_empty()),
        }
    }

    /// What an extension comes to, once that is known: until when a majority may be relied
    /// on. A member that was extended and has been lost since does not count.
    fn extended(&self, extension: &Extension, holds: &QuorumHolds, majority: usize) -> Option<Outcome> {
        let failed = || {
            let mut outcomes = self.outcomes.iter();
            outcomes.find(|outcome| matches!(outcome, Outcome::Failed(_))).cloned()
        };
        let refuse = |kind, message: &str| Some(Outcome::Failed(Error::new(kind, Operation::Extend, message)));
        let Some(hold) = holds.get(extension.lease) else {
            return refuse(ErrorKind::NotOwner, "the lock was released meanwhile; acquire it again");
        };
        if hold.lost().is_some() {
            let error = hold.lost_error(Operation::Extend);
            return failed().or(Some(Outcome::Failed(error)));
        }
        let extended = extension.done.iter().filter(|member| hold.has_member(**member));
        if extended.count() >= majority {
            return Some(Outcome::Extended(hold.deadline()));
        }
        if !self.unanswered.is_empty() {
            return None;
        }
        failed().or_else(|| {
            refuse(
                ErrorKind::Unavailable,
                "no majority of the primaries confirmed the longer lease; the lease goes on as it was",
            )
        })
    }
}

impl Broadcasts {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// Whether the ticket is that of a broadcast.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    /// The tickets of all broadcasts.
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.by_ticket.keys().copied()
    }

    /// The members of a quorum hold are being released.
    pub(super) fn release(&mut self, ticket: Ticket, releases: Vec<Ticket>) {
        let broadcast = Broadcast {
            unanswered: releases,
            ..Broadcast::default()
        };
        self.by_ticket.insert(ticket, broadcast);
    }

    /// The members of a quorum hold are being extended, each under its ticket.
    pub(super) fn extend(&mut self, ticket: Ticket, lease: LeaseId, members: SortedMap<Ticket, LeaseId>) {
        let broadcast = Broadcast {
            unanswered: members.keys().copied().collect(),
            extension: Some(Extension {
                lease,
                members,
                done: SortedSet::new(),
            }),
            ..Broadcast::default()
        };
        self.by_ticket.insert(ticket, broadcast);
    }

    /// Puts a question about one lock to every primary.
    pub(super) fn inspect(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        (name, question): (LockName, Question),
        now: Instant,
    ) {
        let mut unanswered = Vec::new();
        for node in primaries(members.io()) {
            let member = members.ticket_for(Some(ticket), Verb::Inspect);
            unanswered.push(member);
            let keys = Arc::new(Keys::new(Kind::Mutex, &name, node));
            members.inspect(member, keys, question, now);
        }
        let broadcast = Broadcast {
            name: Some(name),
            unanswered,
            ..Broadcast::default()
        };
        self.by_ticket.insert(ticket, broadcast);
    }

    /// A primary answered.
    pub(super) fn answered(&mut self, ticket: Ticket, member: Ticket, outcome: Outcome) {
        if let Some(broadcast) = self.by_ticket.get_mut(&ticket) {
            broadcast.answered(member, outcome);
        }
    }

    /// Tells the caller once a majority agrees, or all have answered.
    pub(super) fn decide(&mut self, members: &mut Members, holds: &QuorumHolds, ticket: Ticket) {
        let broadcast = self.by_ticket.get(&ticket);
        let Some(outcome) = broadcast.and_then(|broadcast| broadcast.outcome(members, holds)) else {
            return;
        };
        if let Some(name) = self.stop(members, ticket) {
            let outcome = match (outcome, name) {
                (Outcome::Failed(error), Some(name)) => Outcome::Failed(error.with_lock(name.as_str())),
                (outcome, _) => outcome,
            };
            members.complete(ticket, outcome);
        }
    }

    /// Nobody waits for a broadcast any more. Returns the lock to name, if there is such a
    /// broadcast.
    pub(super) fn stop(&mut self, members: &mut Members, ticket: Ticket) -> Option<Option<LockName>> {
        let broadcast = self.by_ticket.remove(&ticket)?;
        // What is still under way goes on.
        for member in broadcast.unanswered {
            members.disown(member);
        }
        Some(broadcast.name)
    }
}

/// What a majority answered, as soon as there is one, or the best answer at the end.
fn result_of(outcomes: &[Outcome], majority: usize, is_all: bool) -> Option<Outcome> {
    let count = |is_it: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is_it(outcome)).count();
    let first = |is_it: fn(&Outcome) -> bool| outcomes.iter().find(|outcome| is_it(outcome)).cloned();
    let is_failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    let good = |outcome: &Outcome| {
        matches!(
            outcome,
            Outcome::Released(ReleaseOutcome::Released)
                | Outcome::Extended(_)
                | Outcome::State(LockState { holder: Some(_), .. })
                | Outcome::Forced(true)
        )
    };
    // Where an extension counts its members' answers, which is a defect.
    let extended = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Extended(deadline) => Some(deadline),
        _ => None,
    });
    if let Some(deadline) = last_of_majority(extended, majority) {
        return Some(Outcome::Extended(deadline));
    }
    if count(good) >= majority {
        return first(good);
    }
    if !is_all {
        return None;
    }
    let answered = outcomes.len().saturating_sub(count(is_failed));
    let is_bad = |outcome: &Outcome| {
        matches!(
            outcome,
            Outcome::Released(ReleaseOutcome::Expired | ReleaseOutcome::Stolen)
                | Outcome::State(LockState { holder: None, .. })
                | Outcome::Forced(false)
        )
    };
    let is_unknown = |outcome: &Outcome| matches!(outcome, Outcome::Released(ReleaseOutcome::Unknown));
    if let Some(unknown) = first(is_unknown) {
        return Some(unknown);
    }
    // Another holder need not be on every primary; and what is on few of them is no holder.
    let is_stolen = |outcome: &Outcome| matches!(outcome, Outcome::Released(ReleaseOutcome::Stolen));
    let is_expired = |outcome: &Outcome| matches!(outcome, Outcome::Released(ReleaseOutcome::Expired));
    let bad = if count(is_stolen) >= count(is_expired) {
        first(is_stolen).or_else(|| first(is_bad))
    } else {
        first(is_expired)
    };
    if answered >= majority
        && let Some(bad) = bad
    {
        return Some(bad);
    }
    first(is_failed)
        .or_else(|| first(|_| true))
        .or(Some(Outcome::Released(ReleaseOutcome::Expired)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_counts_once_a_majority_has_it() {
        let released = || Outcome::Released(ReleaseOutcome::Released);
        let expired = || Outcome::Released(ReleaseOutcome::Expired);
        assert_eq!(result_of(&[released(), released()], 2, false), Some(released()));
        assert_eq!(result_of(&[released(), expired()], 2, false), None);
        assert_eq!(result_of(&[released(), expired(), expired()], 2, true), Some(expired()));
    }

    #[test]
    fn a_release_says_stolen_if_most_primaries_have_another_holder() {
        let stolen = || Outcome::Released(ReleaseOutcome::Stolen);
        let expired = || Outcome::Released(ReleaseOutcome::Expired);
        assert_eq!(result_of(&[expired(), stolen(), stolen()], 2, true), Some(stolen()));
        assert_eq!(result_of(&[stolen(), expired(), expired()], 2, true), Some(expired()));
    }
}
