//! The counts of a client's connections.

use super::series::Counter;
use crate::observe::observation::Link;

/// What became of the connections of one sort.
#[derive(Debug, Default)]
pub(crate) struct LinkCounts {
    /// One was lost.
    pub(crate) lost: Counter,
    /// One was there again.
    pub(crate) reconnects: Counter,
    /// A try to connect failed.
    pub(crate) failures: Counter,
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
