//! `steadlock top`: shows the locks that are held, again and again.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use steadlock::ErrorKind;
use steadlock::admin::Servers;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::hold_times::HoldTimes;
use super::list::as_json;
use super::screen::{Screen, draw};
use crate::exit::Exit;
use crate::output::{print, print_json};
use crate::records::{Filter, Listing, list};
use crate::server::{ServerOptions, parse_seconds};
use crate::signals::{Signals, exit_code_of_signal};

/// Show the locks that are held, again and again, until Ctrl-C.
///
/// On a terminal the command uses the alternate screen, and the locks whose leases end first come
/// first. Elsewhere it prints the same as lines. Each time it walks all keys of all servers, like
/// `steadlock list`. If a server does not answer, the error is shown and the next refresh tries again.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Top {
    /// Show only locks whose names start with this prefix.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// The number of seconds between two refreshes, at least 0.1.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "2")]
    interval: Duration,
    /// Show the locks once.
    #[arg(long)]
    once: bool,
    /// Print one JSON object for each refresh, on a line of its own, like `steadlock list --json`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  ended by Ctrl-C (SIGINT), or done with --once
    2  wrong usage
   69  the server could not be reached the first time
   78  the URL or the name is not acceptable, or the server refused: SECURITY.md has the rights
  143  (128 + n) ended by SIGTERM (signal n)";

/// The shortest interval, which protects the servers.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The locks at one time, or the error.
struct Snapshot {
    listing: Result<Listing, steadlock::Error>,
    elapsed: Duration,
}

impl Top {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut signals = Signals::listen()?;
        let mut resized = signal(SignalKind::window_change())
            .map_err(|error| Exit::new(Exit::SOFTWARE, format!("cannot listen for signals: {error}")))?;
        let filter = Filter::new(self.server.key_prefix(), &self.prefix);
        let mut servers = Some(self.server.open().await?);
        let mut hold_times = HoldTimes::default();
        let mut screen = None;
        let mut is_first = true;
        loop {
            let mut snapshot = tokio::select! {
                signal = signals.next() => return Ok(exit_code(signal)),
                snapshot = self.snapshot(&mut servers, &filter) => snapshot,
            };
            match &mut snapshot.listing {
                Ok(listing) => hold_times.fill_in(listing, Instant::now()),
                // An error that cannot pass by itself ends the command, and so does a failure of the first snapshot.
                Err(error) if is_first || error.kind() != ErrorKind::Unavailable => {
                    drop(screen);
                    return Err(error.clone().into());
                }
                Err(_) => {}
            }
            if is_first && !self.json && !self.once {
                screen = Screen::open()?;
            }
            is_first = false;
            self.show(screen.as_ref(), &snapshot)?;
            if self.once {
                return Ok(ExitCode::SUCCESS);
            }
            let next = Instant::now() + self.interval.max(MIN_INTERVAL);
            loop {
                tokio::select! {
                    signal = signals.next() => return Ok(exit_code(signal)),
                    _ = resized.recv() => self.show(screen.as_ref(), &snapshot)?,
                    () = sleep_until(next) => break,
                }
            }
        }
    }

    /// Lists the locks. After a failure, the next call searches for the servers again.
    async fn snapshot(&self, servers: &mut Option<Servers>, filter: &Filter) -> Snapshot {
        let start = Instant::now();
        let listing = match servers.take() {
            Some(open) => self.list(open, servers, filter).await,
            None => match self.server.builder() {
                Ok(builder) => match Servers::open(builder).await {
                    Ok(open) => self.list(open, servers, filter).await,
                    Err(error) => Err(error),
                },
                Err(_) => unreachable!("the same options were good before"),
            },
        };
        Snapshot {
            listing,
            elapsed: start.elapsed(),
        }
    }

    async fn list(
        &self,
        mut open: Servers,
        servers: &mut Option<Servers>,
        filter: &Filter,
    ) -> Result<Listing, steadlock::Error> {
        let listing = list(&mut open, filter).await?;
        // If a primary has failed, the next call searches for the servers again: another one may be the primary now.
        *servers = listing.failed.is_empty().then_some(open);
        Ok(listing)
    }

    fn show(&self, screen: Option<&Screen>, snapshot: &Snapshot) -> Result<(), Exit> {
        let time = utc_time_of_day();
        let lines = match &snapshot.listing {
            Ok(listing) if self.json => return print_json(&as_json(listing)),
            Err(error) if self.json => {
                return print_json(&serde_json::json!({ "error": error.to_string() }));
            }
            Ok(listing) => draw(
                listing,
                snapshot.elapsed,
                &time,
                screen.map(|screen| screen.size().rows),
            ),
            Err(error) => vec![format!("steadlock top  {time}  {error}")],
        };
        match screen {
            Some(screen) => screen.show(&lines),
            None => print(&format!("{}\n\n", lines.join("\n"))),
        }
    }
}

/// Returns the exit status for a signal. Ctrl-C is the normal way to end the command.
fn exit_code(signal: Signal) -> ExitCode {
    if signal == Signal::INT {
        ExitCode::SUCCESS
    } else {
        exit_code_of_signal(signal)
    }
}

/// Returns the time of day in UTC. Reading the system's time zone would need a library.
fn utc_time_of_day() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    format!("{:02}:{:02}:{:02} UTC", now / 3_600 % 24, now / 60 % 60, now % 60)
}
