//! The close of a client: its time limit, the callers that wait for it, and the ends of the leases.

use steadlock_protocol::{Instant, LeaseId, Outcome, Table, Ticket};

use crate::port::{Endings, Sink};

/// The state of a client that is closing.
pub(in crate::engine) struct Closing {
    until: Instant,
    waiting: Vec<Sink>,
    /// The releases that the close requested, each with the leases that it ends. A composite lock has none: its members
    /// are released.
    releases: Table<Ticket, Vec<LeaseId>>,
    /// The outcomes of these releases.
    endings: Endings,
    /// Callers that meanwhile released a lease that the close releases.
    late: Vec<(Sink, LeaseId)>,
}

impl Closing {
    /// Begins a close that takes until `until` at the most and that ends these leases.
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

    /// Adds a caller to answer when the close ends.
    pub(super) fn is_awaited(&mut self, sink: Sink) {
        self.waiting.push(sink);
    }

    /// Notes that the release with this ticket ends these leases.
    pub(super) fn releases(&mut self, ticket: Ticket, leases: Vec<LeaseId>) {
        self.releases.insert(ticket, leases);
    }

    /// Handles the outcome of a ticket. Returns whether the ticket is a release by the close.
    pub(super) fn answered(&mut self, ticket: Ticket, outcome: &Outcome) -> bool {
        let leases = self.releases.remove(&ticket);
        if let (Some(leases), Outcome::Released(outcome)) = (&leases, outcome) {
            for lease in leases {
                self.endings.released(*lease, *outcome);
            }
        }
        leases.is_some()
    }

    /// Whether the close releases this lease and has no outcome yet.
    pub(super) fn is_owed(&self, lease: LeaseId) -> bool {
        self.endings.is_owed(lease)
    }

    /// Adds a caller that released a lease which the close releases. It is answered when the close ends.
    pub(super) fn is_released_meanwhile(&mut self, sink: Sink, lease: LeaseId) {
        self.late.push((sink, lease));
    }

    /// Ends the close. Returns the outcomes of all later releases, the callers that released meanwhile, and the callers
    /// to answer.
    pub(super) fn end(mut self, is_drained: bool) -> (Endings, Vec<(Sink, LeaseId)>, Vec<Sink>) {
        if is_drained {
            self.endings.all_released();
        }
        (self.endings, self.late, self.waiting)
    }
}
