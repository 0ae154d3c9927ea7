//! What a machine asks for that is not its own: the router hands each to the machine that has the rule.

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

/// One thing that follows from an input.
#[derive(Debug)]
pub(crate) enum Step {
    /// A caller is told, or the composite lock that it concerns a member of.
    Tell(Event),
    /// A release is owed.
    Owes(Owed),
    /// Perhaps nobody here needs the lock any more.
    Tidy(LockId),
    /// Nobody waits for this primary any longer.
    Outage(Primary),
    /// It serves again.
    OutageOver(Primary),

    // Of waiters.
    /// A request is granted.
    Granted(Ticket, NewHold),
    /// It was refused; what is left of the hold in the way, and whether there is none.
    Refused(Ticket, Option<Duration>, bool),
    /// It sleeps, unless the client has begun to listen too late.
    Sleep(Ticket, Option<Duration>),
    /// It asks now.
    Ask(Ticket),
    /// The answer that is under way may be stale.
    StaleAnswer(Ticket),
    /// The first waiter here asks, if nobody here holds the lock.
    Advance(LockId),
    /// It listens for the lock's releases.
    Listen(LockId, NodeId, Arc<[u8]>, Option<Ticket>),

    // Of the server's queue.
    /// A waiter asks to be put into it, under this owner id; and whether it wants a token.
    Joined(LockId, Ticket, OwnerId, bool),
    /// It waits no longer.
    Left(LockId, Ticket),
    /// A call found it there: when it was sent, and the server's clock then.
    Found(Ticket, LockId, Arc<Keys>, (Instant, u64)),
    /// The client asks how the queue stands, soon.
    PollSoon(LockId),
    /// It asks by then.
    PollBy(LockId, Instant),
    /// A call spoke for these waiters.
    Polled(CallId, Vec<Ticket>),
    /// It was answered, or cut off.
    PollAnswered(CallId, bool, Vec<Ticket>),
    /// It came to nothing.
    PollFailed(LockId, Vec<Ticket>, CallError),
    /// The server said who holds the lock, and for how long, in the answer to a call of then.
    HolderSeen(LockId, String, Option<Duration>, Instant),
    /// The server granted the lock of its own accord.
    GrantedUnasked(Ticket, Granted),
    /// So it did, and the waiter has to ask all the same.
    AskAgain(Ticket),
    /// It listens for grants.
    ListenForGrants(LockId, NodeId, Arc<[u8]>),

    // Of channels.
    /// A message says that the lock may be free.
    Heard(LockId),
    /// A message says that a waiter of this client was granted the lock.
    GrantTold(LockId, Vec<u8>),
    /// Others listened to the lock's channel before: what was published passed this waiter by,
    /// or those in the server's queue.
    MissedMessages(LockId, Option<Ticket>),
    /// The lock may be free.
    MayBeFree(LockId),

    // Of holds.
    /// The lock is held here, by one at a time.
    Held(LockId, HoldId),
    /// The hold keeps nobody here waiting any longer.
    Freed(LockId, HoldId),
    /// A caller was let into a hold once more, which is to be renewed so.
    Entered(Ticket, HoldId, LeasePlan),

    // Of releases.
    /// So many connections heard of a release.
    Published(LockId, u32),
    /// The reply to a release says that a waiter of this client was granted the lock.
    GrantReplied(Arc<Keys>, Vec<u8>),
    /// An owner id of this client holds a fair lock, as an answer says, or a message (then true).
    OwnerSeen(LockId, OwnerId, bool),
    /// It was given up, as a message said that it has the lock, and is released.
    GhostReleased(LockId),
}

/// What the server granted, and when at the earliest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) token: Option<Token>,
    pub(crate) sent: Instant,
    pub(crate) ttl: Duration,
    /// The server granted it of its own accord, for a short time.
    pub(crate) provisional: bool,
    /// No server did: it is held in this client alone.
    pub(crate) is_local: bool,
}

/// What a request becomes when it is granted.
#[derive(Debug)]
pub(crate) struct NewHold {
    pub(crate) lock: LockId,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: OwnerId,
    pub(crate) context: Option<Context>,
    pub(crate) plan: LeasePlan,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) token: Option<Token>,
    /// When the call was sent that was granted.
    pub(crate) sent: Instant,
    /// What the server granted, from then on.
    pub(crate) ttl: Duration,
    /// The server granted it of its own accord, for a short time.
    pub(crate) provisional: bool,
    /// It was not granted by the request's first call: others came before it.
    pub(crate) waited: bool,
    /// Attempts of the same owner whose outcome is not known.
    pub(crate) unresolved: Unresolved,
    /// The server knows nothing of it.
    pub(crate) is_local: bool,
}

/// A release that is owed to the server.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) lock: LockId,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: OwnerId,
    /// The caller that waits for it.
    pub(crate) ticket: Option<Ticket>,
    /// The hold that ends; `None` for what an abandoned attempt may have been granted.
    pub(crate) hold: Option<Ended>,
    /// Attempts of the same owner whose outcome is not known.
    pub(crate) unresolved: Unresolved,
}

/// What is known of a hold that ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Until when it could be relied on.
    pub(crate) deadline: Instant,
    /// When the record's TTL has passed for certain.
    pub(crate) until: Instant,
    /// The release is not sent before: the TTL of an expired lease has to pass.
    pub(crate) not_before: Option<Instant>,
}
