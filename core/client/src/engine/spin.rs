//! Whether to look for news a little longer before the engine sleeps.
//!
//! To wake a sleeping thread takes longer than a server on the same machine takes
//! to answer. So while callers are busy and answers come quickly, the engine looks
//! again and again for a moment, and gives its processor to whoever wants it
//! between two looks. An idle client, one that only renews, and one whose server
//! is far away never spin.

use std::time::Duration;

use leasehold_protocol::Instant;

/// How long one wait spins at the most.
const LONGEST: Duration = Duration::from_micros(100);
/// Callers are busy if one asked for something so recently.
const BUSY: Duration = Duration::from_millis(1);
/// News came quickly if it came within so long; to be woken is part of it.
const QUICK: Duration = Duration::from_micros(250);

#[derive(Debug, Default)]
pub(super) struct Spin {
    last_command: Option<Instant>,
    was_quick: bool,
}

impl Spin {
    /// A caller asked for something.
    pub(super) fn command_came(&mut self, now: Instant) {
        self.last_command = Some(now);
    }

    /// Until when a wait that begins now should spin; `None` to sleep at once.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        let busy = self.last_command.is_some_and(|at| now.saturating_since(at) < BUSY);
        (busy && self.was_quick).then(|| now + LONGEST)
    }

    /// A wait is over.
    pub(super) fn waited(&mut self, began: Instant, now: Instant) {
        self.was_quick = now.saturating_since(began) < QUICK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn a_busy_client_spins_while_news_comes_quickly() {
        let mut spin = Spin::default();
        assert_eq!(spin.until(at(1)), None, "nothing is known yet");
        spin.command_came(at(100));
        spin.waited(at(100), at(200));
        assert_eq!(spin.until(at(200)), Some(at(200) + LONGEST));
        spin.waited(at(200), at(600));
        assert_eq!(spin.until(at(600)), None, "the server is slow");
        spin.waited(at(600), at(610));
        assert!(spin.until(at(610)).is_some());
    }

    #[test]
    fn a_client_that_nobody_asks_sleeps() {
        let mut spin = Spin::default();
        spin.waited(at(0), at(10));
        assert_eq!(spin.until(at(10)), None, "only renewals");
        spin.command_came(at(10));
        assert!(spin.until(at(1_000)).is_some());
        assert_eq!(spin.until(at(1_010)), None, "its callers went quiet");
    }
}
