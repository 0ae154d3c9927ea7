//! Quorum attempts: the callers that want a lock, their queue, and the rounds of the first caller. In a round every
//! primary is asked for its mutex once.

use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use super::holds::NewHold;
use super::{last_of_majority, majority, outage, primaries};
use crate::defects::Defect;
use crate::error::{Cause, Error, ErrorKind, Holder, Operation};
use crate::groups::members::Members;
use crate::ids::{LeaseId, NodeId, Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Kind;
use crate::lateness::{Lateness, whole_millis};
use crate::lease::LeasePlan;
use crate::name::LockName;
use crate::sorted::{SortedMap, SortedSet};
use crate::timers::Timer;
use crate::types::{AcquireRequest, OnUnavailable, Outcome};
use crate::wording::brief;

/// The pause after a round without a majority.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// A single attempt believes what answers took that came so shortly before.
const RECENT: Duration = Duration::from_secs(1);

/// The quorum attempts of a client.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    by_ticket: SortedMap<Ticket, Attempt>,
    /// The wait queue of each lock, first come, first served; only the first waiter asks the primaries.
    queues: SortedMap<LockName, VecDeque<Ticket>>,
}

/// A caller that wants the lock.
#[derive(Debug)]
struct Attempt {
    request: AcquireRequest,
    started: Instant,
    /// The round that is under way.
    round: Option<Round>,
    /// What the last full round of any waiter of this lock here came to.
    last: NoMajority,
    /// When a majority last answered a waiter of this lock here, or a lease of this client last
    /// held the lock, so that nobody had to ask.
    heard: Instant,
    /// How many rounds in a row a majority answered too late for.
    lateness: Lateness,
    /// Its wait is over, but for the end of its first round.
    is_graced: bool,
}

/// Where a round stands.
pub(super) enum Decision {
    /// More answers have to come.
    Open,
    /// A majority granted the lock, in time.
    Granted,
    /// There is no majority, or it came too late.
    NoMajority,
}

impl Attempt {
    /// Whether its caller does not wait.
    fn tries_once(&self) -> bool {
        self.request.wait.is_some_and(|wait| wait.is_zero())
    }
}

impl Attempts {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len().saturating_add(self.queues.len())
    }

    /// Whether the ticket is that of a quorum attempt.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    /// The tickets of all quorum attempts.
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.by_ticket.keys().copied()
    }

    /// The lock that a quorum attempt wants.
    pub(super) fn name(&self, ticket: Ticket) -> Option<&LockName> {
        Some(&self.by_ticket.get(&ticket)?.request.name)
    }

    /// Whether it is first in the queue of its lock.
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
            heard: now,
            lateness: Lateness::default(),
            is_graced: false,
        };
        self.by_ticket.insert(ticket, attempt);
    }

    /// Asks every primary that is connected at once, the others when they are.
    pub(super) fn ask(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
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
            // Each primary fails by itself; what becomes of the lock is decided here.
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
            members.acquire(member, request.clone(), (node, plan), now);
        }
    }

    /// Nobody here holds the lock: its first waiter asks now, unless it is asking or pauses.
    pub(super) fn ask_for_first(&mut self, members: &mut Members, name: &LockName, now: Instant) {
        let Some(ticket) = self.first(name) else {
            return;
        };
        let is_asking = |attempt: &Attempt| attempt.round.is_some();
        let pauses = members.io().due(Timer::Pause(ticket)).is_some();
        if !pauses && !self.by_ticket.get(&ticket).is_some_and(is_asking) {
            self.ask(members, ticket, now);
        }
    }

    /// A pause is over.
    pub(super) fn pause_over(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let is_idle = |attempt: &Attempt| attempt.round.is_none();
        if self.by_ticket.get(&ticket).is_some_and(is_idle) && self.is_first(ticket) {
            self.ask(members, ticket, now);
        }
    }

    /// A primary answered.
    pub(super) fn answered(&mut self, ticket: Ticket, member: Ticket, outcome: Outcome) {
        let attempt = self.by_ticket.get_mut(&ticket);
        if let Some(round) = attempt.and_then(|attempt| attempt.round.as_mut()) {
            round.answered(member, outcome);
        }
    }

    /// A primary's mutex is lost before its round was decided: it does not count.
    pub(super) fn member_lost(&mut self, members: &mut Members, member: LeaseId, now: Instant) {
        let mut was_granted = false;
        for attempt in self.by_ticket.values_mut() {
            was_granted |= attempt.round.as_mut().is_some_and(|round| round.lost(member));
        }
        if was_granted {
            members.discard(member, now);
        }
    }

    /// Decides the round of a quorum attempt, if it can be decided. One whose response timeout is
    /// over is late, and waits for no more answers.
    pub(super) fn decide(&mut self, members: &Members, ticket: Ticket, is_late: bool, now: Instant) -> Decision {
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
            self.heard_of(&name, now);
        }
        if is_granted {
            Decision::Granted
        } else if is_late || !is_open {
            Decision::NoMajority
        } else {
            Decision::Open
        }
    }

    /// Takes out a quorum attempt that a majority granted.
    pub(super) fn granted(&mut self, members: &mut Members, ticket: Ticket) -> Option<NewHold> {
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

    /// A round came to no majority: the next one follows after a pause. True if it would be of no
    /// use, or the caller does not wait for it.
    pub(super) fn round_failed(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> bool {
        let attempt = self.by_ticket.get_mut(&ticket);
        let Some((attempt, round)) = attempt.and_then(|attempt| attempt.round.take().map(|round| (attempt, round)))
        else {
            return false;
        };
        let mut no_majority = round.no_majority(members.io());
        let since = if attempt.tries_once() {
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
        let is_silent =
            attempt.request.wait.is_none() && now.saturating_since(attempt.heard) >= members.io().longest_silence();
        let is_outage = outage(members.io(), &attempt.request, now).is_some();
        let is_over = attempt.tries_once() || attempt.is_graced || is_silent;
        let ends = is_over || is_too_slow || no_majority.is_fatal() || is_outage;
        let name = attempt.request.name.clone();
        self.note(&name, &no_majority);
        // The first one asks for all of them.
        self.for_all(&name, |attempt| attempt.lateness = lateness);
        if !ends {
            let longer = lateness.pause().map(|range| members.between(range));
            let pause = members.between(PAUSE).saturating_add(longer.unwrap_or_default());
            members.set(Timer::Pause(ticket), now + pause);
        }
        ends
    }

    /// Whether the first round is still open that says anything to a quorum attempt whose wait is over. Then the
    /// attempt waits for that a little longer, once.
    pub(super) fn is_due_grace(&mut self, members: &Members, ticket: Ticket) -> bool {
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

    /// Whether it has waited a little longer.
    pub(super) fn is_graced(&self, ticket: Ticket) -> bool {
        self.by_ticket.get(&ticket).is_some_and(|attempt| attempt.is_graced)
    }

    /// Why a quorum attempt ends without the lock: its wait is over, or its rounds are of no use.
    pub(super) fn refusal(&self, members: &Members, ticket: Ticket, is_held: bool, now: Instant) -> Option<Outcome> {
        let attempt = self.by_ticket.get(&ticket)?;
        if let Some(outcome) = outage(members.io(), &attempt.request, now).filter(|_| !is_held) {
            return Some(outcome);
        }
        let waited = (!attempt.tries_once()).then(|| now.saturating_since(attempt.started));
        let mut no_majority = attempt.last.clone();
        if let Some(round) = &attempt.round {
            no_majority = no_majority.and(round.no_majority(members.io()));
        }
        // Nobody asks while a lease of this client holds it, and that is an answer.
        no_majority.is_answered |= is_held;
        let error = no_majority.into_error(waited).with_lock(attempt.request.name.as_str());
        Some(match error.kind() {
            ErrorKind::LockTimeout => Outcome::NotGranted(error),
            _ => Outcome::Failed(error),
        })
    }

    /// Why a caller that does not wait gets nothing without a round of its own.
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

    /// Takes a quorum attempt out and returns its lock. What it was granted, or may yet be, is
    /// released.
    pub(super) fn remove(&mut self, members: &mut Members, ticket: Ticket, now: Instant) -> Option<LockName> {
        let attempt = self.by_ticket.remove(&ticket)?;
        if let Some(round) = attempt.round {
            round.undo(members, now);
        }
        self.leave_queue(members, ticket, &attempt.request.name);
        Some(attempt.request.name)
    }

    fn leave_queue(&mut self, members: &mut Members, ticket: Ticket, name: &LockName) {
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

    /// While a lease of this client held the lock, nobody here asked for it: the silence of its
    /// waiters begins with their first question, not with their wait.
    pub(super) fn was_held_here(&mut self, members: &Members, name: &LockName, now: Instant) {
        if !members.io().has(Defect::SilenceOfTheHolder) {
            self.heard_of(name, now);
        }
        self.note(name, &NoMajority::held_here());
    }

    /// A majority answered, or nobody had to ask: the silence of all waiters ends.
    fn heard_of(&mut self, name: &LockName, now: Instant) {
        self.for_all(name, |attempt| attempt.heard = now);
    }

    /// What the last round came to, for all waiters.
    fn note(&mut self, name: &LockName, last: &NoMajority) {
        self.for_all(name, |attempt| attempt.last = last.clone());
    }

    /// Changes all waiters of a lock: the first one asks for all of them.
    fn for_all(&mut self, name: &LockName, change: impl Fn(&mut Attempt)) {
        for ticket in self.queues.get(name).into_iter().flatten() {
            if let Some(attempt) = self.by_ticket.get_mut(ticket) {
                change(attempt);
            }
        }
    }
}

/// The bounds of a round's response timeout.
const RESPONSE_TIMEOUT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// Within these bounds the lease is so many times as long.
const LEASE_BY_TIMEOUT: u32 = 10;

/// How long a round waits that asks for such a lease.
pub(super) fn response_timeout(io: &Io, lease: Duration) -> Duration {
    let timeout = lease.checked_div(LEASE_BY_TIMEOUT).unwrap_or_default();
    let timeout = timeout.clamp(RESPONSE_TIMEOUT.0, RESPONSE_TIMEOUT.1);
    timeout.min(io.config().command_timeout)
}

/// What the primaries have answered so far.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The primaries that have not answered; one without a connection is asked when it has one.
    unanswered: SortedMap<Ticket, NodeId>,
    /// The mutexes that were granted, and until when each may be relied on.
    granted: SortedMap<LeaseId, Instant>,
    refused: usize,
    /// The holder of the lock on a primary that refused.
    holder: Option<Holder>,
    /// The error of a primary that failed.
    failure: Option<Error>,
    /// How long it waits.
    timeout: Duration,
}

impl Round {
    /// A round that waits for these answers, no longer than that.
    pub(super) fn new(unanswered: SortedMap<Ticket, NodeId>, timeout: Duration) -> Self {
        Self {
            unanswered,
            timeout,
            ..Self::default()
        }
    }

    /// A primary answered.
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
            // A server that is set up wrongly says more than one that is silent.
            Outcome::Failed(error) if !self.failure.as_ref().is_some_and(is_fatal) => {
                self.failure = Some(error);
            }
            _ => {}
        }
    }

    /// A mutex that was granted is lost: it counts no more. False if the round has no such mutex.
    pub(super) fn lost(&mut self, member: LeaseId) -> bool {
        self.granted.remove(&member).is_some()
    }

    /// How many primaries granted their mutex or refused it.
    pub(super) fn answers(&self) -> usize {
        self.granted.len().saturating_add(self.refused)
    }

    /// Until when the mutexes that were granted may be relied on; `None` without a majority.
    pub(super) fn deadline(&self, majority: usize) -> Option<Instant> {
        last_of_majority(self.granted.values(), majority)
    }

    /// Whether the answers to come may make a majority, or tell why there is none.
    pub(super) fn is_open(&self, majority: usize, connected: &SortedSet<NodeId>) -> bool {
        if self.answers() < majority {
            return self.answers().saturating_add(self.unanswered.len()) >= majority;
        }
        // Enough is known to refuse the lock: the round waits for no connection to hear more.
        let to_come = self.unanswered.values().filter(|node| connected.contains(node));
        self.granted.len().saturating_add(to_come.count()) >= majority
    }

    /// Why there was no majority, if primaries that would make one have answered since then, and take longer than
    /// a round waits that asks for such a lease.
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
            took if took >= RESPONSE_TIMEOUT.1 => format!("they have to answer within {:?}", RESPONSE_TIMEOUT.1),
            took if took >= command_timeout => format!("the command timeout must be longer than {took:?}"),
            took => format!(
                "the lease must be longer than {:?}",
                took.saturating_mul(LEASE_BY_TIMEOUT)
            ),
        }))
    }

    /// Why the round has no majority so far.
    pub(super) fn no_majority(&self, io: &Io) -> NoMajority {
        let silence = || {
            let mut silent = self.unanswered.values();
            // A primary without a connection says more than one that has not answered yet.
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

    /// Releases what was granted, and cancels what is still asked for.
    pub(super) fn undo(self, members: &mut Members, now: Instant) {
        members.cancel_all(self.unanswered.keys(), now);
        for lease in self.granted.into_keys() {
            members.discard(lease, now);
        }
    }

    /// The mutexes that were granted with their deadlines, and the tickets that are not answered yet.
    pub(super) fn into_members(self) -> (SortedMap<LeaseId, Instant>, Vec<Ticket>) {
        (self.granted, self.unanswered.into_keys().collect())
    }
}

/// Why there was no majority.
#[derive(Clone, Debug, Default)]
pub(super) struct NoMajority {
    /// The holder of the lock on one of the primaries that answered.
    pub(super) holder: Option<Holder>,
    /// Whether a majority answered.
    pub(super) is_answered: bool,
    /// The error of a primary that did not.
    pub(super) failure: Option<Error>,
    /// A majority answers too late; why that is, and what helps.
    pub(super) slowness: Option<Cause>,
}

impl NoMajority {
    /// No round was needed: the lock is held here.
    pub(super) const fn held_here() -> Self {
        Self {
            holder: None,
            is_answered: true,
            failure: None,
            slowness: None,
        }
    }

    /// Whether a round came to this: it does not just say that the lock was held here.
    pub(super) const fn is_of_a_round(&self) -> bool {
        self.holder.is_some() || self.failure.is_some()
    }

    /// Whether another round cannot help. While a majority answers, the others may be as they are.
    pub(super) fn is_fatal(&self) -> bool {
        !self.is_answered && self.failure.as_ref().is_some_and(is_fatal)
    }

    /// Both together; where both know something, this one counts.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            holder: self.holder.or(other.holder),
            is_answered: self.is_answered || other.is_answered,
            failure: self.failure.or(other.failure),
            slowness: self.slowness.or(other.slowness),
        }
    }

    /// The error for a caller that waited so long, or for one that did not wait.
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

/// Whether asking again cannot help.
const fn is_fatal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::InvalidArgument)
}
