//! The reentrant lock: HASH `name` {owner → 1}, its TTL the lease. The layout and
//! the channel are Redisson's, so that `getLock` of the same name excludes us and
//! we exclude it.

use super::{Parts, token};
use crate::name::LockName;

pub(super) fn keys(name: &LockName) -> Parts {
    (name.key(), name.redisson_channel(), Some(token(name)), Vec::new())
}
