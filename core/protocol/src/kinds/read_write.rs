//! The read-write lock: a HASH with who writes and who waits to, and a ZSET of the
//! readers, each hold with a deadline of its own by the server's clock.

use std::sync::Arc;

use super::{Attempt, Invocation, Keys, Kind, Parts, flag, millis, token};
use crate::name::{LockName, Word};
use crate::script::Script;

pub(super) fn keys(name: &LockName, kind: Kind) -> Parts {
    (
        name.own(Word::Rw),
        name.own(Word::RwChannel),
        (kind == Kind::Write).then(|| token(name)),
        vec![name.own(Word::RwReaders)],
    )
}

/// The key of the readers.
pub(super) fn readers(keys: &Keys) -> &Arc<[u8]> {
    keys.more.first().unwrap_or(&keys.record)
}

/// The key of the kind's side: of the readers, or of the writer.
pub(super) fn holders(keys: &Keys) -> &Arc<[u8]> {
    if keys.kind == Kind::Write {
        &keys.record
    } else {
        readers(keys)
    }
}

/// The side, as the scripts call it.
pub(super) fn side(kind: Kind) -> Arc<[u8]> {
    let text: &[u8] = if kind == Kind::Write { b"write" } else { b"read" };
    text.into()
}

pub(super) fn acquire(keys: &Keys, attempt: &Attempt<'_>) -> Invocation {
    let mut touched = vec![Arc::clone(&keys.record), Arc::clone(readers(keys))];
    let mut args = vec![millis(attempt.ttl), attempt.owner.wire(), flag(attempt.waits)];
    let script = if keys.kind == Kind::Write {
        if attempt.fencing {
            touched.extend(keys.token.clone());
        }
        Script::WriteAcquire
    } else {
        args.push(
            attempt
                .inside
                .map_or_else(|| Arc::from(&b""[..]), |writer| writer.wire()),
        );
        Script::ReadAcquire
    };
    Invocation {
        script,
        keys: touched,
        args,
    }
}
