//! The sentence of each observation in a log: the same in every language.

use std::fmt;
use std::time::Duration;

use steadlock_protocol::{LostReason, ReleaseOutcome, SkipReason, around};

use super::observation::{Observation, ObservedLock, WaitOutcome};

impl fmt::Display for ObservedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            "fair_lock" => "fair lock",
            "read_lock" => "read lock",
            "write_lock" => "write lock",
            "multi_lock" => "locks",
            other => other,
        };
        write!(f, "{kind} {:?}", self.name)
    }
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitBegan { .. } | Self::WaitEnded { .. } | Self::Attempt { .. } | Self::Granted { .. } => {
                self.fmt_acquisition(f)
            }
            Self::Renewed { .. } | Self::RenewalFailing { .. } => self.fmt_renewal(f),
            Self::Lost { .. } => self.fmt_loss(f),
            Self::Released { .. } => self.fmt_release(f),
            Self::Connected { .. }
            | Self::Disconnected { .. }
            | Self::BreakerOpened { .. }
            | Self::BreakerClosed { .. }
            | Self::ClockAhead { .. }
            | Self::ConnectFailing { .. } => self.fmt_connection(f),
        }
    }
}

impl Observation {
    fn fmt_acquisition(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitBegan { lock } => write!(f, "a caller waits for {lock}"),
            Self::WaitEnded { lock, outcome, waited } => {
                let waited = ReadableDuration(*waited);
                match outcome {
                    WaitOutcome::Granted => write!(f, "{lock} was granted after {waited}"),
                    WaitOutcome::TimedOut => {
                        write!(f, "{lock} was not granted within {waited}: another owner holds it")
                    }
                    WaitOutcome::Skipped(SkipReason::Unavailable) => {
                        write!(f, "{lock} was skipped: its server is unavailable")
                    }
                    WaitOutcome::Skipped(SkipReason::Running) => write!(f, "{lock} was skipped: another run goes on"),
                    WaitOutcome::Skipped(SkipReason::Done) => write!(f, "{lock} was skipped: the job is done"),
                    WaitOutcome::Cancelled => write!(f, "the caller went away that waited for {lock} for {waited}"),
                    WaitOutcome::Failed(kind) => write!(f, "{lock} failed after {waited} ({})", kind.name()),
                }
            }
            Self::Attempt {
                lock,
                server,
                outcome,
                took,
            } => {
                write!(f, "an attempt at {lock} on {server}: {}", outcome.as_str())?;
                took.map_or(Ok(()), |took| write!(f, " after {}", ReadableDuration(took)))
            }
            Self::Granted {
                lock, token, waited, ..
            } => {
                write!(f, "{lock} is held, after a wait of {}", ReadableDuration(*waited))?;
                token.map_or(Ok(()), |token| write!(f, "; its token is {token}"))
            }
            _ => Ok(()),
        }
    }

    fn fmt_renewal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renewed {
                lock,
                server,
                failures: 0,
                ..
            } => write!(f, "{lock} was renewed on {server}"),
            Self::Renewed {
                lock, server, failures, ..
            } => write!(
                f,
                "{lock} is renewed again on {server}, after {}",
                Plural {
                    count: *failures,
                    noun: "failure"
                }
            ),
            Self::RenewalFailing {
                lock,
                server,
                cause,
                left,
                ..
            } => write!(
                f,
                "a renewal of {lock} on {server} failed: {}; {} of its lease are left",
                without_server(server, cause),
                ReadableDuration(*left)
            ),
            _ => Ok(()),
        }
    }

    fn fmt_release(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Released {
            lock, outcome, held, ..
        } = self
        else {
            return Ok(());
        };
        let held = ReadableDuration(*held);
        match outcome {
            ReleaseOutcome::Released => write!(f, "{lock} was released after {held}"),
            ReleaseOutcome::Expired => write!(f, "{lock} was gone when it was released after {held}"),
            ReleaseOutcome::Stolen => write!(f, "{lock} was another owner's when it was released after {held}"),
            ReleaseOutcome::Unknown => {
                write!(
                    f,
                    "{lock} was released after {held}, and the server did not confirm it yet"
                )
            }
        }
    }

    fn fmt_connection(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected {
                server, missing: None, ..
            } => write!(f, "connected to {server}"),
            Self::Connected {
                server,
                missing: Some(missing),
                ..
            } => write!(f, "connected to {server} again, after {}", ReadableDuration(*missing)),
            Self::Disconnected { server, cause, .. } => {
                write!(
                    f,
                    "the connection to {server} is lost: {}",
                    without_server(server, cause)
                )
            }
            Self::BreakerOpened { server, cause } => write!(
                f,
                "the circuit breaker of {server} is open: {}; nobody waits for it now",
                without_server(server, cause)
            ),
            Self::BreakerClosed { server, open } => write!(
                f,
                "the circuit breaker of {server} is closed again, after {}",
                ReadableDuration(*open)
            ),
            Self::ClockAhead { server, by } => write!(
                f,
                "the clock of {server} is {} ahead of what it was, or of that of the server before it: records made \
                 before end early",
                ReadableDuration(*by)
            ),
            Self::ConnectFailing {
                server,
                cause,
                missing,
                failures,
                ..
            } => write!(
                f,
                "still no connection to {server} after {} and {}: {}",
                ReadableDuration(*missing),
                Plural {
                    count: *failures,
                    noun: "attempt"
                },
                without_server(server, cause)
            ),
            _ => Ok(()),
        }
    }

    fn fmt_loss(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Lost {
            lock,
            server,
            reason,
            cause,
            held,
            length,
            ..
        } = self
        else {
            return Ok(());
        };
        write!(f, "{lock} is lost")?;
        if let Some(held) = held {
            write!(f, " after {}", ReadableDuration(*held))?;
        }
        match (reason, cause, length) {
            (LostReason::Expired, Some(cause), Some(length)) => write!(
                f,
                ": it expired, as {server} confirmed no renewal for its lease of {}: {}",
                ReadableDuration(*length),
                without_server(server, cause)
            ),
            (LostReason::Expired, None, Some(length)) => {
                write!(f, ": its fixed lease of {} is over", ReadableDuration(*length))
            }
            (LostReason::Expired, ..) => write!(f, ": it expired on {server}"),
            (LostReason::Removed, ..) => write!(
                f,
                ": {server} has no record of it any more (a failover, a restart without its data, or it was deleted)"
            ),
            (LostReason::Stolen, ..) => write!(f, ": another owner has it on {server}"),
            (LostReason::MaxHold, ..) => f.write_str(": its max_hold is over"),
            (LostReason::Closed, ..) => f.write_str(": the client was closed"),
        }
    }
}

/// Removes the server from a cause, because the sentence names it already.
fn without_server(server: &str, cause: &str) -> String {
    match around(cause, &format!("{server}: ")) {
        Some((before, after)) => format!("{before}{after}"),
        None => cause.to_owned(),
    }
}

/// A time for people: 340 ms, 2.5 s, 3 min 20 s.
struct ReadableDuration(Duration);

impl fmt::Display for ReadableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let seconds = self.0.as_secs();
        match seconds {
            0 => write!(f, "{millis} ms"),
            1..60 => match (millis + 50) / 100 {
                tenths if tenths.is_multiple_of(10) => write!(f, "{} s", tenths / 10),
                tenths => write!(f, "{}.{} s", tenths / 10, tenths % 10),
            },
            60..3_600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(f, "{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        }
    }
}

/// A number with its noun.
struct Plural {
    count: u32,
    noun: &'static str,
}

impl fmt::Display for Plural {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, noun } = self;
        match count {
            1 => write!(f, "1 {noun}"),
            _ => write!(f, "{count} {noun}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_people_write_them() {
        for (millis, text) in [
            (0, "0 ms"),
            (340, "340 ms"),
            (2_003, "2 s"),
            (2_540, "2.5 s"),
            (200_000, "3 min 20 s"),
            (4_000_000, "1 h 6 min"),
        ] {
            assert_eq!(ReadableDuration(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
