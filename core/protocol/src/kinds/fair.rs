//! The fair lock: the record of the reentrant lock, and beside it a ZSET of the
//! waiters by arrival and a HASH of when each was last heard of.

use std::sync::Arc;

use super::{Attempt, Invocation, Keys, Parts, flag, millis, token};
use crate::name::{LockName, Word};
use crate::owner::OwnerId;
use crate::script::Script;

pub(super) fn keys(name: &LockName) -> Parts {
    (
        name.key(),
        name.redisson_channel(),
        Some(token(name)),
        vec![name.own(Word::Fair), name.own(Word::Alive)],
    )
}

/// The record, the token, the queue and the waiters.
fn touched(keys: &Keys) -> impl Iterator<Item = &Arc<[u8]>> {
    std::iter::once(&keys.record).chain(&keys.token).chain(&keys.more)
}

/// All keys.
pub(super) fn all(keys: &Keys) -> Vec<&Arc<[u8]>> {
    touched(keys).collect()
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
