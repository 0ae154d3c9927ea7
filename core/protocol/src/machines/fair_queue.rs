//! The waiters of fair locks, which all stand in the server's queue: this client keeps them alive
//! there and listens for their grants. The local queue is not theirs.
//!
//! ```text
//!            queued                  heard by message, or by a poll
//!  Trying ──────────► in the queue ──────────────────────────────────► a Hold
//!    ▲                  │   │ ▲
//!    │ under a new      │   └─┘ every 500–750 ms one call says that they live
//!    └── owner id ──────┘
//!
//!  in both ── a poll says that it is granted ──► a Hold
//!          ── so it is, but too little is left ──► asks, and stays where it is
//!          ── waits no longer ──► gone
//! ```
//!
//! The server grants of its own accord, for 3 s. When, the client does not know:
//! not before it sent the last call that was answered "queued", so the deadline
//! counts from there.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::grant_message::{ClockSeen, GrantMessage};
use crate::calls::{InFlight, Purpose};
use crate::defects::Defect;
use crate::foreign::shown_owner;
use crate::ids::{CallId, LockId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, parse_number};
use crate::lease::deadline;
use crate::owner::OwnerId;
use crate::periods::{MIN_GAP, PROVISIONAL};
use crate::reply::{CallError, Reply};
use crate::sorted::SortedMap;
use crate::step::{Granted, Step};
use crate::timers::Timer;
use crate::token::Token;
use crate::transitions;
use crate::types::Lane;

/// What must be left of a grant to be of use without asking again.
const WORTH_TAKING: Duration = Duration::from_millis(1_500);
/// A waiter is dead after 3 s.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(1);
/// After a message of a grant to nobody has caused a release, such messages are not believed for so long:
/// otherwise anybody who may publish could cause any number of releases.
const GHOST_GAP: Duration = Duration::from_millis(100);

/// What happens to fair waiters.
#[derive(Debug)]
pub(crate) enum Input {
    /// A waiter asks for the first time, or under a new owner id; and whether it wants a token.
    Joined(LockId, Ticket, OwnerId, bool),
    /// A waiter waits no longer.
    Left(LockId, Ticket),
    /// An attempt found it in the server's queue.
    Found(LockId, Ticket, Arc<Keys>, ClockSeen),
    /// The lock may be free: ask how the queue stands, at once or as soon as the last time is past.
    PollSoon(LockId),
    /// Ask by then.
    PollBy(LockId, Instant),
    /// It is time to say that the waiters live.
    PollDue(LockId),
    /// A poll was answered, or cut off.
    Answered(LockId, (CallId, InFlight), Result<Reply, CallError>),
    /// The server tells this client of a grant, by a message or with the reply to a release.
    Told(LockId, Vec<u8>),
    /// An owner id that was given up had the lock, as a message said, and is released.
    GhostReleased(LockId),
    /// Nobody needs the lock any more.
    Forget(LockId),
}

/// The fair waiters of a client.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    by_lock: SortedMap<LockId, Queue>,
}

/// The waiters of one lock.
#[derive(Debug, Default)]
struct Queue {
    /// In order of arrival.
    waiting: SortedMap<Ticket, Waiter>,
    /// The keys that they share.
    keys: Option<Arc<Keys>>,
    /// When the server was last told that they live.
    last_poll: Option<Instant>,
    /// The polls in flight, and the waiters that each speaks for.
    polls: SortedMap<CallId, Vec<Ticket>>,
    /// When a message last told of a grant to an owner that is nobody's here.
    last_ghost: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    fencing: bool,
    /// The last call that found it in the server's queue; its request knows that one did.
    found: Option<ClockSeen>,
}

impl Waiter {
    fn found(&mut self, found: ClockSeen) {
        if self.found.is_none_or(|(at, _)| at < found.0) {
            self.found = Some(found);
        }
    }
}

impl FairQueue {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Joined(lock, ticket, owner, fencing) => {
                let found = None;
                let waiter = Waiter { owner, fencing, found };
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
            Input::Found(lock, ticket, keys, found) => self.found(io, lock, (ticket, found), keys, now),
            Input::PollSoon(lock) => self.poll_soon(io, lock, now),
            Input::PollBy(lock, by) => {
                if io.due(Timer::Poll(lock)).is_some_and(|next| by < next) {
                    io.set(Timer::Poll(lock), by);
                }
            }
            Input::PollDue(lock) => self.poll(io, lock, now),
            Input::Answered(lock, call, result) => self.answered(io, lock, call, result, now),
            Input::Told(lock, payload) => self.told(io, lock, &payload, now),
            Input::GhostReleased(lock) => {
                if let Some(queue) = self.by_lock.get_mut(&lock) {
                    queue.last_ghost = Some(now);
                }
            }
            Input::Forget(lock) => {
                self.by_lock.remove(&lock);
            }
        }
        transitions::after(self, io, &before);
    }

    /// The keys of a lock that fair waiters have queued for.
    pub(crate) fn keys(&self, lock: LockId) -> Option<&Arc<Keys>> {
        self.by_lock.get(&lock)?.keys.as_ref()
    }

    /// How many locks it knows.
    pub(crate) fn len(&self) -> usize {
        self.by_lock.len()
    }

    /// A waiter is in the server's queue: the client listens, and polls.
    fn found(
        &mut self,
        io: &mut Io,
        lock: LockId,
        (ticket, found): (Ticket, ClockSeen),
        keys: Arc<Keys>,
        now: Instant,
    ) {
        let queue = self.by_lock.get_or_default(lock);
        if let Some(waiter) = queue.waiting.get_mut(&ticket) {
            waiter.found(found);
        }
        if io.due(Timer::Poll(lock)).is_none() {
            let heartbeat = heartbeat(io);
            io.set(Timer::Poll(lock), now + heartbeat);
        }
        let grants = keys.grants(io.config().client);
        io.step(Step::ListenForGrants(lock, keys.node, grants));
        io.step(Step::Listen(lock, keys.node, keys.channel(), None));
        queue.keys = Some(keys);
    }

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

    /// Says that the waiters live, and asks how the queue stands.
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
        let (tickets, waiters): (Vec<Ticket>, Vec<(OwnerId, bool)>) = queued
            .map(|(ticket, waiter)| (*ticket, (waiter.owner.clone(), waiter.fencing)))
            .unzip();
        let most = io.limits().waiters_per_poll.max(1);
        for (some, tickets) in waiters.chunks(most).zip(tickets.chunks(most)) {
            let Some(poll) = keys.poll(some) else { return };
            let call = io.call(Purpose::Poll(lock), (keys.node, Lane::Command), poll, None);
            // It puts back a waiter that is not in the queue any more, so it is an attempt of each.
            if !io.has(Defect::PollsAreNoAttempts) {
                io.step(Step::Polled(call, tickets.to_vec()));
            }
            queue.polls.insert(call, tickets.to_vec());
        }
    }

    fn answered(
        &mut self,
        io: &mut Io,
        lock: LockId,
        (call, in_flight): (CallId, InFlight),
        result: Result<Reply, CallError>,
        now: Instant,
    ) {
        let was_cut = in_flight.was_cut(&result);
        let queue = self.by_lock.get_mut(&lock);
        let polled = queue.and_then(|queue| queue.polls.remove(&call)).unwrap_or_default();
        // If its connection closed, it may run after the release of one that has left.
        io.step(Step::PollAnswered(call, was_cut, polled.clone()));
        let standing = match result {
            Ok(reply) => parse_standing(&reply),
            Err(failure) => {
                io.step(Step::PollFailed(lock, polled, failure));
                return;
            }
        };
        let (Some(standing), Some(sent)) = (standing, in_flight.sent) else {
            return;
        };
        let holder = standing.holder.clone();
        io.step(Step::HolderSeen(lock, holder, standing.ttl, sent));
        self.stands(io, lock, (sent, standing), &polled, now);
    }

    /// How the queue stood when a call ran that spoke for these.
    fn stands(
        &mut self,
        io: &mut Io,
        lock: LockId,
        (sent, standing): (Instant, Standing),
        polled: &[Ticket],
        now: Instant,
    ) {
        let Some(queue) = self.by_lock.get_mut(&lock) else {
            return;
        };
        let granted = io.own(standing.holder.as_bytes()).and_then(|owner| queue.find(&owner));
        for ticket in polled.iter().filter(|ticket| Some(**ticket) != granted) {
            let waiter = queue.waiting.get_mut(ticket);
            // One that has since asked under another owner id is not known to be in the queue.
            if let Some(waiter) = waiter.filter(|waiter| waiter.found.is_some()) {
                waiter.found((sent, standing.now));
            }
        }
        if let Some(ticket) = granted {
            let ttl = standing.ttl.unwrap_or_default();
            self.take_turn(io, (lock, ticket), standing.token, (sent, ttl), now);
            return;
        }
        if standing.holder.is_empty() && !io.has(Defect::DeadEndThePassing) {
            // The first in the queue are dead, and the call stopped before it had passed over all of them.
            io.step(Step::PollSoon(lock));
        }
        // When the holder's time is over, somebody has to ask.
        if let Some(ttl) = standing.ttl {
            io.step(Step::PollBy(lock, now + ttl.saturating_add(Duration::from_millis(1))));
        }
    }

    /// The server tells this client of a grant.
    fn told(&mut self, io: &mut Io, lock: LockId, payload: &[u8], now: Instant) {
        let Some(message) = GrantMessage::parse(payload) else {
            return io.step(Step::Heard(lock));
        };
        let Some(owner) = io.own(message.owner) else {
            return;
        };
        let queue = self.by_lock.get(&lock);
        let granted = queue.and_then(|queue| Some((queue, queue.find(&owner)?)));
        let Some((queue, ticket)) = granted else {
            return self.told_of_nobody(io, lock, owner, now);
        };
        let Some(waiter) = queue.waiting.get(&ticket) else {
            return;
        };
        let believes_all = io.has(Defect::NewsIsBelieved);
        match waiter.found {
            None => io.step(Step::StaleAnswer(ticket)),
            Some(found)
                if message.is_plausible(found, waiter.fencing, now)
                    || (believes_all && message.is_late_enough(found)) =>
            {
                self.take_turn(io, (lock, ticket), message.token, (found.0, PROVISIONAL), now);
            }
            // It comes too late, or from a stranger.
            Some(_) => io.step(Step::Heard(lock)),
        }
    }

    /// A message tells of a grant to an owner that does not wait here: to nobody, or it was
    /// asked for meanwhile.
    fn told_of_nobody(&self, io: &mut Io, lock: LockId, owner: OwnerId, now: Instant) {
        let last_ghost = self.by_lock.get(&lock).and_then(|queue| queue.last_ghost);
        if last_ghost.is_some_and(|last| now < last + GHOST_GAP) {
            return;
        }
        io.step(Step::OwnerSeen(lock, owner, true));
    }

    /// The server granted the lock to a waiter here, not before `sent`.
    fn take_turn(
        &mut self,
        io: &mut Io,
        (lock, ticket): (LockId, Ticket),
        token: Option<Token>,
        (sent, ttl): (Instant, Duration),
        now: Instant,
    ) {
        let queue = self.by_lock.get(&lock);
        let Some(waiter) = queue.and_then(|queue| queue.waiting.get(&ticket)) else {
            return;
        };
        // A poll has tokens for those only that it named.
        let has_token = token.is_some() || !waiter.fencing;
        if has_token && deadline(sent, ttl) > now + WORTH_TAKING {
            let granted = Granted {
                token,
                sent,
                ttl,
                provisional: true,
                is_local: false,
            };
            io.step(Step::GrantedUnasked(ticket, granted));
        } else {
            io.step(Step::AskAgain(ticket));
        }
    }
}

impl Queue {
    /// The waiter of this owner id.
    fn find(&self, owner: &OwnerId) -> Option<Ticket> {
        let is_it = |(_, waiter): &(&Ticket, &Waiter)| waiter.owner == *owner;
        self.waiting.iter().find(is_it).map(|(ticket, _)| *ticket)
    }
}

/// When waiters speak again: like any poll, but before the server takes them for dead.
fn heartbeat(io: &mut Io) -> Duration {
    let poll = io.between(io.config().retry_interval);
    poll.min(LONGEST_HEARTBEAT)
}

/// How the queue stands.
struct Standing {
    /// The server's clock, in µs.
    now: u64,
    holder: String,
    ttl: Option<Duration>,
    token: Option<Token>,
}

fn parse_standing(reply: &Reply) -> Option<Standing> {
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
        holder: shown_owner(holder),
        ttl: u64::try_from(*ttl).ok().map(Duration::from_millis),
        token: Token::parse(token),
    })
}
