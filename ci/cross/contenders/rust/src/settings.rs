//! The arguments after the command: `URL NAME [--option value]…`.

use std::time::{Duration, Instant};

use crate::Outcome;

pub(crate) struct Settings {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) workers: usize,
    pub(crate) rounds: u64,
    pub(crate) seconds: u64,
    pub(crate) hold: Duration,
    pub(crate) lease: Option<Duration>,
    pub(crate) permits: u32,
    pub(crate) limit: u32,
    pub(crate) log: bool,
    pub(crate) warm_up: u64,
}

impl Settings {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut settings = Self {
            url: args.next().ok_or("URL is missing")?,
            name: args.next().ok_or("NAME is missing")?,
            kind: "lock".into(),
            workers: 1,
            rounds: 1_000_000_000,
            seconds: 1_000_000,
            hold: Duration::ZERO,
            lease: None,
            permits: 1,
            limit: 1,
            log: false,
            warm_up: 0,
        };
        while let Some(option) = args.next() {
            let value = args.next().ok_or("an option has no value")?;
            match option.as_str() {
                "--kind" => settings.kind = value,
                "--workers" => settings.workers = value.parse()?,
                "--rounds" => settings.rounds = value.parse()?,
                "--seconds" => settings.seconds = value.parse()?,
                "--hold-ms" => settings.hold = Duration::from_millis(value.parse()?),
                "--lease-ms" => settings.lease = Some(Duration::from_millis(value.parse()?)),
                "--permits" => settings.permits = value.parse()?,
                "--limit" => settings.limit = value.parse()?,
                "--log" => settings.log = value == "1",
                "--warm-up" => settings.warm_up = value.parse()?,
                _ => return Err(format!("no option {option}").into()),
            }
        }
        Ok(settings)
    }

    /// Whether a worker starts another round after `rounds` rounds.
    pub(crate) fn should_continue(&self, rounds: u64, started: Instant) -> bool {
        rounds < self.rounds && started.elapsed() < Duration::from_secs(self.seconds)
    }
}
