//! The supervisor: the process between `steadlock run` and its command. If `steadlock run` is killed, the supervisor
//! ends the command.
//!
//! The supervisor is the hidden subcommand `supervise`. On Linux it starts the hidden subcommand `exec`, which becomes
//! the command. Elsewhere the supervisor starts the command itself. This drawing is for Linux:
//!
//! ```text
//!   steadlock run ── holds and renews the lock, forwards signals
//!        │ socket: deadlines, signals and a loss down; reports and the exit status up
//!   supervisor ───── new parent of processes below it whose parent ends (subreaper)
//!        │
//!   command ──────── killed by the kernel when the supervisor ends
//!        └ its children, also daemons and children with sessions of their own
//! ```
//!
//! The supervisor ends all processes below it when the command has ended (unless `--leave-children` is given), when the
//! lock is lost, and when `steadlock run` is gone: then at once, by SIGKILL. It also ends them when the lock was not
//! renewed in time, because a stopped `steadlock run` cannot report a loss. If the supervisor itself is killed,
//! `steadlock run` becomes the parent of its children, and ends them.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitStatus, kill_process};
use steadlock::host::{clock_micros, shown};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::link::{Link, Message, shared_clock_micros};
use crate::signals::{is_ignored, status_of_signal};
use crate::tree;

/// Returns a path by which this program can be started, even if its file has been replaced meanwhile.
#[cfg(target_os = "linux")]
pub(crate) fn this_program() -> io::Result<std::path::PathBuf> {
    Ok("/proc/self/exe".into())
}
#[cfg(not(target_os = "linux"))]
pub(crate) fn this_program() -> io::Result<std::path::PathBuf> {
    std::env::current_exe()
}

/// The supervisor's name in the list of processes. `killall steadlock` must not kill the supervisor.
pub(crate) const SUPERVISOR_NAME: &str = "lock-supervisor";

/// Part of `steadlock run`.
#[derive(clap::Args)]
pub(crate) struct Supervise {
    #[arg(long)]
    lease_ms: u64,
    #[arg(long)]
    kill_after_ms: u64,
    #[arg(long)]
    leave_children: bool,
    /// Whether the command has its own process group, which the kernel can kill in one step.
    #[arg(long)]
    own_group: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Supervise {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let broken = |error: io::Error| Exit::new(Exit::SOFTWARE, format!("the supervisor cannot start: {error}"));
        // A terminal or a service manager can send these signals to all processes. They are meant for the command, so
        // the supervisor catches them. It does not ignore them, because the command would then ignore them, too. Ctrl-Z
        // must not stop the supervisor, which must end the command if the lock is not renewed.
        let _caught = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
            SignalKind::quit(),
            SignalKind::alarm(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::from_raw(Signal::TSTP.as_raw()),
            SignalKind::from_raw(Signal::TTIN.as_raw()),
            SignalKind::from_raw(Signal::TTOU.as_raw()),
        ]
        .map(|kind| if is_ignored(kind) { None } else { Some(signal(kind)) });
        let mut child_ended = signal(SignalKind::child()).map_err(broken)?;
        #[cfg(target_os = "linux")]
        if let Ok(name) = std::ffi::CString::new(SUPERVISOR_NAME) {
            // The supervisor also works without the name.
            let _ = rustix::thread::set_name(&name);
        }
        // When `steadlock run` ends, the kernel sends this signal. It wakes a stopped supervisor, which can then end
        // the command.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
        tree::become_subreaper()?;
        let (mut link, deadline, stdin) = Link::accept().map_err(broken)?;
        let command = match self.start(stdin.into()) {
            Ok(command) => command,
            Err(exit) => {
                link.send(Message::AllEnded(Exit::NOT_EXECUTABLE));
                return Err(exit);
            }
        };

        let mut processes = Processes::new(&self, command, deadline);
        let mut is_held = true;
        while !processes.do_due_work(&link) {
            let pause = processes.time_until_due();
            tokio::select! {
                _ = child_ended.recv() => {}
                () = tokio::time::sleep(pause) => {}
                message = link.next(), if is_held => match message {
                    Some(message) => processes.handle(message),
                    None => {
                        is_held = false;
                        processes.terminate_and_kill_at(0);
                    }
                },
            }
        }
        let status = processes.status.unwrap_or(Exit::SOFTWARE);
        link.send(Message::AllEnded(status));
        Ok(ExitCode::from(status))
    }

    fn start(&self, stdin: Stdio) -> Result<Pid, Exit> {
        let failed = |error: io::Error| Exit::new(Exit::NOT_EXECUTABLE, format!("cannot run the command: {error}"));
        let mut command = if cfg!(target_os = "linux") {
            let mut command = Command::new(this_program().map_err(failed)?);
            let parent = rustix::process::getpid().as_raw_pid().to_string();
            command.args(["exec", "--parent", &parent, "--"]).args(&self.command);
            command
        } else {
            let (program, arguments) = split_command(&self.command)?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        let mut leader = None;
        if self.own_group {
            // The command must not lead the group. A group leader cannot start a session, so `setsid`, used as the
            // command, would start its program in a child and end at once.
            let placeholder = spawn_group_leader().map_err(failed)?;
            command.process_group(i32::try_from(placeholder.id()).unwrap_or(0));
            leader = Some(placeholder);
        }
        // The main thread must start the command, because the kernel sends the command its death signal when the thread
        // that started it ends.
        let child = command.stdin(stdin).spawn();
        if let Some(mut leader) = leader {
            // The placeholder would also end by itself.
            let _ = leader.kill().and_then(|()| leader.wait());
        }
        let child = child.map_err(failed)?;
        i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| Exit::new(Exit::SOFTWARE, "the command has no process id"))
    }
}

/// Starts a process that leads its own group. Other processes can join the group until the leader is reaped.
fn spawn_group_leader() -> io::Result<Child> {
    Command::new(this_program()?)
        .arg("--version")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The command and all processes that it has started. Times are those of [`clock_micros`], and lengths of time are in
/// microseconds, too.
struct Processes {
    command: Pid,
    /// The command's exit status, once it has ended.
    status: Option<u8>,
    leaves_children: bool,
    kill_after: u64,
    /// How long before the deadline the processes are told to end (SIGTERM).
    term_lead: u64,
    /// How long before the deadline the processes are killed at the latest.
    kill_lead: u64,
    deadline: u64,
    /// Whether the lock was not renewed in time.
    is_overdue: bool,
    is_lost: bool,
    /// The time at which all remaining processes are killed; `None` until the command has ended or must end.
    kill_at: Option<u64>,
    not_permitted: HashSet<Pid>,
    /// The pause before the next search for processes that are still there after the kill.
    search_pause: u64,
}

/// Converts a time of [`shared_clock_micros`] to this process's own clock, which leaps forward when it detects a pause
/// of the machine. The deadline thus comes in time even if the holder cannot report the pause.
fn to_own_clock(time: u64) -> u64 {
    time.saturating_add_signed(clock_micros().wrapping_sub(shared_clock_micros()).cast_signed())
}

impl Processes {
    fn new(options: &Supervise, command: Pid, deadline: u64) -> Self {
        let lease = options.lease_ms.saturating_mul(1_000);
        let kill_after = options.kill_after_ms.saturating_mul(1_000);
        // The kill begins early, because it is slow on a busy machine.
        let kill_lead = lease / 10;
        Self {
            command,
            status: None,
            leaves_children: options.leave_children,
            kill_after,
            // Renewals begin when two thirds of the lease are left, and need time to succeed. SIGTERM therefore comes
            // at most a quarter of the lease before the kill.
            term_lead: kill_lead + kill_after.min(lease / 4),
            kill_lead,
            deadline: to_own_clock(deadline),
            is_overdue: false,
            is_lost: false,
            kill_at: None,
            not_permitted: HashSet::new(),
            search_pause: FIRST_PAUSE,
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Deadline(deadline) => self.deadline = to_own_clock(deadline),
            Message::Forward(signal) if self.status.is_none() => {
                // The command is not reaped yet, so its process id still belongs to it.
                let _ = kill_process(self.command, signal);
            }
            // The command has ended, and its remaining processes are being ended. The user who sent the signal does not
            // want to wait for them.
            Message::Forward(_) => self.terminate_and_kill_at(0),
            Message::Lost if !self.is_lost => {
                self.is_lost = true;
                self.terminate_and_kill_at(clock_micros().saturating_add(self.kill_after));
            }
            _ => {}
        }
    }

    /// Does all that is due. Returns whether nothing is left to do.
    fn do_due_work(&mut self, link: &Link) -> bool {
        let was_running = self.status.is_none();
        if !self.reap() {
            return true;
        }
        let has_just_ended = was_running && self.status.is_some();
        if has_just_ended && self.leaves_children && self.kill_at.is_none() {
            return true;
        }
        let now = clock_micros();
        if has_just_ended && self.kill_at.is_none() {
            link.send(Message::EndingLeftovers);
            self.terminate_and_kill_at(now.saturating_add(self.kill_after));
        }
        if !self.is_overdue && !self.is_lost && now >= self.deadline.saturating_sub(self.term_lead) {
            self.is_overdue = true;
            link.send(Message::NotRenewed);
            let killed_at = self.deadline.saturating_sub(self.kill_lead);
            self.terminate_and_kill_at(killed_at.min(now.saturating_add(self.kill_after)));
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill(link);
            return !self.reap();
        }
        false
    }

    /// Reaps the children that have ended. Returns whether other children are left.
    fn reap(&mut self) -> bool {
        tree::reap(|pid, how| {
            if pid == self.command {
                self.status = Some(exit_status_of(how));
            }
        })
    }

    /// Sends SIGTERM to all processes, unless this was done before or they are killed at once. The processes that are
    /// left are killed at the time `at`, or earlier if a kill is already planned.
    fn terminate_and_kill_at(&mut self, at: u64) {
        if self.kill_at.is_none() && at > clock_micros() {
            tree::signal_all(&tree::descendants(&HashSet::new()), Signal::TERM);
        }
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Kills all processes that a search finds. A process that the search misses becomes a child of this process when
    /// its parent is killed, and the next search finds it. Searches continue until there are no children.
    fn kill(&mut self, link: &Link) {
        for pid in tree::kill_all(&HashSet::new(), || self.reap()) {
            if self.not_permitted.insert(pid) {
                link.send(Message::NotPermitted(pid.as_raw_pid().unsigned_abs().into()));
            }
        }
        self.search_pause = self.search_pause.saturating_mul(2).min(LONGEST_PAUSE);
    }

    /// Returns the pause until something is due, at most a second. A message or a signal can end the pause earlier.
    fn time_until_due(&self) -> Duration {
        let now = clock_micros();
        let due = match self.kill_at {
            Some(at) if now >= at => now + self.search_pause,
            Some(at) => at,
            None => u64::MAX,
        };
        let due = if self.is_overdue || self.is_lost {
            due
        } else {
            due.min(self.deadline.saturating_sub(self.term_lead))
        };
        // Timers stop while the machine sleeps, but the lease does not: after a sleep, the deadline must be checked
        // soon.
        Duration::from_micros(due.saturating_sub(now).clamp(FIRST_PAUSE, 1_000_000))
    }
}

/// Asks the kernel to kill this process when the supervisor ends, and becomes the command.
#[derive(clap::Args)]
pub(crate) struct Exec {
    #[arg(long)]
    parent: i32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Exec {
    pub(crate) fn run(self) -> Result<ExitCode, Exit> {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{getppid, set_parent_process_death_signal};
            // Some sandboxes refuse this request, and a command can revoke it. If the supervisor is then killed,
            // `steadlock run` ends the command.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            // The supervisor may have ended before the request was made.
            if getppid().map(Pid::as_raw_pid) != Some(self.parent) {
                return Ok(ExitCode::FAILURE);
            }
        }
        let (program, arguments) = split_command(&self.command)?;
        let error = Command::new(program).args(arguments).exec();
        let status = if error.kind() == io::ErrorKind::NotFound {
            Exit::NOT_FOUND
        } else {
            Exit::NOT_EXECUTABLE
        };
        Err(Exit::new(
            status,
            format!("cannot run {}: {error}", shown(&program.to_string_lossy())),
        ))
    }
}

fn split_command(command: &[OsString]) -> Result<(&OsStr, &[OsString]), Exit> {
    match command.split_first() {
        Some((program, arguments)) => Ok((program, arguments)),
        None => Err(Exit::new(Exit::CONFIG, "no command is given")),
    }
}

/// Returns the exit status that shells give to a command that ended in this way.
fn exit_status_of(how: WaitStatus) -> u8 {
    match (how.exit_status(), how.terminating_signal()) {
        (Some(status), _) => u8::try_from(status).unwrap_or(u8::MAX),
        (None, Some(signal)) => status_of_signal(signal),
        (None, None) => Exit::SOFTWARE,
    }
}

/// The pauses between searches for killed processes, in microseconds. The first pause is short, because most processes
/// end soon. Later pauses grow, so that searches for a process that stays cost little.
const FIRST_PAUSE: u64 = 500;
const LONGEST_PAUSE: u64 = 100_000;
