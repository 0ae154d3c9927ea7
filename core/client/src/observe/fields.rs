//! The fields of an observation. Their names are the same in every language.

use std::time::Duration;

use super::observation::Observation;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A text.
    Text(String),
    /// A whole number: an id, a token, a count or milliseconds.
    Number(u64),
}

#[derive(Default)]
struct Fields(Vec<(&'static str, Field)>);

impl Observation {
    /// Returns all fields, by name. Times are whole milliseconds.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields = Fields::default();
        fields.text("event", self.event());
        if let Some(lock) = self.lock() {
            fields.text("lock", &lock.name);
            fields.text("kind", lock.kind);
        }
        if let Some(server) = self.server() {
            fields.text("server", server);
        }
        fields.lease_fields(self);
        fields.failure_fields(self);
        fields.0
    }
}

impl Fields {
    fn text(&mut self, name: &'static str, text: &str) {
        self.0.push((name, Field::Text(text.to_owned())));
    }

    fn number(&mut self, name: &'static str, number: impl Into<u64>) {
        self.0.push((name, Field::Number(number.into())));
    }

    fn time(&mut self, name: &'static str, time: Option<Duration>) {
        if let Some(time) = time {
            self.number(name, u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
    }

    fn lease_fields(&mut self, observation: &Observation) {
        match observation {
            Observation::WaitEnded { outcome, waited, .. } => {
                self.text("outcome", outcome.as_str());
                self.time("waited_ms", Some(*waited));
            }
            Observation::Attempt { outcome, took, .. } => {
                self.text("outcome", outcome.as_str());
                self.time("took_ms", *took);
            }
            Observation::Granted {
                lease, token, waited, ..
            } => {
                self.number("lease", *lease);
                if let Some(token) = token {
                    self.number("token", *token);
                }
                self.time("waited_ms", Some(*waited));
            }
            Observation::Released {
                lease, outcome, held, ..
            } => {
                self.number("lease", *lease);
                self.text("outcome", outcome.as_str());
                self.time("held_ms", Some(*held));
            }
            _ => {}
        }
    }

    fn failure_fields(&mut self, observation: &Observation) {
        match observation {
            Observation::Renewed { took, failures, .. } => {
                self.time("took_ms", Some(*took));
                self.number("failures", *failures);
            }
            Observation::RenewalFailing {
                cause, left, failures, ..
            } => {
                self.text("cause", cause);
                self.time("left_ms", Some(*left));
                self.number("failures", *failures);
            }
            Observation::Lost {
                lease,
                reason,
                cause,
                held,
                ..
            } => {
                self.number("lease", *lease);
                self.text("reason", reason.as_str());
                if let Some(cause) = cause {
                    self.text("cause", cause);
                }
                self.time("held_ms", *held);
            }
            Observation::Connected { link, missing, .. } => {
                self.text("link", link.as_str());
                self.time("missing_ms", *missing);
            }
            Observation::Disconnected { link, cause, .. } => {
                self.text("link", link.as_str());
                self.text("cause", cause);
            }
            Observation::BreakerOpened { cause, .. } => self.text("cause", cause),
            Observation::BreakerClosed { open, .. } => self.time("open_ms", Some(*open)),
            Observation::ClockAhead { by, .. } => self.time("ahead_ms", Some(*by)),
            Observation::ConnectFailing {
                link,
                cause,
                missing,
                failures,
                ..
            } => {
                self.text("link", link.as_str());
                self.text("cause", cause);
                self.time("missing_ms", Some(*missing));
                self.number("failures", *failures);
            }
            _ => {}
        }
    }
}
