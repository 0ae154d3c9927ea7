//! `steadlock run`: runs a program while holding a lock.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use steadlock::host::shown;
use steadlock::{Builder, Client, ReleaseOutcome};
use tokio::time::{sleep, timeout};

use crate::exit::Exit;
use crate::holder::{Holder, Job};
use crate::server::{ServerOptions, parse_seconds};
use crate::signals::{Signals, exit_code_of_signal};
use crate::tree;
use crate::wanted::{Granted, Held, Wanted};

/// Run a command while holding a lock, or as a job that runs once in a fleet.
///
/// Waits for the lock, runs the command, renews the lock while the command runs, and
/// releases the lock. The command finds the lock's name in STEADLOCK_LOCK and its
/// fencing token in STEADLOCK_TOKEN. STEADLOCK_URL can contain a password, so the
/// command gets it only with --pass-url. SIGTERM, SIGINT and SIGHUP are forwarded to
/// the command.
///
/// On Linux no process of the command continues without the lock, not even children that
/// ignore SIGTERM, are daemons or have their own sessions. All processes are ended when
/// the lock is lost, when the command itself has ended (unless --leave-children is given),
/// and when this program is killed. A process that this user may not signal cannot be ended.
///
/// If the lock cannot be renewed, the processes are ended before another owner can hold it.
/// If the lock is removed or stolen on the server, another owner may hold it while they
/// still run: until this program notices the loss, and for up to --kill-after longer. With
/// --kill-after 0 they are killed as soon as the loss is noticed.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Run {
    /// The lock's name.
    name: String,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    wanted: Wanted,
    /// How many seconds to wait for the lock; 0 makes a single attempt [default: wait as long as the server answers].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    wait: Option<Duration>,
    /// The length of the lease in seconds: how long the lock stays held if this program is killed. The lock is renewed
    /// at a third of it [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    lease: Option<Duration>,
    /// How many seconds processes have between SIGTERM and SIGKILL; 0 kills them at once.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "5")]
    kill_after: Duration,
    /// Leave the command's other processes alone when the command itself ends before the lock is lost. They continue
    /// without the lock.
    #[arg(long)]
    leave_children: bool,
    /// Give the command the URL that this program uses, with its password, in STEADLOCK_URL.
    #[arg(long)]
    pass_url: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

const EXIT_STATUSES: &str = "\
Exit status:
  The command's own, or 128 + n if signal n ended it; that of --skipped-status, 0 by default, if a job
  was skipped.
  Otherwise:
    2  wrong usage
   69  the server could not be reached, or stopped answering
   70  the process that watches over the command was killed; the command was ended
   74  the lock was lost, or not renewed in time, while the command ran; the command was ended
   75  timed out: another owner held the lock for as long as --wait; the command did not run
   78  the URL, the name or a duration is not acceptable, or the server is not set up for locks,
       or /proc is not mounted
  126  the command could not be executed
  127  there is no such command
  143  (128 + n) SIGTERM (signal n) came while connecting or waiting for the lock";

impl Run {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut signals = Signals::listen()?;
        tree::become_subreaper()?;
        let connecting = self.builder()?.connect();
        let client = tokio::select! {
            // No lock has been requested yet.
            signal = signals.next() => return Ok(exit_code_of_signal(signal)),
            connected = connecting => connected?,
        };
        let held = tokio::select! {
            signal = signals.next() => {
                // Dropping the future cancels the attempt. Closing the client releases the lock in case the attempt was
                // granted.
                close(&client).await;
                return Ok(exit_code_of_signal(signal));
            }
            acquired = self.wanted.acquire(&client, &self.name, self.wait) => match acquired {
                Ok(Granted::Lease(lease)) => Held::Lease(lease),
                Ok(Granted::Run(run)) => Held::Run(run),
                Ok(Granted::Skipped(why)) => {
                    close(&client).await;
                    eprintln!("steadlock: {why}");
                    return Ok(ExitCode::from(self.wanted.skipped_status()));
                }
                Err(error) => {
                    close(&client).await;
                    return Err(error.into());
                }
            },
        };
        self.hold(client, held, &mut signals).await
    }

    fn builder(&self) -> Result<Builder, Exit> {
        let builder = self.server.builder()?.client_label(command_label(&self.command));
        Ok(match self.lease {
            Some(lease) => builder.lease(lease),
            None => builder,
        })
    }

    /// Runs the command to its end, and releases the lock.
    async fn hold(&self, client: Client, held: Held, signals: &mut Signals) -> Result<ExitCode, Exit> {
        let job = Job {
            lock: &self.name,
            command: &self.command,
            kill_after: self.kill_after,
            leave_children: self.leave_children,
            urls: self.pass_url.then(|| self.server.urls().join(" ")),
            variables: self
                .wanted
                .key()
                .map(|key| ("STEADLOCK_KEY", key.to_owned()))
                .into_iter()
                .collect(),
        };
        let end = match Holder::start(job, held.lease()) {
            Ok(holder) => holder.run(signals).await,
            Err(exit) => Err(exit),
        };
        let has_succeeded = matches!(&end, Ok(end) if end.status == 0 && end.lost.is_none());
        let released = tokio::select! {
            released = held.release(has_succeeded) => Some(released),
            // A user who sends a signal does not want to wait for the server's answer. The server still gets a short
            // time, because the signal can also be the Ctrl-C that ended the command.
            () = async { signals.next().await; sleep(RELEASE_GRACE).await } => None,
        };
        close(&client).await;

        let end = end?;
        if let Some(reason) = end.lost.or_else(|| loss_reason(released.as_ref())) {
            let name = shown(&self.name);
            return Err(Exit::new(
                Exit::LOST,
                format!("the lock {name:?} was lost ({reason}) while the command ran"),
            ));
        }
        match released {
            Some(Ok(_)) => {}
            Some(Err(error)) => eprintln!("steadlock: {error}; the lock expires by itself"),
            None => {
                eprintln!("steadlock: the server has not answered the release; if need be, the lock expires by itself")
            }
        }
        Ok(ExitCode::from(end.status))
    }
}

/// Returns the label of this holder, as other clients see it: the command without its folder and its arguments.
pub(crate) fn command_label(command: &[OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    let program = program.unwrap_or_default().to_string_lossy();
    program.chars().filter(|one| !one.is_control()).take(200).collect()
}

/// Closes the client, which sends its owed releases. Waits only for a short time.
pub(crate) async fn close(client: &Client) {
    let _ = timeout(CLOSE_TIMEOUT, client.close()).await;
}

/// Returns how the lease was lost, if the release found it expired or stolen.
pub(crate) fn loss_reason(released: Option<&Result<ReleaseOutcome, steadlock::Error>>) -> Option<&'static str> {
    match released {
        Some(Ok(outcome @ (ReleaseOutcome::Expired | ReleaseOutcome::Stolen))) => Some(outcome.as_str()),
        _ => None,
    }
}

/// While the command is not running, a signal ends this program within half a second, the sum of these two times.
pub(crate) const RELEASE_GRACE: Duration = Duration::from_millis(80);
const CLOSE_TIMEOUT: Duration = Duration::from_millis(420);
