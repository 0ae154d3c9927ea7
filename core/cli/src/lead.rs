//! `steadlock lead`: runs a program while this process leads.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::Signal;
use steadlock::host::{campaign_pause, shown};
use steadlock::{Client, Leader, Term};
use tokio::time::sleep;

use crate::exit::Exit;
use crate::holder::{CommandEnd, Holder, Job};
use crate::run::{RELEASE_GRACE, close, command_label, loss_reason};
use crate::server::{ServerOptions, parse_seconds};
use crate::signals::{Signals, exit_code_of_signal};
use crate::tree;

/// Run a command while leading a group of processes.
///
/// Campaigns until this process leads, and runs the command for one term. The command finds
/// the number of the term, which is the fencing token, in STEADLOCK_TERM and
/// STEADLOCK_TOKEN, and the name in STEADLOCK_LOCK. If the term is lost, the command is
/// ended before another process can lead, and this process campaigns again. When the
/// command ends by itself, this process resigns and ends too; with --restart it campaigns
/// again. SIGTERM, SIGINT and SIGHUP are forwarded to the command; when it has ended, the
/// next candidate leads at once.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Lead {
    /// The name of what is led.
    name: String,
    #[command(flatten)]
    server: ServerOptions,
    /// The length of a term in seconds: how long nobody leads after this program was killed. The term is renewed at a
    /// third of it.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "10")]
    term: Duration,
    /// How many seconds processes have between SIGTERM and SIGKILL; 0 kills them at once.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "5")]
    kill_after: Duration,
    /// Campaign again when the command ends by itself.
    #[arg(long)]
    restart: bool,
    /// Leave the command's other processes alone when the command itself ends before the term is lost.
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
   69  the server could not be reached at the start
   70  the process that watches over the command was killed; the command was ended
   78  the URL, the name or a duration is not acceptable, or the server is not set up for locks,
       or /proc is not mounted
  126  the command could not be executed
  127  there is no such command
  143  (128 + n) SIGTERM (signal n) came while connecting or campaigning";

/// The end of the wait for a term.
enum Elected {
    Term(Term),
    Signal(Signal),
    /// The campaign failed; the next one may succeed.
    Not,
}

impl Lead {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut signals = Signals::listen()?;
        tree::become_subreaper()?;
        let label = command_label(&self.command);
        let connecting = self.server.builder()?.client_label(label).connect();
        let client = tokio::select! {
            signal = signals.next() => return Ok(exit_code_of_signal(signal)),
            connected = connecting => connected?,
        };
        let result = self.lead(&client, &mut signals).await;
        close(&client).await;
        result
    }

    async fn lead(&self, client: &Client, signals: &mut Signals) -> Result<ExitCode, Exit> {
        let leader = client.leader(&self.name).term(self.term);
        let mut failures = 0;
        loop {
            match campaign(&leader, signals).await? {
                Elected::Signal(signal) => return Ok(exit_code_of_signal(signal)),
                Elected::Not => {}
                Elected::Term(term) => {
                    let end = self.run_command(term, signals).await?;
                    let continues = end.lost.is_some() || self.restart;
                    if end.signal.is_some() || !continues {
                        return Ok(ExitCode::from(end.status));
                    }
                    if end.lost.is_none() {
                        failures = 0;
                    }
                }
            }
            tokio::select! {
                signal = signals.next() => return Ok(exit_code_of_signal(signal)),
                () = sleep(campaign_pause(failures)) => {}
            }
            failures += 1;
        }
    }

    /// Runs the command to its end, and resigns.
    async fn run_command(&self, term: Term, signals: &mut Signals) -> Result<CommandEnd, Exit> {
        let number = term.number().to_string();
        let job = Job {
            lock: &self.name,
            command: &self.command,
            kill_after: self.kill_after,
            leave_children: self.leave_children,
            urls: self.pass_url.then(|| self.server.urls().join(" ")),
            variables: vec![("STEADLOCK_TERM", number.clone())],
        };
        let end = match Holder::start(job, &term) {
            Ok(holder) => holder.run(signals).await,
            Err(exit) => Err(exit),
        };
        let mut signal = None;
        let released = tokio::select! {
            released = term.resign() => Some(released),
            () = async { signal = Some(signals.next().await); sleep(RELEASE_GRACE).await } => None,
        };
        let mut end = end?;
        // A signal that came after the command had ended also asks this process to end.
        end.signal = end.signal.or(signal);
        end.lost = end.lost.or_else(|| loss_reason(released.as_ref()));
        if let Some(reason) = end.lost {
            let name = shown(&self.name);
            eprintln!("steadlock: term {number} of {name:?} was lost ({reason})");
        }
        Ok(end)
    }
}

async fn campaign(leader: &Leader, signals: &mut Signals) -> Result<Elected, Exit> {
    tokio::select! {
        // Dropping the future ends the campaign.
        signal = signals.next() => Ok(Elected::Signal(signal)),
        elected = leader.campaign() => match elected {
            Ok(term) => Ok(Elected::Term(term)),
            Err(error) if error.is_retryable() => {
                eprintln!("steadlock: {error}; campaigning again");
                Ok(Elected::Not)
            }
            Err(error) => Err(error.into()),
        },
    }
}
