//! The semaphore: ZSET {owner/i → deadline by the server's clock}, with one member for each permit that is held. The
//! member `limit` has the limit that all holders use.

use super::{Again, Arg, Channel, Form, Gate, HeldReply, Holders, Key, Spec, Waiters};
use crate::name::Word;
use crate::script::Script;

const GATE: Gate = Gate::new("semaphore");
pub(super) const PERMITS: Key = Key::Own(Word::new("semaphore"));

pub(super) const SPEC: Spec = Spec {
    name: "semaphore",
    gate: GATE,
    excludes: &[GATE],
    holders: Holders::Permits,
    again: Again::Waits(
        "the calling thread or task holds so many permits that it would wait for itself; release some first",
    ),
    inside: None,
    waiters: Waiters::Client,
    leaves_mark: false,
    by_majority: false,
    lease: None,

    keys: &[PERMITS],
    channel: Some(Channel::Own(Word::new("semaphore-channel"))),
    acquire: Form {
        script: Script::SemaphoreAcquire,
        keys: &[PERMITS],
        args: &[Arg::Ttl, Arg::Owner, Arg::Wanted, Arg::Limit],
    },
    renew: Form {
        script: Script::SemaphoreRenew,
        keys: &[PERMITS],
        args: &[Arg::Ttl, Arg::Owner, Arg::Wanted],
    },
    release: Form {
        script: Script::SemaphoreRelease,
        keys: &[PERMITS],
        args: &[Arg::Owner, Arg::Wanted, Arg::Channel],
    },
    inspect: Form {
        script: Script::SemaphoreInspect,
        keys: &[PERMITS],
        args: &[],
    },
    force: Form {
        script: Script::SemaphoreForce,
        keys: &[PERMITS],
        args: &[Arg::Channel],
    },
    held_reply: HeldReply::Permits,
};

/// The call that changes the limit of a semaphore whose permits are held. No other kind has this call.
pub(super) const SET_LIMIT: Form = Form {
    script: Script::SemaphoreLimit,
    keys: &[PERMITS],
    args: &[Arg::Limit, Arg::Channel],
};
