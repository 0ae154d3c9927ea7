//! RedLock: one lock on several independent primaries, held by a majority.
//!
//! ```text
//!            first of its name here
//!  Queued ─────────────────────────► Asking ── a majority granted, in time ──► a Vote
//!                                     │  ▲
//!                 no majority, or late│  │ 10–200 ms at random
//!                 what was granted    ▼  │
//!                 is released        Pausing ── wait is over ──► refused
//! ```
//!
//! Each primary has an ordinary mutex, held and renewed by itself; one that does
//! not answer keeps nobody from the others. One that is not connected is asked as
//! soon as it is: a round waits for it while no majority has answered, and no
//! longer than its share. A vote may be relied on while a majority may, so its
//! deadline is that of the majority's last one. A mutex that was lost is not taken
//! again: its primary has no say in this vote any more.

use super::members::Members;
use super::quorum_hold::{Poll, Vote, last_of_majority};
use crate::LostReason;
use crate::defects::Defect;
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::groups::members::News;
use crate::groups::self_wait::{BLOCKED, is_waiting, refusal};
use crate::ids::{Context, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Kind;
use crate::lease::LeasePlan;
use crate::name::LockName;
use crate::timers::Timer;
use crate::types::{AcquireRequest, Outcome};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The pause after a round without a majority.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// A primary's share of a round, if the lease does not ask for less.
const SHARE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// Why a majority has no other kinds.
pub(crate) const SIMPLE_LOCKS_ONLY: &str = "a majority of primaries keeps simple locks only; use lock() or mutex()";

/// Acquisitions, holds and questions of the client that take a majority.
#[derive(Debug, Default)]
pub(crate) struct Votes {
    pub(crate) candidates: BTreeMap<Ticket, Candidate>,
    /// The waiters of each name, first come, first served; the first one asks.
    queues: BTreeMap<LockName, VecDeque<Ticket>>,
    pub(crate) held: BTreeMap<LeaseId, Vote>,
    /// The votes of each name, oldest first.
    by_name: BTreeMap<LockName, BTreeSet<LeaseId>>,
    /// The questions to primaries that are late, and the vote that each may join.
    late: BTreeMap<Ticket, LeaseId>,
    pub(crate) polls: BTreeMap<Ticket, Poll>,
}

impl Votes {
    /// Whether a lease is one of a majority.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.held.contains_key(&lease)
    }

    pub(crate) fn len(&self) -> usize {
        let waiting = self.candidates.len().saturating_add(self.polls.len());
        let held = self.held.len().saturating_add(self.by_name.len());
        let named = self.queues.len().saturating_add(self.late.len());
        waiting.saturating_add(held).saturating_add(named)
    }

    fn insert(&mut self, lease: LeaseId, vote: Vote) {
        self.late.extend(vote.open.iter().map(|open| (*open, lease)));
        self.by_name.entry(vote.name.clone()).or_default().insert(lease);
        self.held.insert(lease, vote);
    }

    /// Takes a vote out of all tables.
    pub(crate) fn remove(&mut self, lease: LeaseId) -> Option<Vote> {
        let vote = self.held.remove(&lease)?;
        self.expect_no_more(&vote.open);
        if let Some(leases) = self.by_name.get_mut(&vote.name) {
            leases.remove(&lease);
            if leases.is_empty() {
                self.by_name.remove(&vote.name);
            }
        }
        Some(vote)
    }

    /// Takes all votes out.
    pub(crate) fn take_all(&mut self) -> BTreeMap<LeaseId, Vote> {
        self.by_name.clear();
        self.late.clear();
        std::mem::take(&mut self.held)
    }

    /// What these primaries still answer joins no vote.
    pub(crate) fn expect_no_more(&mut self, late: &[Ticket]) {
        for ticket in late {
            self.late.remove(ticket);
        }
    }

    /// One asks for all who wait here for a name.
    fn tell_all(&mut self, name: &LockName, tell: impl Fn(&mut Candidate)) {
        for ticket in self.queues.get(name).into_iter().flatten() {
            if let Some(candidate) = self.candidates.get_mut(ticket) {
                tell(candidate);
            }
        }
    }

    fn give_verdict(&mut self, name: &LockName, verdict: &Verdict) {
        self.tell_all(name, |candidate| candidate.verdict = verdict.clone());
    }

    /// The votes of a name, oldest first.
    pub(crate) fn of(&self, name: &LockName) -> impl Iterator<Item = (LeaseId, &Vote)> {
        let leases = self.by_name.get(name).into_iter().flatten();
        leases.filter_map(|lease| Some((*lease, self.held.get(lease)?)))
    }
}

/// A caller that wants the lock.
#[derive(Debug)]
pub(crate) struct Candidate {
    request: AcquireRequest,
    started: Instant,
    pub(crate) round: Option<Round>,
    /// What the last full round of anybody here came to.
    verdict: Verdict,
    /// When a majority last answered anybody here who wants this lock, or the lock was
    /// last held here, so that nobody had to ask.
    heard: Instant,
}

impl Candidate {
    /// Whether it asks one round and does not wait.
    fn once(&self) -> bool {
        self.request.wait.is_some_and(|wait| wait.is_zero())
    }
}

/// One question to all primaries.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Those that have not answered; one without a connection is asked when it has one.
    open: BTreeMap<Ticket, NodeId>,
    /// The mutexes it was granted, and until when each may be relied on.
    pub(crate) granted: BTreeMap<LeaseId, Instant>,
    refused: usize,
    /// Who holds the lock on one that refused.
    holder: Option<Holder>,
    /// What one of the others failed with.
    failure: Option<Error>,
}

impl Round {
    /// How many said yes or no.
    fn answered(&self) -> usize {
        self.granted.len().saturating_add(self.refused)
    }

    /// Whether what is still to come may make a majority, or tell why there is none.
    fn is_open(&self, majority: usize, connected: &BTreeSet<NodeId>) -> bool {
        if self.answered() < majority {
            return self.answered().saturating_add(self.open.len()) >= majority;
        }
        // Enough is known to refuse it; nobody waits for a connection to hear more.
        let to_come = self.open.values().filter(|node| connected.contains(node));
        self.granted.len().saturating_add(to_come.count()) >= majority
    }
}

/// Why there was no majority.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Who held the lock on one of the primaries that answered.
    holder: Option<Holder>,
    /// Whether a majority answered.
    is_answered: bool,
    /// What one of the others failed with.
    failure: Option<Error>,
}

impl Verdict {
    /// Whether primaries were asked for it: it does not just say that the lock was held here.
    const fn is_a_rounds(&self) -> bool {
        self.holder.is_some() || self.failure.is_some()
    }

    /// What the caller is told who waited so long, or tried once.
    fn into_error(self, waited: Option<Duration>) -> Error {
        match self.failure {
            Some(error) if is_fatal(&error) && !self.is_answered => error,
            _ if self.is_answered => {
                let after = waited.map_or_else(String::new, |waited| format!(" after {waited:?}"));
                let message =
                    format!("not granted{after}: no majority of the primaries was free; wait longer or try again");
                Error::new(ErrorKind::LockTimeout, Operation::Acquire, message).with_holder(self.holder)
            }
            failure => {
                let within = waited.map_or_else(|| "in time".into(), |waited| format!("within {waited:?}"));
                let cause = failure.as_ref().map_or("no answer", Error::message);
                let message =
                    format!("no majority of the primaries answered {within}: {cause}; check that they are up");
                Error::new(ErrorKind::Unavailable, Operation::Acquire, message)
            }
        }
    }
}

/// How many make a majority.
pub(super) fn majority(io: &Io) -> usize {
    usize::from(io.config().primaries / 2).saturating_add(1)
}

pub(super) fn primaries(io: &Io) -> impl Iterator<Item = NodeId> + use<> {
    (0..io.config().primaries).map(NodeId)
}

impl Votes {
    /// What happened to members, until nothing has.
    pub(crate) fn settle(&mut self, members: &mut Members, now: Instant) {
        while let Some(news) = members.next_news(now) {
            match news {
                News::Completed {
                    caller,
                    member,
                    outcome,
                } => self.primary_answered(members, caller, member, outcome, now),
                News::Lost {
                    composite,
                    member,
                    reason,
                } => self.primary_lost(members, composite, member, reason, now),
                News::LostBefore(lease) => self.candidate_lost(members, lease, now),
                News::Renewed {
                    composite,
                    member,
                    deadline,
                } => self.primary_renewed(members, composite, member, deadline, now),
                // No hold of a primary is entered again.
                News::Entered(..) => {}
            }
        }
    }

    /// Wants the lock of a majority.
    pub(crate) fn acquire(&mut self, members: &mut Members, ticket: Ticket, request: AcquireRequest, now: Instant) {
        let refusal = match request.kind.spec().by_majority {
            _ if request.within.is_some() => Some("a RedLock is not reentrant; leave `within` out"),
            true => None,
            false => Some(SIMPLE_LOCKS_ONLY),
        };
        if let Some(message) = refusal {
            let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message);
            members.complete(ticket, Outcome::Failed(error.with_lock(request.name.as_str())));
            return;
        }
        if let Some(error) = self.votes_for_itself(members, &request, now) {
            members.complete(ticket, Outcome::Failed(error));
            return;
        }
        let queue = self.queues.entry(request.name.clone()).or_default();
        queue.push_back(ticket);
        let (name, wait) = (request.name.clone(), request.wait);
        let first = self.first_candidate(&name);
        let first = first.and_then(|first| self.candidates.get(&first));
        let verdict = first.map(|first| first.verdict.clone()).filter(Verdict::is_a_rounds);
        let silence = verdict.clone().filter(|verdict| !verdict.is_answered);
        self.candidates.insert(
            ticket,
            Candidate {
                request,
                started: now,
                round: None,
                verdict: verdict.unwrap_or_default(),
                heard: now,
            },
        );
        let once = wait.is_some_and(|wait| wait.is_zero());
        if !self.is_vote_held(&name) && self.first_candidate(&name) == Some(ticket) {
            self.ask_all(members, ticket, now);
        } else if once {
            let outcome = match silence.filter(|_| !self.is_vote_held(&name)) {
                Some(verdict) => Outcome::Failed(verdict.into_error(None).with_lock(name.as_str())),
                None => {
                    let message =
                        "not granted: this client holds it, or waits for it already; wait longer or try again";
                    let error = Error::new(ErrorKind::LockTimeout, Operation::Acquire, message);
                    Outcome::NotGranted(error.with_lock(name.as_str()))
                }
            };
            self.withdraw(members, ticket, now);
            members.complete(ticket, outcome);
            return;
        }
        if let Some(wait) = wait.filter(|_| !once) {
            members.set(Timer::Wait(ticket), now + wait);
        }
    }

    /// Why a wait for this lock could not be ended by anybody else.
    fn votes_for_itself(&self, members: &Members, request: &AcquireRequest, now: Instant) -> Option<Error> {
        if !is_waiting(request) || members.io().has(Defect::CompositeWaitsForItself) {
            return None;
        }
        let is_held = |vote: &Vote| vote.lost.is_none() && now < vote.deadline;
        let has_it = |context: Context| {
            let mut leases = self.of_context(&request.name, context);
            leases.any(|lease| self.held.get(&lease).is_some_and(is_held))
        };
        if request.context.is_some_and(has_it) {
            return Some(refusal(
                request,
                "a RedLock is not reentrant; the calling thread or task holds it and would wait for itself; release \
                 it first",
            ));
        }
        let stops_it = request.blocked.iter().copied().any(has_it);
        stops_it.then(|| refusal(request, BLOCKED))
    }

    fn first_candidate(&self, name: &LockName) -> Option<Ticket> {
        self.queues.get(name)?.front().copied()
    }

    pub(crate) fn is_vote_held(&self, name: &LockName) -> bool {
        let mut held = self.of(name);
        held.any(|(_, vote)| vote.lost.is_none())
    }

    /// Asks every primary that is connected at once, the others when they are.
    fn ask_all(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(candidate) = self.candidates.get(&ticket) else {
            return;
        };
        let plan = LeasePlan::of(candidate.request.lease, members.io().config().lease);
        let share = plan.length.checked_div(10).unwrap_or_default().clamp(SHARE.0, SHARE.1);
        let request = AcquireRequest {
            kind: Kind::Mutex,
            context: None,
            wait: Some(Duration::ZERO),
            fencing: false,
            ..candidate.request.clone()
        };
        let mut open = BTreeMap::new();
        for node in primaries(members.io()) {
            open.insert(members.ticket_for(Some(ticket)), node);
        }
        let share = share.min(members.io().config().command_timeout);
        members.set(Timer::Share(ticket), now + share);
        if let Some(candidate) = self.candidates.get_mut(&ticket) {
            candidate.round = Some(Round {
                open: open.clone(),
                ..Round::default()
            });
        }
        for (part, node) in open {
            members.acquire(part, request.clone(), (node, plan), now);
        }
    }

    /// A primary answered a candidate, a vote or a poll.
    pub(crate) fn primary_answered(
        &mut self,
        members: &mut Members,
        whole: Ticket,
        part: Ticket,
        outcome: Outcome,
        now: Instant,
    ) {
        if let Some(poll) = self.polls.get_mut(&whole) {
            poll.answered(part, outcome);
            self.count(members, whole);
            return;
        }
        if let Some(candidate) = self.candidates.get_mut(&whole) {
            let Some(round) = &mut candidate.round else { return };
            round.open.remove(&part);
            match outcome {
                Outcome::Granted(grant) => {
                    round.granted.insert(grant.lease, grant.deadline);
                }
                Outcome::NotGranted(error) => {
                    round.refused = round.refused.saturating_add(1);
                    round.holder = error.holder().cloned();
                }
                // A server that is set up wrongly says more than one that is silent.
                Outcome::Failed(error) if !round.failure.as_ref().is_some_and(is_fatal) => {
                    round.failure = Some(error);
                }
                _ => {}
            }
            self.judge(members, whole, false, now);
            return;
        }
        // A primary that was late for its round.
        let Some(lease) = self.late.remove(&part) else {
            return;
        };
        let Some(vote) = self.held.get_mut(&lease) else {
            return;
        };
        vote.open.retain(|open| *open != part);
        if let Outcome::Granted(grant) = outcome {
            vote.parts.insert(grant.lease, grant.deadline);
            members.include(grant.lease, lease);
            self.recount(members, lease, now);
        }
    }

    /// A timer has run out. False if it is a lock's.
    pub(crate) fn timer(&mut self, members: &mut Members, timer: Timer, now: Instant) -> bool {
        match timer {
            Timer::Share(ticket) => self.judge(members, ticket, true, now),
            Timer::Majority(lease) => self.lose_vote(members, lease, LostReason::Expired, now),
            Timer::Wake(ticket) => return self.ask_again(members, ticket, now),
            Timer::Wait(ticket) => return self.candidacy_over(members, ticket, now),
            _ => return false,
        }
        true
    }

    /// Decides a round, if it can be decided.
    fn judge(&mut self, members: &mut Members, ticket: Ticket, is_late: bool, now: Instant) {
        let majority = majority(members.io());
        let Some(candidate) = self.candidates.get(&ticket) else {
            return;
        };
        let Some(round) = &candidate.round else { return };
        let deadline = last_of_majority(round.granted.values(), majority);
        let is_open = round.is_open(majority, members.io().connected());
        if round.answered() >= majority {
            let name = candidate.request.name.clone();
            self.heard_of(&name, now);
        }
        if deadline.is_some_and(|deadline| deadline > now) {
            self.elect(members, ticket, now);
        } else if is_late || !is_open {
            self.end_round(members, ticket, now);
        }
    }

    /// A majority answered, or nobody had to ask: nobody here waits in silence.
    fn heard_of(&mut self, name: &LockName, now: Instant) {
        self.tell_all(name, |candidate| candidate.heard = now);
    }

    /// While a lease of this client had the lock, nobody here asked for it: who waits has
    /// heard nothing since its first question, not since it began to wait.
    pub(crate) fn nobody_had_to_ask_for(&mut self, members: &mut Members, name: &LockName, now: Instant) {
        if !members.io().has(Defect::SilenceOfTheHolder) {
            self.heard_of(name, now);
        }
        let held_here = Verdict {
            is_answered: true,
            ..Verdict::default()
        };
        self.give_verdict(name, &held_here);
    }

    /// A round came to no majority. Its candidate asks again after a pause, unless that
    /// is of no use.
    fn end_round(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let candidates = &mut self.candidates;
        let Some(round) = candidates.get_mut(&ticket).and_then(|one| one.round.take()) else {
            return;
        };
        let verdict = self.verdict(members, &round);
        self.undo(members, round, now);
        members.stop(Timer::Share(ticket));
        let longest_silence = members.io().longest_silence();
        let Some(candidate) = self.candidates.get_mut(&ticket) else {
            return;
        };
        // While a majority answers, the others may be as they are.
        let is_fatal = !verdict.is_answered && verdict.failure.as_ref().is_some_and(is_fatal);
        let is_silent = candidate.request.wait.is_none() && now.saturating_since(candidate.heard) >= longest_silence;
        let (name, ends) = (
            candidate.request.name.clone(),
            candidate.once() || is_fatal || is_silent,
        );
        self.give_verdict(&name, &verdict);
        if ends {
            self.reject(members, ticket, now);
        } else {
            let pause = members.between(PAUSE);
            members.set(Timer::Wake(ticket), now + pause);
        }
    }

    /// What a round without a majority came to.
    fn verdict(&self, members: &Members, round: &Round) -> Verdict {
        let silence = || {
            let mut silent = round.open.values();
            // Who cannot be asked says more than who has not answered yet.
            let away = silent.clone().find(|node| !members.io().is_connected(**node));
            let node = away.or_else(|| silent.next())?;
            let error = Error::new(
                ErrorKind::Unavailable,
                Operation::Acquire,
                members.io().silence_of(*node),
            );
            Some(error)
        };
        Verdict {
            holder: round.holder.clone(),
            is_answered: round.answered() >= majority(members.io()),
            failure: round.failure.clone().or_else(silence),
        }
    }

    /// A majority granted the lock.
    fn elect(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let majority = majority(members.io());
        let Some(candidate) = self.candidates.remove(&ticket) else {
            return;
        };
        self.stop_candidate(members, ticket, &candidate.request.name);
        let Some(round) = candidate.round else { return };
        let lease = members.next_lease();
        let parts = round.granted;
        for part in parts.keys() {
            members.include(*part, lease);
        }
        let deadline = last_of_majority(parts.values(), majority).unwrap_or(now);
        self.insert(
            lease,
            Vote {
                name: candidate.request.name,
                context: candidate.request.context,
                parts,
                open: round.open.into_keys().collect(),
                watched: candidate.request.lease.is_renewed(),
                lost: None,
                deadline,
            },
        );
        members.set(Timer::Majority(lease), deadline);
        members.grant(ticket, lease, deadline, 1);
    }

    /// A candidate's pause is over. False if it is none.
    pub(crate) fn ask_again(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> bool {
        let Some(candidate) = self.candidates.get(&ticket) else {
            return false;
        };
        if candidate.round.is_none() && self.first_candidate(&candidate.request.name) == Some(ticket) {
            self.ask_all(members, ticket, now);
        }
        true
    }

    /// A candidate's wait is over. False if it is none.
    pub(crate) fn candidacy_over(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> bool {
        let is_one = self.candidates.contains_key(&ticket);
        if is_one {
            self.reject(members, ticket, now);
        }
        is_one
    }

    /// Tells a candidate that it does not get the lock, and why.
    fn reject(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(candidate) = self.candidates.get(&ticket) else {
            return;
        };
        let name = candidate.request.name.clone();
        let waited = (!candidate.once()).then(|| now.saturating_since(candidate.started));
        let mut verdict = candidate.verdict.clone();
        if let Some(round) = &candidate.round {
            let so_far = self.verdict(members, round);
            verdict.is_answered |= so_far.is_answered;
            verdict.holder = verdict.holder.or(so_far.holder);
            verdict.failure = verdict.failure.or(so_far.failure);
        }
        // Nobody asks while a lease of this client holds it, and that is an answer.
        verdict.is_answered |= self.is_vote_held(&name);
        let error = verdict.into_error(waited).with_lock(name.as_str());
        let outcome = match error.kind() {
            ErrorKind::LockTimeout => Outcome::NotGranted(error),
            _ => Outcome::Failed(error),
        };
        members.complete(ticket, outcome);
        self.withdraw(members, ticket, now);
    }

    /// Takes a candidate out; what it was granted, or may yet be, is released.
    pub(crate) fn withdraw(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(candidate) = self.candidates.remove(&ticket) else {
            return;
        };
        if let Some(round) = candidate.round {
            self.undo(members, round, now);
        }
        self.stop_candidate(members, ticket, &candidate.request.name);
        self.next_candidate(members, &candidate.request.name, now);
    }

    /// Gives back what a round was granted, and asks nobody more for it.
    fn undo(&mut self, members: &mut Members, round: Round, now: Instant) {
        members.call_off(round.open.keys(), now);
        for lease in round.granted.into_keys() {
            members.discard(lease, now);
        }
    }

    fn stop_candidate(&mut self, members: &mut Members, ticket: Ticket, name: &LockName) {
        for timer in [Timer::Wait(ticket), Timer::Wake(ticket), Timer::Share(ticket)] {
            members.stop(timer);
        }
        if let Some(queue) = self.queues.get_mut(name) {
            queue.retain(|waiting| *waiting != ticket);
            if queue.is_empty() {
                self.queues.remove(name);
            }
        }
    }

    /// The first candidate of a name asks, if nobody here holds the lock.
    pub(crate) fn next_candidate(&mut self, members: &mut Members, name: &LockName, now: Instant) {
        let Some(ticket) = self.first_candidate(name) else {
            return;
        };
        let is_idle = members.io().due(Timer::Wake(ticket)).is_none();
        let asks = |candidate: &Candidate| candidate.round.is_some();
        if is_idle && !self.is_vote_held(name) && !self.candidates.get(&ticket).is_some_and(asks) {
            self.ask_all(members, ticket, now);
        }
    }
}

/// Whether asking again cannot help.
const fn is_fatal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::InvalidArgument)
}
