//! A lock that is held.

use std::time::Duration;

use super::owner::Owner;

/// A lock that is held, on one server; of RedLock, on several.
#[derive(Clone, Debug)]
pub(crate) struct Locked {
    /// As programs give it.
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Of several holders, the one whose hold ends last.
    pub(crate) owner: Owner,
    /// How many hold it, or how many permits are held.
    pub(crate) holders: u64,
    /// Of how many permits.
    pub(crate) limit: Option<u64>,
    /// `None` if the record has no TTL.
    pub(crate) left: Option<Duration>,
    /// About; `None` if it is not known.
    pub(crate) held: Option<Duration>,
    pub(crate) token: Option<u64>,
    /// How many wait, where the server knows it.
    pub(crate) waiters: Option<u64>,
    pub(crate) server: String,
    /// So many of so many primaries have its record.
    pub(crate) primaries: Option<(usize, usize)>,
}
