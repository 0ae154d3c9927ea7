//! The semaphore: ZSET {owner/i → deadline by the server's clock}, one member for
//! each permit, and the limit on which those that are held agreed.

use std::sync::Arc;

use super::{Attempt, Invocation, Keys, Parts, Permits, decimal, millis};
use crate::name::{LockName, Word};
use crate::script::Script;

pub(super) fn keys(name: &LockName) -> Parts {
    (
        name.own(Word::Semaphore),
        name.own(Word::SemaphoreChannel),
        None,
        Vec::new(),
    )
}

pub(super) fn acquire(keys: &Keys, permits: Permits, attempt: &Attempt<'_>) -> Invocation {
    Invocation {
        script: Script::SemaphoreAcquire,
        keys: vec![Arc::clone(&keys.record)],
        args: vec![
            millis(attempt.ttl),
            attempt.owner.wire(),
            decimal(permits.wanted),
            decimal(permits.limit),
        ],
    }
}
