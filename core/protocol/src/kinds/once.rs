//! A run of a job, at most one at a time: HASH `steadlock:{NAME}:once` while it runs, and for as long after its end as
//! the caller asked for. Each key of a job that is done has a record of its own, and each job a history.

use super::{Again, Arg, Form, Gate, HeldReply, Holders, Key, Spec, Waiters};
use crate::name::Word;
use crate::script::Script;

const GATE: Gate = Gate::new("once");
pub(super) const RUN: Key = Key::Own(Word::new("once"));
pub(super) const HISTORY: Key = Key::Own(Word::new("job"));

pub(super) const SPEC: Spec = Spec {
    name: "once",
    gate: GATE,
    excludes: &[GATE],
    holders: Holders::One,
    again: Again::Waits("the calling thread or task runs this job already"),
    inside: None,
    waiters: Waiters::None,
    leaves_mark: false,
    by_majority: false,
    lease: None,

    keys: &[RUN, HISTORY, Key::Own(Word::TOKEN)],
    channel: None,
    acquire: Form {
        script: Script::OnceAcquire,
        keys: &[RUN, HISTORY, Key::Own(Word::TOKEN), Key::DoneIfKeyed],
        args: &[Arg::Ttl, Arg::Owner, Arg::Fencing, Arg::Client],
    },
    renew: Form {
        script: Script::OnceRenew,
        keys: &[RUN],
        args: &[Arg::Ttl, Arg::Owner],
    },
    release: Form {
        script: Script::OnceRelease,
        keys: &[RUN, HISTORY, Key::DoneIfKeyed],
        args: &[Arg::Owner, Arg::End, Arg::AtLeast, Arg::Keep],
    },
    inspect: Form {
        script: Script::OnceInspect,
        keys: &[RUN],
        args: &[],
    },
    force: Form {
        script: Script::OnceForce,
        keys: &[RUN],
        args: &[],
    },
    held_reply: HeldReply::Run,
};

/// The call that asks for the last runs of a job. No other kind has this call.
pub(super) const LAST_RUN: Form = Form {
    script: Script::OnceHistory,
    keys: &[RUN, HISTORY],
    args: &[],
};
