//! Decides which observations become lines of a log. Trouble that goes on has a line at once, then after 1 s, 2 s, 4 s
//! and so on, and finally once a minute.
//!
//! ```text
//!   Healthy ── lost ──────────────────────────────► Logged: a line
//!   Healthy ── lost again too soon ───────────────► Unlogged
//!   Unlogged ─ an attempt fails, a line is due ───► Logged: a line
//!   Unlogged ─ back ──────────────────────────────► Healthy: no line, as the loss had none
//!   Logged ─── an attempt fails, a line is due ───► Logged: a line
//!   Logged ─── back ──────────────────────────────► Healthy: a line
//! ```
//!
//! Each server has two such states, one for its connections and one for renewals. Fixed leases that expire have a state
//! of their own, because some programs let every lease expire. Every other observation has a line if the log includes
//! its level: for example, a loss for another reason, or a circuit breaker that opens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::{SortedMap, SortedSet};
use steadlock_protocol::Instant;

use super::fields::Field;
use super::observation::{Level, Link, Observation};

/// The pause after the first line about a trouble. Each further line doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two lines about the same trouble.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A line of a log.
#[derive(Clone, Debug)]
pub struct Line {
    observation: Observation,
    /// The number of observations of the same trouble since the last line.
    suppressed: u32,
}

impl Line {
    /// Returns the level of the observation.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.observation.level()
    }

    /// Returns the observation of the line.
    #[must_use]
    pub const fn observation(&self) -> &Observation {
        &self.observation
    }

    /// Returns the observation's fields, and under `unsaid` the number of observations of the same trouble since the
    /// last line, if there were any.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields = self.observation.fields();
        if self.suppressed > 0 {
            fields.push(("unsaid", Field::Number(u64::from(self.suppressed))));
        }
        fields
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.observation)?;
        // An observation of a failing connection counts its own attempts.
        match self.observation {
            Observation::RenewalFailing { .. } if self.suppressed > 0 => {
                write!(f, " ({} more failed since the last line)", self.suppressed)
            }
            Observation::Lost { .. } if self.suppressed > 0 => {
                write!(f, " ({} more expired since the last line)", self.suppressed)
            }
            _ => Ok(()),
        }
    }
}

/// The state of a log: which trouble has a line already.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` if the log is off.
    level: Option<Level>,
    connections: SortedMap<Arc<str>, Connections>,
    renewals: SortedMap<Arc<str>, Throttle>,
    expirations: Throttle,
}

#[derive(Debug, Default)]
struct Connections {
    /// The connections that are missing.
    missing: SortedSet<Link>,
    throttle: Throttle,
}

impl Journal {
    /// Makes the state of a log that has lines of this level and above.
    pub(crate) fn new(level: Option<Level>) -> Self {
        Self {
            level,
            connections: SortedMap::new(),
            renewals: SortedMap::new(),
            expirations: Throttle::default(),
        }
    }

    /// Changes the level of the log. Trouble that already had a line keeps its state.
    pub(crate) const fn set_level(&mut self, level: Option<Level>) {
        self.level = level;
    }

    /// Returns the line for an observation, if it has one.
    pub(crate) fn line(&mut self, observation: &Observation, now: Instant) -> Option<Line> {
        let suppressed = match observation {
            Observation::Disconnected { server, link, .. } => {
                let connections = self.connections.get_or_default(Arc::clone(server));
                let is_first = connections.missing.is_empty();
                // The second lost connection of a server that died tells a reader nothing new.
                let is_first_loss = connections.missing.insert(*link) && is_first;
                if is_first_loss {
                    connections.throttle.begin_trouble(now)
                } else {
                    None
                }
            }
            Observation::ConnectFailing { server, link, .. } => {
                let connections = self.connections.get_or_default(Arc::clone(server));
                connections.missing.insert(*link);
                connections.throttle.line_if_due(now)
            }
            Observation::Connected {
                server,
                link,
                missing: Some(_),
            } => {
                let connections = self.connections.get_mut(server)?;
                // The first connection that opens shows that the server is back; the second tells a reader nothing new.
                if connections.missing.remove(link) {
                    connections.throttle.end_trouble()
                } else {
                    None
                }
            }
            Observation::RenewalFailing { server, .. } => {
                self.renewals.get_or_default(Arc::clone(server)).line_if_due(now)
            }
            Observation::Renewed {
                server, failures: 1.., ..
            } => self.renewals.get_mut(server)?.end_trouble(),
            Observation::Lost { .. } if observation.level() == Level::Info => self.expirations.line_if_due(now),
            _ => Some(0),
        };
        let suppressed = suppressed?;
        // An observation is copied only if the log includes its level, because grants are frequent.
        self.level
            .is_some_and(|level| observation.level() >= level)
            .then(|| Line {
                observation: observation.clone(),
                suppressed,
            })
    }
}

/// One trouble, and when its next line is due.
#[derive(Debug, Default)]
struct Throttle {
    /// Whether the trouble has had a line since it last began.
    has_line: bool,
    /// The time before which there is no line.
    next_line: Instant,
    pause: Duration,
    suppressed: u32,
}

impl Throttle {
    /// Notes that the trouble begins anew. Returns the same as [`Self::line_if_due`].
    fn begin_trouble(&mut self, now: Instant) -> Option<u32> {
        self.has_line = false;
        self.line_if_due(now)
    }

    /// Notes that the trouble goes on. If a line is due, returns the number of observations since the last line.
    fn line_if_due(&mut self, now: Instant) -> Option<u32> {
        if now < self.next_line {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        }
        // If a line was due and no trouble came within `LONGEST_PAUSE` of that time, the pauses start over.
        let is_recent = now < self.next_line + LONGEST_PAUSE;
        self.pause = match self.pause {
            Duration::ZERO => FIRST_PAUSE,
            before if is_recent => (before * 2).min(LONGEST_PAUSE),
            _ => FIRST_PAUSE,
        };
        self.next_line = now + self.pause;
        self.has_line = true;
        Some(std::mem::take(&mut self.suppressed))
    }

    /// Notes that the trouble is over. If the trouble had a line, its end has one too: then returns the number of
    /// observations since the last line.
    fn end_trouble(&mut self) -> Option<u32> {
        std::mem::take(&mut self.has_line).then(|| std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::observation::ObservedLock;
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(86_400_000_000) + Duration::from_millis(millis)
    }

    fn lost(link: Link) -> Observation {
        Observation::Disconnected {
            server: "h:1".into(),
            link,
            cause: "h:1: closed".into(),
        }
    }

    fn failing(failures: u32) -> Observation {
        Observation::ConnectFailing {
            server: "h:1".into(),
            link: Link::Calls,
            cause: "h:1: refused".into(),
            missing: Duration::from_secs(1),
            failures,
        }
    }

    fn back(link: Link) -> Observation {
        Observation::Connected {
            server: "h:1".into(),
            link,
            missing: Some(Duration::from_secs(1)),
        }
    }

    fn renewal(name: &str, server: &str) -> Observation {
        Observation::RenewalFailing {
            lock: ObservedLock::new("lock", name.into()),
            server: server.into(),
            cause: "no answer".into(),
            left: Duration::from_secs(9),
            failures: 1,
        }
    }

    #[test]
    fn a_server_that_died_has_one_line_and_one_when_it_is_back() {
        let mut journal = Journal::new(Some(Level::Info));
        let mut lines = Vec::new();
        for (when, observation) in [
            (0, lost(Link::Renewals)),
            (1, lost(Link::Calls)),
            (50, failing(1)),
            (400, back(Link::Calls)),
            (410, back(Link::Renewals)),
        ] {
            lines.extend(
                journal
                    .line(&observation, at(when))
                    .map(|line| line.observation.event()),
            );
        }
        assert_eq!(lines, ["disconnected", "connected"]);
    }

    #[test]
    fn an_hour_of_failing_attempts_has_about_one_line_a_minute() {
        let mut journal = Journal::new(Some(Level::Info));
        assert!(journal.line(&lost(Link::Calls), at(0)).is_some());
        let attempts = 1..=3_600_u32;
        let lines: Vec<u32> = attempts
            .filter(|second| {
                journal
                    .line(&failing(*second), at(u64::from(*second) * 1_000))
                    .is_some()
            })
            .collect();
        assert_eq!(lines[..8], [1, 3, 7, 15, 31, 63, 123, 183]);
        assert_eq!(lines.len(), 64, "{lines:?}");
        let line = journal.line(&back(Link::Calls), at(3_601_000)).unwrap();
        assert_eq!(line.level(), Level::Info);
    }

    #[test]
    fn a_server_that_comes_and_goes_each_second_does_not_fill_the_log() {
        let mut journal = Journal::new(Some(Level::Info));
        let mut lines = Vec::new();
        for second in 0..3_600 {
            for (after, observation) in [(0, lost(Link::Calls)), (500, back(Link::Calls))] {
                let line = journal.line(&observation, at(second * 1_000 + after));
                lines.extend(line.map(|line| line.observation.event()));
            }
        }
        assert!((100..150).contains(&lines.len()), "{}", lines.len());
        // A line for a loss is followed by a line for its end.
        assert!(lines.chunks(2).all(|pair| pair == ["disconnected", "connected"]));
    }

    #[test]
    fn trouble_after_an_hour_without_any_has_a_line_at_once() {
        let mut journal = Journal::new(Some(Level::Info));
        for second in 0..600 {
            journal.line(&failing(second), at(u64::from(second) * 1_000));
        }
        journal.line(&back(Link::Calls), at(600_000));
        let hour = 4_200_000;
        assert!(journal.line(&lost(Link::Calls), at(hour)).is_some());
        assert!(journal.line(&failing(1), at(hour + 1_000)).is_some());
    }

    #[test]
    fn renewals_that_fail_together_have_one_line_for_each_server() {
        let mut journal = Journal::new(Some(Level::Info));
        let mut lines = 0;
        for number in 0..1_000 {
            let name = format!("stock:{number}");
            lines += i32::from(journal.line(&renewal(&name, "h:1"), at(0)).is_some());
        }
        assert_eq!(lines, 1);
        assert!(journal.line(&renewal("stock:1", "h:2"), at(0)).is_some());
        let line = journal.line(&renewal("stock:1", "h:1"), at(1_000)).unwrap();
        assert!(
            line.to_string().ends_with("(999 more failed since the last line)"),
            "{line}"
        );
    }

    #[test]
    fn fixed_leases_that_expire_all_day_do_not_fill_the_log_and_every_other_loss_has_a_line() {
        let mut journal = Journal::new(Some(Level::Info));
        let lost = |cause: Option<&str>| Observation::Lost {
            lock: ObservedLock::new("lock", "a".into()),
            lease: 1,
            server: "h:1".into(),
            reason: steadlock_protocol::LostReason::Expired,
            cause: cause.map(Into::into),
            held: None,
            length: Some(Duration::from_secs(1)),
        };
        let mut has_line = |cause, second: u64| journal.line(&lost(cause), at(second * 1_000)).is_some();
        assert_eq!((0..3_600).filter(|second| has_line(None, *second)).count(), 65);
        assert_eq!((0..100).filter(|_| has_line(Some("no answer"), 0)).count(), 100);
    }

    #[test]
    fn an_observation_below_the_level_has_no_line() {
        let observation = Observation::WaitBegan {
            lock: ObservedLock::new("lock", "a".into()),
        };
        assert!(Journal::new(Some(Level::Info)).line(&observation, at(0)).is_none());
        assert!(Journal::new(Some(Level::Debug)).line(&observation, at(0)).is_some());
    }
}
