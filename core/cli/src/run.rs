//! `leasehold run`: a lock around any program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use leasehold::{Client, Lease, LostReason, ReleaseOutcome};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::exit::Exit;
use crate::signals::{Signals, must_forward, status_of};

/// Run a command while holding a lock.
///
/// Waits for the lock, runs the command, renews the lock as long as it runs, and
/// gives the lock back. The command finds the lock's name in LEASEHOLD_LOCK and
/// its fencing token in LEASEHOLD_TOKEN. SIGTERM, SIGINT and SIGHUP are passed on
/// to it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Run {
    /// The lock's name.
    name: String,
    /// The server: redis://, rediss:// or redis+unix://. Without it, the environment variable
    /// LEASEHOLD_URL, which is the better place for a password.
    #[arg(long)]
    url: Option<String>,
    /// How many seconds to wait for the lock; 0 tries once. Without it, as long as the server
    /// answers.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
    /// How many seconds the lock outlives this program if that is killed; 30 if not given. It is
    /// renewed at a third of this.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lease: Option<Duration>,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

const EXIT_STATUSES: &str = "\
Exit status:
  The command's own, or 128 + n if signal n ended it. Otherwise:
    2  wrong usage
   69  the server could not be reached, or stopped answering
   74  the lock was lost while the command ran; the command was sent SIGTERM
   75  the lock was not to be had within --wait; the command did not run
   78  the URL, the name or a duration is not acceptable, or the server is not set up for locks
  126  the command could not be executed
  127  there is no such command
  143  (128 + n) SIGTERM (signal n) came while waiting for the lock";

impl Run {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut signals = Signals::listen()?;
        let acquiring = self.acquire();
        let (client, lease) = tokio::select! {
            // Dropping the attempt takes it back, also if it is granted just now.
            signal = signals.next() => return Ok(status_of(signal.as_raw())),
            acquired = acquiring => acquired?,
        };
        let ended = self.hold(&lease, &mut signals).await;
        let released = lease.release().await;
        client.close().await;

        let (status, lost) = ended?;
        if let Some(reason) = lost.map(LostReason::as_str).or_else(|| gone(&released)) {
            let name = &self.name;
            return Err(Exit::new(
                Exit::LOST,
                format!("the lock {name:?} was lost ({reason}) while the command ran"),
            ));
        }
        if let Err(error) = released {
            eprintln!("leasehold: {error}; the lock lapses by itself");
        }
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => status_of(signal),
            (None, None) => ExitCode::FAILURE,
        })
    }

    async fn acquire(&self) -> Result<(Client, Lease), Exit> {
        let mut builder = Client::builder();
        if let Some(url) = &self.url {
            builder = builder.url(url);
        }
        if let Some(lease) = self.lease {
            builder = builder.lease(lease);
        }
        let given = self.url.clone().or_else(|| std::env::var("LEASEHOLD_URL").ok());
        if given.is_some_and(|url| url.starts_with("memory:")) {
            return Err(Exit::new(
                Exit::CONFIG,
                "memory:// excludes nobody outside this process; give the URL of a server, such as that of \
                 `leasehold serve`",
            ));
        }
        let client = builder.connect().await?;
        let mut lock = client.lock(&self.name);
        if let Some(wait) = self.wait {
            lock = lock.wait(wait);
        }
        let lease = lock.acquire().await?;
        Ok((client, lease))
    }

    /// Runs the command to its end. Says how it ended, and why the lock was lost if it was.
    async fn hold(&self, lease: &Lease, signals: &mut Signals) -> Result<(ExitStatus, Option<LostReason>), Exit> {
        let mut child = self.start(lease)?;
        let mut lost = None;
        let watch = lease.lost();
        tokio::pin!(watch);
        loop {
            tokio::select! {
                ended = child.wait() => {
                    let status = ended
                        .map_err(|error| Exit::new(Exit::SOFTWARE, format!("cannot wait for the command: {error}")))?;
                    return Ok((status, lost));
                }
                reason = &mut watch, if lost.is_none() => {
                    eprintln!("leasehold: the lock {:?} is lost ({}); ending the command", self.name, reason.as_str());
                    lost = Some(reason);
                    send(&child, Signal::TERM);
                }
                signal = signals.next() => {
                    if must_forward(signal) {
                        send(&child, signal);
                    }
                }
            }
        }
    }

    fn start(&self, lease: &Lease) -> Result<Child, Exit> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| Exit::new(Exit::CONFIG, "no command is given"))?;
        let mut command = Command::new(program);
        command.args(arguments).env("LEASEHOLD_LOCK", &self.name);
        match lease.token() {
            Some(token) => command.env("LEASEHOLD_TOKEN", token.to_string()),
            None => command.env_remove("LEASEHOLD_TOKEN"),
        };
        command.spawn().map_err(|error| {
            let status = if error.kind() == io::ErrorKind::NotFound {
                Exit::NOT_FOUND
            } else {
                Exit::NOT_EXECUTABLE
            };
            Exit::new(status, format!("cannot run {}: {error}", program.display()))
        })
    }
}

/// Why the lock was not ours any more when it was given back.
fn gone(released: &Result<ReleaseOutcome, leasehold::Error>) -> Option<&'static str> {
    match released {
        Ok(outcome @ (ReleaseOutcome::Expired | ReleaseOutcome::Stolen)) => Some(outcome.as_str()),
        _ => None,
    }
}

fn send(child: &Child, signal: Signal) {
    // Once it has been waited for there is no id, so no other process is hit.
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended a moment ago.
        let _ = kill_process(pid, signal);
    }
}

/// Seconds, also with a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let refuse = || format!("{text:?} is not a number of seconds; give one such as 30 or 0.5");
    let number: f64 = text.parse().map_err(|_| refuse())?;
    Duration::try_from_secs_f64(number).map_err(|_| refuse())
}
