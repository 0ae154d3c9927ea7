//! The commands of an engine.

use std::sync::Arc;

use steadlock_protocol::{
    AcquireRequest, Context, Error, Kind, LeaseDuration, LeaseId, LockName, Operation, Permits, Subject,
};

use super::slot::Slot;

/// A command of the host to the engine.
#[derive(Debug)]
pub(crate) enum Command {
    Run {
        request: u64,
        op: Checked,
        sink: Sink,
    },
    /// Answered when it is known whether the server can be reached.
    AwaitConnected(Sink),
    /// The caller of this request has gone.
    Cancel {
        request: u64,
    },
    /// Ends every wait for a lock. Answered when no release is owed to the server any more.
    EndWaits(Sink),
    /// The client has no users left.
    Shutdown,
}

impl Command {
    /// Adds the command's lock to an error; `given` turns the full name into the caller's.
    pub(crate) fn naming_its_lock(&self, error: Error, given: impl Fn(&str) -> &str) -> Error {
        let name = match self {
            Self::Run { op, .. } => op.lock_name(),
            _ => None,
        };
        error.with_lock_if_known(name.map(given))
    }
}

/// An operation whose arguments were checked.
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

    /// Returns the full name of the lock, if the operation names a single lock.
    pub(crate) fn lock_name(&self) -> Option<&str> {
        match self {
            Self::Acquire(acquire) => Some(acquire.name.as_str()),
            Self::ReleaseInnermost(lock, _) | Self::Held(lock, _) => lock.name().map(LockName::as_str),
            Self::Inspect(_, name) | Self::ForceRelease(_, name) | Self::SetLimit(_, name) => Some(name.as_str()),
            Self::AcquireAll(_) | Self::Release(_) | Self::Extend(..) | Self::Close | Self::Refused(_) => None,
        }
    }
}

/// The destination of a result.
#[derive(Clone, Debug)]
pub(crate) enum Sink {
    /// The event queue, under this request number.
    Queue(u64),
    /// The slot of one caller.
    Slot(Arc<Slot>),
    /// No caller waits for the result.
    Discard,
}
