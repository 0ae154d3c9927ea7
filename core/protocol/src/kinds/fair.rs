//! The fair lock: the record of the reentrant lock, a ZSET of the waiters by arrival, and a HASH of when the server
//! last saw each of them.

use super::lock::GATE;
use super::{Again, Arg, Channel, Form, HeldReply, Holders, Key, Spec, Waiters};
use crate::name::Word;
use crate::script::Script;

/// The waiters by arrival. `parts/fair.lua` derives the channels for grants from this key.
pub(super) const QUEUE: Key = Key::Own(Word::new("fair"));
/// When the server last saw each waiter.
pub(super) const ALIVE: Key = Key::Own(Word::new("alive"));
/// All keys of the lock. A call that ends a hold or adds a waiter to the queue needs all of them, because the call may
/// grant the lock to a waiter.
const ALL: &[Key] = &[Key::Name, Key::Own(Word::TOKEN), QUEUE, ALIVE];

pub(super) const SPEC: Spec = Spec {
    name: "fair_lock",
    gate: GATE,
    excludes: &[GATE],
    holders: Holders::One,
    again: Again::Enters,
    inside: None,
    waiters: Waiters::Server {
        poll: Form {
            script: Script::FairPoll,
            keys: ALL,
            args: &[Arg::Owner, Arg::Fencing],
        },
        grants: "grants",
    },
    leaves_mark: true,
    by_majority: false,
    lease: None,

    keys: ALL,
    channel: Some(Channel::Redisson),
    acquire: Form {
        script: Script::FairAcquire,
        keys: ALL,
        args: &[Arg::Ttl, Arg::Owner, Arg::Fencing, Arg::Waits],
    },
    renew: Form {
        script: Script::LockRenew,
        keys: &[Key::Name],
        args: &[Arg::Ttl, Arg::Owner],
    },
    release: Form {
        script: Script::FairRelease,
        keys: ALL,
        args: &[Arg::Owner, Arg::Channel, Arg::Successor],
    },
    inspect: Form {
        script: Script::LockInspect,
        keys: &[Key::Name],
        args: &[],
    },
    force: Form {
        script: Script::FairForce,
        keys: ALL,
        args: &[Arg::Channel],
    },
    held_reply: HeldReply::Queued,
};
