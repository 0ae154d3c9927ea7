//! Owed releases: a caller's release, or the compensating release for what an abandoned
//! attempt may have been granted.
//!
//! ```text
//!             connected              answered
//!   Waiting ────────────► Sent(call) ─────────► done, or Waiting once more if an
//!      ▲                     │                  attempt of the same owner was cut
//!      │ pause, connected    │ overdue, error,  off and may yet run
//!      └─────────────────────┘ disconnected
//!
//!   Waiting ── the answer to an attempt that it overtook ──► Sent once more
//!   Waiting ── the answer to one that was overdue ──► done
//!   Sent ── by the renewal lane, and that of commands opens ──► Sent once more
//!   any state ── the record's TTL has passed ──► done
//! ```
//!
//! It is sent on the command lane, behind what was sent for its owner before; while that
//! is closed, on the renewal lane, if nothing of its owner can come after it there.
//!
//! A release removes only its own owner's record, so it is idempotent. The caller waits one
//! command timeout at the most; the release does not end with it.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::ghosts::Ghosts;
use crate::calls::{Heir, InFlight, Purpose, Unresolved};
use crate::defects::Defect;
use crate::ending::ReleaseOutcome;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{CallId, LockId, NodeId, ReleaseId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Record, parse_grant, parse_record};
use crate::owner::OwnerId;
use crate::periods::MAX_ATTEMPT;
use crate::reply::{CallError, Refusal, Reply};
use crate::step::{Owed, Step};
use crate::table::Table;
use crate::timers::Timer;
use crate::transitions;
use crate::types::{Lane, Outcome};
use crate::wording::explain;

/// The pause after an error that may pass.
const ERROR_PAUSE: Duration = Duration::from_millis(200);
/// The pause after a connection closed under a release; the next one may be there.
const DISCONNECTED_PAUSE: Duration = Duration::from_millis(1);

/// What happens to releases.
#[derive(Debug)]
pub(crate) enum Input {
    /// One is owed.
    Owed(Owed),
    /// It is due again.
    Due(ReleaseId),
    /// Its bytes are about to go to the socket.
    Sent(ReleaseId),
    /// Its answer came, or its connection closed.
    Answered(ReleaseId, CallId, InFlight, Result<Reply, CallError>),
    /// Its answer did not come in time.
    Overdue(ReleaseId, CallId),
    /// An attempt of its owner was answered, or cut off.
    Resolved(ReleaseId, CallId, bool),
    /// Its caller has waited long enough.
    WaitOver(ReleaseId),
    /// The caller went away; the release goes on.
    Cancelled(Ticket),
    /// These lanes of a node are open again.
    Connected(NodeId, Vec<Lane>),
    /// The client closes.
    Closed,
    /// A lock whose waiters queue on the server is held by this owner, as an answer says, or
    /// a message (then true).
    Seen(LockId, Arc<Keys>, OwnerId, bool),
}

/// The releases of a client.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    last: ReleaseId,
    by_id: Table<ReleaseId, Release>,
    /// The releases that callers wait for.
    by_ticket: Table<Ticket, ReleaseId>,
    ghosts: Ghosts,
}

/// A release that is owed.
#[derive(Debug)]
struct Release {
    lock: LockId,
    keys: Arc<Keys>,
    owner: OwnerId,
    /// The caller that waits for it.
    ticket: Option<Ticket>,
    /// Until when the hold could be relied on; `None` for a compensating release.
    deadline: Option<Instant>,
    /// When the record's TTL has passed for certain.
    until: Instant,
    /// The call in flight, and the lane that it went by.
    call: Option<CallId>,
    lane: Lane,
    /// When it was first sent.
    first_sent: Option<Instant>,
    /// One was sent and not answered: it may have worked.
    unanswered: bool,
    /// One that went by the other lane and may yet be answered.
    other_lane: Option<CallId>,
    /// Attempts of the same owner that are not settled.
    unresolved: Unresolved,
    /// Those that it may have overtaken, so that it is sent once more.
    late: Unresolved,
    /// One was answered while it was in flight, and either may have run first.
    is_doubtful: bool,
    /// It is not sent before: the TTL of an expired lease has to pass, or an attempt that was cut
    /// off may yet run.
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
            Input::Answered(id, call, in_flight, result) => self.answered(io, id, (call, in_flight), &result, now),
            Input::Overdue(id, call) => self.overdue(io, id, call, now),
            Input::Resolved(id, attempt, was_cut) => self.resolved(io, id, (attempt, was_cut), now),
            Input::WaitOver(id) => self.answer(io, id, Outcome::Released(ReleaseOutcome::Unknown)),
            Input::Cancelled(ticket) => {
                let release = self.by_ticket.remove(&ticket);
                if let Some(release) = release.and_then(|id| self.by_id.get_mut(&id)) {
                    release.ticket = None;
                }
            }
            Input::Connected(node, opened) => self.connected(io, node, &opened, now),
            Input::Closed => self.send_late_ones(io, now),
            Input::Seen(lock, keys, owner, is_told) => self.seen(io, (lock, keys), owner, is_told, now),
        }
        transitions::after(self, io, &before);
    }

    /// Whether nothing is owed.
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
        // A hold that was confirmed leaves no call behind that could name it.
        let is_waiter = owed.hold.is_none();
        if owed.keys.kind.queues_on_server() && (is_waiter || owed.unresolved.is_any()) {
            self.ghosts.may_return(owed.owner.clone(), orphans_end(io, now), now);
        }
        io.leave_to(owed.unresolved.in_flight(), Heir::Release(id));
        let release = Release {
            lock: owed.lock,
            keys: owed.keys,
            owner: owed.owner,
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
            is_doubtful: false,
            not_before: owed.hold.and_then(|hold| hold.not_before),
        };
        self.by_id.insert(id, release);
        self.send(io, id, now);
    }

    /// Sends a release, if there is a connection and it is not in flight.
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
            // Also a new connection does not send it before.
            io.set(Timer::ReleaseAgain(id), at);
            return;
        }
        if release.first_sent.is_none() {
            // It was a late one, and is one like others now.
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
        let invocation = release.keys.release(&release.owner);
        let overdue = io.timeout(now);
        release.call = Some(io.call(Purpose::Release(id), (node, lane), invocation, Some(overdue)));
        release.lane = lane;
        io.stop(Timer::ReleaseAgain(id));
    }

    /// What was to be released later is released now.
    fn send_late_ones(&mut self, io: &mut Io, now: Instant) {
        let is_late = |release: &Release| release.first_sent.is_none() && release.not_before.is_some();
        let late = self.by_id.iter_mut().filter(|(_, release)| is_late(release));
        let late: Vec<ReleaseId> = late
            .map(|(id, release)| {
                release.not_before = None;
                id
            })
            .collect();
        for id in late {
            self.send(io, id, now);
        }
    }

    /// There is a connection again: send what waited for one. What went by the other lane
    /// while that of commands was closed may have gone to a connection that is dead: it is
    /// sent again.
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

    fn answered(
        &mut self,
        io: &mut Io,
        id: ReleaseId,
        (call, in_flight): (CallId, InFlight),
        result: &Result<Reply, CallError>,
        now: Instant,
    ) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        if release.call == Some(call) {
            release.call = None;
        }
        if release.other_lane == Some(call) {
            release.other_lane = None;
        }
        if let Some(grant) = result.as_ref().ok().and_then(parse_grant) {
            io.step(Step::GrantReplied(Arc::clone(&release.keys), grant.to_vec()));
        }
        let Some(record) = record_of(result) else {
            self.not_done(io, id, in_flight, result, now);
            return;
        };
        let is_asked_again = release.call.is_some();
        if is_asked_again && !matches!(record, Record::Mine { .. }) {
            // This one has not removed it; the later answer says whether another has.
            return;
        }
        let (lock, outcome) = (release.lock, release.outcome(record));
        if let Record::Mine { listeners } = record {
            io.step(Step::Published(lock, listeners));
        }
        self.answer(io, id, Outcome::Released(outcome));
        if !is_asked_again {
            // Else the later answer says how it stands.
            self.repeat_or_settle(io, id, now);
        }
        io.step(Step::Tidy(lock));
    }

    /// An attempt of its owner was answered, or cut off.
    fn resolved(&mut self, io: &mut Io, id: ReleaseId, (attempt, was_cut): (CallId, bool), now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        if release.unresolved.in_flight().contains(&attempt) {
            release.unresolved.answered(attempt, was_cut);
        } else if release.late.in_flight().contains(&attempt) {
            release.late.answered(attempt, was_cut);
            if release.late.is_any() {
                return;
            }
            // What the release overtook has run, and what it may have left need not stay.
            if release.call.is_none() {
                release.not_before = None;
                return self.send(io, id, now);
            }
        } else {
            return;
        }
        release.is_doubtful |= release.call.is_some() && !io.config().keeps_order;
    }

    /// The answer does not say that the record is gone.
    fn not_done(
        &mut self,
        io: &mut Io,
        id: ReleaseId,
        in_flight: InFlight,
        result: &Result<Reply, CallError>,
        now: Instant,
    ) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        release.unanswered |= in_flight.was_cut(result);
        if io.has(Defect::ReleaseEndsWithItsConnection) && in_flight.was_cut(result) {
            return self.settle(io, id);
        }
        if release.call.is_none() {
            let pause = match result {
                Err(CallError::Disconnected(_)) => DISCONNECTED_PAUSE,
                Err(CallError::Server { code, .. }) if Refusal::of(code) == Refusal::Temporary => ERROR_PAUSE,
                // It will hardly help, but the record may be there.
                _ => io.config().command_timeout,
            };
            io.set(Timer::ReleaseAgain(id), now + pause);
        }
        if let Some(error) = release.refusal(result) {
            // Its caller is told now; an operator may grant the right before the record's TTL has passed.
            self.answer(io, id, Outcome::Failed(error));
        }
    }

    /// The answer is overdue: send another.
    fn overdue(&mut self, io: &mut Io, id: ReleaseId, call: CallId, now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        if release.call == Some(call) {
            // Its caller's wait ended no later, so nobody asks how this one went.
            release.call = None;
            self.send(io, id, now);
        }
    }

    /// Done, unless an attempt was cut off and may run after this release.
    fn repeat_or_settle(&mut self, io: &mut Io, id: ReleaseId, now: Instant) {
        let Some(release) = self.by_id.get_mut(&id) else {
            return;
        };
        release.late = release.unresolved.take_late_ones();
        if io.has(Defect::LateAttemptsAreForgotten) {
            return self.settle(io, id);
        }
        if release.late.is_any() {
            let at = io.timeout(now);
            release.not_before = Some(at);
            io.set(Timer::ReleaseAgain(id), at);
        } else if std::mem::take(&mut release.is_doubtful) {
            self.send(io, id, now);
        } else {
            self.settle(io, id);
        }
    }

    /// Tells the caller, once.
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
            io.step(Step::Tidy(release.lock));
        }
    }

    /// A lock is held, or said to be, by this owner. If it was given up here, it is released.
    fn seen(&mut self, io: &mut Io, of: (LockId, Arc<Keys>), owner: OwnerId, is_told: bool, now: Instant) {
        if io.has(Defect::PollsAreNoAttempts) {
            return;
        }
        // One whose release is on its way needs no other.
        let is_owed = |releases: &Table<ReleaseId, Release>| releases.any(|one| one.owner == owner);
        if !self.ghosts.has(&owner, now) || is_owed(&self.by_id) {
            return;
        }
        let (lock, keys) = of;
        let owed = Owed {
            lock,
            keys,
            owner,
            ticket: None,
            hold: None,
            unresolved: Unresolved::default(),
        };
        self.add(io, owed, now);
        if is_told {
            io.step(Step::GhostReleased(lock));
        }
    }
}

impl Release {
    /// Whether nothing that was sent for its owner may come after it by the command lane's
    /// next connection: then it may take another lane.
    fn may_overtake(&self) -> bool {
        let is_settled = !self.unresolved.is_any() && self.not_before.is_none();
        self.deadline.is_some() && is_settled && !self.keys.kind.queues_on_server()
    }

    /// What an answer comes to.
    fn outcome(&self, record: Record) -> ReleaseOutcome {
        // An earlier, unanswered release may be what removed the record.
        let is_unanswered = self.unanswered || self.other_lane.is_some();
        match record {
            Record::Mine { .. } => ReleaseOutcome::Released,
            Record::Absent | Record::Others if is_unanswered => match (self.first_sent, self.deadline) {
                (Some(sent), Some(deadline)) if sent < deadline => ReleaseOutcome::Released,
                _ => ReleaseOutcome::Unknown,
            },
            Record::Absent => ReleaseOutcome::Expired,
            Record::Others => ReleaseOutcome::Stolen,
        }
    }

    /// What its caller is told if the server's user lacks a right that it needs.
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

/// What the answer to a release says of the record, if anything.
fn record_of(result: &Result<Reply, CallError>) -> Option<Record> {
    match result {
        Ok(reply) => parse_record(reply),
        // Something else stands where the record was.
        Err(error) => error.is_of_no_lock().then_some(Record::Others),
    }
}

/// When what an attempt of before now may leave behind has ended, however late it runs.
fn orphans_end(io: &Io, now: Instant) -> Instant {
    io.timeout(now) + MAX_ATTEMPT
}
