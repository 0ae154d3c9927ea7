//! The shortest auto-renewed lease: the transport gives up a silent connection in time to renew it on a new one.

use std::time::Duration;

use steadlock_protocol::{Instant, LeaseId, LeaseTerms, SortedMap, Ticket};

/// The interval between two clean-ups, each of which looks at every lease.
const EVERY: Duration = Duration::from_secs(1);

/// The auto-renewed leases that have their own length: those that are held, and those that requests wait for.
#[derive(Default)]
pub(super) struct ShortLeases {
    asked: SortedMap<Ticket, Duration>,
    held: SortedMap<LeaseId, Duration>,
    shortest: Option<Duration>,
    /// The time of the next clean-up.
    due: Instant,
}

impl ShortLeases {
    /// Notes that a request waits for a lease on these terms.
    pub(super) fn asked(&mut self, ticket: Ticket, terms: LeaseTerms) {
        let Some(length) = terms.length().filter(|_| terms.is_renewed()) else {
            return;
        };
        let length = length.get();
        // A composite lock notes one length for each member.
        let shortest = self.asked.get(&ticket).map_or(length, |known| length.min(*known));
        self.asked.insert(ticket, shortest);
        self.shortest = Some(self.shortest.map_or(shortest, |known| shortest.min(known)));
    }

    /// Notes that the request was granted this lease.
    pub(super) fn granted(&mut self, ticket: Ticket, lease: LeaseId) {
        if let Some(length) = self.asked.remove(&ticket) {
            self.held.insert(lease, length);
        }
    }

    /// Returns the length of the shortest lease. A lease that has ended can still count for up to a second.
    pub(super) fn shortest(
        &mut self,
        now: Instant,
        is_open: impl Fn(Ticket) -> bool,
        is_held: impl Fn(LeaseId) -> bool,
    ) -> Option<Duration> {
        if self.shortest.is_some() && now >= self.due {
            self.due = now + EVERY;
            self.asked.retain(|ticket, _| is_open(*ticket));
            self.held.retain(|lease, _| is_held(*lease));
            self.shortest = self.asked.values().chain(self.held.values()).min().copied();
        }
        self.shortest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewed(seconds: u64) -> LeaseTerms {
        LeaseTerms::renewed(Duration::from_secs(seconds)).unwrap()
    }

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    #[test]
    fn it_is_that_of_what_is_held_or_asked_for_now() {
        let mut short = ShortLeases::default();
        let ticket = Ticket::from_u64;
        let lease = LeaseId::from_u64;
        assert_eq!(short.shortest(at(0), |_| true, |_| true), None);
        short.asked(ticket(1), renewed(9));
        short.asked(ticket(2), renewed(3));
        assert_eq!(short.shortest(at(0), |_| true, |_| true), Some(Duration::from_secs(3)));
        short.granted(ticket(2), lease(7));
        short.asked(ticket(3), renewed(2));
        let shortest = short.shortest(at(10), |_| true, |_| true);
        assert_eq!(shortest, Some(Duration::from_secs(2)), "at once");
        // The last request was cancelled. It stops counting at the next clean-up, a second later.
        let only_first = |open: Ticket| open == ticket(1);
        assert_eq!(
            short.shortest(at(1_100), only_first, |_| true),
            Some(Duration::from_secs(3))
        );
        assert_eq!(
            short.shortest(at(2_200), only_first, |_| false),
            Some(Duration::from_secs(9))
        );
        assert_eq!(short.shortest(at(3_300), |_| false, |_| false), None);
    }
}
