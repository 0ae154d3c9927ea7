//! The inputs of the machine of waiters.

use std::sync::Arc;
use std::time::Duration;

use crate::calls::InFlight;
use crate::cause::Cause;
use crate::ids::{CallId, HoldId, LockId, NodeId, Primary, Ticket};
use crate::kinds::Keys;
use crate::lease::LeasePlan;
use crate::owner::OwnerId;
use crate::reply::{CallError, Reply};
use crate::step::Granted;
use crate::types::AcquireRequest;

/// The request of a caller for a lock that it does not hold.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ticket: Ticket,
    pub(crate) request: AcquireRequest,
    pub(crate) keys: Arc<Keys>,
    /// The owner id of the write hold inside which the caller reads.
    pub(crate) inside: Option<OwnerId>,
    pub(crate) plan: LeasePlan,
}

/// The answer to an attempt that asked for this TTL.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) ticket: Ticket,
    pub(crate) call: CallId,
    pub(crate) in_flight: InFlight,
    pub(crate) ttl: Duration,
    pub(crate) result: Result<Reply, CallError>,
}

/// The events that concern waiters.
#[derive(Debug)]
pub(crate) enum Input {
    /// A caller requests a lock.
    Wanted(Wanted),
    /// An attempt was answered, or was cut off.
    Answered(Answered),
    /// The answer to an attempt is overdue.
    Overdue(Ticket, CallId),
    /// A pause, a sleep or a gap is over.
    Woken(Ticket),
    /// The wait of a caller is over.
    WaitOver(Ticket),
    /// A caller without a bound must check again whether the server has answered within the last lease.
    Silence(Ticket),
    /// A caller no longer waits.
    Cancelled(Ticket),
    /// An attempt was refused, and the fair queue has noted whether the waiter is in the server's queue. The duration
    /// is what is left of the other hold. The flag says that the lock is free, but dead waiters come first.
    Refused(Ticket, Option<Duration>, bool),
    /// A refused waiter goes to sleep, now that the client has subscribed to the channel of the lock.
    Sleep(Ticket, Option<Duration>),
    /// A waiter sends an attempt. The release for its former owner id comes first.
    Ask(Ticket),
    /// The answer to the current attempt may be stale. Messages from before the subscription are lost, or a message
    /// about the waiter arrived during the attempt.
    MissedMessages(Ticket),
    /// Perhaps no caller of this client holds the lock any more.
    Advance(LockId),
    /// A caller of this client was granted a lock that has one holder at a time.
    Held(LockId, HoldId),
    /// A hold no longer blocks the waiters of this client.
    Freed(LockId, HoldId),
    /// The lock may be free.
    MayBeFree(LockId),
    /// A message says that the lock may be free, or the message is not plausible.
    Heard(LockId),
    /// A release by this client was received by this many other connections.
    Published(LockId, u32),
    /// The command lane of a node has opened.
    Connected(NodeId),
    /// The command lane of a node has closed, for this reason.
    Disconnected(NodeId, Cause),
    /// The circuit breaker of a primary is open, so no request may wait for it.
    Outage(Primary),
    /// The primary serves again.
    OutageOver(Primary),
    /// The lock is no longer in use.
    Forget(LockId),
    /// A poll that names these waiters was sent.
    Polled(CallId, Vec<Ticket>),
    /// The poll was answered, or was cut off (`true`).
    PollAnswered(CallId, bool, Vec<Ticket>),
    /// The poll failed.
    PollFailed(LockId, Vec<Ticket>, CallError),
    /// The answer to a poll that was sent at this instant says who holds a lock, and for how long.
    HolderSeen(LockId, String, Option<Duration>, crate::instant::Instant),
    /// The server granted the lock to a waiter in its queue.
    GrantedUnasked(Ticket, Granted),
    /// The server did so, but too little of the grant is left, or the token is missing; the waiter asks again.
    AskAgain(Ticket),
}
