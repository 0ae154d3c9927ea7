//! The observer that writes to `tracing`.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use steadlock_protocol::Detail;
use tracing::{event, level_enabled};

use super::Observer;
use super::fields::Field;
use super::journal::{Journal, Line};
use super::observation::{Level, Observation};
use crate::clock;
use crate::process::PerProcess;

/// Reports trouble and recoveries to the subscribers of `tracing`, under the target `steadlock`. Losses are `ERROR`,
/// unless the program set the end: a hold that `max_hold` ends is `WARN`, an expired fixed lease of a single lock
/// `INFO`, and a close `DEBUG`. Failing renewals, lost connections and open circuit breakers are `WARN`, and recoveries
/// `INFO`. If `DEBUG` was enabled when this observer was made, it also reports each attempt, grant, renewal and release
/// at that level. Trouble that goes on has fewer and fewer lines, finally one each minute.
pub struct Tracing(PerProcess<State>);

struct State {
    level: Level,
    journal: Mutex<Journal>,
}

impl State {
    fn new(level: Level) -> Self {
        Self {
            level,
            journal: Mutex::new(Journal::new(Some(level))),
        }
    }
}

impl Tracing {
    /// Makes an observer of one client.
    #[must_use]
    pub fn new() -> Self {
        let level = if level_enabled!(::tracing::Level::DEBUG) {
            Level::Debug
        } else {
            Level::Info
        };
        Self(PerProcess::new(State::new(level), |parent| State::new(parent.level)))
    }
}

impl Default for Tracing {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing")
            .field("level", &self.0.level)
            .finish_non_exhaustive()
    }
}

impl Observer for Tracing {
    fn observe(&self, observation: &Observation) {
        let mut journal = self.0.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let line = journal.line(observation, clock::now());
        drop(journal);
        if let Some(line) = line {
            write(&line);
        }
    }

    fn detail(&self) -> Detail {
        self.0.level.detail()
    }
}

fn write(line: &Line) {
    let fields = line.fields();
    let find = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, field)| field);
    let text = |name: &str| match find(name) {
        Some(Field::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let number = |name: &str| match find(name) {
        Some(Field::Number(number)) => Some(*number),
        _ => None,
    };
    macro_rules! at {
        ($level:expr) => {
            event!(
                target: "steadlock",
                $level,
                event = line.observation().event(),
                lock = text("lock"),
                kind = text("kind"),
                server = text("server"),
                reason = text("reason"),
                outcome = text("outcome"),
                cause = text("cause"),
                link = text("link"),
                lease = number("lease"),
                held_ms = number("held_ms"),
                waited_ms = number("waited_ms"),
                left_ms = number("left_ms"),
                missing_ms = number("missing_ms"),
                failures = number("failures"),
                "{line}"
            )
        };
    }
    match line.level() {
        Level::Error => at!(::tracing::Level::ERROR),
        Level::Warn => at!(::tracing::Level::WARN),
        Level::Info => at!(::tracing::Level::INFO),
        Level::Debug => at!(::tracing::Level::DEBUG),
    }
}
