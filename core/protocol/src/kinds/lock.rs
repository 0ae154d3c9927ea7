//! The reentrant lock: HASH `name` {owner → 1}, its TTL the lease. The layout and
//! the channel are Redisson's, so that `getLock` of the same name excludes us and
//! we exclude it.

use std::sync::Arc;

use super::{Attempt, Invocation, Keys, Parts, millis, token};
use crate::name::LockName;
use crate::script::Script;

pub(super) fn keys(name: &LockName) -> Parts {
    (
        name.key(),
        name.derived("redisson_lock__channel"),
        Some(token(name)),
        Vec::new(),
    )
}

pub(super) fn acquire(keys: &Keys, attempt: &Attempt<'_>) -> Invocation {
    let mut touched = vec![Arc::clone(&keys.record)];
    if attempt.fencing {
        touched.extend(keys.token.clone());
    }
    Invocation {
        script: Script::LockAcquire,
        keys: touched,
        args: vec![millis(attempt.ttl), attempt.owner.wire()],
    }
}
