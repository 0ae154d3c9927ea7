//! The simple lock: STRING `name` = owner, whose TTL is the lease. redis-py's `Lock`, node-redlock, redis-semaphore,
//! Spring's `RedisLockRegistry` and others write the same record, so all of them exclude each other.

use super::{Again, Arg, Channel, Form, Gate, HeldReply, Holders, Key, Spec, Waiters};
use crate::name::Word;
use crate::script::Script;

const GATE: Gate = Gate::new("mutex");

pub(super) const SPEC: Spec = Spec {
    name: "mutex",
    gate: GATE,
    excludes: &[GATE],
    holders: Holders::One,
    again: Again::Waits(
        "the calling thread or task holds it, and a mutex is not reentrant: it would wait for itself; release it first",
    ),
    inside: None,
    waiters: Waiters::Client,
    leaves_mark: false,
    by_majority: true,
    lease: None,

    keys: &[Key::Name, Key::Own(Word::TOKEN)],
    channel: Some(Channel::Own(Word::new("channel"))),
    acquire: Form {
        script: Script::MutexAcquire,
        keys: &[Key::Name, Key::TokenIfDrawn],
        args: &[Arg::Ttl, Arg::Owner],
    },
    renew: Form {
        script: Script::MutexRenew,
        keys: &[Key::Name],
        args: &[Arg::Ttl, Arg::Owner],
    },
    release: Form {
        script: Script::MutexRelease,
        keys: &[Key::Name],
        args: &[Arg::Owner, Arg::Channel],
    },
    inspect: Form {
        script: Script::MutexInspect,
        keys: &[Key::Name],
        args: &[],
    },
    force: Form {
        script: Script::MutexForce,
        keys: &[Key::Name],
        args: &[Arg::Channel],
    },
    held_reply: HeldReply::Holder,
};
