//! The requests of one machine to others: the router gives each step to the machine that has the rule for it.

use std::sync::Arc;
use std::time::Duration;

use crate::CallError;
use crate::calls::Unresolved;
use crate::ids::{CallId, Context, HoldId, LockId, NodeId, Primary, Ticket};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::lease::LeasePlan;
use crate::owner::OwnerId;
use crate::token::Token;
use crate::types::Event;

/// One consequence of an input.
#[derive(Debug)]
pub(crate) enum Step {
    /// An event for a caller. For a member of a composite lock, the event goes to the composite lock.
    Tell(Event),
    /// A release is owed.
    Owes(Owed),
    /// Perhaps the lock is no longer in use here.
    Tidy(LockId),
    /// The circuit breaker of a primary is open, so no request may wait for it.
    Outage(Primary),
    /// The primary serves again.
    OutageOver(Primary),

    // Steps of waiters.
    /// A request is granted.
    Granted(Ticket, NewHold),
    /// An attempt was refused. The duration is what is left of the other hold. The flag says that the lock is free, but
    /// dead waiters come first.
    Refused(Ticket, Option<Duration>, bool),
    /// A refused waiter goes to sleep, unless the client has subscribed too late.
    Sleep(Ticket, Option<Duration>),
    /// A waiter sends an attempt.
    Ask(Ticket),
    /// The answer to the current attempt may be stale.
    StaleAnswer(Ticket),
    /// The first waiter of this client sends an attempt, if no caller of this client holds the lock.
    Advance(LockId),
    /// A waiter needs the messages about releases. The ticket is `None` for waiters in the server's queue.
    Listen(LockId, NodeId, Arc<[u8]>, Option<Ticket>),

    // Steps of the server's queue.
    /// A waiter asks to be put into the server's queue, under this owner id. The flag says whether it wants a token.
    Joined(LockId, Ticket, OwnerId, bool),
    /// A waiter no longer waits.
    Left(LockId, Ticket),
    /// A call found a waiter in the server's queue. The pair is when the call was sent, and the server's clock when it
    /// ran.
    Found(Ticket, LockId, Arc<Keys>, (Instant, u64)),
    /// The client must poll soon.
    PollSoon(LockId),
    /// The client must poll by this instant.
    PollBy(LockId, Instant),
    /// A poll that names these waiters was sent.
    Polled(CallId, Vec<Ticket>),
    /// The poll was answered, or was cut off (`true`).
    PollAnswered(CallId, bool, Vec<Ticket>),
    /// The poll failed.
    PollFailed(LockId, Vec<Ticket>, CallError),
    /// The answer to a poll that was sent at this instant says who holds the lock, and for how long.
    HolderSeen(LockId, String, Option<Duration>, Instant),
    /// The server granted the lock to a waiter in its queue.
    GrantedUnasked(Ticket, Granted),
    /// The server granted the lock to a waiter in its queue, but the waiter must ask again before it can use the grant.
    AskAgain(Ticket),
    /// A waiter in the server's queue needs the grant messages.
    ListenForGrants(LockId, NodeId, Arc<[u8]>),

    // Steps of channels.
    /// A message says that the lock may be free.
    Heard(LockId),
    /// A grant message arrived for a waiter of this client.
    GrantTold(LockId, Vec<u8>),
    /// The channel of the lock was already confirmed for another lock, so messages for this lock may have been missed.
    /// The ticket is `None` for waiters in the server's queue.
    MissedMessages(LockId, Option<Ticket>),
    /// The lock may be free.
    MayBeFree(LockId),

    // Steps of holds.
    /// A caller of this client was granted a lock that has one holder at a time.
    Held(LockId, HoldId),
    /// A hold no longer blocks the waiters of this client.
    Freed(LockId, HoldId),
    /// A caller re-entered a hold, which must be renewed by this plan.
    Entered(Ticket, HoldId, LeasePlan),

    // Steps of releases.
    /// The message about a release was received by this many connections.
    Published(LockId, u32),
    /// The reply to a release has a grant message for a waiter of this client.
    GrantReplied(Arc<Keys>, Vec<u8>),
    /// A reply, or a message (`true`), says that an owner id of this client holds a fair lock.
    OwnerSeen(LockId, OwnerId, bool),
    /// A grant message named an owner id that this client had given up, so the client releases the lock.
    GhostReleased(LockId),
}

/// A grant, and the earliest time at which it can have begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) token: Option<Token>,
    pub(crate) sent: Instant,
    pub(crate) ttl: Duration,
    /// Whether the server granted the lock for a short time, to a waiter in its queue.
    pub(crate) provisional: bool,
    /// Whether no server granted the lock, so that only this client knows the hold.
    pub(crate) is_local: bool,
}

/// The data of a request that becomes a hold.
#[derive(Debug)]
pub(crate) struct NewHold {
    pub(crate) lock: LockId,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: OwnerId,
    pub(crate) context: Option<Context>,
    pub(crate) plan: LeasePlan,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) token: Option<Token>,
    /// When the call that was granted was sent.
    pub(crate) sent: Instant,
    /// The TTL that the server granted, counted from `sent`.
    pub(crate) ttl: Duration,
    /// Whether the server granted the lock for a short time, to a waiter in its queue.
    pub(crate) provisional: bool,
    /// Whether the first call of the request was refused, because other owners came first.
    pub(crate) waited: bool,
    /// The unresolved attempts of the same owner.
    pub(crate) unresolved: Unresolved,
    /// Whether no server knows the hold.
    pub(crate) is_local: bool,
}

/// A release that is owed to the server.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) lock: LockId,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: OwnerId,
    /// The caller that waits for the release.
    pub(crate) ticket: Option<Ticket>,
    /// The hold that ends; `None` for a compensating release.
    pub(crate) hold: Option<Ended>,
    /// The unresolved attempts of the same owner.
    pub(crate) unresolved: Unresolved,
}

/// The times of a hold that ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The deadline of the hold.
    pub(crate) deadline: Instant,
    /// When the TTL of the record has certainly passed.
    pub(crate) until: Instant,
    /// The earliest time to send the release: the TTL of an expired lease must pass first.
    pub(crate) not_before: Option<Instant>,
}
