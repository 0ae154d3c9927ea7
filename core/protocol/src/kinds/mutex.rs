//! The simple lock: STRING `name` = owner, its TTL the lease. redis-py's `Lock`,
//! node-redlock, redis-semaphore, Spring's `RedisLockRegistry` and others write
//! the same, so that each excludes the others.

use super::{Parts, token};
use crate::name::{LockName, Word};

pub(super) fn keys(name: &LockName) -> Parts {
    (name.key(), name.own(Word::Channel), Some(token(name)), Vec::new())
}
