//! How a wait ends without the lock, and what its caller is told: that another
//! holds it (`LockTimeout`), or that the server did not say so (`Unavailable`).

use std::time::Duration;

use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::name::Word;
use crate::queue::{LastAnswer, Queue, QueueId};
use crate::reply::CallError;
use crate::request::Request;
use crate::session::{NodeId, Outcome, Session, Ticket};
use crate::timers::Timer;

/// How much longer than its wait a caller is kept while the first answer is due.
pub(crate) const FIRST_ANSWER_GRACE: Duration = Duration::from_millis(40);

/// A TTL is whole milliseconds on the wire, and clocks run at different rates.
const ROUNDING: Duration = Duration::from_millis(2);

impl Session {
    /// The server said who holds the lock, in the answer to a call of `sent`.
    pub(crate) fn note_held(
        &mut self,
        id: QueueId,
        owner: String,
        remaining: Option<Duration>,
        sent: Instant,
        now: Instant,
    ) {
        self.release_ghost(id, owner.as_bytes(), now);
        if let Some(queue) = self.queues.get_mut(id) {
            let holder = Holder { owner, remaining };
            let is_the_same =
                matches!(&queue.last_answer, Some((at, LastAnswer::Held(last))) if is_same(last, *at, &holder, sent));
            queue.wakes.answered(is_the_same);
            queue.last_answer = Some((now, LastAnswer::Held(holder)));
            queue.turn.passed_on();
        }
    }

    /// The server did not say who holds the lock.
    pub(crate) fn note_failure(&mut self, id: QueueId, failure: &CallError, now: Instant) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.last_answer = Some((now, LastAnswer::Failed(in_words(failure))));
        }
    }

    /// A caller's wait is over.
    pub(crate) fn wait_over(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get_mut(&ticket) else {
            return;
        };
        let first_answer_due = request.is_trying() && !request.once && !request.graced;
        let started = request.started;
        let answered = |(at, answer): &(Instant, LastAnswer)| *at >= started && matches!(answer, LastAnswer::Held(_));
        let heard = self
            .queues
            .get(request.queue)
            .and_then(|queue| queue.last_answer.as_ref())
            .is_some_and(answered);
        if first_answer_due && !heard {
            request.graced = true;
            self.timers.set(Timer::Wait(ticket), now + FIRST_ANSWER_GRACE);
        } else {
            self.give_up(ticket, now);
        }
    }

    /// A caller without a bound has waited one lease since it last asked whether
    /// the server is there.
    pub(crate) fn silence(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        let Some(queue) = self.queues.get(request.queue) else {
            return;
        };
        let heard = match queue.heard {
            _ if queue.holding.is_some() => now,
            Some(at) => at.max(request.started),
            None => request.started,
        };
        let patience = heard + self.longest_silence();
        if patience > now {
            self.timers.set(Timer::Silence(ticket), patience);
        } else {
            // Whatever was said before: who waits without bound is not told "held".
            let outcome = Outcome::Failed(self.no_answer(request, now));
            self.complete(ticket, outcome);
            self.remove_request(ticket, now);
        }
    }

    /// How long a caller without a bound bears to hear nothing: one lease, but no less
    /// than it takes to ask again and be answered.
    pub(crate) fn longest_silence(&self) -> Duration {
        let asked_again = self.config.retry_interval.1.saturating_add(self.config.command_timeout);
        self.config.lease.get().max(asked_again)
    }

    pub(crate) fn give_up(&mut self, ticket: Ticket, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        let error = self.not_granted(request, now);
        let outcome = match error.kind() {
            ErrorKind::LockTimeout => Outcome::NotGranted(error),
            _ => Outcome::Failed(error),
        };
        self.complete(ticket, outcome);
        self.remove_request(ticket, now);
    }

    pub(crate) fn fail_request(&mut self, ticket: Ticket, kind: ErrorKind, message: &str, now: Instant) {
        let Some(request) = self.requests.get(&ticket) else {
            return;
        };
        let error = Error::new(kind, Operation::Acquire, message).with_lock(request.keys.name.as_str());
        self.complete(ticket, Outcome::Failed(error));
        self.remove_request(ticket, now);
    }

    /// What a caller that does not wait is told without asking the server.
    pub(crate) fn others_first(&self, id: QueueId, keys: &Keys, now: Instant) -> Outcome {
        if let Some(holder) = self.local_holder(id, now) {
            return Outcome::NotGranted(held_error(keys, None, holder));
        }
        let silence = if self.is_connected(keys.node) {
            let queue = self.queues.get(id);
            queue.and_then(Queue::last_failure).map(str::to_owned)
        } else {
            Some(self.unreached(keys.node, Duration::ZERO))
        };
        let error = |kind, why: &str| {
            let message = format!("not granted: {why}");
            Error::new(kind, Operation::Acquire, message).with_lock(keys.name.as_str())
        };
        match silence {
            // Those who wait hear nothing either.
            Some(why) => Outcome::Failed(error(ErrorKind::Unavailable, &why)),
            None => {
                let why = "others of this client wait for it already; wait longer or try again";
                Outcome::NotGranted(error(ErrorKind::LockTimeout, why))
            }
        }
    }

    /// Why a caller that waited does not get the lock: it is held (`LockTimeout`),
    /// or the server did not say so (`Unavailable`).
    fn not_granted(&self, request: &Request, now: Instant) -> Error {
        let waited = now.saturating_since(request.started);
        let queue = self.queues.get(request.queue);
        let told = queue.and_then(|queue| match &queue.last_answer {
            Some((at, LastAnswer::Held(holder))) => {
                // A waiter whose turn never came has it from those before it.
                let is_theirs = request.last_try.is_none() && !queue.was_heard_after(*at);
                (*at >= request.started || is_theirs).then(|| holder.clone())
            }
            _ => None,
        });
        match self.local_holder(request.queue, now).or(told) {
            Some(holder) => held_error(&request.keys, Some(waited), holder),
            None if self.others_had_it(request) => {
                let message = format!("not granted after {waited:?}: others of this client come first; wait longer");
                let error = Error::new(ErrorKind::LockTimeout, Operation::Acquire, message);
                error.with_lock(request.keys.name.as_str())
            }
            None => self.no_answer(request, now),
        }
    }

    /// Whether a caller's turn to ask never came since others of this client had the lock, or were
    /// answered, while it waited.
    fn others_had_it(&self, request: &Request) -> bool {
        let Some(queue) = self.queues.get(request.queue) else {
            return false;
        };
        let is_heard = queue.heard.is_some_and(|heard| heard >= request.started);
        let is_answered = self.is_connected(request.keys.node) && queue.last_failure().is_none();
        request.last_try.is_none() && is_heard && is_answered
    }

    /// Why a caller does not hear who holds the lock.
    fn no_answer(&self, request: &Request, now: Instant) -> Error {
        let waited = now.saturating_since(request.started);
        let queue = self.queues.get(request.queue);
        let last_answer = queue.and_then(|queue| queue.last_answer.as_ref());
        let node = request.keys.node;
        let is_connected = self.is_connected(node);
        let message = match last_answer {
            Some((at, LastAnswer::Failed(why))) if *at >= request.started && is_connected => {
                format!("not granted after {waited:?}: {why}")
            }
            _ if is_connected => self.unreached(node, waited),
            _ => format!("not granted after {waited:?}: {}", self.unreached(node, waited)),
        };
        Error::new(ErrorKind::Unavailable, Operation::Acquire, message).with_lock(request.keys.name.as_str())
    }

    /// Why nothing came from a server within that time, and what to do.
    pub(crate) fn unreached(&self, node: NodeId, within: Duration) -> String {
        if self.is_connected(node) {
            format!("the server did not answer within {within:?}; check that it is up and reachable")
        } else {
            let cause = self.silence_of(node);
            format!("{cause}; check that the server is up and reachable")
        }
    }

    /// Who of this client holds the lock.
    fn local_holder(&self, id: QueueId, now: Instant) -> Option<Holder> {
        let hold = self.queues.get(id)?.holding?;
        Some(self.holds.get(&hold)?.as_holder(now))
    }
}

/// Whether the answer to a call of `sent` says what one that came at `at` did: the same owner,
/// whose hold has not become longer since, as of libraries that acquire again under one owner id.
/// A hold ends no later than the first answer says, and no earlier than the second.
fn is_same(last: &Holder, at: Instant, holder: &Holder, sent: Instant) -> bool {
    let until = |of: &Holder, at: Instant| of.remaining.map(|left| at + left);
    let is_longer = match (until(last, at), until(holder, sent)) {
        (Some(before), Some(until)) => until > before + ROUNDING,
        (before, until) => before.is_some() != until.is_some(),
    };
    last.owner == holder.owner && !is_longer
}

/// What a caller is told who waited so long, or was refused without asking the server.
fn held_error(keys: &Keys, waited: Option<Duration>, holder: Holder) -> Error {
    let after = waited.map_or_else(String::new, |waited| format!(" after {waited:?}"));
    if holder.owner.is_empty() && keys.kind.queues_on_server() {
        let message = format!("not granted{after}: others wait for it and come first; wait longer or try again");
        return Error::new(ErrorKind::LockTimeout, Operation::Acquire, message).with_lock(keys.name.as_str());
    }
    let left = match holder.remaining {
        Some(left) => format!("for another {left:?} unless it is renewed"),
        None => "by a record without TTL".into(),
    };
    let by = match holder.owner.as_str() {
        "" => "an owner without a name",
        owner => owner,
    };
    let message = format!("not granted{after}: held by {by} {left}; wait longer or try again");
    Error::new(ErrorKind::LockTimeout, Operation::Acquire, message)
        .with_lock(keys.name.as_str())
        .with_holder(Some(holder))
}

/// What a server's error means for a lock.
pub(crate) fn explain(keys: &Keys, code: &str, message: &str) -> String {
    match code {
        "WRONGTYPE" => "the key of this name holds something that is not a lock; choose another name".into(),
        "LEASEHOLD_TOKEN" => {
            let key = keys.name.own(Word::TOKEN);
            let key = String::from_utf8_lossy(&key);
            format!("{message}; delete the key {key} after checking who wrote it")
        }
        "LEASEHOLD_LIMIT" => format!("{message}; ask with that one, or change it by set_limit"),
        _ => refused(code, message),
    }
}

/// Why a call came to nothing, and what to do.
pub(crate) fn in_words(failure: &CallError) -> String {
    match failure {
        CallError::Server { code, message } => refused(code, message),
        CallError::Disconnected(cause) => {
            format!("the connection closed before the answer came ({cause}); try again")
        }
    }
}

/// A server's error, and what to do if it may pass.
fn refused(code: &str, message: &str) -> String {
    let advice = match code {
        "OOM" => "; make room on it, or raise its maxmemory",
        "READONLY" | "MASTERDOWN" => "; it is a replica: connect to the primary",
        "LOADING" | "BUSY" => "; try again when it serves",
        "NOREPLICAS" => "; its replicas are missing, and it is set to want some for each write",
        "MISCONF" => "; its log says why it cannot save",
        _ => "",
    };
    format!("the server refused: {code} {}{advice}", message.trim_end_matches('.'))
}
