//! Requests the lengths of the server's wait queues of chosen fair locks, for the metrics.

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::SortedMap;
use steadlock_protocol::{Instant, Outcome, Session, Ticket};

use crate::observe::metrics::Metrics;
use crate::settings::CountedQueue;

/// The time from one set of requests, one for each lock, to the next.
const INTERVAL: Duration = Duration::from_secs(15);

/// Requests the lengths of the wait queues of the chosen locks, for one engine.
pub(super) struct QueuePoller {
    metrics: Arc<Metrics>,
    locks: Vec<CountedQueue>,
    due: Instant,
    pending: SortedMap<Ticket, Arc<str>>,
}

impl QueuePoller {
    /// Creates the poller. Returns `None` if no lock was chosen, or if the client has no metrics.
    pub(super) fn new(metrics: Option<&Arc<Metrics>>, locks: &[CountedQueue], now: Instant) -> Option<Self> {
        let metrics = metrics.filter(|_| !locks.is_empty())?;
        Some(Self {
            metrics: Arc::clone(metrics),
            locks: locks.to_vec(),
            due: now,
            pending: SortedMap::new(),
        })
    }

    /// Returns the time of the next requests.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Requests the length for each lock if that is due and all previous requests are answered.
    pub(super) fn request_lengths(&mut self, session: &mut Session, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + INTERVAL;
        if self.pending.is_empty() {
            for lock in &self.locks {
                self.pending
                    .insert(session.queue_length(&lock.full_name, now), Arc::clone(&lock.name));
            }
        }
    }

    /// Handles the outcome of a ticket. Returns whether the ticket belongs to a request of this poller. After a failed
    /// request the length is unknown.
    pub(super) fn record_outcome(&mut self, ticket: Ticket, outcome: &Outcome) -> bool {
        let Some(name) = self.pending.remove(&ticket) else {
            return false;
        };
        let length = match outcome {
            Outcome::State(state) => state.waiting,
            _ => None,
        };
        self.metrics.queues().set(&name, length);
        true
    }
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::{ClientId, Config, KeyPrefix, LockState};

    use super::*;

    fn session() -> Session {
        let mut drawn = 0_u64;
        let mut entropy = move || {
            drawn += 1;
            drawn
        };
        let config = Config::new(ClientId::random(&mut entropy));
        Session::new(config, Box::new(entropy))
    }

    #[test]
    fn a_length_is_requested_every_fifteen_seconds_unless_a_request_is_pending() {
        let (mut session, metrics, start) = (session(), Arc::default(), Instant::ZERO);
        let lock = CountedQueue {
            name: "hot".into(),
            full_name: KeyPrefix::default().name("hot").unwrap(),
        };
        let mut poller = QueuePoller::new(Some(&metrics), &[lock], start).unwrap();
        let ticket = |poller: &QueuePoller| poller.pending.keys().next().copied();
        poller.request_lengths(&mut session, start);
        let first = ticket(&poller).unwrap();
        poller.request_lengths(&mut session, start + INTERVAL);
        assert_eq!(ticket(&poller), Some(first), "the first request is not answered yet");
        let state = LockState {
            waiting: Some(4),
            ..LockState::default()
        };
        assert!(poller.record_outcome(first, &Outcome::State(state)));
        assert!(metrics.text().contains("steadlock_fair_queue{queue=\"hot\"} 4\n"));
        poller.request_lengths(&mut session, start + INTERVAL + INTERVAL / 2);
        assert_eq!(ticket(&poller), None, "the next request is not due yet");
        poller.request_lengths(&mut session, start + 2 * INTERVAL);
        let second = ticket(&poller).unwrap();
        assert!(!poller.record_outcome(first, &Outcome::Forced(true)));
        assert!(poller.record_outcome(second, &Outcome::Forced(true)));
        assert!(!metrics.text().contains("fair_queue{"), "the length is unknown");
    }
}
