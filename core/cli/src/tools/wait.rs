//! `steadlock wait`: waits until a lock is free.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use steadlock::admin::Servers;
use steadlock::host::shown;
use tokio::time::{Instant, sleep};

use super::Kind;
use super::inspect::{inspect_all, is_held, refuse_other_data};
use crate::exit::Exit;
use crate::output::{millis, print_json};
use crate::server::{ServerOptions, parse_seconds};

/// Wait until nobody holds a lock.
///
/// The command does not acquire the lock: another owner may hold it the next moment. To do something
/// while nobody else does, acquire the lock with `steadlock run`.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Wait {
    /// The lock's name.
    name: String,
    /// Wait only for this kind [default: every kind]. Can be given several times.
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
    /// How many seconds to wait; 0 checks once. The wait also ends if the server stops answering for 30 seconds
    /// [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// The number of seconds between two checks.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "0.25")]
    interval: Duration,
    /// Print one JSON object: name, free, waited_ms.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  nobody held it
    2  wrong usage
   69  the server could not be reached, or stopped answering for 30 seconds
   75  timed out: somebody held it for as long as --timeout
   78  the URL or the name is not acceptable, the key of this name holds something that is no lock, or
       the server refused: SECURITY.md has the rights";

/// The longest time without an answer from a server that has answered before, for example during a failover.
const MAX_OUTAGE: Duration = Duration::from_secs(30);
/// The shortest interval, which protects the server.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

impl Wait {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let kinds: Vec<&str> = self.kind.iter().map(|kind| kind.name()).collect();
        let start = Instant::now();
        let mut servers = self.server.open().await?;
        let name = servers.lock_name(&self.name)?;
        let mut all = inspect_all(&mut servers, &name).await?;
        let mut answered_at = Instant::now();
        loop {
            if !is_held(&all, &kinds) {
                refuse_other_data(&shown(&self.name), &all, &kinds)?;
                self.print_result(true, start)?;
                return Ok(ExitCode::SUCCESS);
            }
            let left = self.timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            if left == Some(Duration::ZERO) {
                self.print_result(false, start)?;
                let holder = all.iter().flat_map(|one| one.holds()).next();
                let holder = holder.map_or_else(String::new, |hold| format!(", by {}", hold.owner.describe()));
                return Err(Exit::new(
                    Exit::NOT_ACQUIRED,
                    format!("the lock {:?} is still held{holder}", shown(&self.name)),
                ));
            }
            let pause = self.interval.max(MIN_INTERVAL);
            sleep(left.map_or(pause, |left| pause.min(left))).await;
            match inspect_all(&mut servers, &name).await {
                Ok(found) => (all, answered_at) = (found, Instant::now()),
                Err(error) if !error.is_retryable() || answered_at.elapsed() >= MAX_OUTAGE => return Err(error.into()),
                // Another server may be the primary now. Until a server answers, the lock counts as held.
                Err(_) => match Servers::open(self.server.builder()?).await {
                    Ok(found) => servers = found,
                    Err(error) if !error.is_retryable() => return Err(error.into()),
                    Err(_) => {}
                },
            }
        }
    }

    fn print_result(&self, is_free: bool, start: Instant) -> Result<(), Exit> {
        if !self.json {
            return Ok(());
        }
        print_json(&json!({ "name": shown(&self.name), "free": is_free, "waited_ms": millis(Some(start.elapsed())) }))
    }
}
