//! What an engine is told.

use std::sync::Arc;

use steadlock_protocol::{
    AcquireRequest, Context, Error, Kind, LeaseDuration, LeaseId, LockName, Operation, Permits, Subject,
};

use super::slot::Slot;

/// What an engine is told.
#[derive(Debug)]
pub(crate) enum Command {
    Run {
        request: u64,
        op: Checked,
        sink: Sink,
    },
    /// Answered when it is known whether the server can be reached.
    AwaitConnected(Sink),
    /// The caller of a request went away.
    Cancel {
        request: u64,
    },
    /// No waiter for a lock goes on. Answered when nothing is owed to the server any more.
    EndWaits(Sink),
    /// Nobody uses the client any more.
    Shutdown,
}

impl Command {
    /// The same error, of the lock that this is about; `given` makes the caller's name of the full one.
    pub(crate) fn naming_its_lock(&self, error: Error, given: impl Fn(&str) -> &str) -> Error {
        let name = match self {
            Self::Run { op, .. } => op.lock_name(),
            _ => None,
        };
        error.with_lock_if_known(name.map(given))
    }
}

/// An operation whose arguments are known to be good.
#[derive(Debug)]
pub(crate) enum Checked {
    Acquire(AcquireRequest),
    AcquireAll(Vec<AcquireRequest>),
    Release(LeaseId),
    ReleaseInnermost(Subject, Context),
    Extend(LeaseId, Option<LeaseDuration>),
    Inspect(Kind, LockName),
    ForceRelease(Kind, LockName),
    SetLimit(Permits, LockName),
    Held(Subject, Context),
    Close,
    /// The arguments were refused.
    Refused(Error),
}

impl Checked {
    pub(crate) const fn operation(&self) -> Operation {
        match self {
            Self::Acquire(_) | Self::AcquireAll(_) => Operation::Acquire,
            Self::Release(_) | Self::ReleaseInnermost(..) | Self::ForceRelease(..) | Self::Close => Operation::Release,
            Self::Extend(..) => Operation::Extend,
            Self::Inspect(..) | Self::Held(..) => Operation::Inspect,
            Self::SetLimit(..) => Operation::SetLimit,
            Self::Refused(error) => error.operation(),
        }
    }

    /// The lock's full name, if it is one lock that was named.
    pub(crate) fn lock_name(&self) -> Option<&str> {
        match self {
            Self::Acquire(acquire) => Some(acquire.name.as_str()),
            Self::ReleaseInnermost(lock, _) | Self::Held(lock, _) => lock.name().map(LockName::as_str),
            Self::Inspect(_, name) | Self::ForceRelease(_, name) | Self::SetLimit(_, name) => Some(name.as_str()),
            Self::AcquireAll(_) | Self::Release(_) | Self::Extend(..) | Self::Close | Self::Refused(_) => None,
        }
    }
}

/// Where a result goes.
#[derive(Clone, Debug)]
pub(crate) enum Sink {
    /// The event queue, under this request number.
    Queue(u64),
    /// A caller of its own.
    Slot(Arc<Slot>),
    /// Nobody waits for it.
    Discard,
}
