//! The leader: a fair lock with keys of its own, whose holds are terms. The scripts are those of the fair lock, which
//! also store and announce each new term if they get its key.

use super::{Again, Arg, Channel, Form, Gate, HeldReply, Holders, Key, Spec, Waiters};
use crate::lease::LeaseDuration;
use crate::name::Word;
use crate::script::Script;

const GATE: Gate = Gate::new("leader");
pub(super) const RECORD: Key = Key::Own(Word::new("leader"));
/// The candidates by arrival. `parts/fair.lua` derives the channels for grants from this key, so it ends in `fair`.
pub(super) const QUEUE: Key = Key::Own(Word::new("leader-fair"));
/// When the server last saw each candidate.
pub(super) const ALIVE: Key = Key::Own(Word::new("leader-alive"));
/// The last term.
pub(super) const TERM: Key = Key::Own(Word::new("term"));
const ALL: &[Key] = &[RECORD, Key::Own(Word::TOKEN), QUEUE, ALIVE, TERM];

pub(super) const SPEC: Spec = Spec {
    name: "leader",
    gate: GATE,
    excludes: &[GATE],
    holders: Holders::One,
    again: Again::Waits("the calling thread or task leads already: it would wait for itself; resign first"),
    inside: None,
    waiters: Waiters::Server {
        poll: Form {
            script: Script::FairPoll,
            keys: ALL,
            args: &[Arg::Owner, Arg::Text("1")],
        },
        grants: "leader-grants",
    },
    leaves_mark: true,
    by_majority: false,
    lease: Some(LeaseDuration::TERM),

    keys: ALL,
    channel: Some(Channel::Own(Word::new("term-channel"))),
    acquire: Form {
        script: Script::FairAcquire,
        keys: ALL,
        args: &[Arg::Ttl, Arg::Owner, Arg::Text("1"), Arg::Waits],
    },
    renew: Form {
        script: Script::LockRenew,
        keys: &[RECORD],
        args: &[Arg::Ttl, Arg::Owner],
    },
    release: Form {
        script: Script::FairRelease,
        keys: ALL,
        args: &[Arg::Owner, Arg::Channel, Arg::Successor],
    },
    inspect: Form {
        script: Script::LockInspect,
        keys: &[RECORD],
        args: &[],
    },
    force: Form {
        script: Script::FairForce,
        keys: ALL,
        args: &[Arg::Channel],
    },
    held_reply: HeldReply::Queued,
};

/// The call that asks who leads, and for the first candidates. No other kind has this call.
pub(super) const LEADERSHIP: Form = Form {
    script: Script::LeaderInspect,
    keys: &[RECORD, QUEUE, ALIVE, TERM],
    args: &[Arg::Text("100")],
};
