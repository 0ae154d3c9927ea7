//! What must go from the server: a caller's release, or the compensation for
//! what an abandoned attempt may have been granted.
//!
//! ```text
//!             connected              answered
//!   Waiting ────────────► Sent(call) ─────────► done, or Waiting once more if an
//!      ▲                     │                  attempt of the same owner was cut
//!      │ pause, connected    │ overdue, error,  off and may yet run
//!      └─────────────────────┘ disconnected
//!
//!   any state ── the record's TTL has passed ──► done
//! ```
//!
//! It is sent on the command lane, behind what was sent for its owner before; while that
//! is closed, on the renewal lane, if nothing of its owner can come after it there.
//!
//! A release removes only its own owner's record, so sending it once too often is
//! harmless. The caller waits one command timeout at the most; the release does
//! not end with it.

use crate::ids::ReleaseId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::calls::{Doubt, Heir, InFlight, Purpose};
use crate::ending::ReleaseOutcome;
use crate::error::{Error, ErrorKind, Operation};
use crate::hold::Hold;
use crate::ids::{CallId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Keys, Record, parse_news, parse_record};
use crate::line::PROVISIONAL;
use crate::owner::OwnerId;
use crate::refusal::explain;
use crate::reply::{CallError, Refusal, Reply};
use crate::request::MAX_ATTEMPT;
use crate::session::Session;
use crate::timers::Timer;
use crate::types::{Lane, Outcome};

/// The pause after an error that may pass.
const ERROR_PAUSE: Duration = Duration::from_millis(200);
/// The pause after a connection closed under a release; the next one may be there.
const DISCONNECTED_PAUSE: Duration = Duration::from_millis(1);

/// A release that is owed.
#[derive(Debug)]
pub(crate) struct Release {
    queue: LockId,
    keys: Arc<Keys>,
    owner: OwnerId,
    /// The caller that waits for it.
    ticket: Option<Ticket>,
    /// Until when the hold could be relied on; `None` for a compensation.
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
    doubt: Doubt,
    /// It is not sent before: the TTL of a lapsed lease has to pass, or an attempt that was cut
    /// off may yet run.
    not_before: Option<Instant>,
}

impl Release {
    /// Whether nothing that was sent for its owner may come after it by the command lane's
    /// next connection: then it may take another lane.
    fn may_overtake(&self) -> bool {
        let is_settled = !self.doubt.is_any() && self.not_before.is_none();
        self.deadline.is_some() && is_settled && !self.keys.kind.queues_on_server()
    }

    /// What its caller is told if the server's user lacks a right that it needs.
    fn refusal(&self, result: &Result<Reply, CallError>) -> Option<Error> {
        match result {
            Err(CallError::Server { code, message }) if code == "NOPERM" => Some(
                Error::new(
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

/// The releases of a client.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    last: ReleaseId,
    by_id: BTreeMap<ReleaseId, Release>,
    /// The releases that callers wait for.
    by_ticket: BTreeMap<Ticket, ReleaseId>,
}

impl Releases {
    /// Whether nothing is owed.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether one is of this owner.
    pub(crate) fn has(&self, owner: &OwnerId) -> bool {
        self.by_id.values().any(|release| release.owner == *owner)
    }

    /// Takes the caller that waits away from its release, which goes on.
    pub(crate) fn forget_ticket(&mut self, ticket: Ticket) {
        let release = self.by_ticket.remove(&ticket);
        if let Some(release) = release.and_then(|id| self.by_id.get_mut(&id)) {
            release.ticket = None;
        }
    }
}

impl Session {
    /// Owes the release of a hold that ended.
    pub(crate) fn owe_release(&mut self, hold: Hold, ticket: Option<Ticket>, now: Instant) {
        let release = self.release_of(hold, ticket, now);
        self.add_release(release, now);
    }

    /// Owes the release of a hold that lapsed. It is sent when the TTL that is known
    /// has passed: until then the record is the program's, which may still be inside.
    pub(crate) fn owe_late_release(&mut self, hold: Hold, now: Instant) {
        let known = hold.capped(hold.record_until);
        let mut release = self.release_of(hold, None, now);
        release.not_before = Some(known).filter(|known| *known > now);
        self.add_release(release, now);
    }

    fn release_of(&self, hold: Hold, ticket: Option<Ticket>, now: Instant) -> Release {
        // The server may have granted it of its own accord, for longer than the lease.
        let granted_for = match hold.keys.kind.queues_on_server() {
            true => PROVISIONAL,
            false => Duration::ZERO,
        };
        let until = hold.record_until.max(hold.wanted_until).max(now) + hold.plan.length.max(granted_for);
        Release {
            queue: hold.queue,
            keys: hold.keys,
            owner: hold.owner,
            ticket,
            deadline: Some(hold.deadline),
            // An extension that was not confirmed may have been made all the same.
            until: until + self.io.config().command_timeout,
            call: None,
            lane: Lane::Command,
            first_sent: None,
            unanswered: false,
            other_lane: None,
            doubt: hold.doubt,
            not_before: None,
        }
    }

    /// Owes a release for what an abandoned attempt may have been granted. It
    /// follows the attempt on the same connection, if that still lives.
    pub(crate) fn compensate(&mut self, queue: LockId, keys: Arc<Keys>, owner: OwnerId, doubt: Doubt, now: Instant) {
        let release = Release {
            queue,
            keys,
            owner,
            ticket: None,
            deadline: None,
            until: self.orphans_end(now),
            call: None,
            lane: Lane::Command,
            first_sent: None,
            unanswered: false,
            other_lane: None,
            doubt,
            not_before: None,
        };
        self.add_release(release, now);
    }

    /// When what an attempt of before now may leave behind has ended, however late it runs.
    fn orphans_end(&self, now: Instant) -> Instant {
        now + MAX_ATTEMPT + self.io.config().command_timeout
    }

    fn add_release(&mut self, release: Release, now: Instant) {
        self.releases.last = self.releases.last.next();
        let id = self.releases.last;
        if let Some(ticket) = release.ticket {
            self.releases.by_ticket.insert(ticket, id);
            self.io
                .set(Timer::ReleaseWait(id), now + self.io.config().command_timeout);
        }
        // A hold that was confirmed leaves no call behind that could name it.
        let is_waiter = release.deadline.is_none();
        if release.keys.kind.queues_on_server() && (is_waiter || release.doubt.is_any()) {
            self.ghosts
                .may_return(release.owner.clone(), self.orphans_end(now), now);
        }
        self.io.leave_to(&release.doubt.open, Heir::Release(id));
        self.releases.by_id.insert(id, release);
        self.send_release(id, now);
    }

    /// Sends a release, if there is a connection and it is not in flight.
    pub(crate) fn send_release(&mut self, id: ReleaseId, now: Instant) {
        let Some(release) = self.releases.by_id.get_mut(&id) else {
            return;
        };
        let node = release.keys.node;
        if now >= release.until {
            self.settle_release(id, ReleaseOutcome::Unknown, now);
            return;
        }
        if release.call.is_some() {
            return;
        }
        if let Some(at) = release.not_before.filter(|at| now < *at) {
            // Also a new connection does not send it before.
            self.io.set(Timer::ReleaseAgain(id), at);
            return;
        }
        if release.first_sent.is_none() {
            // It was a late one, and is one like others now.
            release.not_before = None;
        }
        let (until, may_overtake) = (release.until, release.may_overtake());
        let lane = if self.io.is_open(node, Lane::Command) {
            Lane::Command
        } else if may_overtake && self.io.is_open(node, Lane::Renewal) {
            Lane::Renewal
        } else {
            self.io.set(Timer::ReleaseAgain(id), until);
            return;
        };
        let Some(release) = self.releases.by_id.get_mut(&id) else {
            return;
        };
        let invocation = release.keys.release(&release.owner);
        let overdue = self.io.timeout(now);
        let call = self
            .io
            .call(Purpose::Release(id), (node, lane), invocation, Some(overdue));
        release.call = Some(call);
        release.lane = lane;
        self.io.stop(Timer::ReleaseAgain(id));
    }

    /// The client closes: what was to be released later is released now.
    pub(crate) fn release_at_once(&mut self, now: Instant) {
        let is_late = |release: &Release| release.first_sent.is_none() && release.not_before.is_some();
        let late = self.releases.by_id.iter_mut().filter(|(_, release)| is_late(release));
        let late: Vec<ReleaseId> = late
            .map(|(id, release)| {
                release.not_before = None;
                *id
            })
            .collect();
        for id in late {
            self.send_release(id, now);
        }
    }

    /// There is a connection again: send what waited for one. What went by the other lane
    /// while that of commands was closed may have gone to a connection that is dead: it is
    /// sent again.
    pub(crate) fn release_after_outage(&mut self, node: NodeId, opened: &[Lane], now: Instant) {
        let waiting: Vec<ReleaseId> = self.releases.by_id.keys().copied().collect();
        for id in waiting {
            let release = self.releases.by_id.get_mut(&id);
            if let Some(release) = release.filter(|release| release.keys.node == node)
                && release.lane == Lane::Renewal
                && opened.contains(&Lane::Command)
            {
                let call = release.call.take();
                release.other_lane = call.filter(|_| release.first_sent.is_some());
            }
            self.send_release(id, now);
        }
    }

    /// A release's bytes are about to go to the socket.
    pub(crate) fn release_sent(&mut self, id: ReleaseId, now: Instant) {
        if let Some(release) = self.releases.by_id.get_mut(&id) {
            release.first_sent.get_or_insert(now);
        }
    }

    /// The answer to a release.
    pub(crate) fn release_answered(
        &mut self,
        id: CallId,
        call: InFlight,
        release_id: ReleaseId,
        result: Result<Reply, CallError>,
        now: Instant,
    ) {
        let Some(release) = self.releases.by_id.get_mut(&release_id) else {
            return;
        };
        if release.call == Some(id) {
            release.call = None;
        }
        if release.other_lane == Some(id) {
            release.other_lane = None;
        }
        let queue = self.queues.find(&release.keys);
        if let Some((queue, news)) = queue.zip(result.as_ref().ok().and_then(parse_news)) {
            self.granted_unasked(queue, news, now);
        }
        let Some(release) = self.releases.by_id.get_mut(&release_id) else {
            return;
        };
        let record = match &result {
            Ok(reply) => parse_record(reply),
            // Something else stands where the record was.
            Err(CallError::Server { code, .. }) if code == "WRONGTYPE" => Some(Record::Others),
            Err(_) => None,
        };
        let Some(record) = record else {
            release.unanswered |= call.was_cut(&result);
            let lacks_right = release.refusal(&result);
            if release.call.is_none() {
                let pause = match &result {
                    Err(CallError::Disconnected(_)) => DISCONNECTED_PAUSE,
                    Err(CallError::Server { code, .. }) if Refusal::of(code) == Refusal::Temporary => ERROR_PAUSE,
                    // It will hardly help, but the record may be there.
                    _ => self.io.config().command_timeout,
                };
                self.io.set(Timer::ReleaseAgain(release_id), now + pause);
            }
            if let Some(error) = lacks_right {
                // Its caller is told now; an operator may grant the right before the record's TTL has passed.
                self.answer_release(release_id, Outcome::Failed(error));
            }
            return;
        };
        let is_asked_again = release.call.is_some();
        if is_asked_again && !matches!(record, Record::Mine { .. }) {
            // This one has not removed it; the later answer says whether another has.
            return;
        }
        // An earlier, unanswered release may be what removed the record.
        let is_unanswered = release.unanswered || release.other_lane.is_some();
        let outcome = match record {
            Record::Mine { .. } => ReleaseOutcome::Released,
            Record::Absent | Record::Others if is_unanswered => match (release.first_sent, release.deadline) {
                (Some(sent), Some(deadline)) if sent < deadline => ReleaseOutcome::Released,
                _ => ReleaseOutcome::Unknown,
            },
            Record::Absent => ReleaseOutcome::Expired,
            Record::Others => ReleaseOutcome::Stolen,
        };
        let queue = release.queue;
        if let Record::Mine { listeners } = record {
            let others = self.others_listening(queue, listeners);
            if let Some(queue) = self.queues.get_mut(queue) {
                queue.turn.heard_by(others);
            }
        }
        self.answer_release(release_id, Outcome::Released(outcome));
        if !is_asked_again {
            // Else the later answer says how it stands.
            self.repeat_or_settle(release_id, now);
        }
        self.tidy(queue, now);
    }

    /// The answer to a release is overdue: send another.
    pub(crate) fn release_overdue(&mut self, id: CallId, release_id: ReleaseId, now: Instant) {
        let Some(release) = self.releases.by_id.get_mut(&release_id) else {
            return;
        };
        if release.call == Some(id) {
            // Its caller's wait ended no later, so nobody asks how this one went.
            release.call = None;
            self.send_release(release_id, now);
        }
    }

    /// A caller has waited long enough for its release, which goes on.
    pub(crate) fn release_wait_over(&mut self, id: ReleaseId) {
        self.answer_release(id, Outcome::Released(ReleaseOutcome::Unknown));
    }

    /// An unresolved attempt was answered, whose owner id has the lock, or gives it back.
    pub(crate) fn doubt_answered(&mut self, id: CallId, was_cut: bool, heirs: &[Heir]) {
        for heir in heirs {
            let doubt = match heir {
                Heir::Hold(hold) => self.holds.get_mut(*hold).map(|hold| &mut hold.doubt),
                Heir::Release(release) => self.releases.by_id.get_mut(release).map(|release| &mut release.doubt),
            };
            if let Some(doubt) = doubt.filter(|doubt| doubt.open.contains(&id)) {
                doubt.answered(id, was_cut);
            }
        }
    }

    /// Done, unless an attempt was cut off and may run after this release.
    fn repeat_or_settle(&mut self, id: ReleaseId, now: Instant) {
        let Some(release) = self.releases.by_id.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut release.doubt.cut) || !std::mem::take(&mut release.doubt.open).is_empty() {
            let at = now + self.io.config().command_timeout;
            release.not_before = Some(at);
            self.io.set(Timer::ReleaseAgain(id), at);
        } else {
            self.settle_release(id, ReleaseOutcome::Unknown, now);
        }
    }

    /// Tells the caller, once.
    fn answer_release(&mut self, id: ReleaseId, outcome: Outcome) {
        self.io.stop(Timer::ReleaseWait(id));
        let ticket = self
            .releases
            .by_id
            .get_mut(&id)
            .and_then(|release| release.ticket.take());
        if let Some(ticket) = ticket {
            self.releases.by_ticket.remove(&ticket);
            self.complete(ticket, outcome);
        }
    }

    fn settle_release(&mut self, id: ReleaseId, outcome: ReleaseOutcome, now: Instant) {
        self.answer_release(id, Outcome::Released(outcome));
        self.io.stop(Timer::ReleaseAgain(id));
        if let Some(release) = self.releases.by_id.remove(&id) {
            self.tidy(release.queue, now);
        }
    }
}

/// Why a lease is not released that the session does not have.
pub(crate) fn unknown_lease() -> Error {
    Error::new(
        ErrorKind::NotOwner,
        Operation::Release,
        "this lease was released before, or was lost and forgotten; nothing is left to release",
    )
}
