//! What a majority holds, and what it says: the deadline of a vote, its loss, its
//! release, and questions that are put to every primary.

use super::members::Members;
use crate::Kind;
use crate::defects::Defect;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Operation};
use crate::groups::quorum::{Votes, majority, primaries};
use crate::ids::{Context, LeaseId, Ticket};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::lease::LeaseDuration;
use crate::machines::inspections::Question;
use crate::name::LockName;
use crate::timers::Timer;
use crate::types::{Event, LockState, Outcome};
use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet};

/// A hold by majority.
#[derive(Debug)]
pub(crate) struct Vote {
    pub(crate) name: LockName,
    pub(crate) context: Option<Context>,
    /// The primaries' mutexes that it has, and until when each may be relied on.
    pub(crate) parts: BTreeMap<LeaseId, Instant>,
    /// Primaries whose answer is still to come; what they grant joins the others.
    pub(crate) open: Vec<Ticket>,
    /// Whether the watchdog renews it.
    pub(crate) watched: bool,
    pub(crate) lost: Option<LostReason>,
    /// Until when a majority may be relied on.
    pub(crate) deadline: Instant,
}

/// A release, an extension or a question that is decided by a majority.
#[derive(Debug)]
pub(crate) struct Poll {
    /// The lock to name in an error, if the primaries' own errors do not.
    pub(crate) name: Option<LockName>,
    /// The vote that is extended, and the primaries' mutexes that are.
    extends: Option<Extends>,
    pub(crate) open: Vec<Ticket>,
    outcomes: Vec<Outcome>,
}

/// An extension of a vote.
#[derive(Debug)]
struct Extends {
    vote: LeaseId,
    /// The mutex that each ticket extends.
    parts: BTreeMap<Ticket, LeaseId>,
    /// Those that were extended.
    done: BTreeSet<LeaseId>,
}

impl Poll {
    /// A primary answered.
    pub(crate) fn answered(&mut self, part: Ticket, outcome: Outcome) {
        self.open.retain(|open| *open != part);
        if let (Some(extends), Outcome::Extended(_)) = (&mut self.extends, &outcome) {
            extends.done.extend(extends.parts.get(&part));
        }
        self.outcomes.push(outcome);
    }
}

impl Votes {
    /// A primary's mutex lasts longer, or shorter than was known.
    pub(crate) fn primary_renewed(
        &mut self,
        members: &mut Members,
        whole: LeaseId,
        part: LeaseId,
        deadline: Instant,
        now: Instant,
    ) {
        let Some(vote) = self.held.get_mut(&whole) else {
            return;
        };
        vote.parts.insert(part, deadline);
        self.recount(members, whole, now);
    }

    /// A primary's mutex is lost.
    pub(crate) fn primary_lost(
        &mut self,
        members: &mut Members,
        whole: LeaseId,
        part: LeaseId,
        reason: LostReason,
        now: Instant,
    ) {
        let majority = majority(members.io());
        let Some(vote) = self.held.get_mut(&whole) else {
            return;
        };
        vote.parts.remove(&part);
        let is_short = vote.parts.len() < majority;
        members.discard(part, now);
        if is_short || reason == LostReason::Closed {
            self.lose_vote(members, whole, reason, now);
        } else {
            self.recount(members, whole, now);
        }
    }

    /// A primary's mutex is lost before its round was decided: it does not count.
    pub(crate) fn candidate_lost(&mut self, members: &mut Members, part: LeaseId, now: Instant) {
        let rounds = self.candidates.values_mut();
        let mut was_granted = false;
        for round in rounds.filter_map(|candidate| candidate.round.as_mut()) {
            was_granted |= round.granted.remove(&part).is_some();
        }
        if was_granted {
            members.discard(part, now);
        }
    }

    /// Until when a majority may be relied on.
    pub(crate) fn recount(&mut self, members: &mut Members, lease: LeaseId, now: Instant) {
        let majority = majority(members.io());
        let Some(vote) = self.held.get_mut(&lease) else {
            return;
        };
        let deadline = last_of_majority(vote.parts.values(), majority).unwrap_or(now);
        if vote.lost.is_none() && deadline != vote.deadline {
            vote.deadline = deadline;
            members.set(Timer::Majority(lease), deadline);
            members.tell(Event::Renewed { lease, deadline });
        }
    }

    pub(super) fn lose_vote(&mut self, members: &mut Members, lease: LeaseId, reason: LostReason, now: Instant) {
        let Some(vote) = self.held.get_mut(&lease) else {
            return;
        };
        if vote.lost.is_some() {
            return;
        }
        vote.lost = Some(reason);
        let is_forgotten = !vote.watched && reason != LostReason::Closed;
        let (name, parts) = (vote.name.clone(), vote.parts.clone());
        let open = std::mem::take(&mut vote.open);
        self.nobody_had_to_ask_for(members, &name, now);
        members.stop(Timer::Majority(lease));
        self.expect_no_more(&open);
        members.call_off(&open, now);
        members.tell(Event::Lost { lease, reason });
        for part in parts.keys() {
            // Their records stay until the release: the program may still be inside.
            members.hush(*part);
            if let Some(id) = members.locks().holds().of_lease(*part) {
                members.lose(id, reason, now);
            }
        }
        if is_forgotten && !members.io().has(Defect::LapsedLeaseStays) {
            self.remove(lease);
            members.forget(parts.keys(), now);
        }
        self.next_candidate(members, &name, now);
    }

    /// Gives a vote back on every primary. False if the lease is none.
    pub(crate) fn release(&mut self, members: &mut Members, ticket: Ticket, lease: LeaseId, now: Instant) -> bool {
        let Some(vote) = self.remove(lease) else {
            return false;
        };
        if vote.lost.is_none() {
            self.nobody_had_to_ask_for(members, &vote.name, now);
        }
        members.stop(Timer::Majority(lease));
        members.call_off(&vote.open, now);
        let mut open = Vec::new();
        for part in vote.parts.keys() {
            members.exclude(*part);
            let release = members.ticket_for(Some(ticket));
            open.push(release);
            members.release(release, *part, now);
        }
        if let Some(reason) = vote.lost {
            members.call_off(&open, now);
            members.complete(ticket, Outcome::Released(reason.outcome()));
        } else {
            self.start_poll(members, ticket, None, None, open);
        }
        self.next_candidate(members, &vote.name, now);
        true
    }

    /// Extends a vote on every primary. False if the lease is none.
    pub(crate) fn extend(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) -> bool {
        let Some(vote) = self.held.get(&lease) else {
            return false;
        };
        let parts: Vec<LeaseId> = vote.parts.keys().copied().collect();
        let mut extensions = BTreeMap::new();
        for part in parts {
            let extension = members.ticket_for(Some(ticket));
            extensions.insert(extension, part);
            members.extend(extension, part, by, now);
        }
        let open = extensions.keys().copied().collect();
        let extends = Extends {
            vote: lease,
            parts: extensions,
            done: BTreeSet::new(),
        };
        self.start_poll(members, ticket, None, Some(extends), open);
        true
    }

    /// Asks every primary something of one lock.
    pub(crate) fn ask_every_primary(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        name: &LockName,
        question: Question,
        now: Instant,
    ) {
        let mut open = Vec::new();
        for node in primaries(members.io()) {
            let part = members.ticket_for(Some(ticket));
            open.push(part);
            let keys = Arc::new(Keys::new(Kind::Mutex, name, node));
            members.inspect(part, keys, question, now);
        }
        self.start_poll(members, ticket, Some(name.clone()), None, open);
    }

    fn start_poll(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        name: Option<LockName>,
        extends: Option<Extends>,
        open: Vec<Ticket>,
    ) {
        self.polls.insert(
            ticket,
            Poll {
                name,
                extends,
                open,
                outcomes: Vec::new(),
            },
        );
        self.count(members, ticket);
    }

    /// Completes a poll once a majority agrees, or all have answered.
    pub(crate) fn count(&mut self, members: &mut Members, ticket: Ticket) {
        let majority = majority(members.io());
        let Some(poll) = self.polls.get(&ticket) else {
            return;
        };
        let outcome = match &poll.extends {
            Some(extends) if !members.io().has(Defect::ExtensionOfMembers) => {
                self.extended_vote(members, poll, extends)
            }
            _ => result_of(&poll.outcomes, majority, poll.open.is_empty()),
        };
        let Some(outcome) = outcome else { return };
        if let Some(poll) = self.polls.remove(&ticket) {
            // What is still under way goes on, and nobody waits for it.
            for part in poll.open {
                members.disown(part);
            }
            let outcome = match (outcome, poll.name) {
                (Outcome::Failed(error), Some(name)) => Outcome::Failed(error.with_lock(name.as_str())),
                (outcome, _) => outcome,
            };
            members.complete(ticket, outcome);
        }
    }

    /// What an extension comes to, once that is known: until when a majority may be relied
    /// on, not one that counts a mutex which was extended and has been lost since.
    fn extended_vote(&self, members: &Members, poll: &Poll, extends: &Extends) -> Option<Outcome> {
        let failed = || {
            poll.outcomes
                .iter()
                .find(|outcome| matches!(outcome, Outcome::Failed(_)))
        };
        let refuse = |kind, message: &str| Some(Outcome::Failed(Error::new(kind, Operation::Extend, message)));
        let Some(vote) = self.held.get(&extends.vote) else {
            return refuse(ErrorKind::NotOwner, "the lock was released meanwhile; acquire it again");
        };
        if vote.lost.is_some() {
            let message = "the lease was lost; release it and acquire the lock again";
            let error = Error::new(ErrorKind::LockLost, Operation::Extend, message).with_reason(vote.lost);
            return failed().cloned().or(Some(Outcome::Failed(error)));
        }
        let extended = extends.done.iter().filter(|part| vote.parts.contains_key(part));
        if extended.count() >= majority(members.io()) {
            return Some(Outcome::Extended(vote.deadline));
        }
        if !poll.open.is_empty() {
            return None;
        }
        failed().cloned().or_else(|| {
            refuse(
                ErrorKind::Unavailable,
                "no majority of the primaries confirmed the longer lease; the lease goes on as it was",
            )
        })
    }

    /// The caller of a candidacy or a poll went away; what a poll has begun goes on.
    pub(crate) fn cancel(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        self.withdraw(members, ticket, now);
        if let Some(poll) = self.polls.remove(&ticket) {
            for part in poll.open {
                members.disown(part);
            }
        }
    }

    /// The votes of a context on a lock, newest last.
    pub(crate) fn of_context(&self, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        let of_context = move |(lease, vote): (LeaseId, &Vote)| (vote.context == Some(context)).then_some(lease);
        self.of(name).filter_map(of_context)
    }

    /// The tickets of callers that wait for a majority.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        let waiting = self.candidates.keys();
        waiting.chain(self.polls.keys()).copied().collect()
    }

    /// The client is closed: nobody is told of the primaries any more.
    pub(crate) fn dissolve(&mut self, members: &mut Members) {
        for (lease, vote) in self.take_all() {
            members.stop(Timer::Majority(lease));
            for part in vote.parts.keys() {
                members.exclude(*part);
            }
        }
    }
}

/// The deadline of the majority's last member; `None` without a majority.
pub(crate) fn last_of_majority<'a>(
    deadlines: impl IntoIterator<Item = &'a Instant>,
    majority: usize,
) -> Option<Instant> {
    let mut latest_first: Vec<&Instant> = deadlines.into_iter().collect();
    latest_first.sort_by(|a, b| b.cmp(a));
    latest_first.get(majority.checked_sub(1)?).map(|deadline| **deadline)
}

/// What a majority says, as soon as there is one, or the best that can be said at the end.
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
    if answered >= majority
        && let Some(bad) = first(is_bad)
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
    use std::time::Duration;

    #[test]
    fn a_vote_lasts_as_long_as_the_last_of_its_majority() {
        let at = |millis: &u64| Instant::ZERO + Duration::from_millis(*millis);
        let deadlines: Vec<Instant> = [50, 10, 40, 30].iter().map(at).collect();
        assert_eq!(last_of_majority(&deadlines, 3), Some(at(&30)));
        assert_eq!(last_of_majority(&deadlines, 5), None);
    }

    #[test]
    fn a_release_counts_once_a_majority_has_it() {
        let released = || Outcome::Released(ReleaseOutcome::Released);
        let expired = || Outcome::Released(ReleaseOutcome::Expired);
        assert_eq!(result_of(&[released(), released()], 2, false), Some(released()));
        assert_eq!(result_of(&[released(), expired()], 2, false), None);
        assert_eq!(result_of(&[released(), expired(), expired()], 2, true), Some(expired()));
    }
}
