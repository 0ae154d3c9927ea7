//! A lock that is held.

use std::time::Duration;

use super::owner::Owner;

/// A lock that is held: on one server, or with RedLock on several.
#[derive(Clone, Debug)]
pub(crate) struct Locked {
    /// The name as programs use it.
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// The owner. With several holders, the one whose hold ends last.
    pub(crate) owner: Owner,
    /// The number of holders, or of permits that are held.
    pub(crate) holders: u64,
    /// The number of permits of a semaphore; `None` for other kinds.
    pub(crate) limit: Option<u64>,
    /// The time that is left; `None` if the record has no TTL.
    pub(crate) left: Option<Duration>,
    /// The approximate time for which the lock has been held; `None` if that is not known.
    pub(crate) held: Option<Duration>,
    pub(crate) token: Option<u64>,
    /// The number of waiters in the fair queue, if there are any.
    pub(crate) waiters: Option<u64>,
    pub(crate) server: String,
    /// RedLock: the number of primaries that have a record of this holder, and the number of all primaries.
    pub(crate) primaries: Option<(usize, usize)>,
}
