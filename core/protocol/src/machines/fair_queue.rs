//! The waiters of fair locks. They queue on the server, not in this client, except in an outage and while this client
//! has a degraded lease of the lock (`waiters/outage.rs`). The client keeps them alive there by polls, and receives
//! their grants.
//!
//! ```text
//!            queued                  granted, by a message or by a poll
//!  Asking ──────────► in the queue ──────────────────────────────────► a Hold
//!    ▲                  │   │ ▲
//!    │ asks under a     │   └─┘ a poll, by default every 500–750 ms, keeps all waiters alive
//!    └── new owner id ──┘
//!
//!  either state ── a poll reports a grant ──► a Hold
//!               ── the grant expires too soon, or lacks its token ──► asks again, in the same state
//!               ── the wait ends, or its own attempt is granted ──► gone
//! ```
//!
//! The server can grant the lock to a waiter while no call of this waiter is running. Such a grant lasts 3 s, and the
//! client does not know when it began. The grant cannot be older than the last call that found the waiter in the queue,
//! so the deadline counts from when the client sent that call.
//!
//! For example, the script of a release (`fair_release.lua`) grants the lock to the next waiter. If the waiter's own
//! client held the lock before, the reply to the release has the grant message; otherwise the server publishes it. If
//! the message is lost, the reply to the next poll names the waiter as the holder.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::SortedMap;

use super::grant_message::GrantMessage;
use crate::calls::{Answered, Purpose};
use crate::foreign::shown_owner;
use crate::ids::{CallId, LockId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, QueueEntry, parse_number};
use crate::lease::deadline;
use crate::owner::OwnerId;
use crate::periods::{MIN_GAP, PROVISIONAL};
use crate::reply::Reply;
pub(crate) use crate::step::FairInput as Input;
use crate::step::{ClockReading, Granted, HolderSeen, Listen, Listener, OwnerSeen, Report, Step, Topic, WaiterInput};
use crate::timers::Timer;
use crate::token::Token;
use crate::transitions;
use crate::types::Lane;

/// The time that must be left of a grant. If less is left, the waiter asks the server for a full lease.
const MIN_TIME_LEFT: Duration = Duration::from_millis(1_500);
/// The longest time between two polls. The server considers a waiter dead after 3 s without a poll
/// (`WAITER_LIFE` in `parts/fair.lua`).
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(1);
/// How long grant messages for unknown owner ids are ignored after one of them has caused a release. Without this limit
/// every user that may publish could cause any number of releases.
const ABANDONED_GAP: Duration = Duration::from_millis(100);

/// The fair waiters of a client.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    by_lock: SortedMap<LockId, Queue>,
}

/// The waiters of one lock.
#[derive(Debug, Default)]
struct Queue {
    /// The waiters, in order of arrival.
    waiting: SortedMap<Ticket, Waiter>,
    /// The keys of the lock; `None` before the first waiter is in the server's queue.
    keys: Option<Arc<Keys>>,
    /// When a poll was last sent, or was due while the node had no connection.
    last_poll: Option<Instant>,
    /// The polls in flight, and the waiters that each of them names.
    polls: SortedMap<CallId, Vec<Ticket>>,
    /// When a grant message for an abandoned owner id last caused a release.
    last_abandoned: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    entry: QueueEntry,
    /// The reading of the server's clock in the last call that found the waiter in the server's queue; `None` before
    /// the first such call.
    found: Option<ClockReading>,
}

impl Waiter {
    /// Notes a call that found the waiter in the server's queue, unless a later such call is known.
    fn found(&mut self, found: ClockReading) {
        if self.found.is_none_or(|before| before.sent < found.sent) {
            self.found = Some(found);
        }
    }
}

impl FairQueue {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::WillJoin { lock, ticket, entry } => {
                let waiter = Waiter { entry, found: None };
                self.by_lock.get_or_default(lock).waiting.insert(ticket, waiter);
            }
            Input::Left(lock, ticket) => {
                let Some(queue) = self.by_lock.get_mut(&lock) else {
                    return;
                };
                if queue.waiting.remove(&ticket).is_some() && queue.waiting.is_empty() {
                    io.stop(Timer::Poll(lock));
                }
            }
            Input::HasJoined {
                lock,
                ticket,
                keys,
                found,
            } => self.found(io, lock, ticket, keys, found, now),
            Input::PollSoon(lock) => self.poll_soon(io, lock, now),
            Input::PollBy(lock, by) => {
                if io.due(Timer::Poll(lock)).is_some_and(|next| by < next) {
                    io.set(Timer::Poll(lock), by);
                }
            }
            Input::PollDue(lock) => self.poll(io, lock, now),
            Input::Answered(lock, poll) => self.answered(io, lock, poll, now),
            Input::GrantMessage { lock, payload } => self.grant_message(io, lock, &payload, now),
            Input::AbandonedOwnerReleased(lock) => {
                if let Some(queue) = self.by_lock.get_mut(&lock) {
                    queue.last_abandoned = Some(now);
                }
            }
            Input::Forget(lock) => {
                self.by_lock.remove(&lock);
            }
        }
        transitions::after(self, io, &before);
    }

    /// Returns the keys of a lock whose fair waiters are, or were, in the server's queue.
    pub(crate) fn keys(&self, lock: LockId) -> Option<&Arc<Keys>> {
        self.by_lock.get(&lock)?.keys.as_ref()
    }

    pub(crate) fn has_waiters(&self, lock: LockId) -> bool {
        self.by_lock.get(&lock).is_some_and(|queue| !queue.waiting.is_empty())
    }

    pub(crate) fn len(&self) -> usize {
        self.by_lock.len()
    }

    /// Notes that a waiter is in the server's queue. Subscribes to the channels of the lock and starts the polls.
    fn found(&mut self, io: &mut Io, lock: LockId, ticket: Ticket, keys: Arc<Keys>, found: ClockReading, now: Instant) {
        let queue = self.by_lock.get_or_default(lock);
        if let Some(waiter) = queue.waiting.get_mut(&ticket) {
            waiter.found(found);
        }
        if io.due(Timer::Poll(lock)).is_none() {
            let heartbeat = heartbeat(io);
            io.set(Timer::Poll(lock), now + heartbeat);
        }
        let node = keys.node;
        if let Some(channel) = keys.grants(io.config().client) {
            let grants = Listen {
                lock,
                node,
                channel,
                topic: Topic::Grants,
            };
            io.step(Step::Listen(grants));
        }
        if let Some(channel) = keys.channel() {
            let releases = Listen {
                lock,
                node,
                channel,
                topic: Topic::Releases(Listener::ServerQueue),
            };
            io.step(Step::Listen(releases));
        }
        queue.keys = Some(keys);
    }

    /// Polls now, or as soon as `MIN_GAP` has passed since the last poll.
    fn poll_soon(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let queue = self.by_lock.get(&lock);
        let Some(queue) = queue.filter(|queue| !queue.waiting.is_empty()) else {
            return;
        };
        let earliest = queue.last_poll.map_or(now, |last| last + MIN_GAP);
        if earliest <= now {
            self.poll(io, lock, now);
        } else {
            io.set(Timer::Poll(lock), earliest);
        }
    }

    /// Tells the server that the waiters in its queue are alive, and asks who holds the lock.
    fn poll(&mut self, io: &mut Io, lock: LockId, now: Instant) {
        let queue = self.by_lock.get_mut(&lock);
        let Some(queue) = queue.filter(|queue| !queue.waiting.is_empty()) else {
            return;
        };
        let Some(keys) = queue.keys.clone() else { return };
        queue.last_poll = Some(now);
        let heartbeat = heartbeat(io);
        io.set(Timer::Poll(lock), now + heartbeat);
        if !io.is_connected(keys.node) {
            return;
        }
        let queued = queue.waiting.iter().filter(|(_, waiter)| waiter.found.is_some());
        let (tickets, entries): (Vec<Ticket>, Vec<QueueEntry>) =
            queued.map(|(ticket, waiter)| (*ticket, waiter.entry.clone())).unzip();
        let most = io.limits().waiters_per_poll.max(1);
        for (entries, tickets) in entries.chunks(most).zip(tickets.chunks(most)) {
            let Some(invocation) = keys.poll(entries) else { return };
            let poll = io.call(Purpose::Poll(lock), keys.node, Lane::Command, invocation, None);
            // A poll adds waiters that are missing from the queue, so it counts as an attempt of each waiter it names.
            let waiters = tickets.to_vec();
            io.step(Step::Waiter(WaiterInput::Polled { poll, waiters }));
            queue.polls.insert(poll, tickets.to_vec());
        }
    }

    fn answered(&mut self, io: &mut Io, lock: LockId, poll: Answered, now: Instant) {
        let queue = self.by_lock.get_mut(&lock);
        let polled = queue.and_then(|queue| queue.polls.remove(&poll.id)).unwrap_or_default();
        // A poll that was cut off may still run, after the release of a waiter that has left, and put the waiter back
        // into the server's queue. The request of each waiter therefore learns how the poll ended.
        io.step(Step::Waiter(WaiterInput::PollAnswered {
            poll: poll.resolved(),
            waiters: polled.clone(),
        }));
        let reply = match poll.result {
            Ok(reply) => reply,
            Err(failure) => {
                return io.step(Step::Waiter(WaiterInput::PollFailed {
                    lock,
                    waiters: polled,
                    failure,
                }));
            }
        };
        let Some(poll) = poll.call.sent.and_then(|sent| parse_poll(&reply, sent)) else {
            return;
        };
        let seen = HolderSeen {
            owner: poll.holder.clone(),
            remaining: poll.ttl,
            sent: poll.seen.sent,
        };
        io.step(Step::Waiter(WaiterInput::HolderSeen(lock, seen)));
        self.apply_poll(io, lock, &poll, &polled, now);
    }

    /// Handles the reply to a poll that named the waiters in `polled`.
    fn apply_poll(&mut self, io: &mut Io, lock: LockId, poll: &PollReply, polled: &[Ticket], now: Instant) {
        let Some(queue) = self.by_lock.get_mut(&lock) else {
            return;
        };
        let granted = io
            .parse_own_owner(poll.holder.as_bytes())
            .and_then(|owner| queue.find(&owner));
        for ticket in polled.iter().filter(|ticket| Some(**ticket) != granted) {
            let waiter = queue.waiting.get_mut(ticket);
            // A waiter that has a new owner id since the poll was sent is not known to be in the queue.
            if let Some(waiter) = waiter.filter(|waiter| waiter.found.is_some()) {
                waiter.found(poll.seen);
            }
        }
        if let Some(ticket) = granted {
            let granted = Granted::provisional(poll.token, poll.seen.sent, poll.ttl.unwrap_or_default());
            self.accept_grant(io, lock, ticket, granted, now);
            return;
        }
        if poll.holder.is_empty() {
            // The call removed its maximum of dead waiters, and left the lock free: the next call goes on from there.
            io.step(Step::Fair(Input::PollSoon(lock)));
        }
        // The server publishes nothing when a record expires, so the client polls at that time.
        if let Some(ttl) = poll.ttl {
            let by = now + ttl.saturating_add(Duration::from_millis(1));
            io.step(Step::Fair(Input::PollBy(lock, by)));
        }
    }

    /// Handles a grant message.
    fn grant_message(&mut self, io: &mut Io, lock: LockId, payload: &[u8], now: Instant) {
        let Some(message) = GrantMessage::parse(payload) else {
            return io.step(Step::Waiter(WaiterInput::ReleaseMessage(lock)));
        };
        let Some(owner) = io.parse_own_owner(message.owner) else {
            return;
        };
        let queue = self.by_lock.get(&lock);
        let granted = queue.and_then(|queue| Some((queue, queue.find(&owner)?)));
        let Some((queue, ticket)) = granted else {
            return self.grant_to_unknown_owner(io, lock, owner, now);
        };
        let Some(waiter) = queue.waiting.get(&ticket) else {
            return;
        };
        match waiter.found {
            None => io.step(Step::Waiter(WaiterInput::AnswerMayBeStale(ticket))),
            Some(found) if message.is_plausible(found, waiter.entry.fencing, now) => {
                let granted = Granted::provisional(message.token, found.sent, PROVISIONAL);
                self.accept_grant(io, lock, ticket, granted, now);
            }
            // The message may be old or forged. The lock may be free all the same.
            Some(_) => io.step(Step::Waiter(WaiterInput::ReleaseMessage(lock))),
        }
    }

    /// Handles a grant message for an owner id that no waiter here has: the waiter has left, a call of the waiter
    /// returned the grant first, or the message is forged.
    fn grant_to_unknown_owner(&self, io: &mut Io, lock: LockId, owner: OwnerId, now: Instant) {
        let last_abandoned = self.by_lock.get(&lock).and_then(|queue| queue.last_abandoned);
        if last_abandoned.is_some_and(|last| now < last + ABANDONED_GAP) {
            return;
        }
        let report = Report::Message;
        io.step(Step::OwnerSeen(OwnerSeen { lock, owner, report }));
    }

    /// Handles a grant that the server made to a waiter here, no earlier than `granted.sent`. If too little of the
    /// grant is left, or its token is missing, the waiter asks the server.
    fn accept_grant(&mut self, io: &mut Io, lock: LockId, ticket: Ticket, granted: Granted, now: Instant) {
        let queue = self.by_lock.get(&lock);
        let Some(waiter) = queue.and_then(|queue| queue.waiting.get(&ticket)) else {
            return;
        };
        // A poll draws a token only for a waiter that it names. The holder may be another waiter of this client, and
        // then the reply has no token.
        let has_token = granted.token.is_some() || !waiter.entry.fencing;
        let is_usable = has_token && deadline(granted.sent, granted.ttl) > now + MIN_TIME_LEFT;
        io.step(Step::Waiter(if is_usable {
            WaiterInput::GrantedInQueue(ticket, granted)
        } else {
            WaiterInput::AskAgain(ticket)
        }));
    }
}

impl Queue {
    /// Returns the waiter with this owner id.
    fn find(&self, owner: &OwnerId) -> Option<Ticket> {
        let is_it = |(_, waiter): &(&Ticket, &Waiter)| waiter.entry.owner == *owner;
        self.waiting.iter().find(is_it).map(|(ticket, _)| *ticket)
    }
}

/// Returns the time until the next poll: the configured poll interval, but short enough to keep the waiters alive.
fn heartbeat(io: &mut Io) -> Duration {
    let poll = io.random_between(io.config().retry_interval.clone());
    poll.min(LONGEST_HEARTBEAT)
}

/// The reply to a poll.
struct PollReply {
    /// The server's clock when the poll ran.
    seen: ClockReading,
    holder: String,
    ttl: Option<Duration>,
    token: Option<Token>,
}

fn parse_poll(reply: &Reply, sent: Instant) -> Option<PollReply> {
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
    Some(PollReply {
        seen: ClockReading {
            sent,
            clock: parse_number(now)?,
        },
        holder: shown_owner(holder),
        ttl: u64::try_from(*ttl).ok().map(Duration::from_millis),
        token: Token::parse(token),
    })
}
