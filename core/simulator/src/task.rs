//! One caller at a client: what it holds, and what it waits for.

use steadlock_protocol::{Context, Kind, LeaseId, OnUnavailable, Ticket};

use crate::ledger::Lock;
use crate::plan::ClientPlan;
use crate::time::Micros;

/// What a task waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// A hold, or with `inside` one more level of it or a read inside a write.
    Acquire {
        locks: Vec<Lock>,
        inside: Option<LeaseId>,
        /// Set if it can never be granted.
        is_wrong: bool,
        /// The length that the watchdog renews it by; `None` for a fixed lease.
        renewed: Option<Micros>,
        bounded: bool,
        /// Whether it tries once and does not wait.
        once: bool,
        /// Whether it wants a token.
        fencing: bool,
        /// What it wants in an outage.
        on_unavailable: OnUnavailable,
    },
    /// A lease to last longer.
    Extend(LeaseId),
    /// To be told that what it releases or extends is not its own.
    Refusal,
    /// An answer to what an operator asks for.
    Operator { name: usize, kind: Kind },
    /// The end of a release or an extension.
    Other,
}

/// One caller, which does one thing at a time.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) context: Option<Context>,
    pub(crate) waits: Option<(Ticket, Wish)>,
    /// Its leases, outermost first.
    pub(crate) leases: Vec<LeaseId>,
    /// The last lease that it released.
    pub(crate) given_back: Option<LeaseId>,
    /// Fixed leases that were lost, and the locks they were of: it may release or extend them yet.
    pub(crate) lapsed: Vec<(LeaseId, Vec<Lock>)>,
}

impl Task {
    /// The tasks of a client.
    pub(crate) fn all(of: &ClientPlan) -> Vec<Self> {
        let task = |(number, has_context): (usize, &bool)| Self {
            context: has_context.then(|| Context::from_u64(1 + number as u64)),
            waits: None,
            leases: Vec::new(),
            given_back: None,
            lapsed: Vec::new(),
        };
        of.tasks.iter().enumerate().map(task).collect()
    }

    /// Whether it has nothing and waits for nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.waits.is_none() && self.leases.is_empty()
    }

    /// The hold that it waits for: the ticket and the locks.
    pub(crate) fn wants(&self) -> Option<(Ticket, &[Lock])> {
        match self.waits.as_ref()? {
            (
                ticket,
                Wish::Acquire {
                    inside: None, locks, ..
                },
            ) => Some((*ticket, locks)),
            _ => None,
        }
    }

    /// The same, also of a read that it wants inside its write.
    pub(crate) fn asks_for(&self) -> Option<(Ticket, &[Lock])> {
        match self.waits.as_ref()? {
            (ticket, Wish::Acquire { locks, .. }) => Some((*ticket, locks)),
            _ => None,
        }
    }

    /// Whether it tries once for what several may hold: it asks beside all others.
    pub(crate) fn asks_alone(&self) -> bool {
        let Some((_, Wish::Acquire { once: true, locks, .. })) = &self.waits else {
            return false;
        };
        matches!(locks.as_slice(), [(_, kind)] if !kind.is_exclusive())
    }

    /// Whether it waits for this ticket.
    pub(crate) fn waits_for(&self, ticket: Ticket) -> bool {
        self.waits.as_ref().is_some_and(|(waited, _)| *waited == ticket)
    }
}
