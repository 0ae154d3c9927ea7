//! The waiters of the fair lock. They all stand in the server's queue, which this
//! client keeps alive and listens to; the local queue is not theirs.
//!
//! ```text
//!            queued                  heard by message, or by the poll
//!  Trying ──────────► in the line ────────────────────────────────────► a Hold
//!    ▲                  │   │ ▲
//!    │ granted, but too │   └─┘ every 500–750 ms one call says that they live
//!    └── little is left ┘
//! ```
//!
//! The server grants of its own accord, for 3 s. When, the client does not know:
//! not before it sent the last call that was answered "queued", so the deadline
//! counts from there.

use crate::calls::{InFlight, Purpose};
use crate::defects::Defect;
use crate::error::ErrorKind;
use crate::ids::{CallId, LockId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Keys, parse_number};
use crate::lease::deadline;
use crate::news::News;
use crate::owner::OwnerId;
use crate::periods::{MIN_GAP, PROVISIONAL};
use crate::reply::{CallError, Refusal, Reply};
use crate::request::Granted;
use crate::session::Session;
use crate::timers::Timer;
use crate::token::Token;
use crate::types::Lane;
use crate::wording::explain;
use std::sync::Arc;
use std::time::Duration;

/// What must be left of it to be of use without asking again.
const WORTH_TAKING: Duration = Duration::from_millis(1_500);
/// A waiter is dead after 3 s, a waiting writer's mark after 2 s.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(1);
/// After news of a grant to nobody has caused a release, such news is not believed for so long:
/// whoever may publish could make it cause any number of them.
const GHOST_GAP: Duration = Duration::from_millis(100);

impl Session {
    /// An attempt found its waiter in the server's queue: when it was sent, and the server's
    /// time. Also one that was given up: the one that followed it may never be answered.
    pub(crate) fn found_in_line(&mut self, ticket: Ticket, seen: Option<(Instant, u64)>, now: Instant) {
        let Some(((sent, server_now), request)) = seen.zip(self.requests.get_mut(&ticket)) else {
            return;
        };
        request.still_queued(sent, server_now);
        let (queue, keys) = (request.queue, Arc::clone(&request.keys));
        self.stand_in_line(queue, &keys, now);
    }

    /// A waiter was put into the server's queue: the client listens, and polls.
    pub(crate) fn stand_in_line(&mut self, id: LockId, keys: &Arc<Keys>, now: Instant) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        queue.line.keys = Some(Arc::clone(keys));
        if self.io.due(Timer::Poll(id)).is_none() {
            let heartbeat = self.heartbeat();
            self.io.set(Timer::Poll(id), now + heartbeat);
        }
        self.listen_for_grants(id, keys);
        if self.subscribe(id) {
            self.poll_line_soon(id, now);
        }
    }

    /// A waiter is in the server's queue no longer.
    pub(crate) fn leave_line(&mut self, ticket: Ticket, id: LockId) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        if queue.line.waiting.remove(&ticket) && queue.line.waiting.is_empty() {
            self.io.stop(Timer::Poll(id));
        }
    }

    /// When a waiter that left its mark on the server speaks again: like any poll, but
    /// before the server takes it for dead.
    pub(crate) fn heartbeat(&mut self) -> Duration {
        self.io.between(self.io.config().retry_interval).min(LONGEST_HEARTBEAT)
    }

    /// A lock may be free: of those that are not known to be in the line yet, the answer that is
    /// under way may be stale.
    pub(crate) fn line_asks_again(&mut self, id: LockId) {
        let Some(queue) = self.queues.get(id) else { return };
        for ticket in &queue.line.waiting {
            let request = self.requests.get_mut(ticket);
            if let Some(request) = request.filter(|request| request.is_trying() && !request.is_queued()) {
                request.ask_again();
            }
        }
    }

    /// Asks how the line stands, at once or as soon as the last time is past.
    pub(crate) fn poll_line_soon(&mut self, id: LockId, now: Instant) {
        let Some(queue) = self.queues.get(id) else { return };
        if queue.line.waiting.is_empty() {
            return;
        }
        let earliest = queue.line.last_poll.map_or(now, |last| last + MIN_GAP);
        if earliest <= now {
            self.poll_line(id, now);
        } else {
            self.io.set(Timer::Poll(id), earliest);
        }
    }

    /// Says that the waiters live, and asks how the line stands.
    pub(crate) fn poll_line(&mut self, id: LockId, now: Instant) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        let Some(keys) = queue.line.keys.clone().filter(|_| !queue.line.waiting.is_empty()) else {
            return;
        };
        queue.line.last_poll = Some(now);
        let (node, line) = (queue.node, queue.line.waiting.clone());
        let heartbeat = self.heartbeat();
        self.io.set(Timer::Poll(id), now + heartbeat);
        if !self.io.is_connected(node) {
            return;
        }
        let queued = line.into_iter().filter_map(|ticket| {
            let request = self.requests.get(&ticket).filter(|request| request.is_queued());
            Some((ticket, request?.as_waiter()))
        });
        let (tickets, waiters): (Vec<Ticket>, Vec<(OwnerId, bool)>) = queued.unzip();
        let most = self.io.limits().waiters_per_poll.max(1);
        for (some, tickets) in waiters.chunks(most).zip(tickets.chunks(most)) {
            let Some(poll) = keys.poll(some) else { return };
            let call = self.io.call(Purpose::Poll(id), (node, Lane::Command), poll, None);
            // It puts back a waiter that is not in the queue any more, so it is an attempt of each.
            let is_attempt = !self.io.has(Defect::PollsAreNoAttempts);
            for ticket in tickets.iter().filter(|_| is_attempt) {
                if let Some(request) = self.requests.get_mut(ticket) {
                    request.unresolved.open.push(call);
                }
            }
            if let Some(queue) = self.queues.get_mut(id) {
                queue.line.polls.insert(call, tickets.to_vec());
            }
        }
    }

    /// The answer to a poll.
    pub(crate) fn poll_answered(
        &mut self,
        id: CallId,
        call: InFlight,
        queue: LockId,
        result: Result<Reply, CallError>,
        now: Instant,
    ) {
        let polls = self.queues.get_mut(queue).map(|queue| &mut queue.line.polls);
        let asked_for = polls.and_then(|polls| polls.remove(&id)).unwrap_or_default();
        self.poll_settled(id, call.was_cut(&result), &asked_for);
        let state = match result {
            Ok(reply) => parse_line(&reply),
            Err(failure) => {
                self.note_failure(queue, &failure, now);
                if let CallError::Server { code, message } = &failure {
                    self.line_refused(&asked_for, code, message, now);
                }
                return;
            }
        };
        let (Some(state), Some(sent)) = (state, call.sent) else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.heard = Some(now);
        }
        let is_nobodys = state.holder.is_empty();
        self.note_held(queue, state.holder.clone(), state.ttl, sent, now);
        let granted = self.in_line(queue, state.holder.as_bytes());
        for ticket in asked_for.into_iter().filter(|ticket| Some(*ticket) != granted) {
            let request = self.requests.get_mut(&ticket);
            // One that has since asked under another owner id is not known to be in the queue.
            if let Some(request) = request.filter(|request| request.is_queued()) {
                request.still_queued(sent, state.now);
            }
        }
        if let Some(ticket) = granted {
            let ttl = state.ttl.unwrap_or_default();
            self.take_turn(ticket, state.token, sent, ttl, now);
            return;
        }
        if is_nobodys && !self.io.has(Defect::DeadEndThePassing) {
            // The first in the queue are dead, and the call stopped before it had passed over all of them.
            self.poll_line_soon(queue, now);
        }
        // When the holder's time is over, somebody has to ask.
        if let Some(ttl) = state.ttl {
            let over = now + ttl.saturating_add(Duration::from_millis(1));
            if self.io.due(Timer::Poll(queue)).is_some_and(|next| over < next) {
                self.io.set(Timer::Poll(queue), over);
            }
        }
    }

    /// The server refused a poll. If it always will, since the key is another kind's by now,
    /// those who wait are told so.
    fn line_refused(&mut self, waiting: &[Ticket], code: &str, message: &str, now: Instant) {
        if Refusal::of(code) != Refusal::BeforeWrite {
            return;
        }
        for ticket in waiting {
            let request = self.requests.get(ticket).filter(|request| request.is_queued());
            if let Some(why) = request.map(|request| explain(&request.keys, code, message)) {
                self.fail_request(*ticket, ErrorKind::Misconfigured, &why, now);
            }
        }
    }

    /// A poll was an attempt of each waiter that it named. If its connection closed, it may run
    /// after the release of one that has left.
    fn poll_settled(&mut self, id: CallId, was_cut: bool, asked_for: &[Ticket]) {
        for ticket in asked_for {
            let request = self.requests.get_mut(ticket);
            if let Some(request) = request.filter(|request| request.unresolved.open.contains(&id)) {
                request.unresolved.answered(id, was_cut);
            }
        }
    }

    /// The server tells this client of a grant, by a message or with the reply to a release.
    pub(crate) fn granted_unasked(&mut self, id: LockId, payload: &[u8], now: Instant) {
        let Some(news) = News::parse(payload) else {
            return self.heard(id, now);
        };
        let believes_all = self.io.has(Defect::NewsIsBelieved);
        let granted = self.in_line(id, news.owner);
        let Some((ticket, request)) = granted.and_then(|ticket| Some((ticket, self.requests.get_mut(&ticket)?))) else {
            return self.granted_to_nobody(id, news.owner, now);
        };
        match request.queued() {
            None => request.ask_again(),
            Some(found)
                if news.is_plausible(found, request.fencing, now) || (believes_all && news.is_late_enough(found)) =>
            {
                self.take_turn(ticket, news.token, found.0, PROVISIONAL, now);
            }
            // It comes too late, or from a stranger.
            Some(_) => self.heard(id, now),
        }
    }

    /// A message tells of a grant to one who is not in the line: to nobody, or it was asked for
    /// meanwhile.
    fn granted_to_nobody(&mut self, id: LockId, owner: &[u8], now: Instant) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        if queue.line.last_ghost.is_some_and(|last| now < last + GHOST_GAP) {
            return;
        }
        self.owner_seen(id, owner, true, now);
    }

    /// The server granted the lock to a waiter in the line, not before `sent`.
    fn take_turn(&mut self, ticket: Ticket, token: Option<Token>, sent: Instant, ttl: Duration, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        // A poll has tokens for those only that it named.
        let has_token = token.is_some() || !request.fencing;
        if has_token && deadline(sent, ttl) > now + WORTH_TAKING {
            let granted = Granted {
                token,
                sent,
                ttl,
                provisional: true,
            };
            self.grant(ticket, granted, now);
        } else if request.is_trying() {
            request.ask_again();
        } else {
            // It keeps the hold, and gets the whole lease and a token.
            self.attempt_again(ticket, now);
        }
    }

    /// The waiter of this owner id in the line.
    fn in_line(&self, id: LockId, owner: &[u8]) -> Option<Ticket> {
        let line = &self.queues.get(id)?.line.waiting;
        let is_it = |ticket: &&Ticket| self.requests.get(ticket).is_some_and(|request| request.is_of(owner));
        line.iter().find(is_it).copied()
    }
}

/// How a line stands.
struct Standing {
    /// The server's clock, in µs.
    now: u64,
    holder: String,
    ttl: Option<Duration>,
    token: Option<Token>,
}

fn parse_line(reply: &Reply) -> Option<Standing> {
    let Reply::Array(parts) = reply else { return None };
    let [
        Reply::Int(ttl),
        Reply::Bytes(holder),
        Reply::Bytes(token),
        Reply::Bytes(now),
    ] = parts.as_slice()
    else {
        return None;
    };
    Some(Standing {
        now: parse_number(now)?,
        holder: String::from_utf8_lossy(holder).into_owned(),
        ttl: u64::try_from(*ttl).ok().map(Duration::from_millis),
        token: Token::parse(token),
    })
}
