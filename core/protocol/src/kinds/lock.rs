//! The reentrant lock: HASH `name` {owner → 1}, whose TTL is the lease. The layout and the channel are those of
//! Redisson, so that this lock and Redisson's `getLock` of the same name exclude each other.

use super::{Again, Arg, Channel, Form, Gate, HeldReply, Holders, Key, Spec, Waiters};
use crate::name::Word;
use crate::script::Script;

/// The gate that the reentrant lock and the fair lock share: a caller that holds a name by one of these kinds re-enters
/// its hold when it acquires the name by the other kind.
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
    lease: None,

    keys: &[Key::Name, Key::Own(Word::TOKEN)],
    channel: Some(Channel::Redisson),
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
    held_reply: HeldReply::Holder,
};
