//! The read-write lock: a HASH with the writer and a waiting writer, and a ZSET of the readers. Each hold has a
//! deadline of its own, by the server's clock.

use super::{Again, Arg, Channel, Form, Gate, HeldReply, Holders, Inside, Key, Spec, Waiters};
use crate::name::Word;
use crate::script::Script;

const READ_GATE: Gate = Gate::new("read");
const WRITE_GATE: Gate = Gate::new("write");
/// The writer, and a waiting writer.
pub(super) const STATE: Key = Key::Own(Word::new("rw"));
/// The readers.
pub(super) const READERS: Key = Key::Own(Word::new("rw-readers"));
const CHANNEL: Channel = Channel::Own(Word::new("rw-channel"));

/// The side that many owners can hold.
pub(super) const READ: Spec = Spec {
    name: "read_lock",
    gate: READ_GATE,
    excludes: &[WRITE_GATE],
    holders: Holders::Many,
    again: Again::Enters,
    inside: Some((WRITE_GATE, Inside::LetIn)),
    waiters: Waiters::Client,
    leaves_mark: false,
    by_majority: false,
    lease: None,

    keys: &[STATE, READERS],
    channel: Some(CHANNEL),
    acquire: Form {
        script: Script::ReadAcquire,
        keys: &[STATE, READERS],
        args: &[Arg::Ttl, Arg::Owner, Arg::Waits, Arg::Around],
    },
    renew: Form {
        script: Script::ReadRenew,
        keys: &[READERS],
        args: &[Arg::Ttl, Arg::Owner],
    },
    release: Form {
        script: Script::ReadRelease,
        keys: &[STATE, READERS],
        args: &[Arg::Owner, Arg::Channel],
    },
    inspect: Form {
        script: Script::ReadWriteInspect,
        keys: &[READERS],
        args: &[Arg::Text("read")],
    },
    force: Form {
        script: Script::ReadWriteForce,
        keys: &[READERS],
        args: &[Arg::Text("read"), Arg::Channel],
    },
    held_reply: HeldReply::Holder,
};

/// The side that one owner holds alone.
pub(super) const WRITE: Spec = Spec {
    name: "write_lock",
    gate: WRITE_GATE,
    excludes: &[WRITE_GATE, READ_GATE],
    holders: Holders::One,
    again: Again::Enters,
    inside: Some((
        READ_GATE,
        Inside::Refused(
            "it is held for reading here, and waiting to write would wait for itself; release the read first",
        ),
    )),
    waiters: Waiters::Client,
    leaves_mark: true,
    by_majority: false,
    lease: None,

    keys: &[STATE, READERS, Key::Own(Word::TOKEN)],
    channel: Some(CHANNEL),
    acquire: Form {
        script: Script::WriteAcquire,
        keys: &[STATE, READERS, Key::TokenIfDrawn],
        args: &[Arg::Ttl, Arg::Owner, Arg::Waits],
    },
    renew: Form {
        script: Script::WriteRenew,
        keys: &[STATE],
        args: &[Arg::Ttl, Arg::Owner],
    },
    release: Form {
        script: Script::WriteRelease,
        keys: &[STATE],
        args: &[Arg::Owner, Arg::Channel],
    },
    inspect: Form {
        script: Script::ReadWriteInspect,
        keys: &[STATE],
        args: &[Arg::Text("write")],
    },
    force: Form {
        script: Script::ReadWriteForce,
        keys: &[STATE],
        args: &[Arg::Text("write"), Arg::Channel],
    },
    held_reply: HeldReply::Holder,
};
