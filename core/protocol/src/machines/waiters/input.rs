//! What happens to waiters.

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

/// A caller that holds nothing of a lock wants it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ticket: Ticket,
    pub(crate) request: AcquireRequest,
    pub(crate) keys: Arc<Keys>,
    /// The write hold that a read is taken inside.
    pub(crate) inside: Option<OwnerId>,
    pub(crate) plan: LeasePlan,
}

/// The answer to an attempt, which asked for that TTL.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) ticket: Ticket,
    pub(crate) call: CallId,
    pub(crate) in_flight: InFlight,
    pub(crate) ttl: Duration,
    pub(crate) result: Result<Reply, CallError>,
}

/// What happens to waiters.
#[derive(Debug)]
pub(crate) enum Input {
    /// A caller comes.
    Wanted(Wanted),
    /// An attempt was answered, or cut off.
    Answered(Answered),
    /// An attempt's answer did not come in time.
    Overdue(Ticket, CallId),
    /// A pause, sleep or gap is over.
    Woken(Ticket),
    /// A caller's wait is over.
    WaitOver(Ticket),
    /// A caller without a bound has waited one lease since it last asked whether the server is there.
    Silence(Ticket),
    /// A caller went away.
    Cancelled(Ticket),
    /// What a refused waiter does next, once it is known to be in the server's queue if it
    /// is: what is left of the hold in the way, and whether nobody holds the lock, so that
    /// dead waiters are before it.
    Refused(Ticket, Option<Duration>, bool),
    /// The same, once the client listens.
    Sleep(Ticket, Option<Duration>),
    /// It asks now, once the release of what it renounced is on its way.
    Ask(Ticket),
    /// What was published before the client listened is lost, or a message spoke of it while it asked: the answer may
    /// be stale.
    MissedMessages(Ticket),
    /// Nobody here holds the lock, perhaps.
    Advance(LockId),
    /// The lock is held here, by one at a time.
    Held(LockId, HoldId),
    /// The hold keeps nobody waiting any longer.
    Freed(LockId, HoldId),
    /// The lock may be free.
    MayBeFree(LockId),
    /// A message says that the lock may be free, or something that is not to be believed.
    Heard(LockId),
    /// So many other connections heard a release of ours.
    Published(LockId, u32),
    /// A node can be asked again.
    Connected(NodeId),
    /// A node's command lane closed, and why.
    Disconnected(NodeId, Cause),
    /// Nobody waits for this primary any longer.
    Outage(Primary),
    /// It serves again.
    OutageOver(Primary),
    /// Nobody needs the lock any more.
    Forget(LockId),
    /// A call spoke for these waiters in the server's queue.
    Polled(CallId, Vec<Ticket>),
    /// It was answered, or cut off.
    PollAnswered(CallId, bool, Vec<Ticket>),
    /// It came to nothing.
    PollFailed(LockId, Vec<Ticket>, CallError),
    /// The server said who holds a lock, in the answer to a call of that instant.
    HolderSeen(LockId, String, Option<Duration>, crate::instant::Instant),
    /// The server granted the lock to a waiter in its queue.
    GrantedUnasked(Ticket, Granted),
    /// It did, but too little is left of that, or it is not known since when: it asks again.
    AskAgain(Ticket),
}
