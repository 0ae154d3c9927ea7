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
//! A release removes only its own owner's record, so sending it once too often is
//! harmless. The caller waits one command timeout at the most; the release does
//! not end with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::calls::{InFlight, Purpose};
use crate::error::{Error, ErrorKind, Operation};
use crate::hold::Hold;
use crate::instant::Instant;
use crate::kinds::{Keys, Record, parse_news, parse_record};
use crate::owner::OwnerId;
use crate::queue::QueueId;
use crate::refusal::explain;
use crate::reply::{CallError, Refusal, Reply};
use crate::request::{Doubt, MAX_ATTEMPT};
use crate::session::{CallId, Lane, Outcome, ReleaseOutcome, Session, Ticket};
use crate::timers::Timer;

/// Names a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReleaseId(u64);

/// The pause after an error that may pass.
const ERROR_PAUSE: Duration = Duration::from_millis(200);
/// The pause after a connection closed under a release; the next one may be there.
const DISCONNECTED_PAUSE: Duration = Duration::from_millis(1);

/// A release that is owed.
#[derive(Debug)]
pub(crate) struct Release {
    queue: QueueId,
    keys: Arc<Keys>,
    owner: OwnerId,
    /// The caller that waits for it.
    ticket: Option<Ticket>,
    /// Until when the hold could be relied on; `None` for a compensation.
    deadline: Option<Instant>,
    /// When the record's TTL has passed for certain.
    until: Instant,
    /// The call in flight.
    call: Option<CallId>,
    /// When it was first sent.
    first_sent: Option<Instant>,
    /// One was sent and not answered: it may have worked.
    unanswered: bool,
    /// Attempts of the same owner that are not settled.
    doubt: Doubt,
    /// When it is sent once more, since an attempt that was cut off may yet run.
    once_more: Option<Instant>,
}

impl Release {
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
    last: u64,
    by_id: BTreeMap<ReleaseId, Release>,
}

impl Releases {
    /// Whether nothing is owed.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Takes the caller that waits away from its release, which goes on.
    pub(crate) fn forget_ticket(&mut self, ticket: Ticket) {
        for release in self.by_id.values_mut() {
            if release.ticket == Some(ticket) {
                release.ticket = None;
            }
        }
    }
}

impl Session {
    /// Owes the release of a hold that ended.
    pub(crate) fn owe_release(&mut self, hold: Hold, ticket: Option<Ticket>, now: Instant) {
        let release = Release {
            queue: hold.queue,
            keys: hold.keys,
            owner: hold.owner,
            ticket,
            deadline: Some(hold.deadline),
            // An extension that was not confirmed may have been made all the same.
            until: hold.record_until.max(hold.wanted_until).max(now) + hold.plan.length + self.config.command_timeout,
            call: None,
            first_sent: None,
            unanswered: false,
            doubt: hold.doubt,
            once_more: None,
        };
        self.add_release(release, now);
    }

    /// Owes a release for what an abandoned attempt may have been granted. It
    /// follows the attempt on the same connection, if that still lives.
    pub(crate) fn compensate(&mut self, queue: QueueId, keys: Arc<Keys>, owner: OwnerId, doubt: Doubt, now: Instant) {
        let release = Release {
            queue,
            keys,
            owner,
            ticket: None,
            deadline: None,
            until: now + MAX_ATTEMPT + self.config.command_timeout,
            call: None,
            first_sent: None,
            unanswered: false,
            doubt,
            once_more: None,
        };
        self.add_release(release, now);
    }

    fn add_release(&mut self, release: Release, now: Instant) {
        self.releases.last = self.releases.last.wrapping_add(1);
        let id = ReleaseId(self.releases.last);
        if release.ticket.is_some() {
            self.timers
                .set(Timer::ReleaseWait(id), now + self.config.command_timeout);
        }
        self.releases.by_id.insert(id, release);
        self.send_release(id, now);
    }

    /// Sends a release, if there is a connection and it is not in flight.
    pub(crate) fn send_release(&mut self, id: ReleaseId, now: Instant) {
        let Some(release) = self.releases.by_id.get_mut(&id) else {
            return;
        };
        let node = release.keys.node;
        let connected = self.connected.contains(&node);
        if now >= release.until {
            self.settle_release(id, ReleaseOutcome::Unknown, now);
            return;
        }
        if release.call.is_some() {
            return;
        }
        if let Some(at) = release.once_more.filter(|at| now < *at) {
            // Also a new connection does not send it before.
            self.timers.set(Timer::ReleaseAgain(id), at);
            return;
        }
        if !connected {
            self.timers.set(Timer::ReleaseAgain(id), release.until);
            return;
        }
        let invocation = release.keys.release(&release.owner);
        let call = self.calls.start(Purpose::Release(id));
        release.call = Some(call);
        self.timers.stop(Timer::ReleaseAgain(id));
        self.timers
            .set(Timer::CallTimeout(call), now + self.config.command_timeout);
        self.transmit(call, node, Lane::Command, invocation);
    }

    /// There is a connection again: send what waited for one.
    pub(crate) fn release_after_outage(&mut self, now: Instant) {
        let waiting: Vec<ReleaseId> = self.releases.by_id.keys().copied().collect();
        for id in waiting {
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
            let disconnected = matches!(result, Err(CallError::Disconnected(_)));
            release.unanswered |= disconnected && call.sent.is_some();
            let lacks_right = release.refusal(&result);
            if release.call.is_none() {
                let pause = match &result {
                    Err(CallError::Disconnected(_)) => DISCONNECTED_PAUSE,
                    Err(CallError::Server { code, .. }) if Refusal::of(code) == Refusal::Temporary => ERROR_PAUSE,
                    // It will hardly help, but the record may be there.
                    _ => self.config.command_timeout,
                };
                self.timers.set(Timer::ReleaseAgain(release_id), now + pause);
            }
            if let Some(error) = lacks_right {
                // Its caller is told now; an operator may grant the right before the record's TTL has passed.
                self.answer_release(release_id, Outcome::Failed(error));
            }
            return;
        };
        // An earlier, unanswered release may be what removed the record.
        let outcome = match record {
            Record::Mine { .. } => ReleaseOutcome::Released,
            Record::Absent | Record::Others if release.unanswered => match (release.first_sent, release.deadline) {
                (Some(sent), Some(deadline)) if sent < deadline => ReleaseOutcome::Released,
                _ => ReleaseOutcome::Unknown,
            },
            Record::Absent => ReleaseOutcome::Expired,
            Record::Others => ReleaseOutcome::Stolen,
        };
        let (queue, is_asked_again) = (release.queue, release.call.is_some());
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

    /// An attempt of a request that is gone was answered. If its connection
    /// closed, the attempt may run after the release that was sent for it.
    pub(crate) fn doubt_answered(
        &mut self,
        id: CallId,
        call: InFlight,
        result: &Result<Reply, CallError>,
        _now: Instant,
    ) {
        let cut = matches!(result, Err(CallError::Disconnected(_))) && call.sent.is_some();
        let owed = self.releases.by_id.values_mut().map(|release| &mut release.doubt);
        let held = self.holds.values_mut().map(|hold| &mut hold.doubt);
        for doubt in owed.chain(held) {
            if doubt.open.contains(&id) {
                doubt.answered(id);
                doubt.cut |= cut;
            }
        }
    }

    /// Done, unless an attempt was cut off and may run after this release.
    fn repeat_or_settle(&mut self, id: ReleaseId, now: Instant) {
        let Some(release) = self.releases.by_id.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut release.doubt.cut) || !std::mem::take(&mut release.doubt.open).is_empty() {
            let at = now + self.config.command_timeout;
            release.once_more = Some(at);
            self.timers.set(Timer::ReleaseAgain(id), at);
        } else {
            self.settle_release(id, ReleaseOutcome::Unknown, now);
        }
    }

    /// Tells the caller, once.
    fn answer_release(&mut self, id: ReleaseId, outcome: Outcome) {
        self.timers.stop(Timer::ReleaseWait(id));
        let ticket = self
            .releases
            .by_id
            .get_mut(&id)
            .and_then(|release| release.ticket.take());
        if let Some(ticket) = ticket {
            self.complete(ticket, outcome);
        }
    }

    fn settle_release(&mut self, id: ReleaseId, outcome: ReleaseOutcome, now: Instant) {
        self.answer_release(id, Outcome::Released(outcome));
        self.timers.stop(Timer::ReleaseAgain(id));
        if let Some(release) = self.releases.by_id.remove(&id) {
            self.tidy(release.queue, now);
        }
    }
}
