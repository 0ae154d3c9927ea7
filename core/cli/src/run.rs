//! `steadlock run`: a lock around any program.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use steadlock::host::shown;
use steadlock::{Builder, Client, Lease, ReleaseOutcome};
use tokio::time::{sleep, timeout};

use crate::exit::Exit;
use crate::holder::{Holder, Job};
use crate::server::{ServerOptions, seconds};
use crate::signals::{Signals, status_of};
use crate::tree;

/// Run a command while holding a lock.
///
/// Waits for the lock, runs the command, renews the lock as long as it runs, and
/// releases the lock. The command finds the lock's name in STEADLOCK_LOCK and
/// its fencing token in STEADLOCK_TOKEN. STEADLOCK_URL, which may have a password,
/// is not passed on to it without --pass-url. SIGTERM, SIGINT and SIGHUP are.
///
/// Nothing of the command goes on without the lock: not its children, not those
/// that ignore SIGTERM, are daemons or have sessions of their own. They are ended
/// when the lock is lost, when the command itself has ended (or else give
/// --leave-children), and when this program is killed.
///
/// If the lock cannot be renewed, they are ended before another owner can hold it. If it
/// was taken away on the server, another owner may hold it while they still run: until
/// that is noticed, and for up to --kill-after longer. With --kill-after 0 they are
/// killed as soon as it is noticed.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Run {
    /// The lock's name.
    name: String,
    #[command(flatten)]
    server: ServerOptions,
    /// How many seconds to wait for the lock; 0 tries once. Without it, as long as the server
    /// answers.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
    /// How many seconds the lock outlives this program if that is killed; 30 if not given. It is
    /// renewed at a third of this.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lease: Option<Duration>,
    /// How many seconds those that are told to end by SIGTERM have before SIGKILL; 0 kills at once.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    kill_after: Duration,
    /// Leave alone what the command has started and left running when it ends by itself. It goes
    /// on without the lock.
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
  The command's own, or 128 + n if signal n ended it. Otherwise:
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
    /// What others read that it holds the lock for: the command without its folder and its arguments.
    fn program(&self) -> String {
        let program = self.command.first().map(Path::new).and_then(Path::file_name);
        let program = program.unwrap_or_default().to_string_lossy();
        program.chars().filter(|one| !one.is_control()).take(200).collect()
    }

    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut signals = Signals::listen()?;
        tree::adopt()?;
        let connecting = self.builder()?.connect();
        let client = tokio::select! {
            // Nothing has been asked for yet.
            signal = signals.next() => return Ok(status_of(signal)),
            connected = connecting => connected?,
        };
        let mut lock = client.lock(&self.name);
        if let Some(wait) = self.wait {
            lock = lock.wait(wait);
        }
        let lease = tokio::select! {
            signal = signals.next() => {
                // The attempt is dropped; closing takes back what it may have been granted.
                close(&client).await;
                return Ok(status_of(signal));
            }
            acquired = lock.acquire() => match acquired {
                Ok(lease) => lease,
                Err(error) => {
                    close(&client).await;
                    return Err(error.into());
                }
            },
        };
        self.hold(client, lease, &mut signals).await
    }

    fn builder(&self) -> Result<Builder, Exit> {
        let builder = self.server.builder()?.client_label(self.program());
        Ok(match self.lease {
            Some(lease) => builder.lease(lease),
            None => builder,
        })
    }

    /// Runs the command to its end, and releases the lock.
    async fn hold(&self, client: Client, lease: Lease, signals: &mut Signals) -> Result<ExitCode, Exit> {
        let job = Job {
            lock: &self.name,
            command: &self.command,
            kill_after: self.kill_after,
            leave_children: self.leave_children,
            urls: self.pass_url.then(|| self.server.urls().join(" ")),
        };
        let ended = match Holder::start(job, &lease) {
            Ok(holder) => holder.run(signals).await,
            Err(exit) => Err(exit),
        };
        let released = tokio::select! {
            released = lease.release() => Some(released),
            // Somebody will not wait for a server that does not answer; the release is on its way. But a
            // terminal's Ctrl-C that ended the command comes here too, and says nothing about the server.
            () = async { signals.next().await; sleep(PATIENCE).await } => None,
        };
        close(&client).await;

        let ended = ended?;
        if let Some(reason) = ended.lost.or_else(|| gone(released.as_ref())) {
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
        Ok(ExitCode::from(ended.status))
    }
}

/// Takes back what is still owed to the server, but not for long.
async fn close(client: &Client) {
    let _ = timeout(CLOSE_LIMIT, client.close()).await;
}

/// Why the lock was not ours any more when we released it.
fn gone(released: Option<&Result<ReleaseOutcome, steadlock::Error>>) -> Option<&'static str> {
    match released {
        Some(Ok(outcome @ (ReleaseOutcome::Expired | ReleaseOutcome::Stolen))) => Some(outcome.as_str()),
        _ => None,
    }
}

/// Who sends a signal waits half a second at the most, whatever the server does: these two together.
const PATIENCE: Duration = Duration::from_millis(80);
const CLOSE_LIMIT: Duration = Duration::from_millis(420);
