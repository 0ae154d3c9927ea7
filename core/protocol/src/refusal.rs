//! How a wait ends without the lock, and what its caller is told: that another
//! holds it (`LockTimeout`), or that the server did not say so (`Unavailable`).

use std::time::Duration;

use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::name::Word;
use crate::queue::{LastAnswer, QueueId};
use crate::request::Request;
use crate::session::{Outcome, Session, Ticket};
use crate::timers::Timer;

/// How much longer than its wait a caller is kept while the first answer is due.
const FIRST_ANSWER_GRACE: Duration = Duration::from_millis(40);

impl Session {
    /// The server said who holds the lock.
    pub(crate) fn note_held(&mut self, id: QueueId, owner: String, remaining: Option<Duration>, now: Instant) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.last_answer = Some((now, LastAnswer::Held(Holder { owner, remaining })));
            queue.turn.passed_on();
        }
    }

    /// The server did not say.
    pub(crate) fn note_failure(&mut self, id: QueueId, cause: String, now: Instant) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.last_answer = Some((now, LastAnswer::Failed(cause)));
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
        let asked_again = self.config.poll.1.saturating_add(self.config.command_timeout);
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

    /// Why a caller that does not wait is refused without asking the server.
    pub(crate) fn others_first(&self, id: QueueId, keys: &Keys, now: Instant) -> Error {
        match self.local_holder(id, now) {
            Some(holder) => held_error(keys, None, holder),
            None => {
                let message = "not granted: others of this client wait for it already; wait longer or try again";
                Error::new(ErrorKind::LockTimeout, Operation::Acquire, message).with_lock(keys.name.as_str())
            }
        }
    }

    /// Why a caller that waited does not get the lock: it is held (`LockTimeout`),
    /// or the server did not say so (`Unavailable`).
    fn not_granted(&self, request: &Request, now: Instant) -> Error {
        let waited = now.saturating_since(request.started);
        let queue = self.queues.get(request.queue);
        let last_answer = queue.and_then(|queue| queue.last_answer.as_ref());
        let held = self.local_holder(request.queue, now).or_else(|| match last_answer {
            // A waiter whose turn never came has it from those before it.
            Some((at, LastAnswer::Held(holder))) if *at >= request.started || request.last_try.is_none() => {
                Some(holder.clone())
            }
            _ => None,
        });
        match held {
            Some(holder) => held_error(&request.keys, Some(waited), holder),
            None => self.no_answer(request, now),
        }
    }

    /// Why a caller hears that the server did not answer.
    fn no_answer(&self, request: &Request, now: Instant) -> Error {
        let waited = now.saturating_since(request.started);
        let queue = self.queues.get(request.queue);
        let last_answer = queue.and_then(|queue| queue.last_answer.as_ref());
        let cause = match last_answer {
            Some((at, LastAnswer::Failed(cause))) if *at >= request.started && self.is_connected(request.keys.node) => {
                cause.clone()
            }
            _ => self.silence_of(request.keys.node),
        };
        let message =
            format!("the server did not answer within {waited:?}: {cause}; check that it is up and reachable");
        Error::new(ErrorKind::Unavailable, Operation::Acquire, message).with_lock(request.keys.name.as_str())
    }

    /// Who of this client holds the lock.
    fn local_holder(&self, id: QueueId, now: Instant) -> Option<Holder> {
        let hold = self.queues.get(id)?.holding?;
        Some(self.holds.get(&hold)?.as_holder(now))
    }
}

/// What a caller is told who waited so long, or was refused without asking the server.
fn held_error(keys: &Keys, waited: Option<Duration>, holder: Holder) -> Error {
    let after = waited.map_or_else(String::new, |waited| format!(" after {waited:?}"));
    let left = match holder.remaining {
        Some(left) => format!("for another {left:?} unless it is renewed"),
        None => "by a record without TTL".into(),
    };
    let message = format!(
        "not granted{after}: held by {} {left}; wait longer or try again",
        holder.owner
    );
    Error::new(ErrorKind::LockTimeout, Operation::Acquire, message)
        .with_lock(keys.name.as_str())
        .with_holder(Some(holder))
}

/// What a server's error means for a lock.
pub(crate) fn explain(keys: &Keys, code: &str, message: &str) -> String {
    match code {
        "WRONGTYPE" => "the key of this name holds something that is not a lock; choose another name".into(),
        "LEASEHOLD_TOKEN" => {
            let key = keys.name.own(Word::Token);
            let key = String::from_utf8_lossy(&key);
            format!("{message}; delete the key {key} after checking who wrote it")
        }
        "LEASEHOLD_LIMIT" => format!("{message}; ask with that one, or change it by set_limit"),
        _ => format!("the server refused: {code} {message}"),
    }
}
