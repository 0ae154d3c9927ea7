//! The fair lock: the record of the reentrant lock, and beside it a ZSET of the
//! waiters by arrival and a HASH of when each was last heard of.

use std::sync::Arc;

use super::{Attempt, Invocation, Keys, Parts, flag, millis, token};
use crate::name::LockName;
use crate::owner::OwnerId;
use crate::script::Script;

pub(super) fn keys(name: &LockName) -> Parts {
    (
        name.key(),
        name.derived("redisson_lock__channel"),
        Some(token(name)),
        vec![name.own("leasehold:fair"), name.own("leasehold:alive")],
    )
}

/// The record, the token, the queue and the waiters.
fn touched(keys: &Keys) -> impl Iterator<Item = &Arc<[u8]>> {
    std::iter::once(&keys.record).chain(&keys.token).chain(&keys.more)
}

/// All keys, and the channel of the plain lock.
pub(super) fn all(keys: &Keys) -> Vec<&Arc<[u8]>> {
    touched(keys).chain([&keys.channel]).collect()
}

pub(super) fn acquire(keys: &Keys, attempt: &Attempt<'_>) -> Invocation {
    Invocation {
        script: Script::FairAcquire,
        keys: touched(keys).map(Arc::clone).collect(),
        args: vec![
            millis(attempt.ttl),
            attempt.owner.wire(),
            flag(attempt.fencing),
            flag(attempt.waits),
        ],
    }
}

pub(super) fn poll(keys: &Keys, waiters: &[(OwnerId, bool)]) -> Invocation {
    Invocation {
        script: Script::FairPoll,
        keys: touched(keys).map(Arc::clone).collect(),
        args: waiters
            .iter()
            .flat_map(|(owner, fencing)| [owner.wire(), flag(*fencing)])
            .collect(),
    }
}
