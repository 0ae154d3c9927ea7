//! Quorum attempts: the callers that want a lock, their queue, and the rounds of the first caller in the queue. In a
//! round every primary is asked for its mutex once.

use std::collections::{BinaryHeap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use steadlock_collections::{SortedMap, SortedSet};

use super::holds::NewHold;
use super::{last_of_majority, majority, outage, primaries};
use crate::error::{Cause, Error, ErrorKind, Holder, Operation};
use crate::groups::members::{Completed, Members};
use crate::ids::{LeaseId, NodeId, Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Kind;
use crate::lateness::{Lateness, whole_millis};
use crate::lease::LeasePlan;
use crate::name::LockName;
use crate::timers::Timer;
use crate::types::{AcquireRequest, OnUnavailable, Outcome};
use crate::wording::brief;

/// The bounds of the random pause after a round without a majority.
const PAUSE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(200);
/// The maximum age of an answer whose round trip can explain why a single attempt found no majority.
const RECENT: Duration = Duration::from_secs(1);

/// The quorum attempts of a client.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    by_ticket: SortedMap<Ticket, Attempt>,
    /// The wait queue of each lock, in order of arrival. Only the first waiter asks the primaries.
    queues: SortedMap<LockName, VecDeque<Ticket>>,
}

/// A caller that wants a lock.
#[derive(Debug)]
struct Attempt {
    request: AcquireRequest,
    started: Instant,
    /// The round in progress.
    round: Option<Round>,
    /// Why the last round of any waiter of this client for the lock had no majority. If a lease of this client held the
    /// lock after that, `NoMajority::held_here`.
    last: NoMajority,
    /// When a majority last answered a waiter of this client for the lock, or when a lease of this client last held the
    /// lock, so that no waiter had to ask. At first, when the wait began.
    last_contact: Instant,
    /// The number of rounds in a row for which a majority answered too late.
    lateness: Lateness,
    /// Whether the wait is over, and was prolonged by `FIRST_ANSWER_GRACE` for the result of the first round.
    is_graced: bool,
}

/// Whether a round waits for more answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Continues,
    /// The response timeout is over.
    IsOver,
}

/// The state of a round.
pub(super) enum Decision {
    /// The round needs more answers.
    Open,
    /// A majority granted the lock in time.
    Granted,
    /// There is no majority, or it came too late.
    NoMajority,
}

impl Attempt {
    /// Whether the caller does not wait.
    fn is_single_attempt(&self) -> bool {
        self.request.wait.is_some_and(|wait| wait.is_zero())
    }
}

impl Attempts {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len().saturating_add(self.queues.len())
    }

    /// Whether a ticket belongs to a quorum attempt.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.by_ticket.keys().copied()
    }

    /// Returns the lock that a quorum attempt wants.
    pub(super) fn name(&self, ticket: Ticket) -> Option<&LockName> {
        Some(&self.by_ticket.get(&ticket)?.request.name)
    }

    /// Whether a quorum attempt is the first in the queue of its lock.
    pub(super) fn is_first(&self, ticket: Ticket) -> bool {
        self.name(ticket).and_then(|name| self.first(name)) == Some(ticket)
    }

    fn first(&self, name: &LockName) -> Option<Ticket> {
        self.queues.get(name)?.front().copied()
    }

    /// Puts a caller into the queue of its lock.
    pub(super) fn add(&mut self, ticket: Ticket, request: AcquireRequest, now: Instant) {
        let first = self.first(&request.name).and_then(|first| self.by_ticket.get(&first));
        let last = first.map(|first| first.last.clone()).filter(NoMajority::is_of_a_round);
        self.queues.get_or_default(request.name.clone()).push_back(ticket);
        let attempt = Attempt {
            request,
            started: now,
            round: None,
            last: last.unwrap_or_default(),
            last_contact: now,
            lateness: Lateness::default(),
            is_graced: false,
        };
        self.by_ticket.insert(ticket, attempt);
    }

    /// Starts a round. Every connected primary is asked at once, and each of the others as soon as it is connected.
    pub(super) fn ask(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
        let Some(attempt) = self.by_ticket.get_mut(&ticket) else {
            return;
        };
        let plan = LeasePlan::of(attempt.request.lease, members.io().config().lease);
        let timeout = response_timeout(members.io(), plan.length);
        let request = AcquireRequest {
            kind: Kind::Mutex,
            context: None,
            wait: Some(Duration::ZERO),
            fencing: false,
            // A primary whose circuit breaker is open fails for this round. The policy of the caller applies to the
            // lock as a whole, not to one primary.
            on_unavailable: OnUnavailable::Fail,
            ..attempt.request.clone()
        };
        let mut unanswered = SortedMap::new();
        for node in primaries(members.io()) {
            unanswered.insert(members.ticket_for(Some(ticket), Verb::Acquire), node);
        }
        members.set(Timer::Round(ticket), now + timeout);
        attempt.round = Some(Round::new(unanswered.clone(), timeout));
        for (member, node) in unanswered {
            members.acquire(member, request.clone(), node, plan, now);
        }
    }

    /// Starts a round for the first waiter of a lock, unless it has a round in progress or pauses.
    pub(super) fn ask_for_first(&mut self, members: &mut Members<'_>, name: &LockName, now: Instant) {
        let Some(ticket) = self.first(name) else {
            return;
        };
        let is_asking = |attempt: &Attempt| attempt.round.is_some();
        let pauses = members.io().due(Timer::Pause(ticket)).is_some();
        if !pauses && !self.by_ticket.get(&ticket).is_some_and(is_asking) {
            self.ask(members, ticket, now);
        }
    }

    /// Starts the next round after a pause, if the caller is still the first in its queue.
    pub(super) fn pause_over(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
        let is_idle = |attempt: &Attempt| attempt.round.is_none();
        if self.by_ticket.get(&ticket).is_some_and(is_idle) && self.is_first(ticket) {
            self.ask(members, ticket, now);
        }
    }

    /// Handles the answer of a primary.
    pub(super) fn answered(&mut self, completed: Completed) {
        let attempt = self.by_ticket.get_mut(&completed.caller);
        if let Some(round) = attempt.and_then(|attempt| attempt.round.as_mut()) {
            round.answered(completed.member, completed.outcome);
        }
    }

    /// Handles the loss of a primary's mutex before its round was decided: the mutex does not count any more.
    pub(super) fn member_lost(&mut self, members: &mut Members<'_>, member: LeaseId, now: Instant) {
        let mut was_granted = false;
        for attempt in self.by_ticket.values_mut() {
            was_granted |= attempt.round.as_mut().is_some_and(|round| round.lost(member));
        }
        if was_granted {
            members.discard(member, now);
        }
    }

    /// Returns whether the round of a quorum attempt is decided by now, and how.
    pub(super) fn decide(&mut self, members: &Members<'_>, ticket: Ticket, wait: Wait, now: Instant) -> Decision {
        let majority = majority(members.io());
        let Some(attempt) = self.by_ticket.get(&ticket) else {
            return Decision::Open;
        };
        let Some(round) = &attempt.round else {
            return Decision::Open;
        };
        let is_granted = round.deadline(majority).is_some_and(|deadline| deadline > now);
        let is_open = round.is_open(majority, members.io().connected());
        if round.answers() >= majority {
            let name = attempt.request.name.clone();
            self.note_contact(&name, now);
        }
        if is_granted {
            Decision::Granted
        } else if wait == Wait::IsOver || !is_open {
            Decision::NoMajority
        } else {
            Decision::Open
        }
    }

    /// Removes a quorum attempt that a majority granted, and returns the data of its hold.
    pub(super) fn granted(&mut self, members: &mut Members<'_>, ticket: Ticket) -> Option<NewHold> {
        let attempt = self.by_ticket.remove(&ticket)?;
        self.leave_queue(members, ticket, &attempt.request.name);
        let (granted, unanswered) = attempt.round?.into_members();
        Some(NewHold {
            name: attempt.request.name,
            context: attempt.request.context,
            members: granted,
            unanswered,
            is_renewed: attempt.request.lease.is_renewed(),
        })
    }

    /// Handles a round without a majority, and schedules the next round after a pause. Returns `true` if no round
    /// follows, because it would be useless or the caller does not wait for it.
    pub(super) fn round_failed(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) -> bool {
        let attempt = self.by_ticket.get_mut(&ticket);
        let Some((attempt, round)) = attempt.and_then(|attempt| attempt.round.take().map(|round| (attempt, round)))
        else {
            return false;
        };
        let mut no_majority = round.no_majority(members.io());
        let since = if attempt.is_single_attempt() {
            now - RECENT
        } else {
            attempt.started
        };
        let lease = LeasePlan::of(attempt.request.lease, members.io().config().lease).length;
        no_majority.slowness = round.slowness(members.io(), lease, since);
        match no_majority.slowness {
            Some(_) => attempt.lateness.again(),
            None => attempt.lateness.over(),
        }
        let lateness = attempt.lateness;
        let is_too_slow = lateness.is_lasting() && attempt.request.wait.is_none();
        round.undo(members, now);
        members.stop(Timer::Round(ticket));
        let is_silent = attempt.request.wait.is_none()
            && now.saturating_since(attempt.last_contact) >= members.io().silence_timeout();
        let is_outage = outage(members.io(), &attempt.request, now).is_some();
        let is_over = attempt.is_single_attempt() || attempt.is_graced || is_silent;
        let ends = is_over || is_too_slow || no_majority.is_fatal() || is_outage;
        let name = attempt.request.name.clone();
        self.note(&name, &no_majority);
        // The first waiter asks for all waiters, so they share the count.
        self.for_all(&name, |attempt| attempt.lateness = lateness);
        if !ends {
            let longer = lateness.pause().map(|range| members.random_between(range));
            let pause = members.random_between(PAUSE).saturating_add(longer.unwrap_or_default());
            members.set(Timer::Pause(ticket), now + pause);
        }
        ends
    }

    /// Prolongs the wait of a quorum attempt whose wait is over, once. Returns whether it did. The wait is prolonged if
    /// this waiter knows the result of no round yet, a round for the lock is in progress, and a majority of the
    /// primaries is connected or connecting.
    pub(super) fn prolong_once(&mut self, members: &Members<'_>, ticket: Ticket) -> bool {
        let io = members.io();
        let may_answer = primaries(io).filter(|node| io.is_connected(*node) || io.is_connecting(*node));
        if may_answer.count() < majority(io) {
            return false;
        }
        let name = self.name(ticket).cloned();
        let first = name.and_then(|name| self.first(&name));
        let is_asking = |first| {
            self.by_ticket
                .get(&first)
                .is_some_and(|attempt| attempt.round.is_some())
        };
        if !first.is_some_and(is_asking) {
            return false;
        }
        let attempt = self.by_ticket.get_mut(&ticket);
        let attempt = attempt.filter(|attempt| !attempt.is_graced && !attempt.last.is_of_a_round());
        attempt.map(|attempt| attempt.is_graced = true).is_some()
    }

    /// Whether the wait of a quorum attempt was prolonged.
    pub(super) fn is_graced(&self, ticket: Ticket) -> bool {
        self.by_ticket.get(&ticket).is_some_and(|attempt| attempt.is_graced)
    }

    /// Returns the outcome of a quorum attempt that ends without the lock, because its wait is over or its rounds are
    /// useless.
    pub(super) fn refusal(
        &self,
        members: &Members<'_>,
        ticket: Ticket,
        is_held: bool,
        now: Instant,
    ) -> Option<Outcome> {
        let attempt = self.by_ticket.get(&ticket)?;
        if let Some(outcome) = outage(members.io(), &attempt.request, now).filter(|_| !is_held) {
            return Some(outcome);
        }
        let waited = (!attempt.is_single_attempt()).then(|| now.saturating_since(attempt.started));
        let mut no_majority = attempt.last.clone();
        if let Some(round) = &attempt.round {
            no_majority = no_majority.and(round.no_majority(members.io()));
        }
        // While a lease of this client holds the lock, no waiter asks. The hold counts as an answer.
        no_majority.is_answered |= is_held;
        let error = no_majority.into_error(waited).with_lock(attempt.request.name.as_str());
        Some(match error.kind() {
            ErrorKind::LockTimeout => Outcome::NotGranted(error),
            _ => Outcome::Failed(error),
        })
    }

    /// Returns the outcome of a single attempt that has no round of its own.
    pub(super) fn refusal_unasked(&self, ticket: Ticket, is_held: bool) -> Option<Outcome> {
        let attempt = self.by_ticket.get(&ticket)?;
        let is_silent = !is_held && attempt.last.is_of_a_round() && !attempt.last.is_answered;
        let lock = attempt.request.name.as_str();
        Some(if is_silent {
            Outcome::Failed(attempt.last.clone().into_error(None).with_lock(lock))
        } else {
            let cause =
                Cause::new("this client holds it, or waits for it already").with_advice("wait longer or try again");
            let error = Error::new(ErrorKind::LockTimeout, Operation::Acquire, "not granted").with_cause(cause);
            Outcome::NotGranted(error.with_lock(lock))
        })
    }

    /// Removes a quorum attempt, and returns its lock. The grants of its round are released, late ones too.
    pub(super) fn remove(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) -> Option<LockName> {
        let attempt = self.by_ticket.remove(&ticket)?;
        if let Some(round) = attempt.round {
            round.undo(members, now);
        }
        self.leave_queue(members, ticket, &attempt.request.name);
        Some(attempt.request.name)
    }

    fn leave_queue(&mut self, members: &mut Members<'_>, ticket: Ticket, name: &LockName) {
        for timer in [Timer::QuorumWait(ticket), Timer::Pause(ticket), Timer::Round(ticket)] {
            members.stop(timer);
        }
        if let Some(queue) = self.queues.get_mut(name) {
            queue.retain(|waiting| *waiting != ticket);
            if queue.is_empty() {
                self.queues.remove(name);
            }
        }
    }

    /// Notes that a lease of this client held the lock until now, so that no waiter asked.
    pub(super) fn was_held_here(&mut self, name: &LockName, now: Instant) {
        self.note_contact(name, now);
        self.note(name, &NoMajority::held_here());
    }

    /// Notes that a majority answered, or that no waiter had to ask. For all waiters of the lock, the silence of the
    /// servers counts from now.
    fn note_contact(&mut self, name: &LockName, now: Instant) {
        self.for_all(name, |attempt| attempt.last_contact = now);
    }

    /// Notes the result of the last round for all waiters of the lock.
    fn note(&mut self, name: &LockName, last: &NoMajority) {
        self.for_all(name, |attempt| attempt.last = last.clone());
    }

    /// Changes all waiters of a lock, because the first waiter asks for all of them.
    fn for_all(&mut self, name: &LockName, change: impl Fn(&mut Attempt)) {
        for ticket in self.queues.get(name).into_iter().flatten() {
            if let Some(attempt) = self.by_ticket.get_mut(ticket) {
                change(attempt);
            }
        }
    }
}

/// The shortest response timeout of a round, unless the command timeout is shorter.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(50);
/// The longest response timeout of a round.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(500);
/// The ratio of the lease to the response timeout, if the timeout is between these two bounds.
const LEASE_BY_TIMEOUT: u32 = 10;

/// Returns the response timeout of a round for a lease.
pub(super) fn response_timeout(io: &Io, lease: Duration) -> Duration {
    let timeout = lease.checked_div(LEASE_BY_TIMEOUT).unwrap_or_default();
    let timeout = timeout.clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
    timeout.min(io.config().command_timeout)
}

/// A round: the answers of the primaries so far.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The primaries that have not answered. A primary without a connection is asked when it is connected.
    unanswered: SortedMap<Ticket, NodeId>,
    /// The mutexes that were granted, each with its deadline.
    granted: SortedMap<LeaseId, Instant>,
    refused: usize,
    /// The holder of the lock, as a primary that refused named it.
    holder: Option<Holder>,
    /// The error of a primary that failed.
    failure: Option<Error>,
    /// The response timeout.
    timeout: Duration,
}

impl Round {
    /// Makes a round that waits for these answers until the response timeout is over.
    pub(super) fn new(unanswered: SortedMap<Ticket, NodeId>, timeout: Duration) -> Self {
        Self {
            unanswered,
            timeout,
            ..Self::default()
        }
    }

    /// Handles the answer of a primary.
    pub(super) fn answered(&mut self, member: Ticket, outcome: Outcome) {
        self.unanswered.remove(&member);
        match outcome {
            Outcome::Granted(grant) => {
                self.granted.insert(grant.lease, grant.deadline);
            }
            Outcome::NotGranted(error) => {
                self.refused = self.refused.saturating_add(1);
                self.holder = error.holder().cloned();
            }
            // The error of a misconfigured server matters more than that of a silent one.
            Outcome::Failed(error) if !self.failure.as_ref().is_some_and(is_fatal) => {
                self.failure = Some(error);
            }
            _ => {}
        }
    }

    /// Removes a granted mutex that is lost. Returns `false` if the round has no such mutex.
    pub(super) fn lost(&mut self, member: LeaseId) -> bool {
        self.granted.remove(&member).is_some()
    }

    /// Returns how many primaries granted or refused their mutex.
    pub(super) fn answers(&self) -> usize {
        self.granted.len().saturating_add(self.refused)
    }

    /// Returns the deadline until which a majority of the granted mutexes can be relied on; `None` without a majority.
    pub(super) fn deadline(&self, majority: usize) -> Option<Instant> {
        last_of_majority(self.granted.values(), majority)
    }

    /// Whether the round waits for missing answers: because too few primaries have answered, and enough still can; or
    /// because a majority can still grant the lock.
    pub(super) fn is_open(&self, majority: usize, connected: &SortedSet<NodeId>) -> bool {
        if self.answers() < majority {
            return self.answers().saturating_add(self.unanswered.len()) >= majority;
        }
        // A majority has answered, which is enough to refuse the lock. The round does not wait for connections any
        // more.
        let to_come = self.unanswered.values().filter(|node| connected.contains(node));
        self.granted.len().saturating_add(to_come.count()) >= majority
    }

    /// Returns the cause, if the primaries are too slow for the response timeout: if the missing primaries take as long
    /// as their last round trips, a majority answers after the timeout. Only round trips that ended at `since` or later
    /// count. `lease` is the requested lease.
    pub(super) fn slowness(&self, io: &Io, lease: Duration, since: Instant) -> Option<Cause> {
        let missing = majority(io).checked_sub(self.answers())?;
        let late = self.unanswered.values().filter_map(|node| io.round_trip(*node, since));
        let late: BinaryHeap<Duration> = late.filter(|took| *took > self.timeout).collect();
        let late = late.into_sorted_vec();
        let took = whole_millis(*late.get(missing.checked_sub(1)?)?);
        let timeout = self.timeout;
        let cause = Cause::new(format!(
            "the primaries take {took:?} to answer, and with a lease of {} a round waits {}",
            brief(lease),
            brief(timeout)
        ));
        let command_timeout = io.config().command_timeout;
        Some(cause.with_advice(match took {
            took if took >= LONGEST_TIMEOUT => format!("they have to answer within {LONGEST_TIMEOUT:?}"),
            took if took >= command_timeout => format!("the command timeout must be longer than {took:?}"),
            took => format!(
                "the lease must be longer than {:?}",
                took.saturating_mul(LEASE_BY_TIMEOUT)
            ),
        }))
    }

    /// Returns why the round has no majority so far.
    pub(super) fn no_majority(&self, io: &Io) -> NoMajority {
        let silence = || {
            let mut silent = self.unanswered.values();
            // The loss of a connection says more than a missing answer.
            let away = silent.clone().find(|node| !io.is_connected(**node));
            let node = away.or_else(|| silent.next())?;
            Some(Error::caused(
                ErrorKind::Unavailable,
                Operation::Acquire,
                io.silence_of(*node),
            ))
        };
        NoMajority {
            holder: self.holder.clone(),
            is_answered: self.answers() >= majority(io),
            failure: self.failure.clone().or_else(silence),
            slowness: None,
        }
    }

    /// Releases all grants of the round, and cancels the requests that are not answered.
    pub(super) fn undo(self, members: &mut Members<'_>, now: Instant) {
        members.cancel_all(self.unanswered.keys(), now);
        for lease in self.granted.into_keys() {
            members.discard(lease, now);
        }
    }

    /// Returns the granted mutexes with their deadlines, and the tickets that are not answered yet.
    pub(super) fn into_members(self) -> (SortedMap<LeaseId, Instant>, Vec<Ticket>) {
        (self.granted, self.unanswered.into_keys().collect())
    }
}

/// The reason why there was no majority.
#[derive(Clone, Debug, Default)]
pub(super) struct NoMajority {
    /// The holder of the lock, as one of the primaries named it.
    pub(super) holder: Option<Holder>,
    /// Whether a majority answered.
    pub(super) is_answered: bool,
    /// The error of a primary that failed or did not answer.
    pub(super) failure: Option<Error>,
    /// The reason why a majority answers too late, with advice.
    pub(super) slowness: Option<Cause>,
}

impl NoMajority {
    /// Makes the result for waiters that needed no round, because this client held the lock.
    pub(super) const fn held_here() -> Self {
        Self {
            holder: None,
            is_answered: true,
            failure: None,
            slowness: None,
        }
    }

    /// Whether a round has named a holder or a failure. A hold of this client alone names neither.
    pub(super) const fn is_of_a_round(&self) -> bool {
        self.holder.is_some() || self.failure.is_some()
    }

    /// Whether another round would be useless. Failures of a minority do not matter while a majority answers.
    pub(super) fn is_fatal(&self) -> bool {
        !self.is_answered && self.failure.as_ref().is_some_and(is_fatal)
    }

    /// Combines two results. If both have a part, the part of `self` counts.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            holder: self.holder.or(other.holder),
            is_answered: self.is_answered || other.is_answered,
            failure: self.failure.or(other.failure),
            slowness: self.slowness.or(other.slowness),
        }
    }

    /// Returns the error for a caller that waited this long; `None` for a single attempt.
    pub(super) fn into_error(self, waited: Option<Duration>) -> Error {
        match self.failure {
            Some(error) if is_fatal(&error) && !self.is_answered => error,
            _ if self.is_answered => {
                let after = waited.map_or_else(String::new, |waited| format!(" after {}", brief(waited)));
                let cause = Cause::new("no majority of the primaries was free");
                Error::new(
                    ErrorKind::LockTimeout,
                    Operation::Acquire,
                    format!("not granted{after}"),
                )
                .with_cause(cause.with_advice("wait longer or try again"))
                .with_holder(self.holder)
            }
            failure => {
                let within = waited.map_or_else(|| "in time".into(), |waited| format!("within {}", brief(waited)));
                let cause = failure.as_ref().map_or_else(|| "no answer".into(), Cause::from);
                let what = format!("no majority of the primaries answered {within}");
                let error = Error::new(ErrorKind::Unavailable, Operation::Acquire, what);
                match self.slowness {
                    Some(slowness) => error.with_cause(slowness),
                    None => error.with_cause(cause).with_advice("check that they are up"),
                }
            }
        }
    }
}

/// Whether another attempt would be useless.
const fn is_fatal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::InvalidArgument)
}
