//! Whether to look for commands and answers a little longer before the engine sleeps.
//!
//! To wake a sleeping thread takes longer than a server on the same machine takes
//! to answer. So while callers are busy and commands or answers come quickly, the
//! engine looks again and again for a moment, and yields its processor to other
//! threads between two looks. An idle client, one that only renews, and one whose
//! server is far away do not spin. Nor does one on a single processor: what it
//! waits for could not run meanwhile.

use std::time::Duration;

use steadlock_protocol::Instant;

/// How long one wait spins at the most.
const LONGEST: Duration = Duration::from_micros(200);
/// Callers are busy if one asked for something so recently.
const BUSY: Duration = Duration::from_millis(1);
/// A wait without spinning was short if it took no longer; to be woken is part of it.
const QUICK: Duration = Duration::from_micros(300);

/// What the engine waits for. Answers may come quickly though callers do not,
/// and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A caller's next command: nobody waits for an answer.
    Command,
    /// An answer for a caller.
    Answer,
    /// Answers for so many callers that being woken, which they share, costs less than looking.
    Answers,
}

/// Who asks, and so is told the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callers {
    /// Threads and tasks, each of which is told its own answer.
    Apart,
    /// An event loop, or a thread that hands events on: one wake-up tells it all that is there, and it asks for more
    /// only then.
    Loop,
}

impl Callers {
    /// So many calls in flight at the most have the engine look for their answers.
    const fn few(self) -> usize {
        match self {
            Self::Apart => 32,
            Self::Loop => 128,
        }
    }
}

impl News {
    /// What comes first while so many calls are in flight.
    pub(super) const fn of(calls_in_flight: usize, callers: Callers) -> Self {
        match calls_in_flight {
            0 => Self::Command,
            few if few <= callers.few() => Self::Answer,
            _ => Self::Answers,
        }
    }
}

#[derive(Debug)]
pub(super) struct Spin {
    /// Whether anybody else can run meanwhile.
    is_worth_it: bool,
    last_command: Option<Instant>,
    /// Whether spinning would have helped, or did, in the last wait of either sort.
    commands_are_quick: bool,
    answers_are_quick: bool,
}

impl Spin {
    /// For an engine that may use so many processors.
    pub(super) const fn on(processors: usize) -> Self {
        Self {
            is_worth_it: processors > 1,
            last_command: None,
            commands_are_quick: false,
            answers_are_quick: false,
        }
    }

    /// A caller asked for something.
    pub(super) fn command_came(&mut self, now: Instant) {
        self.last_command = Some(now);
    }

    /// Until when a wait that begins now should spin; `None` to sleep at once.
    pub(super) fn until(&self, news: News, now: Instant) -> Option<Instant> {
        let is_busy = self
            .last_command
            .is_some_and(|command| now.saturating_since(command) < BUSY);
        let is_quick = match news {
            News::Command => self.commands_are_quick,
            News::Answer => self.answers_are_quick,
            News::Answers => false,
        };
        (self.is_worth_it && is_busy && is_quick).then(|| now + LONGEST)
    }

    /// A wait without spinning is over.
    pub(super) fn slept(&mut self, news: News, began: Instant, now: Instant) {
        self.note(news, now.saturating_since(began) < QUICK);
    }

    /// A wait was spun through, or spinning was in vain.
    pub(super) fn spun(&mut self, news: News, came: bool) {
        self.note(news, came);
    }

    fn note(&mut self, news: News, is_quick: bool) {
        match news {
            News::Command => self.commands_are_quick = is_quick,
            News::Answer => self.answers_are_quick = is_quick,
            News::Answers => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_for_an_event_loop_are_looked_for_longer_than_those_for_many_threads() {
        assert_eq!(News::of(0, Callers::Loop), News::Command);
        assert_eq!(News::of(32, Callers::Apart), News::Answer);
        assert_eq!(News::of(33, Callers::Apart), News::Answers);
        assert_eq!(News::of(128, Callers::Loop), News::Answer);
        assert_eq!(News::of(129, Callers::Loop), News::Answers);
    }

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn a_busy_client_spins_while_news_comes_quickly() {
        let mut spin = Spin::on(2);
        spin.command_came(at(0));
        assert_eq!(spin.until(News::Answer, at(0)), None, "nothing is known yet");
        spin.slept(News::Answer, at(0), at(90));
        assert_eq!(spin.until(News::Answer, at(90)), Some(at(90) + LONGEST));
        spin.spun(News::Answer, true);
        assert!(spin.until(News::Answer, at(190)).is_some());
        spin.slept(News::Answer, at(190), at(790));
        assert_eq!(spin.until(News::Answer, at(790)), None, "the server is slow");
    }

    #[test]
    fn on_one_processor_nobody_spins() {
        let mut spin = Spin::on(1);
        for news in [News::Answer, News::Command] {
            spin.command_came(at(0));
            spin.slept(news, at(0), at(90));
            assert_eq!(spin.until(news, at(90)), None);
        }
    }

    #[test]
    fn what_comes_just_too_late_for_spinning_ends_it() {
        let mut spin = Spin::on(2);
        spin.command_came(at(0));
        spin.slept(News::Answer, at(0), at(90));
        spin.spun(News::Answer, false);
        assert_eq!(spin.until(News::Answer, at(300)), None);
        spin.slept(News::Answer, at(300), at(650));
        assert_eq!(spin.until(News::Answer, at(650)), None);
    }

    #[test]
    fn quick_answers_do_not_make_it_spin_for_slow_callers() {
        let mut spin = Spin::on(2);
        for round in 0..3 {
            let start = round * 900;
            spin.command_came(at(start));
            assert_eq!(spin.until(News::Answer, at(start)).is_some(), round > 0);
            spin.slept(News::Answer, at(start), at(start + 90));
            assert_eq!(spin.until(News::Command, at(start + 90)), None);
            spin.slept(News::Command, at(start + 90), at(start + 900));
        }
    }

    #[test]
    fn nobody_looks_for_the_answers_of_many() {
        let mut spin = Spin::on(2);
        spin.command_came(at(0));
        spin.slept(News::of(Callers::Apart.few(), Callers::Apart), at(0), at(90));
        assert!(
            spin.until(News::of(Callers::Apart.few(), Callers::Apart), at(90))
                .is_some()
        );
        assert_eq!(
            spin.until(News::of(Callers::Apart.few() + 1, Callers::Apart), at(90)),
            None
        );
        spin.slept(News::of(Callers::Apart.few() + 1, Callers::Apart), at(90), at(800));
        assert!(
            spin.until(News::of(1, Callers::Apart), at(800)).is_some(),
            "that says nothing of one answer"
        );
    }

    #[test]
    fn a_client_that_nobody_asks_sleeps() {
        let mut spin = Spin::on(2);
        spin.slept(News::Command, at(0), at(10));
        assert_eq!(spin.until(News::Command, at(10)), None, "there are only renewals");
        spin.command_came(at(10));
        assert!(spin.until(News::Command, at(1_000)).is_some());
        assert_eq!(spin.until(News::Command, at(1_010)), None, "its callers went quiet");
    }
}
