//! RedLock: one lock on several independent primaries, granted by a majority of them.
//!
//! ```text
//!            first waiter, not held here
//!  Queued ─────────────────────────► Asking ── a majority granted, in time ──► a quorum hold
//!                                     │  ▲
//!                 no majority, or late│  │ 10–200 ms at random
//!                 what was granted    ▼  │
//!                 is released        Pausing
//!
//!  Asking ── no majority for a single attempt, or another round would be useless ──► gone
//!  any state ── the wait is over, cancelled, closed ──► gone; what was granted is released
//! ```
//!
//! Each primary has an ordinary mutex, which is held and renewed on its own. These mutexes are the members. A round
//! asks every primary for its mutex once.
//!
//! A primary that does not answer does not delay the others. A primary without a connection is asked as soon as it is
//! connected, if the round is still open. A round waits for such a primary only while no majority has answered, and no
//! longer than the response timeout. If the primaries are too slow for two rounds in a row, the pause becomes longer;
//! after five in a row, a wait without a bound fails.
//!
//! A holder can rely on a quorum hold while it can rely on a majority of the members. With three primaries, the
//! deadline of the hold is therefore the second latest of its members' deadlines. A mutex that was lost is not acquired
//! again, and no longer counts in this hold.

mod attempts;
mod holds;

use self::attempts::{Attempts, Decision, Wait};
use self::holds::{Broadcasts, QuorumHolds};

use super::Input;
use super::members::{Completed, MemberEvent, Members};
use crate::LostReason;
use crate::breakers::Outage;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{Context, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Kind};
use crate::lease::LeaseDuration;
use crate::machines::waiters::refused_unasked;
use crate::name::LockName;
use crate::periods::FIRST_ANSWER_GRACE;
use crate::timers::Timer;
use crate::types::{AcquireRequest, Outcome};

/// The error for kinds and questions that several primaries do not support.
pub(crate) const SIMPLE_LOCKS_ONLY: &str = "a majority of primaries keeps simple locks only; use lock() or mutex()";

/// The locks of a client with several primaries.
#[derive(Debug, Default)]
pub(crate) struct Quorum {
    attempts: Attempts,
    holds: QuorumHolds,
    broadcasts: Broadcasts,
}

impl Quorum {
    pub(crate) fn input(&mut self, members: &mut Members<'_>, input: Input, now: Instant) {
        match input {
            Input::Acquire(ticket, request) => self.acquire(members, ticket, request, now),
            Input::Release(ticket, lease) => self.release(members, ticket, lease, now),
            Input::Extend { ticket, lease, by } => self.extend(members, ticket, lease, by, now),
            Input::Inspect { ticket, name, question } => {
                self.broadcasts.inspect(members, ticket, name, question, now);
                self.broadcasts.decide(members, &self.holds, ticket);
            }
            Input::Cancel(ticket) => {
                self.withdraw(members, ticket, now);
                self.broadcasts.stop(members, ticket);
            }
            Input::Timer(timer) => self.timer(members, timer, now),
            Input::Close => self.holds.close(members),
            // Several RedLocks make no multi-lock.
            Input::AcquireAll(..) => {}
        }
    }

    /// Handles the events of members until there are none.
    pub(crate) fn settle(&mut self, members: &mut Members<'_>, now: Instant) {
        while let Some(event) = members.next_member_event(now) {
            match event {
                MemberEvent::Completed(completed) => self.primary_answered(members, completed, now),
                MemberEvent::Lost(of, reason) => {
                    if self.holds.member_lost(members, of, reason, now) {
                        self.lose(members, of.composite, reason, now);
                    }
                }
                MemberEvent::LostBefore(member, _) => self.attempts.member_lost(members, member, now),
                MemberEvent::Renewed { of, deadline } => self.holds.member_renewed(members, of, deadline, now),
                // The mutex of a primary is never re-entered.
                MemberEvent::Entered(..) => {}
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        let waiting = self.attempts.len().saturating_add(self.broadcasts.len());
        waiting.saturating_add(self.holds.len())
    }

    /// Whether a lease is that of a quorum hold.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.holds.has(lease)
    }

    /// Returns the leases of a context (a thread or task) on a lock, newest last.
    pub(crate) fn of_context(&self, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        self.holds.of_context(name, context)
    }

    /// Returns the tickets of the callers that wait for a majority.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        self.attempts.tickets().chain(self.broadcasts.tickets()).collect()
    }

    fn acquire(&mut self, members: &mut Members<'_>, ticket: Ticket, request: AcquireRequest, now: Instant) {
        if let Some(error) = refusal(&request).or_else(|| self.holds.self_wait_error(&request, now)) {
            members.complete(ticket, Outcome::Failed(error));
            return;
        }
        if let Some(outcome) = outage(members.io(), &request, now) {
            members.complete(ticket, outcome);
            return;
        }
        let wait = request.wait;
        let is_held = self.holds.is_held(&request.name);
        let is_single_attempt = wait.is_some_and(|wait| wait.is_zero());
        self.attempts.add(ticket, request, now);
        if !is_held && self.attempts.is_first(ticket) {
            self.attempts.ask(members, ticket, now);
        } else if is_single_attempt && let Some(outcome) = self.attempts.refusal_unasked(ticket, is_held) {
            self.withdraw(members, ticket, now);
            members.complete(ticket, outcome);
            return;
        }
        if let Some(wait) = wait.filter(|_| !is_single_attempt) {
            members.set(Timer::QuorumWait(ticket), now + wait);
        }
    }

    /// Handles the answer of a primary: to a broadcast, to the round of a quorum attempt, or to a round that was
    /// granted before.
    fn primary_answered(&mut self, members: &mut Members<'_>, completed: Completed, now: Instant) {
        let ticket = completed.caller;
        if self.broadcasts.has(ticket) {
            self.broadcasts.answered(completed);
            self.broadcasts.decide(members, &self.holds, ticket);
        } else if self.attempts.has(ticket) {
            self.attempts.answered(completed);
            self.decide(members, ticket, Wait::Continues, now);
        } else {
            self.holds
                .late_answer(members, completed.member, completed.outcome, now);
        }
    }

    fn timer(&mut self, members: &mut Members<'_>, timer: Timer, now: Instant) {
        match timer {
            Timer::Round(ticket) => self.decide(members, ticket, Wait::IsOver, now),
            Timer::Majority(lease) => self.lose(members, lease, LostReason::Expired, now),
            Timer::Pause(ticket) => self.attempts.pause_over(members, ticket, now),
            Timer::QuorumWait(ticket) => self.wait_over(members, ticket, now),
            _ => {}
        }
    }

    /// Handles the result of a round, if it is known by now.
    fn decide(&mut self, members: &mut Members<'_>, ticket: Ticket, wait: Wait, now: Instant) {
        match self.attempts.decide(members, ticket, wait, now) {
            Decision::Open => {}
            Decision::Granted => {
                if let Some(hold) = self.attempts.granted(members, ticket) {
                    self.holds.add(members, ticket, hold, now);
                }
            }
            Decision::NoMajority => {
                if self.attempts.round_failed(members, ticket, now) {
                    self.refuse(members, ticket, now);
                }
            }
        }
    }

    /// Handles the end of a caller's wait. If no majority has answered yet and the first answers are still due, the
    /// wait is prolonged once, by `FIRST_ANSWER_GRACE`.
    fn wait_over(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
        let is_held = self.is_held(ticket);
        let outcome = self.attempts.refusal(members, ticket, is_held, now);
        if matches!(outcome, Some(Outcome::Failed(_))) && self.attempts.prolong_once(members, ticket) {
            members.set(Timer::QuorumWait(ticket), now + FIRST_ANSWER_GRACE);
        } else {
            self.refuse(members, ticket, now);
        }
    }

    /// Whether this client holds the lock that a caller wants.
    fn is_held(&self, ticket: Ticket) -> bool {
        let name = self.attempts.name(ticket);
        name.is_some_and(|name| self.holds.is_held(name))
    }

    /// Completes the ticket of a caller that does not get the lock.
    fn refuse(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
        let is_held = self.is_held(ticket);
        if let Some(outcome) = self.attempts.refusal(members, ticket, is_held, now) {
            if self.attempts.is_graced(ticket) {
                let until = members.io().due(Timer::QuorumWait(ticket));
                members.io_mut().name_by(ticket, &outcome, until, now);
            }
            members.complete(ticket, outcome);
            self.withdraw(members, ticket, now);
        }
    }

    /// Removes a caller that no longer waits, and lets the first waiter of its lock ask.
    fn withdraw(&mut self, members: &mut Members<'_>, ticket: Ticket, now: Instant) {
        if let Some(name) = self.attempts.remove(members, ticket, now) {
            self.advance(members, &name, now);
        }
    }

    /// Starts a round for the first waiter of a lock, if this client does not hold the lock and the waiter does not ask
    /// or pause already.
    fn advance(&mut self, members: &mut Members<'_>, name: &LockName, now: Instant) {
        if !self.holds.is_held(name) {
            self.attempts.ask_for_first(members, name, now);
        }
    }

    /// Handles the loss of a quorum hold.
    fn lose(&mut self, members: &mut Members<'_>, lease: LeaseId, reason: LostReason, now: Instant) {
        if let Some(name) = self.holds.lose(members, lease, reason, now) {
            self.attempts.was_held_here(&name, now);
            self.advance(members, &name, now);
        }
    }

    fn release(&mut self, members: &mut Members<'_>, ticket: Ticket, lease: LeaseId, now: Instant) {
        let Some(released) = self.holds.release(members, ticket, lease, now) else {
            return;
        };
        if let Some(reason) = released.lost {
            members.cancel_all(&released.releases, now);
            members.complete(ticket, Outcome::Released(reason.outcome()));
        } else {
            self.attempts.was_held_here(&released.name, now);
            self.broadcasts.release(ticket, released.releases);
            self.broadcasts.decide(members, &self.holds, ticket);
        }
        self.advance(members, &released.name, now);
    }

    fn extend(
        &mut self,
        members: &mut Members<'_>,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) {
        let extensions = self.holds.extend(members, ticket, lease, by, now);
        self.broadcasts.extend(ticket, lease, extensions);
        self.broadcasts.decide(members, &self.holds, ticket);
    }
}

/// Returns the error for a request that several primaries do not support.
fn refusal(request: &AcquireRequest) -> Option<Error> {
    let message = if request.within.is_some() {
        "a RedLock is not reentrant; leave `within` out"
    } else if request.kind.spec().by_majority {
        return None;
    } else {
        SIMPLE_LOCKS_ONLY
    };
    let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message);
    Some(error.with_lock(request.name.as_str()))
}

fn majority(io: &Io) -> usize {
    usize::from(io.config().primaries / 2).saturating_add(1)
}

fn primaries(io: &Io) -> impl Iterator<Item = NodeId> + use<> {
    (0..io.config().primaries).map(NodeId)
}

/// Returns the outcome for a caller while so many circuit breakers are open that the other primaries are no majority.
fn outage(io: &Io, request: &AcquireRequest, now: Instant) -> Option<Outcome> {
    if !io.breakers().is_any_open() {
        return None;
    }
    let keys = primaries(io).map(|node| Keys::new(Kind::Mutex, &request.name, node));
    let silent: Vec<&Outage> = keys.filter_map(|keys| io.outage(&keys)).collect();
    let serving = usize::from(io.config().primaries).saturating_sub(silent.len());
    let oldest = silent.into_iter().min_by_key(|outage| outage.since);
    let oldest = oldest.filter(|_| serving < majority(io))?;
    Some(refused_unasked(
        oldest,
        ErrorKind::Unavailable,
        &request.name,
        request.on_unavailable,
        now,
    ))
}

/// Returns the deadline until which a majority of the members can be relied on: the `majority`-th latest. `None`
/// without a majority.
fn last_of_majority<'a>(deadlines: impl IntoIterator<Item = &'a Instant>, majority: usize) -> Option<Instant> {
    // There are at most fifteen primaries, so sorting by insertion is fast enough.
    let mut latest_first: Vec<Instant> = Vec::new();
    for deadline in deadlines {
        let at = latest_first.partition_point(|later| later > deadline);
        latest_first.insert(at, *deadline);
    }
    latest_first.get(majority.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_quorum_hold_lasts_as_long_as_the_last_of_its_majority() {
        let at = |millis: &u64| Instant::ZERO + Duration::from_millis(*millis);
        let deadlines: Vec<Instant> = [50, 10, 40, 30].iter().map(at).collect();
        assert_eq!(last_of_majority(&deadlines, 3), Some(at(&30)));
        assert_eq!(last_of_majority(&deadlines, 5), None);
    }
}
