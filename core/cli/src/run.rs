//! `leasehold run`: a lock around any program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::host::shown;
use leasehold::{AddressMap, Builder, Client, Lease, ReleaseOutcome};
use tokio::time::{sleep, timeout};

use crate::exit::Exit;
use crate::holder::{Holder, Job};
use crate::signals::{Signals, status_of};
use crate::tree;

/// Run a command while holding a lock.
///
/// Waits for the lock, runs the command, renews the lock as long as it runs, and
/// releases the lock. The command finds the lock's name in LEASEHOLD_LOCK and
/// its fencing token in LEASEHOLD_TOKEN. SIGTERM, SIGINT and SIGHUP are passed on
/// to it.
///
/// Nothing of the command goes on without the lock: not its children, not those
/// that ignore SIGTERM, are daemons or have sessions of their own. They are ended
/// when the lock is lost, when the command itself has ended (or else give
/// --leave-children), and when this program is killed.
///
/// If the lock cannot be renewed, they are ended before another owner can hold it. If it
/// was taken away on the server, another may hold it while they still run: until
/// that is noticed, and for up to --kill-after longer. With --kill-after 0 they are
/// killed as soon as it is noticed.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Run {
    /// The lock's name.
    name: String,
    /// The server: redis://, redis+sentinel:// or redis+cluster://, each also as rediss…, or
    /// redis+unix://. Without it, the environment variable LEASEHOLD_URL, which is the better
    /// place for a password.
    #[arg(long)]
    url: Option<String>,
    /// A PEM file of the authorities to trust for rediss://, instead of the system's.
    #[arg(long, value_name = "FILE")]
    tls_ca_file: Option<PathBuf>,
    /// A PEM file of this program's certificate, for a server that demands one.
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// A PEM file of the private key of that certificate.
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,
    /// What the certificates of all servers are to be for, instead of the host that is connected
    /// to: for nodes and sentinels that announce IP addresses.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Where a server is reached that a cluster's nodes or sentinels announce, if that is
    /// elsewhere: 10.0.0.1:6379=localhost:7001, or host=host for any port. May be given
    /// several times.
    #[arg(long, value_name = "ANNOUNCED=REACHED")]
    address_map: Vec<String>,
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
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut signals = Signals::listen()?;
        tree::adopt()?;
        let connecting = self.server()?.connect();
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

    fn server(&self) -> Result<Builder, Exit> {
        let mut builder = Client::builder();
        if let Some(url) = &self.url {
            builder = builder.url(url);
        }
        if let Some(file) = &self.tls_ca_file {
            builder = builder.tls_ca_file(file);
        }
        if let Some(file) = &self.tls_cert_file {
            builder = builder.tls_cert_file(file);
        }
        if let Some(file) = &self.tls_key_file {
            builder = builder.tls_key_file(file);
        }
        if let Some(name) = &self.tls_server_name {
            builder = builder.tls_server_name(name);
        }
        if !self.address_map.is_empty() {
            // Without a =, one side is empty, and refused as any other that is no address.
            let entry = |given: &String| {
                let (from, to) = given.split_once('=').unwrap_or((given, ""));
                (from.to_owned(), to.to_owned())
            };
            builder = builder.address_map(self.address_map.iter().map(entry).collect::<AddressMap>());
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
        Ok(builder)
    }

    /// Runs the command to its end, and releases the lock.
    async fn hold(&self, client: Client, lease: Lease, signals: &mut Signals) -> Result<ExitCode, Exit> {
        let job = Job {
            lock: &self.name,
            command: &self.command,
            kill_after: self.kill_after,
            leave_children: self.leave_children,
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
            Some(Err(error)) => eprintln!("leasehold: {error}; the lock lapses by itself"),
            None => {
                eprintln!("leasehold: the server has not answered the release; if need be, the lock lapses by itself")
            }
        }
        Ok(ExitCode::from(ended.status))
    }
}

/// Takes back what is still owed to the server, but not for long.
async fn close(client: &Client) {
    let _ = timeout(CLOSE_LIMIT, client.close()).await;
}

/// Why the lock was not ours any more when it was given back.
fn gone(released: Option<&Result<ReleaseOutcome, leasehold::Error>>) -> Option<&'static str> {
    match released {
        Some(Ok(outcome @ (ReleaseOutcome::Expired | ReleaseOutcome::Stolen))) => Some(outcome.as_str()),
        _ => None,
    }
}

/// Seconds, also with a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let refuse = || "it is not a number of seconds; give one such as 30 or 0.5".to_owned();
    let number: f64 = text.parse().map_err(|_| refuse())?;
    Duration::try_from_secs_f64(number).map_err(|_| refuse())
}

/// Who sends a signal waits half a second at the most, whatever the server does: these two together.
const PATIENCE: Duration = Duration::from_millis(80);
const CLOSE_LIMIT: Duration = Duration::from_millis(420);
