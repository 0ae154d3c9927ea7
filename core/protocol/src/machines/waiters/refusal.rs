//! How a wait ends without the lock, and what its caller is told: that another owner
//! holds it (`LockTimeout`), or that the server did not say so (`Unavailable`).

use std::time::Duration;

use super::queue::Queue;
use super::request::Request;
use crate::cause::Cause;
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Keys;
use crate::types::Outcome;
use crate::wording::brief;

/// A caller as it is when its wait ends: its request, the queue of its lock, and who of this
/// client holds the lock.
pub(super) struct Wait<'a> {
    pub(super) request: &'a Request,
    pub(super) queue: Option<&'a Queue>,
    pub(super) local: Option<LocalHolder>,
}

/// Who of this client holds the lock.
pub(super) struct LocalHolder {
    pub(super) holder: Holder,
    /// It is the very thread or task that wants it.
    pub(super) is_the_caller: bool,
}

impl Wait<'_> {
    /// What a caller is told that waited as long as it wanted.
    pub(super) fn outcome(self, io: &Io, now: Instant) -> Outcome {
        let error = self.not_granted(io, now);
        match error.kind() {
            ErrorKind::LockTimeout => Outcome::NotGranted(error),
            _ => Outcome::Failed(error),
        }
    }

    /// Why it does not get the lock: it is held (`LockTimeout`), or the server did not say
    /// so (`Unavailable`).
    fn not_granted(self, io: &Io, now: Instant) -> Error {
        let request = self.request;
        let waited = now.saturating_since(request.started());
        let told = self.queue.and_then(|queue| {
            let (at, holder) = queue.last_holder()?;
            // A waiter whose turn never came has it from those before it.
            let is_theirs = request.last_try().is_none() && !queue.was_heard_after(at);
            (at >= request.started() || is_theirs).then(|| holder.clone())
        });
        let told = || {
            let holder = told?;
            Some(LocalHolder {
                holder,
                is_the_caller: false,
            })
        };
        match self.local.or_else(told) {
            Some(holder) => held_error(request.keys(), Some(waited), holder, io),
            None if others_had_it(request, self.queue, io) => request
                .failed(ErrorKind::LockTimeout, format!("not granted after {}", brief(waited)))
                .with_cause(Cause::new("others of this client come first").with_advice("wait longer")),
            None => no_answer(request, self.queue, io, now),
        }
    }
}

/// Whether a caller's turn to ask never came since others of this client had the lock, or were
/// answered, while it waited.
fn others_had_it(request: &Request, queue: Option<&Queue>, io: &Io) -> bool {
    let Some(queue) = queue else { return false };
    let is_heard = queue.heard().is_some_and(|heard| heard >= request.started());
    let is_answered = io.is_connected(request.node()) && queue.last_failure().is_none();
    request.last_try().is_none() && is_heard && is_answered
}

/// Why a caller does not hear who holds the lock.
pub(super) fn no_answer(request: &Request, queue: Option<&Queue>, io: &Io, now: Instant) -> Error {
    let waited = now.saturating_since(request.started());
    let node = request.node();
    let is_connected = io.is_connected(node);
    let failure = queue.and_then(|queue| queue.failure_since(request.started()));
    let (what, cause) = match failure {
        Some(why) if is_connected => (format!("not granted after {}", brief(waited)), why.clone()),
        // The cause says how long it was.
        _ if is_connected => (String::new(), io.unreached(node, waited)),
        _ => (
            format!("not granted after {}", brief(waited)),
            io.unreached(node, waited),
        ),
    };
    request.failed(ErrorKind::Unavailable, what).with_cause(cause)
}

/// What a caller that does not wait is told by a local check, with no server call.
pub(super) fn others_first(queue: &Queue, local: Option<LocalHolder>, io: &Io) -> Outcome {
    let keys = queue.keys();
    if let Some(holder) = local {
        return Outcome::NotGranted(held_error(keys, None, holder, io));
    }
    let silence = if io.is_connected(keys.node) {
        queue.last_failure().cloned()
    } else {
        Some(io.unreached(keys.node, Duration::ZERO))
    };
    let error = |kind, why: Cause| {
        let error = Error::new(kind, Operation::Acquire, "not granted");
        error.with_cause(why).with_lock(keys.name.as_str())
    };
    match silence {
        // The waiters hear nothing either.
        Some(why) => Outcome::Failed(error(ErrorKind::Unavailable, why)),
        None => {
            let why = Cause::new("others of this client wait for it already");
            Outcome::NotGranted(error(ErrorKind::LockTimeout, why.with_advice(LATER)))
        }
    }
}

/// The error for a caller that waited so long, or that was refused with no server call.
fn held_error(keys: &Keys, waited: Option<Duration>, holder: LocalHolder, io: &Io) -> Error {
    let LocalHolder {
        mut holder,
        is_the_caller,
    } = holder;
    let after = waited.map_or_else(String::new, |waited| format!(" after {}", brief(waited)));
    let error = |cause: Cause, advice: &str| {
        let error = Error::new(
            ErrorKind::LockTimeout,
            Operation::Acquire,
            format!("not granted{after}"),
        );
        error
            .with_cause(cause.with_advice(advice))
            .with_lock(keys.name.as_str())
    };
    if holder.owner.is_empty() && keys.kind.queues_on_server() {
        return error(Cause::new("others wait for it and come first"), LATER);
    }
    let left = match holder.remaining {
        Some(left) => format!("for another {} unless it is renewed", brief(left)),
        None => "by a record without TTL".into(),
    };
    holder.client = io.identity_of(&holder.owner);
    if is_the_caller {
        let cause = Cause::new(format!("held by the calling thread or task itself {left}"));
        return error(cause, NOT_REENTRANT).with_holder(Some(holder));
    }
    let by = match (&holder.client, holder.owner.as_str()) {
        (Some(client), _) => client.to_string(),
        (None, "") => "an owner without a name".into(),
        (None, owner) => owner.into(),
    };
    error(Cause::new(format!("held by {by} {left}")), LATER).with_holder(Some(holder))
}

/// What helps who was not granted the lock.
const LATER: &str = "wait longer or try again";
/// What helps a holder that asks again.
const NOT_REENTRANT: &str = "this kind of lock is not reentrant: release it first";
