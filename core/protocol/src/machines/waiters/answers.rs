//! The answers to attempts, failed polls, and the ends of waits: a grant, a refusal, or the caller's cancellation.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Queue;
use super::request::{Renounced, Request, Wait, no_answer, skipped};
use super::{FAILURE_PAUSE, LONGEST_HEARTBEAT, Waiters};
use crate::calls::{Answered, InFlight};
use crate::error::{Cause, ErrorKind, Holder};
use crate::ids::{CallId, LockId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Answer, RunSeen};
use crate::lateness::LateGrant;
use crate::lease::deadline;
use crate::machines::holds::Holds;
use crate::observed::{Attempted, Detail, Observed, Place};
use crate::periods::{FIRST_ANSWER_GRACE, MIN_GAP};
use crate::reply::{CallError, Refusal};
use crate::step::{
    ClockReading, FairInput, GrantKind, Granted, HolderSeen, Listen, Listener, OwnerSeen, Refused, Report, Step, Topic,
    WaiterInput,
};
use crate::timers::Timer;
use crate::types::Outcome;
use crate::wording::{brief, cause_of, explain};

impl Waiters {
    /// Handles the answer to an attempt that asked for `ttl`.
    pub(super) fn answered(
        &mut self,
        io: &mut Io,
        holds: &Holds,
        ticket: Ticket,
        ttl: Duration,
        attempt: Answered,
        now: Instant,
    ) {
        let request = self.request_mut(ticket);
        let Some(request) = request.filter(|request| request.is_attempt(attempt.id)) else {
            // The request has ended, or has a new owner id. A hold or a release has taken over the old attempts.
            return;
        };
        request.resolved(attempt.resolved());
        let (call, lock) = (attempt.call, request.lock());
        let (is_current, is_answer) = (request.is_asking_by(attempt.id), attempt.result.is_ok());
        let verdict = Verdict::of(attempt, ttl, request, now);
        observe_answer(io, request, call, &verdict, now);
        if is_answer && !matches!(verdict, Verdict::TooLate(_)) && deadline(request.sent(call), ttl) > now {
            request.reset_lateness();
        }
        if is_answer {
            self.with_queue(lock, |queue| queue.answered(now));
        }
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        match verdict {
            Verdict::Granted(granted) => self.grant(io, ticket, granted, now),
            Verdict::TooLate(late) => self.too_late(io, ticket, late, now),
            Verdict::Held { holder, found } => {
                request.refused();
                if let Some(found) = found {
                    has_joined(io, request, ticket, found);
                }
                let refused = Refused {
                    ticket,
                    remaining: holder.remaining,
                    is_free: holder.owner.is_empty(),
                };
                self.note_held(io, lock, holder, now);
                self.end_due_waits(io, holds, lock, now);
                if is_current {
                    io.step(Step::Waiter(WaiterInput::Refused(refused)));
                }
            }
            Verdict::Skipped(holder, run) => {
                request.refused();
                io.complete(ticket, Outcome::NotGranted(skipped(request, holder, &run)));
                self.remove(io, ticket);
            }
            Verdict::Useless { why, may_be_granted } => {
                request.failed_attempt(may_be_granted);
                self.fail(io, ticket, why);
            }
            Verdict::Failed {
                failure,
                may_be_granted,
            } => {
                request.failed_attempt(may_be_granted);
                self.with_queue(lock, |queue| queue.note_failure(cause_of(&failure), now));
                if is_current {
                    self.unanswered(io, holds, ticket, now);
                }
            }
        }
    }

    /// Handles a grant that came too late to be useful. Releases it and asks under a new owner id: at once after the
    /// first such grant, and after a pause that grows with each further one in a row. After the fifth in a row, a
    /// single attempt or a wait without a bound fails.
    fn too_late(&mut self, io: &mut Io, ticket: Ticket, late: LateGrant, now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if let Some(owed) = request.renounce(io, Renounced::Grant) {
            io.step(Step::Owes(owed));
        }
        let (lock, cause) = (request.lock(), late.cause());
        let lateness = request.count_late_grant();
        self.with_queue(lock, |queue| queue.note_failure(cause.clone(), now));
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if lateness.is_lasting() && !request.is_bounded() {
            self.fail_late(io, ticket, &cause, now);
            return;
        }
        if request.keys().kind.queues_on_server() {
            io.step(Step::Fair(FairInput::WillJoin {
                lock,
                ticket,
                entry: request.queue_entry(),
            }));
        }
        match lateness.pause() {
            None => io.step(Step::Waiter(WaiterInput::Ask(ticket))),
            Some(range) => {
                request.pause();
                let pause = io.random_between(range);
                io.set(Timer::Wake(ticket), now + pause);
            }
        }
    }

    /// Fails a caller whose lease is too short for the time that answers take. Also fails each waiter behind it whose
    /// lease is not longer, unless its wait has a bound.
    fn fail_late(&mut self, io: &mut Io, ticket: Ticket, cause: &Cause, now: Instant) {
        let Some(request) = self.request(ticket) else {
            return;
        };
        let (lock, length) = (request.lock(), request.plan().length);
        let mut failed = self.queue(lock).map(Queue::local).unwrap_or_default();
        failed.retain(|other| {
            let request = self.request(*other).filter(|request| !request.is_bounded());
            *other != ticket && request.is_some_and(|request| request.plan().length <= length)
        });
        failed.insert(0, ticket);
        // Starts with the last waiter: when the first waiter is removed, the next one asks the server.
        for ticket in failed.into_iter().rev() {
            if let Some(request) = self.request(ticket) {
                let waited = now.saturating_since(request.started());
                let error = request.failed(ErrorKind::Unavailable, format!("not granted after {}", brief(waited)));
                io.complete(ticket, Outcome::Failed(error.with_cause(cause.clone())));
                self.remove(io, ticket);
            }
        }
    }

    /// Notes that the answer to a call names the holder.
    pub(super) fn note_held(&mut self, io: &mut Io, lock: LockId, seen: HolderSeen, now: Instant) {
        if let Some(owner) = io.parse_own_owner(seen.owner.as_bytes()) {
            let report = Report::Reply;
            io.step(Step::OwnerSeen(OwnerSeen { lock, owner, report }));
        } else if let Some(node) = self.queue(lock).map(Queue::node) {
            io.ask_identity(node, &seen.owner, now);
        }
        let holder = Holder {
            owner: seen.owner,
            remaining: seen.remaining,
            client: None,
        };
        self.with_queue(lock, |queue| queue.note_held(holder, seen.sent, now));
    }

    /// Decides what a refused waiter does next, after the answer to its attempt is handled.
    pub(super) fn refused(&mut self, io: &mut Io, holds: &Holds, refused: Refused, now: Instant) {
        let ticket = refused.ticket;
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        // If the lock is free, only dead waiters come first. One call skips a limited number of them, and the next call
        // continues.
        let queues_on_server = request.keys().kind.queues_on_server();
        let must_ask_again = refused.is_free && queues_on_server;
        if request.is_once() {
            if must_ask_again {
                request.attempt_after_gap(io, ticket, now);
            } else {
                self.give_up(io, holds, ticket, now);
            }
            return;
        }
        if request.ends_with_next_answer() && !must_ask_again {
            self.give_up(io, holds, ticket, now);
            return;
        }
        let (lock, keys) = (request.lock(), Arc::clone(request.keys()));
        request.sleep();
        if queues_on_server {
            if request.is_stale() {
                request.attempt_after_gap(io, ticket, now);
            } else if must_ask_again {
                io.step(Step::Fair(FairInput::PollSoon(lock)));
            }
            return;
        }
        let Some(channel) = keys.channel() else { return };
        let releases = Listen {
            lock,
            node: keys.node,
            channel,
            topic: Topic::Releases(Listener::Waiter(ticket)),
        };
        io.step(Step::Listen(releases));
        io.step(Step::Waiter(WaiterInput::Sleep {
            ticket,
            remaining: refused.remaining,
        }));
    }

    /// Lets a refused waiter sleep until its next attempt. If the refusal may be stale, the next attempt is due as soon
    /// as `MIN_GAP` has passed since the last one.
    pub(super) fn sleep(&mut self, io: &mut Io, ticket: Ticket, remaining: Option<Duration>, now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if request.is_stale() {
            request.attempt_after_gap(io, ticket, now);
            return;
        }
        let poll = io.random_between(io.config().retry_interval.clone());
        let poll = if request.is_marked() {
            poll.min(LONGEST_HEARTBEAT)
        } else {
            poll
        };
        let sleep = match remaining {
            Some(ttl) if !ttl.is_zero() => ttl.saturating_add(Duration::from_millis(1)).min(poll),
            Some(_) => MIN_GAP,
            None => poll,
        };
        io.set(Timer::Wake(ticket), now + sleep);
    }

    /// Handles an attempt that failed. The waiter asks again after a pause; a single attempt that the server may have
    /// granted ends instead.
    pub(super) fn unanswered(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        request.sleep();
        if request.is_once() && request.is_unresolved() {
            self.give_up(io, holds, ticket, now);
            return;
        }
        let pause = io.random_between(FAILURE_PAUSE);
        io.set(Timer::Wake(ticket), now + pause);
    }

    /// Sends an attempt under the same owner id, because the answer to the last one is overdue. A single attempt ends
    /// instead.
    pub(super) fn overdue(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, call: CallId, now: Instant) {
        let Some(request) = self.request_mut(ticket) else {
            return;
        };
        if request.is_asking_by(call) {
            observe_overdue(io, request, call, now);
            if request.is_once() {
                self.give_up(io, holds, ticket, now);
            } else {
                request.attempt(io, ticket, now);
            }
        }
    }

    /// Handles a failed poll. Fails the waits if every later poll would fail too, for example because another kind of
    /// lock has the key by now.
    pub(super) fn poll_failed(
        &mut self,
        io: &mut Io,
        lock: LockId,
        polled: &[Ticket],
        failure: &CallError,
        now: Instant,
    ) {
        self.with_queue(lock, |queue| queue.note_failure(cause_of(failure), now));
        let CallError::Server { code, message } = failure else {
            return;
        };
        if Refusal::of(code) != Refusal::BeforeWrite {
            return;
        }
        // Each of these waiters was in the server's queue, so the client has subscribed to the channel of the lock. The
        // lock is therefore not forgotten before all waiters are removed.
        for ticket in polled {
            let request = self.request(*ticket).filter(|request| request.is_in_server_queue());
            if let Some(why) = request.map(|request| explain(request.keys(), code, message)) {
                self.fail(io, *ticket, why);
            }
        }
    }
}

/// The meaning of the answer to an attempt. `may_be_granted` says whether the server may have granted the lock although
/// its reply does not say so. It is false for an attempt that was cut off, which `Unresolved::resolved` counts.
pub(super) enum Verdict {
    /// The lock was granted.
    Granted(Granted),
    /// The lock was granted, but the deadline of the lease has already passed.
    TooLate(LateGrant),
    /// Another owner holds the lock, or other waiters come first.
    Held {
        holder: HolderSeen,
        /// The server's clock when the call ran; `None` if waiters do not queue on the server.
        found: Option<ClockReading>,
    },
    /// Another run of the job keeps the request out, so it is skipped.
    Skipped(Holder, RunSeen),
    /// Another attempt cannot help, for this reason.
    Useless { why: Cause, may_be_granted: bool },
    /// Another attempt may help.
    Failed { failure: CallError, may_be_granted: bool },
}

impl Verdict {
    /// Judges the answer to an attempt that asked for `ttl`.
    pub(super) fn of(attempt: Answered, ttl: Duration, request: &Request, now: Instant) -> Self {
        let sent = request.sent(attempt.call);
        match attempt.result.map(|reply| request.keys().parse_answer(&reply)) {
            Ok(Some(Answer::Granted(token))) => {
                if deadline(sent, ttl) > now {
                    Self::Granted(Granted {
                        token,
                        sent,
                        ttl,
                        kind: GrantKind::Full,
                    })
                } else {
                    Self::TooLate(LateGrant {
                        took: now.saturating_since(sent),
                        ttl,
                        is_cut: request.is_cut(ttl),
                    })
                }
            }
            Ok(Some(Answer::Held {
                owner,
                ttl,
                run: Some(run),
                ..
            })) => Self::Skipped(
                Holder {
                    owner,
                    remaining: ttl,
                    client: run.client.clone(),
                },
                run,
            ),
            Ok(Some(Answer::Held { owner, ttl, queued, .. })) => Self::Held {
                holder: HolderSeen {
                    owner,
                    remaining: ttl,
                    sent: attempt.call.sent.unwrap_or(now),
                },
                found: attempt
                    .call
                    .sent
                    .zip(queued)
                    .map(|(sent, clock)| ClockReading { sent, clock }),
            },
            Ok(None) => {
                let why = Cause::new("the server's reply is not Steadlock's");
                Self::Useless {
                    why: why.with_advice("is something between client and server?"),
                    may_be_granted: true,
                }
            }
            Err(failure) => Self::of_failure(failure, request),
        }
    }

    fn of_failure(failure: CallError, request: &Request) -> Self {
        let CallError::Server { code, message } = &failure else {
            return Self::Failed {
                failure,
                may_be_granted: false,
            };
        };
        let refusal = Refusal::of(code);
        let may_be_granted = refusal != Refusal::BeforeWrite;
        if refusal == Refusal::Temporary {
            Self::Failed {
                failure,
                may_be_granted,
            }
        } else {
            Self::Useless {
                why: explain(request.keys(), code, message),
                may_be_granted,
            }
        }
    }
}

impl Waiters {
    /// Ends the wait of a caller. If the holder is not known, and the first answer is still due, prolongs the wait by
    /// `FIRST_ANSWER_GRACE` instead.
    pub(super) fn wait_over(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        let Some(wait) = self.wait(holds, ticket, now) else {
            return;
        };
        let (lock, is_due) = (wait.request.lock(), wait.request.is_due_grace(wait.queue, io));
        let outcome = wait.outcome(io, now);
        if !is_due || matches!(outcome, Outcome::NotGranted(_)) {
            self.conclude(io, ticket, outcome, now);
            return;
        }
        io.set(Timer::Wait(ticket), now + FIRST_ANSWER_GRACE);
        self.with(ticket, |request| request.give_grace(io, ticket, now));
        self.with_queue(lock, |queue| queue.end_with_first_answer(ticket));
    }

    /// Ends the waits that end with the first answer (`Queue::end_with_first_answer`): the holder is known now, or the
    /// lock is held here.
    pub(super) fn end_due_waits(&mut self, io: &mut Io, holds: &Holds, lock: LockId, now: Instant) {
        let due = self.queue_mut(lock).map(Queue::take_due).unwrap_or_default();
        for ticket in due {
            // A waiter that has asked the server itself gets its own answer.
            if self
                .request(ticket)
                .is_some_and(|request| request.last_attempt().is_none())
            {
                self.give_up(io, holds, ticket, now);
            }
        }
    }

    /// Ends a wait without a bound if the server has not answered for `Io::silence_timeout`, and no hold here has
    /// blocked the waiters in that time. Otherwise sets the timer for the next check.
    pub(super) fn silence(&mut self, io: &mut Io, ticket: Ticket, now: Instant) {
        let Some(request) = self.request(ticket) else {
            return;
        };
        let Some(queue) = self.queue(request.lock()) else {
            return;
        };
        let last_contact = match queue.last_contact() {
            _ if queue.holding().is_some() => now,
            Some(at) => at.max(request.started()),
            None => request.started(),
        };
        let until = last_contact + io.silence_timeout();
        if until > now {
            io.set(Timer::Silence(ticket), until);
        } else {
            // The error of a wait without a bound never says that the lock is held, even if the server said so earlier.
            let outcome = Outcome::Failed(no_answer(request, Some(queue), io, now));
            io.complete(ticket, outcome);
            self.remove(io, ticket);
        }
    }

    /// Ends the wait of a caller now.
    pub(super) fn give_up(&mut self, io: &mut Io, holds: &Holds, ticket: Ticket, now: Instant) {
        if let Some(wait) = self.wait(holds, ticket, now) {
            let outcome = wait.outcome(io, now);
            self.conclude(io, ticket, outcome, now);
        }
    }

    /// Returns what decides the outcome of a wait that ends now.
    fn wait(&self, holds: &Holds, ticket: Ticket, now: Instant) -> Option<Wait<'_>> {
        let request = self.request(ticket)?;
        Some(Wait {
            request,
            queue: self.queue(request.lock()),
            local: self.local_holder(holds, request.lock(), request.context(), now),
        })
    }

    /// Ends a wait with this outcome, without the lock.
    fn conclude(&mut self, io: &mut Io, ticket: Ticket, outcome: Outcome, now: Instant) {
        let Some(request) = self.request(ticket) else {
            return;
        };
        if let Outcome::Failed(error) = &outcome
            && !io.is_connected(request.node())
            && now.saturating_since(request.started()) >= io.config().command_timeout
        {
            // An attempt that gets no answer for so long counts as a failure of the primary. Without a connection no
            // attempt is sent, so the wait itself counts.
            let (primary, cause) = (io.primary(request.keys()), Cause::from(error));
            io.failed_at(primary, &cause, now);
        }
        if request.is_graced() {
            // The client may use what is left of the prolonged wait to learn which program the holder is.
            io.name_by(ticket, &outcome, io.due(Timer::Wait(ticket)), now);
        }
        io.complete(ticket, outcome);
        self.remove(io, ticket);
    }

    /// Fails a request that another attempt cannot help.
    pub(super) fn fail(&mut self, io: &mut Io, ticket: Ticket, why: Cause) {
        if let Some(request) = self.request(ticket) {
            let error = request.failed(ErrorKind::Misconfigured, "").with_cause(why);
            io.complete(ticket, Outcome::Failed(error));
            self.remove(io, ticket);
        }
    }

    /// Removes a request. A compensating release is owed for its unresolved attempts.
    pub(super) fn remove(&mut self, io: &mut Io, ticket: Ticket) {
        let Some(mut request) = self.take(ticket) else {
            return;
        };
        if let Some(owed) = request.renounce(io, Renounced::Attempts) {
            io.step(Step::Owes(owed));
        }
        self.forget(io, ticket, request.lock());
        io.step(Step::Waiter(WaiterInput::Advance(request.lock())));
    }

    /// Turns a request into a hold.
    pub(super) fn grant(&mut self, io: &mut Io, ticket: Ticket, granted: Granted, now: Instant) {
        let Some(request) = self.take(ticket) else {
            return;
        };
        let (lock, is_exclusive) = (request.lock(), request.keys().kind.is_exclusive());
        self.forget(io, ticket, lock);
        self.with_queue(lock, |queue| queue.granted(now));
        io.step(Step::Granted(ticket, request.into_hold(granted)));
        if !is_exclusive {
            // The lock can have several holders, so the next waiter may be granted it too.
            io.step(Step::Waiter(WaiterInput::Advance(lock)));
        }
    }

    /// Removes the timers and the place of a ticket that no longer waits.
    pub(super) fn forget(&mut self, io: &mut Io, ticket: Ticket, lock: LockId) {
        for timer in [Timer::Wake(ticket), Timer::Wait(ticket), Timer::Silence(ticket)] {
            io.stop(timer);
        }
        if self.queue_mut(lock).is_some_and(|queue| queue.leave(ticket)) {
            io.step(Step::Fair(FairInput::Left(lock, ticket)));
        }
    }
}

/// Notes that a request has a place in the server's queue, and starts to keep that place. A single attempt does not join
/// the queue. The answer to an overdue attempt counts too, because the attempt after it may never be answered.
fn has_joined(io: &mut Io, request: &mut Request, ticket: Ticket, found: ClockReading) {
    if request.is_once() {
        return;
    }
    request.mark_in_server_queue();
    io.step(Step::Fair(FairInput::HasJoined {
        lock: request.lock(),
        ticket,
        keys: Arc::clone(request.keys()),
        found,
    }));
}

/// Reports that an attempt was answered.
fn observe_answer(io: &mut Io, request: &Request, call: InFlight, verdict: &Verdict, now: Instant) {
    io.observe(Detail::Everything, |_| Observed::Attempt {
        place: Place::of(request.keys()),
        outcome: match verdict {
            Verdict::Granted(_) => Attempted::Granted,
            Verdict::Held { .. } | Verdict::Skipped(..) => Attempted::Refused,
            Verdict::TooLate(_) | Verdict::Useless { .. } | Verdict::Failed { .. } => Attempted::Failed,
        },
        took: call.sent.map(|sent| now.saturating_since(sent)),
    });
    if let (Verdict::Granted(granted), Some(sent)) = (verdict, call.sent)
        && let Some(token) = granted.token
    {
        io.note_token(request.keys(), token, sent, now);
    }
}

/// Reports that the answer to an attempt is overdue. If the answer arrives later, it is reported as well.
fn observe_overdue(io: &mut Io, request: &Request, call: CallId, now: Instant) {
    io.observe(Detail::Everything, |io| {
        let sent = io.in_flight(call).and_then(|call| call.sent);
        Observed::Attempt {
            place: Place::of(request.keys()),
            outcome: Attempted::Failed,
            took: sent.map(|sent| now.saturating_since(sent)),
        }
    });
}
