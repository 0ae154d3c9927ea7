//! The reentrant lock: HASH `name` {owner → 1}, its TTL the lease. The layout and
//! the channel are Redisson's, so that `getLock` of the same name excludes us and
//! we exclude it.

use super::{Again, Arg, Channel, Form, Gate, HeldReply, Holders, Key, Spec, Waiters};
use crate::name::Word;
use crate::script::Script;

/// The fair lock has the same holders.
pub(super) const GATE: Gate = Gate::new("lock");

pub(super) const SPEC: Spec = Spec {
    name: "lock",
    gate: GATE,
    excludes: &[GATE],
    holders: Holders::One,
    again: Again::Enters,
    inside: None,
    waiters: Waiters::Client,
    leaves_mark: false,
    by_majority: true,

    keys: &[Key::Name, Key::Own(Word::TOKEN)],
    channel: Channel::Redisson,
    acquire: Form {
        script: Script::LockAcquire,
        keys: &[Key::Name, Key::TokenIfDrawn],
        args: &[Arg::Ttl, Arg::Owner],
    },
    renew: Form {
        script: Script::LockRenew,
        keys: &[Key::Name],
        args: &[Arg::Ttl, Arg::Owner],
    },
    release: Form {
        script: Script::LockRelease,
        keys: &[Key::Name],
        args: &[Arg::Owner, Arg::Channel],
    },
    inspect: Form {
        script: Script::LockInspect,
        keys: &[Key::Name],
        args: &[],
    },
    force: Form {
        script: Script::LockForce,
        keys: &[Key::Name],
        args: &[Arg::Channel],
    },
    told: HeldReply::Holder,
};
