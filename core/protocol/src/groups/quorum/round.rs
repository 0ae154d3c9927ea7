//! One round of a quorum attempt: every primary is asked for its mutex once.

use std::collections::BinaryHeap;
use std::time::Duration;

use super::majority::{last_of_majority, majority};
use crate::cause::Cause;
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::groups::members::Members;
use crate::ids::{LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::lateness::whole_millis;
use crate::sorted::{SortedMap, SortedSet};
use crate::types::Outcome;
use crate::wording::brief;

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
