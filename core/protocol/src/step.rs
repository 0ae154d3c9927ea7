//! What a machine asks for that is not its own: the router hands each to the machine that has the rule.

use std::sync::Arc;

use crate::calls::Unresolved;
use crate::ids::{LockId, Ticket};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::owner::OwnerId;
use crate::types::Event;

/// One thing that follows from an input.
#[derive(Debug)]
pub(crate) enum Step {
    /// A caller is told, or the composite lock that it concerns a member of.
    Tell(Event),
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
