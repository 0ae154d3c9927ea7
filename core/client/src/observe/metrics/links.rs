//! The counts of a client's connections, and of their circuit breakers.

use super::series::Counter;
use crate::observe::observation::Link;

/// What became of the connections of one sort.
#[derive(Debug, Default)]
pub(crate) struct LinkCounts {
    /// One was lost.
    pub(crate) lost: Counter,
    /// One was there again.
    pub(crate) reconnects: Counter,
    /// An attempt to connect failed.
    pub(crate) failures: Counter,
}

/// The circuit breakers.
#[derive(Debug, Default)]
pub(crate) struct BreakerCounts {
    /// How many have opened.
    pub(super) opened: Counter,
    /// How many are open.
    pub(super) open: Counter,
}

impl BreakerCounts {
    pub(crate) fn opened(&self) {
        self.opened.add(1);
        self.open.add(1);
    }

    pub(crate) fn closed(&self) {
        self.open.take_one();
    }
}

/// The counts of each sort.
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
