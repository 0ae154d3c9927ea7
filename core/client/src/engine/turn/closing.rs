//! A client that closes: its end, the callers that are told of it, and what becomes of the leases it held.

use steadlock_protocol::{Instant, LeaseId, Outcome, Table, Ticket};

use crate::port::{Endings, Sink};

/// While a client closes.
pub(in crate::engine) struct Closing {
    until: Instant,
    waiting: Vec<Sink>,
    /// The releases of what was held, each with the leases that end by it. Composite locks have none of their own.
    releases: Table<Ticket, Vec<LeaseId>>,
    /// The outcomes of these releases.
    endings: Endings,
    /// Callers that release meanwhile what the close releases.
    late: Vec<(Sink, LeaseId)>,
}

impl Closing {
    /// It takes until then at the most, and these leases end by it.
    pub(super) fn new(until: Instant, endings: Endings) -> Self {
        Self {
            until,
            waiting: Vec::new(),
            releases: Table::default(),
            endings,
            late: Vec::new(),
        }
    }

    pub(super) const fn until(&self) -> Instant {
        self.until
    }

    /// This caller is told of its end.
    pub(super) fn is_awaited(&mut self, sink: Sink) {
        self.waiting.push(sink);
    }

    /// These leases end by the release of this ticket.
    pub(super) fn releases(&mut self, ticket: Ticket, leases: Vec<LeaseId>) {
        self.releases.insert(ticket, leases);
    }

    /// Whether this is the release of a hold by the close.
    pub(super) fn answered(&mut self, ticket: Ticket, outcome: &Outcome) -> bool {
        let leases = self.releases.remove(&ticket);
        if let (Some(leases), Outcome::Released(outcome)) = (&leases, outcome) {
            for lease in leases {
                self.endings.released(*lease, *outcome);
            }
        }
        leases.is_some()
    }

    /// Whether the close has yet to say what the release of this lease comes to.
    pub(super) fn is_owed(&self, lease: LeaseId) -> bool {
        self.endings.is_owed(lease)
    }

    /// A caller releases what the close releases, and is told at its end.
    pub(super) fn is_released_meanwhile(&mut self, sink: Sink, lease: LeaseId) {
        self.late.push((sink, lease));
    }

    /// Gives the outcomes of later releases, the callers that released meanwhile, and those to tell of the end.
    pub(super) fn end(mut self, is_drained: bool) -> (Endings, Vec<(Sink, LeaseId)>, Vec<Sink>) {
        if is_drained {
            self.endings.all_released();
        }
        (self.endings, self.late, self.waiting)
    }
}
