//! What a majority holds, and what it says: the deadline of a vote, its loss, its
//! release, and questions that are put to every primary.

use std::collections::{BTreeMap, BTreeSet};

use crate::defects::Defect;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{Context, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::lease::LeaseDuration;
use crate::name::LockName;
use crate::session::Session;
use crate::timers::Timer;
use crate::types::{Event, LockState, Outcome};

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

impl Session {
    /// A primary's mutex lasts longer, or shorter than was known. False if it is
    /// part of no vote.
    pub(crate) fn primary_renewed(&mut self, whole: LeaseId, part: LeaseId, deadline: Instant, now: Instant) -> bool {
        let Some(vote) = self.composites.votes.held.get_mut(&whole) else {
            return false;
        };
        vote.parts.insert(part, deadline);
        self.recount(whole, now);
        true
    }

    /// A primary's mutex is lost. False if it is part of no vote.
    pub(crate) fn primary_lost(&mut self, whole: LeaseId, part: LeaseId, reason: LostReason, now: Instant) -> bool {
        let majority = self.majority();
        let Some(vote) = self.composites.votes.held.get_mut(&whole) else {
            return false;
        };
        vote.parts.remove(&part);
        let is_short = vote.parts.len() < majority;
        self.discard_lease(part, now);
        if is_short || reason == LostReason::Closed {
            self.lose_vote(whole, reason, now);
        } else {
            self.recount(whole, now);
        }
        true
    }

    /// A primary's mutex is lost before its round was decided: it does not count.
    pub(crate) fn candidate_lost(&mut self, part: LeaseId, now: Instant) {
        let rounds = self.composites.votes.candidates.values_mut();
        let mut was_granted = false;
        for round in rounds.filter_map(|candidate| candidate.round.as_mut()) {
            was_granted |= round.granted.remove(&part).is_some();
        }
        if was_granted {
            self.discard_lease(part, now);
        }
    }

    /// Until when a majority may be relied on.
    pub(crate) fn recount(&mut self, lease: LeaseId, now: Instant) {
        let majority = self.majority();
        let Some(vote) = self.composites.votes.held.get_mut(&lease) else {
            return;
        };
        let deadline = last_of_majority(vote.parts.values(), majority).unwrap_or(now);
        if vote.lost.is_none() && deadline != vote.deadline {
            vote.deadline = deadline;
            self.locks.io_mut().set(Timer::Majority(lease), deadline);
            self.tell(Event::Renewed { lease, deadline });
        }
    }

    /// A vote's deadline has come.
    pub(crate) fn majority_over(&mut self, lease: LeaseId, now: Instant) {
        self.lose_vote(lease, LostReason::Expired, now);
    }

    fn lose_vote(&mut self, lease: LeaseId, reason: LostReason, now: Instant) {
        let Some(vote) = self.composites.votes.held.get_mut(&lease) else {
            return;
        };
        if vote.lost.is_some() {
            return;
        }
        vote.lost = Some(reason);
        let is_forgotten = !vote.watched && reason != LostReason::Closed;
        let (name, parts) = (vote.name.clone(), vote.parts.clone());
        let open = std::mem::take(&mut vote.open);
        self.nobody_had_to_ask_for(&name, now);
        self.locks.io_mut().stop(Timer::Majority(lease));
        self.composites.votes.expect_no_more(&open);
        self.call_off(&open, now);
        self.tell(Event::Lost { lease, reason });
        for part in parts.keys() {
            // Their records stay until the release: the program may still be inside.
            self.composites.hush(*part);
            if let Some(id) = self.locks.holds().of_lease(*part) {
                self.lose(id, reason, now);
            }
        }
        if is_forgotten && !self.locks.io().has(Defect::LapsedLeaseStays) {
            self.composites.votes.remove(lease);
            self.forget_parts(parts.keys(), now);
        }
        self.next_candidate(&name, now);
    }

    /// Gives a vote back on every primary. False if the lease is none.
    pub(crate) fn release_vote(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) -> bool {
        let Some(vote) = self.composites.votes.remove(lease) else {
            return false;
        };
        if vote.lost.is_none() {
            self.nobody_had_to_ask_for(&vote.name, now);
        }
        self.locks.io_mut().stop(Timer::Majority(lease));
        self.call_off(&vote.open, now);
        let mut open = Vec::new();
        for part in vote.parts.keys() {
            self.composites.exclude(*part);
            let release = self.part_ticket(Some(ticket));
            open.push(release);
            self.release_lease(release, *part, now);
        }
        if let Some(reason) = vote.lost {
            self.call_off(&open, now);
            self.complete(ticket, Outcome::Released(reason.outcome()));
        } else {
            self.start_poll(ticket, None, None, open);
        }
        self.next_candidate(&vote.name, now);
        true
    }

    /// Extends a vote on every primary. False if the lease is none.
    pub(crate) fn extend_vote(
        &mut self,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) -> bool {
        let Some(vote) = self.composites.votes.held.get(&lease) else {
            return false;
        };
        let parts: Vec<LeaseId> = vote.parts.keys().copied().collect();
        let mut extensions = BTreeMap::new();
        for part in parts {
            let extension = self.part_ticket(Some(ticket));
            extensions.insert(extension, part);
            self.extend_lease(extension, part, by, now);
        }
        let open = extensions.keys().copied().collect();
        let extends = Extends {
            vote: lease,
            parts: extensions,
            done: BTreeSet::new(),
        };
        self.start_poll(ticket, None, Some(extends), open);
        true
    }

    /// Asks every primary something of one lock.
    pub(crate) fn ask_every_primary(
        &mut self,
        ticket: Ticket,
        name: &LockName,
        ask: impl Fn(&mut Self, Ticket, NodeId),
    ) {
        let mut open = Vec::new();
        for node in self.primaries() {
            let part = self.part_ticket(Some(ticket));
            open.push(part);
            ask(self, part, node);
        }
        self.start_poll(ticket, Some(name.clone()), None, open);
    }

    fn start_poll(&mut self, ticket: Ticket, name: Option<LockName>, extends: Option<Extends>, open: Vec<Ticket>) {
        self.composites.votes.polls.insert(
            ticket,
            Poll {
                name,
                extends,
                open,
                outcomes: Vec::new(),
            },
        );
        self.count(ticket);
    }

    /// Completes a poll once a majority agrees, or all have answered.
    pub(crate) fn count(&mut self, ticket: Ticket) {
        let majority = self.majority();
        let Some(poll) = self.composites.votes.polls.get(&ticket) else {
            return;
        };
        let outcome = match &poll.extends {
            Some(extends) if !self.locks.io().has(Defect::ExtensionOfMembers) => self.extended_vote(poll, extends),
            _ => result_of(&poll.outcomes, majority, poll.open.is_empty()),
        };
        let Some(outcome) = outcome else { return };
        if let Some(poll) = self.composites.votes.polls.remove(&ticket) {
            // What is still under way goes on, and nobody waits for it.
            for part in poll.open {
                self.disown_part(part);
            }
            let outcome = match (outcome, poll.name) {
                (Outcome::Failed(error), Some(name)) => Outcome::Failed(error.with_lock(name.as_str())),
                (outcome, _) => outcome,
            };
            self.complete(ticket, outcome);
        }
    }

    /// What an extension comes to, once that is known: until when a majority may be relied
    /// on, not one that counts a mutex which was extended and has been lost since.
    fn extended_vote(&self, poll: &Poll, extends: &Extends) -> Option<Outcome> {
        let failed = || {
            poll.outcomes
                .iter()
                .find(|outcome| matches!(outcome, Outcome::Failed(_)))
        };
        let refuse = |kind, message: &str| Some(Outcome::Failed(Error::new(kind, Operation::Extend, message)));
        let Some(vote) = self.composites.votes.held.get(&extends.vote) else {
            return refuse(ErrorKind::NotOwner, "the lock was released meanwhile; acquire it again");
        };
        if vote.lost.is_some() {
            let message = "the lease was lost; release it and acquire the lock again";
            let error = Error::new(ErrorKind::LockLost, Operation::Extend, message).with_reason(vote.lost);
            return failed().cloned().or(Some(Outcome::Failed(error)));
        }
        let extended = extends.done.iter().filter(|part| vote.parts.contains_key(part));
        if extended.count() >= self.majority() {
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
    pub(crate) fn cancel_vote(&mut self, ticket: Ticket, now: Instant) {
        self.withdraw(ticket, now);
        if let Some(poll) = self.composites.votes.polls.remove(&ticket) {
            for part in poll.open {
                self.disown_part(part);
            }
        }
    }

    /// The votes of a context on a lock, newest last.
    pub(crate) fn votes_of(&self, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        let of_context = move |(lease, vote): (LeaseId, &Vote)| (vote.context == Some(context)).then_some(lease);
        self.composites.votes.of(name).filter_map(of_context)
    }

    /// The tickets of callers that wait for a majority.
    pub(crate) fn candidates(&self) -> Vec<Ticket> {
        let waiting = self.composites.votes.candidates.keys();
        waiting.chain(self.composites.votes.polls.keys()).copied().collect()
    }

    /// The client is closed: nobody is told of the primaries any more.
    pub(crate) fn dissolve_votes(&mut self) {
        for (lease, vote) in self.composites.votes.take_all() {
            self.locks.io_mut().stop(Timer::Majority(lease));
            for part in vote.parts.keys() {
                self.composites.exclude(*part);
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
