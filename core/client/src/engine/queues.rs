//! Requests the lengths of the server's wait queues of chosen fair locks, for the metrics.

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::SortedMap;
use steadlock_protocol::{Instant, LockName, Outcome, Session, Ticket};

use crate::observe::metrics::Metrics;

/// The interval between two rounds of requests.
const INTERVAL: Duration = Duration::from_secs(15);

/// The chosen locks of one engine; at least one.
pub(super) struct Queues {
    metrics: Arc<Metrics>,
    names: Vec<(Arc<str>, LockName)>,
    due: Instant,
    pending: SortedMap<Ticket, Arc<str>>,
}

impl Queues {
    /// Creates it, or returns `None` if no lock was chosen or nothing is counted.
    pub(super) fn of(metrics: Option<&Arc<Metrics>>, names: &[(Arc<str>, LockName)], now: Instant) -> Option<Self> {
        let metrics = metrics.filter(|_| !names.is_empty())?;
        Some(Self {
            metrics: Arc::clone(metrics),
            names: names.to_vec(),
            due: now,
            pending: SortedMap::new(),
        })
    }

    /// Returns the time of the next round.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Sends a round of requests if it is due and the previous round is answered.
    pub(super) fn request_lengths(&mut self, session: &mut Session, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + INTERVAL;
        if self.pending.is_empty() {
            for (name, full_name) in &self.names {
                self.pending
                    .insert(session.queue_length(full_name, now), Arc::clone(name));
            }
        }
    }

    /// Handles the outcome of a ticket. Returns whether the ticket belongs to such a request. After a failed request
    /// the length is unknown.
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
    fn each_is_asked_for_every_fifteen_seconds_and_not_while_an_answer_is_under_way() {
        let (mut session, metrics, start) = (session(), Arc::default(), Instant::ZERO);
        let full_name = KeyPrefix::default().name("hot").unwrap();
        let mut queues = Queues::of(Some(&metrics), &[("hot".into(), full_name)], start).unwrap();
        let ticket = |queues: &Queues| queues.pending.keys().next().copied();
        queues.request_lengths(&mut session, start);
        let first = ticket(&queues).unwrap();
        queues.request_lengths(&mut session, start + INTERVAL);
        assert_eq!(ticket(&queues), Some(first), "it is not answered yet");
        let state = LockState {
            waiting: Some(4),
            ..LockState::default()
        };
        assert!(queues.record_outcome(first, &Outcome::State(state)));
        assert!(metrics.text().contains("steadlock_fair_queue{queue=\"hot\"} 4\n"));
        queues.request_lengths(&mut session, start + INTERVAL + INTERVAL / 2);
        assert_eq!(ticket(&queues), None, "it is not time");
        queues.request_lengths(&mut session, start + 2 * INTERVAL);
        let second = ticket(&queues).unwrap();
        assert!(!queues.record_outcome(first, &Outcome::Forced(true)));
        assert!(queues.record_outcome(second, &Outcome::Forced(true)));
        assert!(!metrics.text().contains("fair_queue{"), "nothing is known");
    }
}
