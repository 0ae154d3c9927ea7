//! Composite locks: several locks as one (multi-lock), and one lock on several primaries (RedLock).
//!
//! They use locks as callers do. What happens to a member of theirs comes back to them (`members`)
//! instead of to a caller. A client has one of the two: with several primaries every lock is a RedLock.

pub(crate) mod members;
pub(crate) mod multi;
pub(crate) mod quorum;
mod quorum_hold;
mod self_wait;
