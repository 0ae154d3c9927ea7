//! A caller of a client: what it holds, and what it waits for.

use std::sync::Arc;

use steadlock_protocol::{Context, Kind, LeaseId, OnUnavailable, Ticket};

use crate::kinds::{Terms, never_waits};
use crate::ledger::Lock;
use crate::plan::ClientPlan;
use crate::time::Micros;

/// The request that a task waits for.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A lock. With `inside`, a lock inside that lease: one more level of it, the other side of its read-write lock, or
    /// a member of its composite lock.
    Acquire {
        locks: Vec<Lock>,
        inside: Option<LeaseId>,
        /// Whether the request can never be granted.
        is_wrong: bool,
        /// The length of the auto-renewed lease; `None` for a fixed lease.
        renewed: Option<Micros>,
        /// Whether the wait has a limit.
        bounded: bool,
        /// Whether the request is a single attempt.
        once: bool,
        /// Whether the caller requests a token.
        fencing: bool,
        /// The behaviour that the caller requests for an outage.
        on_unavailable: OnUnavailable,
        /// The terms that the caller of a job asks for.
        run: Option<Terms>,
    },
    /// The end of a run, under this owner id if it is known.
    EndRun { owner: Option<Arc<[u8]>> },
    /// An extension of a lease.
    Extend(LeaseId),
    /// A refusal, because the task releases or extends a lease that it does not own.
    Refusal,
    /// The answer to an operator's request.
    Operator { name: usize, kind: Kind },
    /// The end of a release.
    Other,
}

/// A caller, which does one thing at a time.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) context: Option<Context>,
    pub(crate) waits: Option<(Ticket, Request)>,
    /// The leases of the task, outermost first.
    pub(crate) leases: Vec<LeaseId>,
    /// The last lease that the task released.
    pub(crate) released_before: Option<LeaseId>,
    /// The last fixed leases that were lost, with their locks. The task may still try to release or extend them.
    pub(crate) expired: Vec<(LeaseId, Vec<Lock>)>,
}

impl Task {
    /// Returns the tasks of a client.
    pub(crate) fn all(of: &ClientPlan) -> Vec<Self> {
        let task = |(number, has_context): (usize, &bool)| Self {
            context: has_context.then(|| Context::from_u64(1 + number as u64)),
            waits: None,
            leases: Vec::new(),
            released_before: None,
            expired: Vec::new(),
        };
        of.tasks.iter().enumerate().map(task).collect()
    }

    /// Returns whether the task holds nothing and waits for nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.waits.is_none() && self.leases.is_empty()
    }

    /// Returns the ticket and the locks of the new hold that the task waits for.
    pub(crate) fn wants(&self) -> Option<(Ticket, &[Lock])> {
        match self.waits.as_ref()? {
            (
                ticket,
                Request::Acquire {
                    inside: None, locks, ..
                },
            ) => Some((*ticket, locks)),
            _ => None,
        }
    }

    /// Returns the same as [`wants`](Self::wants), also if the task requests the locks inside a lease.
    pub(crate) fn asks_for(&self) -> Option<(Ticket, &[Lock])> {
        match self.waits.as_ref()? {
            (ticket, Request::Acquire { locks, .. }) => Some((*ticket, locks)),
            _ => None,
        }
    }

    /// Returns whether the task makes a single attempt for a lock that several can hold, or for a run of a job. Such an
    /// attempt does not queue.
    pub(crate) fn bypasses_queue(&self) -> bool {
        let Some((_, Request::Acquire { once: true, locks, .. })) = &self.waits else {
            return false;
        };
        matches!(locks.as_slice(), [(_, kind)] if !kind.is_exclusive() || never_waits(*kind))
    }

    pub(crate) fn waits_for(&self, ticket: Ticket) -> bool {
        self.waits.as_ref().is_some_and(|(waited, _)| *waited == ticket)
    }
}
