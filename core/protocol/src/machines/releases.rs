//! Owed releases: the releases of callers, and the compensating releases of unresolved attempts, which may have been
//! granted the lock.
//!
//! ```text
//!             connected              answered
//!   Waiting ────────────► Sent(call) ─────────► done, or Waiting once more if an
//!      ▲                     │                  attempt of the same owner was cut
//!      │ pause, connected    │ overdue, error,  off and may yet run
//!      └─────────────────────┘ disconnected
//!
//!   a new release ──► Sent; Waiting if no lane is open for it, or for the TTL of an expired lease
//!   Waiting for the TTL of an expired lease ── the client closes ──► Sent
//!   Waiting ── an attempt that the release overtook is answered ──► Sent once more
//!   Waiting ── an overdue release is answered ──► done
//!   Sent ── answered, but perhaps run before an attempt of the same owner ──► Sent once more
//!   Sent on the renewal lane ── the command lane opens ──► Sent once more
//!   any state ── the record's TTL has certainly passed ──► done
//! ```
//!
//! A client sends calls to a server on two connections, called lanes. It sends a release on the command lane, after all
//! earlier calls of the same owner. While the command lane is closed, it sends the release on the renewal lane, but
//! only if no earlier call of the same owner can run after the release.
//!
//! A release removes only the record of its own owner, so it is idempotent. The caller waits at most one command
//! timeout; after that the release is retried in the background.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::Table;

use super::abandoned_owners::AbandonedOwners;
use crate::calls::{Answered, Purpose, Resolved, Successor, Unresolved};
use crate::ending::ReleaseOutcome;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{CallId, LockId, NodeId, ReleaseId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Record, parse_grant, parse_record};
use crate::owner::OwnerId;
use crate::periods::MAX_ATTEMPT;
use crate::reply::{CallError, Refusal, Reply};
use crate::run::{Ending, RunEnd};
use crate::step::{FairInput, Owed, OwnerSeen, Report, Step};
use crate::timers::Timer;
use crate::transitions;
use crate::types::{Lane, Outcome};
use crate::wording::explain;

/// The pause after a temporary error.
const ERROR_PAUSE: Duration = Duration::from_millis(200);
/// The pause after the connection of a release closed. The pause is short, because the next connection may be open.
const DISCONNECTED_PAUSE: Duration = Duration::from_millis(1);

/// The events that concern releases.
#[derive(Debug)]
pub(crate) enum Input {
    /// A release is owed.
    Owed(Owed),
    /// The timer of a release has fired: the release must be sent, or the TTL of its record has passed.
    Due(ReleaseId),
    /// The bytes of a release are about to be written to the socket.
    Sent(ReleaseId),
    /// A release was answered, or was cut off.
    Answered(ReleaseId, Answered),
    /// The reply to a release is overdue.
    Overdue(ReleaseId, CallId),
    /// An attempt of the release's owner was answered, or was cut off.
    Resolved(ReleaseId, Resolved),
    /// The wait of a release's caller is over.
    WaitOver(ReleaseId),
    /// The caller no longer waits; the release goes on.
    Cancelled(Ticket),
    /// These lanes of a node have opened.
    Connected { node: NodeId, opened: Vec<Lane> },
    /// The client closes.
    Closed,
    /// An owner id of this client holds the lock with these keys.
    OwnerSeen(OwnerSeen, Arc<Keys>),
}

/// The releases of a client.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    last: ReleaseId,
    by_id: Table<ReleaseId, Release>,
    /// The releases that callers wait for.
    by_ticket: Table<Ticket, ReleaseId>,
    abandoned: AbandonedOwners,
}

/// A release that is owed.
#[derive(Debug)]
struct Release {
    lock: LockId,
    keys: Arc<Keys>,
    owner: OwnerId,
    /// How the run ended; means nothing for other kinds than jobs.
    end: Ending,
    /// The caller that waits for the release.
    ticket: Option<Ticket>,
    /// The deadline of the hold; `None` for a compensating release.
    deadline: Option<Instant>,
    /// When the TTL of the record has certainly passed.
    until: Instant,
    /// The call in flight.
    call: Option<CallId>,
    /// The lane of the last call.
    lane: Lane,
    /// When the release was first sent.
    first_sent: Option<Instant>,
    /// Whether an earlier call was sent and its connection closed. Such a call may have removed the record.
    unanswered: bool,
    /// An earlier call on the renewal lane that may still be answered.
    other_lane: Option<CallId>,
    /// The unresolved attempts of the same owner.
    unresolved: Unresolved,
    /// The attempts that may run after the release, so that the release must be sent once more.
    late: Unresolved,
    /// Whether an attempt was answered while the release was in flight, and the client does not know which ran first.
    is_order_unknown: bool,
    /// The earliest time to send the release. The release of an expired lease waits for the TTL, because the program
    /// may still be in its critical section. A repeated release waits for attempts that may still run.
    not_before: Option<Instant>,
}

impl Releases {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Owed(owed) => self.add(io, owed, now),
            Input::Due(id) => self.send(io, id, now),
            Input::Sent(id) => {
                if let Some(release) = self.by_id.get_mut(&id) {
                    release.first_sent.get_or_insert(now);
                }
            }
            Input::Answered(id, answered) => self.answered(io, id, &answered, now),
            Input::Overdue(id, call) => self.overdue(io, id, call, now),
            Input::Resolved(id, resolved) => self.resolved(io, id, resolved, now),
            Input::WaitOver(id) => self.answer(io, id, Outcome::Released(ReleaseOutcome::Unknown)),
            Input::Cancelled(ticket) => {
                let release = self.by_ticket.remove(&ticket);
                if let Some(release) = release.and_then(|id| self.by_id.get_mut(&id)) {
                    release.ticket = None;
                }
            }
            Input::Connected { node, opened } => self.connected(io, node, &opened, now),
            Input::Closed => self.send_delayed(io, now),
            Input::OwnerSeen(seen, keys) => self.owner_seen(io, seen, keys, now),
        }
        transitions::after(self, io, &before);
    }

    /// Whether no release is owed.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn add(&mut self, io: &mut Io, owed: Owed, now: Instant) {
        self.last = self.last.next();
        let id = self.last;
        if let Some(ticket) = owed.ticket {
            self.by_ticket.insert(ticket, id);
            io.set(Timer::ReleaseWait(id), io.timeout(now));
        }
        // The owner of a hold is no longer a waiter. Only an unresolved attempt can put the owner back into the queue.
        let is_waiter = owed.hold.is_none();
        if owed.keys.kind.queues_on_server() && (is_waiter || owed.unresolved.is_any()) {
            self.abandoned.add(owed.owner.clone(), orphans_end(io, now), now);
        }
        io.add_successor(owed.unresolved.in_flight(), Successor::Release(id));
        let release = Release {
            lock: owed.lock,
            keys: owed.keys,
            owner: owed.owner,
            end: owed.end,
            ticket: owed.ticket,
            deadline: owed.hold.map(|hold| hold.deadline),
            until: owed.hold.map_or_else(|| orphans_end(io, now), |hold| hold.until),
            call: None,
            lane: Lane::Command,
            first_sent: None,
            unanswered: false,
            other_lane: None,
            unresolved: owed.unresolved,
            late: Unresolved::default(),
            is_order_unknown: false,
            not_before: owed.hold.and_then(|hold| hold.not_before),
        };
        self.by_id.insert(id, release);
        self.send(io, id, now);
    }

    /// Sends a release, unless it is in flight, must wait, or has no open lane. Ends it if the TTL of its record has
    /// passed.
    fn send(&mut self, io: &mut Io, id: ReleaseId, now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        let node = release.keys.node;
        if now >= release.until {
            self.settle(io, id);
            return;
        }
        if release.call.is_some() {
            return;
        }
        if let Some(at) = release.not_before.filter(|at| now < *at) {
            // A lane that opens before this time must not send the release.
            io.set(Timer::ReleaseAgain(id), at);
            return;
        }
        if release.first_sent.is_none() {
            // The TTL that the release had to wait for has passed. From now on it is like other releases.
            release.not_before = None;
        }
        let lane = if io.is_open(node, Lane::Command) {
            Lane::Command
        } else if release.may_overtake() && io.is_open(node, Lane::Renewal) {
            Lane::Renewal
        } else {
            io.set(Timer::ReleaseAgain(id), release.until);
            return;
        };
        let invocation = release.keys.release(&release.owner, &release.end);
        let overdue = io.timeout(now);
        release.call = Some(io.call(Purpose::Release(id), node, lane, invocation, Some(overdue)));
        release.lane = lane;
        io.stop(Timer::ReleaseAgain(id));
    }

    /// Sends the releases that wait for the TTL of an expired lease, because the client closes.
    fn send_delayed(&mut self, io: &mut Io, now: Instant) {
        let is_delayed = |release: &Release| release.first_sent.is_none() && release.not_before.is_some();
        let delayed = self.by_id.iter_mut().filter(|(_, release)| is_delayed(release));
        let delayed: Vec<ReleaseId> = delayed
            .map(|(id, release)| {
                release.not_before = None;
                id
            })
            .collect();
        for id in delayed {
            self.send(io, id, now);
        }
    }

    /// Sends the releases that wait for a connection, or for the end of a pause after an error. When the command lane
    /// of a node opens, also repeats its releases in flight on the renewal lane, because that connection may be dead.
    fn connected(&mut self, io: &mut Io, node: NodeId, opened: &[Lane], now: Instant) {
        for id in self.by_id.keys() {
            let release = self.by_id.get_mut(&id);
            if let Some(release) = release.filter(|release| release.keys.node == node)
                && release.lane == Lane::Renewal
                && opened.contains(&Lane::Command)
            {
                let call = release.call.take();
                release.other_lane = call.filter(|_| release.first_sent.is_some());
            }
            self.send(io, id, now);
        }
    }

    fn answered(&mut self, io: &mut Io, id: ReleaseId, answered: &Answered, now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        if release.call == Some(answered.id) {
            release.call = None;
        }
        if release.other_lane == Some(answered.id) {
            release.other_lane = None;
        }
        if let Some(grant) = answered.result.as_ref().ok().and_then(parse_grant) {
            io.step(Step::GrantReplied {
                keys: Arc::clone(&release.keys),
                payload: grant.to_vec(),
            });
        }
        let Some(record) = record_of(&answered.result) else {
            self.not_confirmed(io, id, answered, now);
            return;
        };
        let is_asked_again = release.call.is_some();
        if is_asked_again && !matches!(record, Record::Mine { .. }) {
            // This call did not remove the record. The reply to the call in flight decides the outcome.
            return;
        }
        let (lock, outcome) = (release.lock, release.outcome(record));
        if let Record::Mine { listeners } = record {
            io.step(Step::Published { lock, listeners });
        }
        self.answer(io, id, Outcome::Released(outcome));
        if !is_asked_again {
            // While a call is in flight, the reply to that call decides what follows.
            self.repeat_or_settle(io, id, now);
        }
        io.step(Step::ForgetIfUnused(lock));
    }

    /// Handles that an attempt of the release's owner was answered, or was cut off.
    fn resolved(&mut self, io: &mut Io, id: ReleaseId, resolved: Resolved, now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        if release.unresolved.in_flight().contains(&resolved.attempt) {
            release.unresolved.resolved(resolved);
        } else if release.late.in_flight().contains(&resolved.attempt) {
            release.late.resolved(resolved);
            if release.late.is_any() {
                return;
            }
            // All overtaken attempts have run. The next release removes the record that they may have created.
            if release.call.is_none() {
                release.not_before = None;
                return self.send(io, id, now);
            }
        } else {
            return;
        }
        release.is_order_unknown |= release.call.is_some() && !io.config().keeps_order;
    }

    /// Handles a result that does not say what became of the record: an error, or the loss of the connection.
    fn not_confirmed(&mut self, io: &mut Io, id: ReleaseId, answered: &Answered, now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        release.unanswered |= answered.was_cut();
        if release.call.is_none() {
            let pause = match &answered.result {
                Err(CallError::Disconnected(_)) => DISCONNECTED_PAUSE,
                Err(CallError::Server { code, .. }) if Refusal::of(code) == Refusal::Temporary => ERROR_PAUSE,
                // A retry will hardly help, but the record may still exist.
                _ => io.config().command_timeout,
            };
            io.set(Timer::ReleaseAgain(id), now + pause);
        }
        if let Some(error) = release.refusal(&answered.result) {
            // The caller gets the error now. The release is still retried, because an operator may grant the missing
            // permission while the record still exists.
            self.answer(io, id, Outcome::Failed(error));
        }
    }

    /// Sends a release again, because its reply is overdue.
    fn overdue(&mut self, io: &mut Io, id: ReleaseId, call: CallId, now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        if release.call == Some(call) {
            // The wait of the caller is over by now, so it does not matter that the overdue call may have removed the
            // record.
            release.call = None;
            self.send(io, id, now);
        }
    }

    /// Settles a release that was answered. If an attempt may run after the release, or may have done so, the release
    /// is sent again instead.
    fn repeat_or_settle(&mut self, io: &mut Io, id: ReleaseId, now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        release.late = release.unresolved.take_late_ones();
        if release.late.is_any() {
            let at = io.timeout(now);
            release.not_before = Some(at);
            io.set(Timer::ReleaseAgain(id), at);
        } else if std::mem::take(&mut release.is_order_unknown) {
            self.send(io, id, now);
        } else {
            self.settle(io, id);
        }
    }

    /// Completes the ticket of the caller, if it is not completed yet.
    fn answer(&mut self, io: &mut Io, id: ReleaseId, outcome: Outcome) {
        io.stop(Timer::ReleaseWait(id));
        let ticket = self.by_id.get_mut(&id).and_then(|release| release.ticket.take());
        if let Some(ticket) = ticket {
            self.by_ticket.remove(&ticket);
            io.complete(ticket, outcome);
        }
    }

    fn settle(&mut self, io: &mut Io, id: ReleaseId) {
        self.answer(io, id, Outcome::Released(ReleaseOutcome::Unknown));
        io.stop(Timer::ReleaseAgain(id));
        if let Some(release) = self.by_id.remove(&id) {
            io.step(Step::ForgetIfUnused(release.lock));
        }
    }

    /// Handles a report that this owner id holds a lock. Releases the lock if this client has abandoned the owner id.
    fn owner_seen(&mut self, io: &mut Io, seen: OwnerSeen, keys: Arc<Keys>, now: Instant) {
        let OwnerSeen { lock, owner, report } = seen;
        // An owner id whose release is owed already needs no second release.
        let is_owed = |releases: &Table<ReleaseId, Release>| releases.any(|one| one.owner == owner);
        if !self.abandoned.contains(&owner, now) || is_owed(&self.by_id) {
            return;
        }
        let owed = Owed {
            lock,
            keys,
            owner,
            ticket: None,
            hold: None,
            end: RunEnd::Unused.into(),
            unresolved: Unresolved::default(),
        };
        self.add(io, owed, now);
        if report == Report::Message {
            io.step(Step::Fair(FairInput::AbandonedOwnerReleased(lock)));
        }
    }
}

impl Release {
    /// Whether the release may be sent on the renewal lane. Only the release of a hold may, and only if every earlier
    /// attempt of its owner is answered; otherwise such an attempt could run after the release, on the next connection
    /// of the command lane. The release of a fair lock may not, because a late poll would put its owner back into the
    /// server's queue.
    fn may_overtake(&self) -> bool {
        let is_settled = !self.unresolved.is_any() && self.not_before.is_none();
        self.deadline.is_some() && is_settled && !self.keys.kind.queues_on_server()
    }

    /// Returns the outcome for the caller.
    fn outcome(&self, record: Record) -> ReleaseOutcome {
        // An earlier call that was not answered may have removed the record.
        let is_unanswered = self.unanswered || self.other_lane.is_some();
        match record {
            Record::Mine { .. } => ReleaseOutcome::Released,
            Record::Absent | Record::Others if is_unanswered => match (self.first_sent, self.deadline) {
                (Some(sent), Some(deadline)) if sent < deadline && !self.keys.kind.never_waits() => {
                    ReleaseOutcome::Released
                }
                _ => ReleaseOutcome::Unknown,
            },
            Record::Absent => ReleaseOutcome::Expired,
            Record::Others => ReleaseOutcome::Stolen,
        }
    }

    /// Returns the error for the caller if the client's user on the server lacks a permission that a release needs.
    fn refusal(&self, result: &Result<Reply, CallError>) -> Option<Error> {
        match result {
            Err(CallError::Server { code, message }) if code == "NOPERM" => Some(
                Error::caused(
                    ErrorKind::Misconfigured,
                    Operation::Release,
                    explain(&self.keys, code, message),
                )
                .with_lock(self.keys.name.as_str()),
            ),
            _ => None,
        }
    }
}

/// Returns what the reply to a release says about the record, if anything.
fn record_of(result: &Result<Reply, CallError>) -> Option<Record> {
    match result {
        Ok(reply) => parse_record(reply),
        // The key has a value that is not the record of this kind of lock.
        Err(error) => error.is_of_no_lock().then_some(Record::Others),
    }
}

/// Returns when every record of an attempt that was sent before `now` has expired, even if the attempt runs late.
fn orphans_end(io: &Io, now: Instant) -> Instant {
    io.timeout(now) + MAX_ATTEMPT
}
