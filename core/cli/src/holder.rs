//! The part of `steadlock run` that holds the lock while the command runs. It sends signals and the lease's deadline to
//! the supervisor (the process between it and the command), and receives the command's exit status.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitStatus};
use steadlock::host::shown;
use steadlock::{Lease, LostReason};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use crate::exit::Exit;
use crate::link::{Link, Message, shared_clock_micros};
use crate::server::URL_VARIABLE;
use crate::signals::{Signals, must_forward, status_of_signal};
use crate::supervisor::{SUPERVISOR_NAME, this_program};
use crate::tree::{self, ProcessId};

/// The command to run, with its options.
pub(crate) struct Job<'a> {
    pub(crate) lock: &'a str,
    pub(crate) command: &'a [OsString],
    pub(crate) kill_after: Duration,
    pub(crate) leave_children: bool,
    /// The server's URLs, if the command receives them.
    pub(crate) urls: Option<String>,
    /// More variables for the command's environment.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and URLs can contain a password.
        f.debug_struct("Job").field("lock", &self.lock).finish_non_exhaustive()
    }
}

/// The end of the command.
#[derive(Debug)]
pub(crate) struct CommandEnd {
    pub(crate) status: u8,
    /// The reason why the lock was lost before the command ended, if it was.
    pub(crate) lost: Option<&'static str>,
    /// The last signal that asked this program to end, if one came while the command ran.
    pub(crate) signal: Option<Signal>,
}

pub(crate) struct Holder<'a> {
    job: Job<'a>,
    lease: &'a Lease,
    link: Link,
    supervisor: Pid,
    /// Whether the command is in another process group than this process.
    own_group: bool,
    /// How the supervisor ended.
    supervisor_end: Option<WaitStatus>,
    /// The exit status of the command, as the supervisor reported it.
    status: Option<u8>,
    lost: Option<&'static str>,
    /// The last signal that asked this program to end.
    signal: Option<Signal>,
    /// The ids of processes that this user may not end.
    refused: HashSet<u64>,
    /// Descendants that this process had before it became `steadlock run` by exec. They are not part of the command.
    inherited: HashSet<ProcessId>,
    child_ended: SignalStream,
    renewals: Interval,
}

impl<'a> Holder<'a> {
    pub(crate) fn start(job: Job<'a>, lease: &'a Lease) -> Result<Self, Exit> {
        let failed = |error: io::Error| Exit::new(Exit::SOFTWARE, format!("the supervisor cannot start: {error}"));
        let child_ended = signal(SignalKind::child()).map_err(failed)?;
        let inherited = tree::inherited();
        let length = lease.remaining();
        let (link, socket) = Link::open(deadline(lease)).map_err(failed)?;

        let mut command = Command::new(this_program().map_err(failed)?);
        command
            .arg0(SUPERVISOR_NAME)
            .arg("supervise")
            .args(["--lease-ms", &millis(length).to_string()])
            .args(["--kill-after-ms", &millis(job.kill_after).to_string()]);
        if job.leave_children {
            command.arg("--leave-children");
        }
        // With a terminal, the command must stay in the foreground group, because other groups cannot read from the
        // terminal and do not receive its Ctrl-C. Without a terminal, the supervisor has its own group: a kill of this
        // process's group then does not hit the supervisor.
        let own_group = !tree::has_terminal();
        if own_group {
            command.arg("--own-group").process_group(0);
        }
        command.arg("--").args(job.command).env("STEADLOCK_LOCK", job.lock);
        match lease.token() {
            Some(token) => command.env("STEADLOCK_TOKEN", token.to_string()),
            None => command.env_remove("STEADLOCK_TOKEN"),
        };
        for (name, value) in &job.variables {
            command.env(name, value);
        }
        // The URL can have a password, and others can see the command's environment, for example in a crash report.
        match &job.urls {
            Some(urls) => command.env(URL_VARIABLE, urls),
            None => command.env_remove(URL_VARIABLE),
        };
        let child = command.stdin(socket).spawn().map_err(failed)?;
        let supervisor = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let supervisor = supervisor.ok_or_else(|| failed(io::Error::other("it has no process id")))?;

        // The supervisor must learn of a renewal well before the next one is due.
        let mut renewals = interval((length / 10).clamp(Duration::from_millis(20), Duration::from_secs(1)));
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            job,
            lease,
            link,
            supervisor,
            own_group,
            supervisor_end: None,
            status: None,
            lost: None,
            signal: None,
            refused: HashSet::new(),
            inherited,
            child_ended,
            renewals,
        })
    }

    /// Waits until no process of the command runs any more; with `leave_children`, it is enough that the command has
    /// ended by itself. After a loss, gives up on processes that this user may not end.
    pub(crate) async fn run(mut self, signals: &mut Signals) -> Result<CommandEnd, Exit> {
        let lost = self.lease.lost();
        tokio::pin!(lost);
        let mut is_link_open = true;
        let mut awaits_loss = true;
        // The time at which a supervisor that has not ended the command after a loss is killed.
        let mut kill_supervisor_at: Option<Instant> = None;
        while self.supervisor_end.is_none() {
            tokio::select! {
                message = self.link.next(), if is_link_open => match message {
                    Some(message) => self.handle(message),
                    None => is_link_open = false,
                },
                _ = self.child_ended.recv() => {}
                reason = &mut lost, if awaits_loss => {
                    awaits_loss = false;
                    self.handle_loss(reason);
                    kill_supervisor_at = Instant::now().checked_add(self.job.kill_after.saturating_add(STUCK_AFTER));
                }
                signal = signals.next() => {
                    self.signal = Some(signal);
                    if self.own_group || must_forward(signal) {
                        self.send_and_wake(Message::Forward(signal));
                    }
                }
                _ = self.renewals.tick() => {
                    if self.lease.is_valid() {
                        self.link.send(Message::Deadline(deadline(self.lease)));
                    }
                }
                () = sleep_until(kill_supervisor_at.unwrap_or_else(Instant::now)), if kill_supervisor_at.is_some() => {
                    kill_supervisor_at = None;
                    // The supervisor is not reaped yet, so its process id still belongs to it.
                    let _ = rustix::process::kill_process(self.supervisor, Signal::KILL);
                }
            }
            self.reap();
        }
        // The supervisor can have sent messages just before it ended.
        while let Some(message) = self.link.next().await {
            self.handle(message);
        }
        if let Some(status) = self.status {
            return Ok(CommandEnd {
                status,
                lost: self.lost,
                signal: self.signal,
            });
        }
        self.end_remaining_processes().await;
        self.end_without_status()
    }

    /// Reaps the children that have ended. Returns whether other children are left.
    fn reap(&mut self) -> bool {
        tree::reap(|pid, how| {
            if pid == self.supervisor {
                self.supervisor_end = Some(how);
            }
        })
    }

    fn handle(&mut self, message: Message) {
        let lock = shown(self.job.lock);
        match message {
            Message::NotRenewed => {
                eprintln!("steadlock: the lock {lock:?} could not be renewed in time; ending the command");
                self.lost.get_or_insert("not renewed in time");
            }
            Message::EndingLeftovers => {
                eprintln!("steadlock: the command has ended; ending the processes that it left behind")
            }
            Message::NotPermitted(pid) => {
                if self.refused.insert(pid) {
                    eprintln!("steadlock: process {pid} may not be ended by this user; waiting for it");
                }
            }
            Message::AllEnded(status) => self.status = Some(status),
            Message::Deadline(_) | Message::Forward(_) | Message::Lost => {}
        }
    }

    fn handle_loss(&mut self, reason: LostReason) {
        let lock = shown(self.job.lock);
        if self.lost.is_none() {
            eprintln!(
                "steadlock: the lock {lock:?} is lost ({}); ending the command",
                reason.as_str()
            );
        }
        self.lost = Some(reason.as_str());
        self.send_and_wake(Message::Lost);
    }

    /// Sends a message to the supervisor, and wakes it in case a signal such as SIGSTOP has stopped it.
    fn send_and_wake(&self, message: Message) {
        self.link.send(message);
        if self.supervisor_end.is_none() {
            // The supervisor is not reaped yet, so its process id still belongs to it.
            let _ = rustix::process::kill_process(self.supervisor, Signal::CONT);
        }
    }

    /// Ends the processes that a dead supervisor should have ended. On Linux they are descendants of this process now.
    async fn end_remaining_processes(&mut self) {
        let mut pause = Duration::from_millis(1);
        loop {
            let inherited = std::mem::take(&mut self.inherited);
            let refused = tree::kill_all(&inherited, || self.reap());
            let left = tree::descendants(&inherited);
            self.inherited = inherited;
            if left.is_empty() {
                return;
            }
            for &pid in &refused {
                self.handle(Message::NotPermitted(pid.as_raw_pid().unsigned_abs().into()));
            }
            // This user may not end the remaining processes, and the lease has ended, so waiting for them protects
            // nothing.
            if left.iter().all(|process| refused.contains(&process.pid())) && !self.lease.is_valid() {
                eprintln!(
                    "steadlock: {} processes of the command continue without the lock",
                    left.len()
                );
                return;
            }
            tokio::select! {
                _ = self.child_ended.recv() => {}
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_millis(200)),
            }
            self.reap();
        }
    }

    /// Interprets the end of a supervisor that has reported no exit status.
    fn end_without_status(self) -> Result<CommandEnd, Exit> {
        let how = self.supervisor_end.and_then(|how| how.terminating_signal());
        let ends = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
        match (self.lost, how) {
            (Some(_), _) => Ok(CommandEnd {
                status: Exit::LOST,
                lost: self.lost,
                signal: self.signal,
            }),
            // The signal came before the supervisor caught signals. A terminal or a service manager sends such a signal
            // to all processes, so it would have ended the command, too.
            (None, Some(signal)) if ends.contains(&signal) => Ok(CommandEnd {
                status: status_of_signal(signal),
                lost: None,
                signal: self.signal.or(Some(Signal::TERM)),
            }),
            (None, _) => Err(Exit::new(
                Exit::SOFTWARE,
                "the supervisor of the command was killed; the command was ended",
            )),
        }
    }
}

fn deadline(lease: &Lease) -> u64 {
    let remaining = u64::try_from(lease.remaining().as_micros()).unwrap_or(u64::MAX);
    shared_clock_micros().saturating_add(remaining)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// After a loss, the supervisor has `kill_after` and this time to end the command. Then it counts as stuck, and is
/// killed.
const STUCK_AFTER: Duration = Duration::from_secs(2);
