//! The end of a wait without the lock, and the error of the caller: `LockTimeout` if another owner holds the lock,
//! `Unavailable` if the server did not say so.

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

/// A wait that ends: the request, the queue of the lock, and the holder in this client, if there is one.
pub(super) struct Wait<'a> {
    pub(super) request: &'a Request,
    pub(super) queue: Option<&'a Queue>,
    pub(super) local: Option<LocalHolder>,
}

/// The holder of a lock in this client.
pub(super) struct LocalHolder {
    pub(super) holder: Holder,
    /// Whether the holder is the thread or task that requests the lock.
    pub(super) is_the_caller: bool,
}

impl Wait<'_> {
    /// Returns the outcome of a wait that is over.
    pub(super) fn outcome(self, io: &Io, now: Instant) -> Outcome {
        let error = self.not_granted(io, now);
        match error.kind() {
            ErrorKind::LockTimeout => Outcome::NotGranted(error),
            _ => Outcome::Failed(error),
        }
    }

    /// Returns why the caller is not granted the lock: another owner holds it (`LockTimeout`), or the server did not
    /// say so (`Unavailable`).
    fn not_granted(self, io: &Io, now: Instant) -> Error {
        let request = self.request;
        let waited = now.saturating_since(request.started());
        let told = self.queue.and_then(|queue| {
            let (at, holder) = queue.last_holder()?;
            // A waiter that never asked uses the answer to the waiters before it.
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

/// Whether a caller never asked because other callers of this client held the lock, or were answered, while it waited.
fn others_had_it(request: &Request, queue: Option<&Queue>, io: &Io) -> bool {
    let Some(queue) = queue else { return false };
    let is_heard = queue.heard().is_some_and(|heard| heard >= request.started());
    let is_answered = io.is_connected(request.node()) && queue.last_failure().is_none();
    request.last_try().is_none() && is_heard && is_answered
}

/// Returns the error of a caller that does not learn who holds the lock.
pub(super) fn no_answer(request: &Request, queue: Option<&Queue>, io: &Io, now: Instant) -> Error {
    let waited = now.saturating_since(request.started());
    let node = request.node();
    let is_connected = io.is_connected(node);
    let failure = queue.and_then(|queue| queue.failure_since(request.started()));
    let (what, cause) = match failure {
        Some(why) if is_connected => (format!("not granted after {}", brief(waited)), why.clone()),
        // The cause says how long the caller waited.
        _ if is_connected => (String::new(), io.unreached(node, waited)),
        _ => (
            format!("not granted after {}", brief(waited)),
            io.unreached(node, waited),
        ),
    };
    request.failed(ErrorKind::Unavailable, what).with_cause(cause)
}

/// Returns the outcome of a single attempt that a local check refuses, with no server call.
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
        // The waiters get no answer either.
        Some(why) => Outcome::Failed(error(ErrorKind::Unavailable, why)),
        None => {
            let why = Cause::new("others of this client wait for it already");
            Outcome::NotGranted(error(ErrorKind::LockTimeout, why.with_advice(LATER)))
        }
    }
}

/// Returns the error of a caller that waited for `waited`, or that was refused with no server call (`None`).
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

/// The advice for a caller that was not granted the lock.
const LATER: &str = "wait longer or try again";
/// The advice for a holder that requests the lock again.
const NOT_REENTRANT: &str = "this kind of lock is not reentrant: release it first";
