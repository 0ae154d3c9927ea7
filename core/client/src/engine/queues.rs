//! Asks how many wait in the server's queues of the fair locks that somebody chose, for the metrics.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Instant, LockName, Outcome, Session, SortedMap, Ticket};

use crate::observe::metrics::Metrics;

/// How often.
const EVERY: Duration = Duration::from_secs(15);

/// The chosen locks of one engine, of which there is at least one.
pub(super) struct Queues {
    metrics: Arc<Metrics>,
    names: Vec<(Arc<str>, LockName)>,
    due: Instant,
    asked: SortedMap<Ticket, Arc<str>>,
}

impl Queues {
    /// `None` if nothing was chosen.
    pub(super) fn of(metrics: Option<&Arc<Metrics>>, names: &[(Arc<str>, LockName)], now: Instant) -> Option<Self> {
        let metrics = metrics.filter(|_| !names.is_empty())?;
        Some(Self {
            metrics: Arc::clone(metrics),
            names: names.to_vec(),
            due: now,
            asked: SortedMap::new(),
        })
    }

    /// When it asks again.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Asks, if it is time and the last answers came.
    pub(super) fn ask(&mut self, session: &mut Session, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        if self.asked.is_empty() {
            for (name, full) in &self.names {
                self.asked.insert(session.queue_length(full, now), Arc::clone(name));
            }
        }
    }

    /// Whether a ticket was one of these. A server that does not answer leaves nothing known.
    pub(super) fn answered(&mut self, ticket: Ticket, outcome: &Outcome) -> bool {
        let Some(name) = self.asked.remove(&ticket) else {
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
        let full = KeyPrefix::default().name("hot").unwrap();
        let mut queues = Queues::of(Some(&metrics), &[("hot".into(), full)], start).unwrap();
        let ticket = |queues: &Queues| queues.asked.keys().next().copied();
        queues.ask(&mut session, start);
        let first = ticket(&queues).unwrap();
        queues.ask(&mut session, start + EVERY);
        assert_eq!(ticket(&queues), Some(first), "it is not answered yet");
        let state = LockState {
            waiting: Some(4),
            ..LockState::default()
        };
        assert!(queues.answered(first, &Outcome::State(state)));
        assert!(metrics.text().contains("steadlock_fair_queue{queue=\"hot\"} 4\n"));
        queues.ask(&mut session, start + EVERY + EVERY / 2);
        assert_eq!(ticket(&queues), None, "it is not time");
        queues.ask(&mut session, start + 2 * EVERY);
        let second = ticket(&queues).unwrap();
        assert!(!queues.answered(first, &Outcome::Forced(true)));
        assert!(queues.answered(second, &Outcome::Forced(true)));
        assert!(!metrics.text().contains("fair_queue{"), "nothing is known");
    }
}
