//! What a machine asks for that is not its own: the router hands each to the machine that has the rule.

use std::sync::Arc;
use std::time::Duration;

use crate::calls::Unresolved;
use crate::ids::{Context, HoldId, LockId, Ticket};
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
    /// The lock is held here, by one at a time.
    Held(LockId, HoldId),
    /// The hold keeps nobody here waiting any longer.
    Freed(LockId, HoldId),
    /// A caller was let into a hold once more, which is to be renewed so.
    Entered(Ticket, HoldId, LeasePlan),
    /// So many connections heard of a release.
    Published(LockId, u32),
    /// The reply to a release says that a waiter of this client was granted the lock.
    GrantReplied(Arc<Keys>, Vec<u8>),
    /// A message says so.
    GrantTold(LockId, Vec<u8>),
    /// A message says that the lock may be free.
    Heard(LockId),
    /// Others listened to the lock's channel before: what was published passed this lock by.
    MissedNews(LockId),
    /// The lock may be free.
    MayBeFree(LockId),
    /// An owner id that was given up had the lock, as a message said, and is released.
    GhostReleased(LockId),
    /// Perhaps nobody here needs the lock any more.
    Tidy(LockId),
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
    /// The release is not sent before: the TTL of a lapsed lease has to pass.
    pub(crate) not_before: Option<Instant>,
}
