//! The simple lock: STRING `name` = owner, its TTL the lease. redis-py's `Lock`,
//! node-redlock, redis-semaphore, Spring's `RedisLockRegistry` and others write
//! the same, so that each excludes the others.

use std::sync::Arc;

use super::{Attempt, Invocation, Keys, Parts, millis, token};
use crate::name::LockName;
use crate::script::Script;

pub(super) fn keys(name: &LockName) -> Parts {
    (name.key(), name.own("leasehold:channel"), Some(token(name)), Vec::new())
}

pub(super) fn acquire(keys: &Keys, attempt: &Attempt<'_>) -> Invocation {
    let mut touched = vec![Arc::clone(&keys.record)];
    if attempt.fencing {
        touched.extend(keys.token.clone());
    }
    Invocation {
        script: Script::MutexAcquire,
        keys: touched,
        args: vec![millis(attempt.ttl), attempt.owner.wire()],
    }
}
