//! The counts of a client's connections, and of their circuit breakers.

use super::series::Counter;
use crate::observe::observation::Link;

/// The counts of one of the client's connections.
#[derive(Debug, Default)]
pub(crate) struct LinkCounts {
    /// The connections that were lost.
    pub(crate) lost: Counter,
    /// The connections that were opened again.
    pub(crate) reconnects: Counter,
    /// The attempts to connect that failed.
    pub(crate) failures: Counter,
}

/// The counts of the circuit breakers.
#[derive(Debug, Default)]
pub(crate) struct BreakerCounts {
    /// The number of times that a breaker opened.
    pub(super) opened: Counter,
    /// The number of breakers that are open.
    pub(super) open: Counter,
}

impl BreakerCounts {
    pub(crate) fn opened(&self) {
        self.opened.add(1);
        self.open.add(1);
    }

    pub(crate) fn closed(&self) {
        self.open.decrement();
    }
}

/// The counts of both connections.
#[derive(Debug, Default)]
pub(super) struct Links {
    calls: LinkCounts,
    renewals: LinkCounts,
}

impl Links {
    pub(super) const fn of(&self, link: Link) -> &LinkCounts {
        match link {
            Link::Calls => &self.calls,
            Link::Renewals => &self.renewals,
        }
    }

    pub(super) fn each(&self) -> [(Link, &LinkCounts); 2] {
        [Link::Calls, Link::Renewals].map(|link| (link, self.of(link)))
    }
}
