//! `steadlock top`: the locks that are held, again and again.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use steadlock::ErrorKind;
use steadlock::admin::Servers;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::list::as_json;
use super::memory::Memory;
use super::screen::{Screen, draw};
use crate::exit::Exit;
use crate::output::{print, print_json};
use crate::records::{Filter, Listing, list};
use crate::server::{ServerOptions, seconds};
use crate::signals::{Signals, status_of};

/// Show the locks that are held, again and again, until Ctrl-C.
///
/// On a terminal it has a screen of its own, which is gone afterwards; what ends first stands first.
/// Elsewhere it prints the same as lines. Each time it goes through all keys of all servers, as
/// `steadlock list` does. A server that does not answer is shown, and asked again.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Top {
    /// Only locks whose names start so.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// How many seconds between two looks, from 0.1 on.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "2")]
    interval: Duration,
    /// Look once.
    #[arg(long)]
    once: bool,
    /// Print one JSON object a look, each on a line, as `steadlock list --json` has it.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  it was told to end by Ctrl-C (SIGINT), or looked --once
    2  wrong usage
   69  the server could not be reached the first time
   78  the URL or the name is not acceptable, or the server refused: SECURITY.md has the rights
  143  (128 + n) it was told to end by SIGTERM (signal n)";

/// The servers get no more questions than this.
const SHORTEST: Duration = Duration::from_millis(100);

/// What is shown.
struct Look {
    listing: Result<Listing, steadlock::Error>,
    took: Duration,
}

impl Top {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut signals = Signals::listen()?;
        let mut resized = signal(SignalKind::window_change())
            .map_err(|error| Exit::new(Exit::SOFTWARE, format!("cannot listen for signals: {error}")))?;
        let filter = Filter::new(self.server.key_prefix(), &self.prefix);
        let mut servers = Some(self.server.open().await?);
        let mut memory = Memory::default();
        let mut screen = None;
        let mut is_first = true;
        loop {
            let mut look = tokio::select! {
                signal = signals.next() => return Ok(ended_by(signal)),
                look = self.look(&mut servers, &filter) => look,
            };
            match &mut look.listing {
                Ok(listing) => memory.recall(listing, Instant::now()),
                // What cannot pass by itself is told at once, and so is the first failure.
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
            self.show(screen.as_ref(), &look)?;
            if self.once {
                return Ok(ExitCode::SUCCESS);
            }
            let next = Instant::now() + self.interval.max(SHORTEST);
            loop {
                tokio::select! {
                    signal = signals.next() => return Ok(ended_by(signal)),
                    _ = resized.recv() => self.show(screen.as_ref(), &look)?,
                    () = sleep_until(next) => break,
                }
            }
        }
    }

    /// Looks once; after a failure at servers that are found anew.
    async fn look(&self, servers: &mut Option<Servers>, filter: &Filter) -> Look {
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
        Look {
            listing,
            took: start.elapsed(),
        }
    }

    async fn list(
        &self,
        mut open: Servers,
        servers: &mut Option<Servers>,
        filter: &Filter,
    ) -> Result<Listing, steadlock::Error> {
        let listing = list(&mut open, filter).await?;
        // With one that failed, all are found anew: it may be another one by now.
        *servers = listing.failed.is_empty().then_some(open);
        Ok(listing)
    }

    fn show(&self, screen: Option<&Screen>, look: &Look) -> Result<(), Exit> {
        let time = clock();
        let lines = match &look.listing {
            Ok(listing) if self.json => return print_json(&as_json(listing)),
            Err(error) if self.json => {
                return print_json(&serde_json::json!({ "error": error.to_string() }));
            }
            Ok(listing) => draw(listing, look.took, &time, screen.map(|screen| screen.size().rows)),
            Err(error) => vec![format!("steadlock top  {time}  {error}")],
        };
        match screen {
            Some(screen) => screen.show(&lines),
            None => print(&format!("{}\n\n", lines.join("\n"))),
        }
    }
}

/// Ctrl-C is how one leaves it.
fn ended_by(signal: Signal) -> ExitCode {
    if signal == Signal::INT {
        ExitCode::SUCCESS
    } else {
        status_of(signal)
    }
}

/// The time of day, in UTC: the system's own zone takes a library to know.
fn clock() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    format!("{:02}:{:02}:{:02} UTC", now / 3_600 % 24, now / 60 % 60, now % 60)
}
