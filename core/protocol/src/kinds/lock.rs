//! The reentrant lock: HASH `name` {owner → 1}, its TTL the lease. The layout and
//! the channel are Redisson's, so that `getLock` of the same name excludes us and
//! we exclude it.

use std::sync::Arc;
use std::time::Duration;

use super::{Invocation, Keys, Kind, millis};
use crate::name::LockName;
use crate::owner::OwnerId;
use crate::script::Script;

pub(super) fn keys(name: &LockName) -> Keys {
    Keys {
        kind: Kind::Lock,
        name: name.clone(),
        record: name.key(),
        channel: name.derived("redisson_lock__channel"),
        token: name.derived("leasehold:token"),
    }
}

pub(super) fn acquire(keys: &Keys, owner: &OwnerId, ttl: Duration, fencing: bool) -> Invocation {
    let mut touched = vec![Arc::clone(&keys.record)];
    if fencing {
        touched.push(Arc::clone(&keys.token));
    }
    Invocation {
        script: Script::LockAcquire,
        keys: touched,
        args: vec![millis(ttl), owner.wire()],
    }
}

pub(super) fn renew(keys: &Keys, owner: &OwnerId, ttl: Duration) -> Invocation {
    Invocation {
        script: Script::LockRenew,
        keys: vec![Arc::clone(&keys.record)],
        args: vec![millis(ttl), owner.wire()],
    }
}

pub(super) fn release(keys: &Keys, owner: &OwnerId) -> Invocation {
    Invocation {
        script: Script::LockRelease,
        keys: vec![Arc::clone(&keys.record), Arc::clone(&keys.channel)],
        args: vec![owner.wire()],
    }
}

pub(super) fn inspect(keys: &Keys) -> Invocation {
    Invocation {
        script: Script::LockInspect,
        keys: vec![Arc::clone(&keys.record)],
        args: Vec::new(),
    }
}
