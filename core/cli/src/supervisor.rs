//! What stands between `steadlock run` and its command: two hidden commands.
//!
//! A process that was killed cannot end its command, so another one has to.
//!
//! ```text
//!   steadlock run ── holds and renews the lock, passes signals on
//!        │ socket: deadlines and signals down, how it ended up
//!   supervisor ───── parent of all orphans below it (subreaper)
//!        │
//!   command ──────── killed by the kernel when the supervisor is
//!        └ its children, daemons, sessions of their own, …
//! ```
//!
//! The supervisor ends all that is below it when the lock is lost, when the lock was
//! not renewed in time (`steadlock run` may be stopped, and cannot tell), and at once
//! when `steadlock run` is gone. If the supervisor itself is killed, its orphans
//! become children of `steadlock run`, which ends them.

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
use crate::link::{Link, Message, micros};
use crate::signals::{code_of, is_ignored};
use crate::tree;

/// This program, also when its file has been replaced meanwhile.
#[cfg(target_os = "linux")]
pub(crate) fn this_program() -> io::Result<std::path::PathBuf> {
    Ok("/proc/self/exe".into())
}
#[cfg(not(target_os = "linux"))]
pub(crate) fn this_program() -> io::Result<std::path::PathBuf> {
    std::env::current_exe()
}

/// Its name in the list of processes. A command that kills all processes called `steadlock` must not hit it.
pub(crate) const NAME: &str = "lock-supervisor";

/// Part of `steadlock run`.
#[derive(clap::Args)]
pub(crate) struct Supervise {
    #[arg(long)]
    lease_ms: u64,
    #[arg(long)]
    kill_after_ms: u64,
    #[arg(long)]
    leave_children: bool,
    /// The command gets a process group, which can be killed at one moment.
    #[arg(long)]
    own_group: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Supervise {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let broken = |error: io::Error| Exit::new(Exit::SOFTWARE, format!("the supervisor cannot start: {error}"));
        // Those that a terminal or a service manager sends to everybody are the command's affair. They
        // are caught, not ignored: the command would inherit that. Ctrl-Z must not stop the supervisor:
        // who waits for the lock does not stop either.
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
        if let Ok(name) = std::ffi::CString::new(NAME) {
            // It is only a name.
            let _ = rustix::thread::set_name(&name);
        }
        // Who was stopped goes on when the holder dies, to end the command.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
        tree::adopt()?;
        let (mut link, deadline, stdin) = Link::accept().map_err(broken)?;
        let command = match self.start(stdin.into()) {
            Ok(command) => command,
            Err(exit) => {
                link.tell(Message::Ended(Exit::NOT_EXECUTABLE));
                return Err(exit);
            }
        };

        let mut family = Family::new(&self, command, deadline);
        let mut is_held = true;
        while !family.is_over(&link) {
            let pause = family.pause();
            tokio::select! {
                _ = child_ended.recv() => {}
                () = tokio::time::sleep(pause) => {}
                message = link.next(), if is_held => match message {
                    Some(message) => family.obey(message),
                    None => {
                        is_held = false;
                        family.end_by(0);
                    }
                },
            }
        }
        let status = family.status.unwrap_or(Exit::SOFTWARE);
        link.tell(Message::Ended(status));
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
            let (program, arguments) = split(&self.command)?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        let mut leader = None;
        if self.own_group {
            // Not the command's own number: one that leads a group may not start a session, and
            // `setsid` would go on in a child and end.
            let placeholder = new_group().map_err(failed)?;
            command.process_group(i32::try_from(placeholder.id()).unwrap_or(0));
            leader = Some(placeholder);
        }
        // By the main thread: the kernel's signal comes when the thread that started it ends.
        let child = command.stdin(stdin).spawn();
        if let Some(mut leader) = leader {
            // It would end by itself.
            let _ = leader.kill().and_then(|()| leader.wait());
        }
        let child = child.map_err(failed)?;
        i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| Exit::new(Exit::SOFTWARE, "the command has no process id"))
    }
}

/// A process that leads a group of its own, which others can join until it is reaped.
fn new_group() -> io::Result<Child> {
    Command::new(this_program()?)
        .arg("--version")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The command and all that it started. Times are those of [`clock_micros`].
struct Family {
    command: Pid,
    /// The command's exit status, once it has ended.
    status: Option<u8>,
    leaves_children: bool,
    kill_after: u64,
    /// How long before another owner can hold the lock the command is told to end, and killed.
    term_lead: u64,
    kill_lead: u64,
    deadline: u64,
    is_lapsing: bool,
    is_lost: bool,
    /// From when on all are killed, once they have been told to end.
    kill_at: Option<u64>,
    refused: HashSet<Pid>,
    /// How long to wait before looking again for those that are being killed.
    again: u64,
}

/// What the holder says in [`micros`], by this process's own clock: that counts the
/// pauses of the machine that come from here on, also while the holder cannot tell.
fn by_own_clock(time: u64) -> u64 {
    time.saturating_add_signed(clock_micros().wrapping_sub(micros()).cast_signed())
}

impl Family {
    fn new(options: &Supervise, command: Pid, deadline: u64) -> Self {
        let lease = options.lease_ms.saturating_mul(1_000);
        let kill_after = options.kill_after_ms.saturating_mul(1_000);
        // Time for the killing itself, on a machine that may be busy.
        let kill_lead = lease / 10;
        Self {
            command,
            status: None,
            leaves_children: options.leave_children,
            kill_after,
            // Renewals begin when two thirds are left, and have to have their chance.
            term_lead: kill_lead + kill_after.min(lease / 4),
            kill_lead,
            deadline: by_own_clock(deadline),
            is_lapsing: false,
            is_lost: false,
            kill_at: None,
            refused: HashSet::new(),
            again: FIRST_LOOK,
        }
    }

    fn obey(&mut self, message: Message) {
        match message {
            Message::Deadline(deadline) => self.deadline = by_own_clock(deadline),
            Message::Forward(signal) if self.status.is_none() => {
                // Not reaped yet, so the number is still its own.
                let _ = kill_process(self.command, signal);
            }
            // Whoever asks again while the command's remains are ended wants them to end now.
            Message::Forward(_) => self.end_by(0),
            Message::Lost if !self.is_lost => {
                self.is_lost = true;
                self.end_by(clock_micros().saturating_add(self.kill_after));
            }
            _ => {}
        }
    }

    /// Does what is due. Returns whether nothing is left to do.
    fn is_over(&mut self, link: &Link) -> bool {
        let ran = self.status.is_none();
        if !self.reap() {
            return true;
        }
        let has_just_ended = ran && self.status.is_some();
        if has_just_ended && self.leaves_children && self.kill_at.is_none() {
            return true;
        }
        let now = clock_micros();
        if has_just_ended && self.kill_at.is_none() {
            link.tell(Message::Leftovers);
            self.end_by(now.saturating_add(self.kill_after));
        }
        if !self.is_lapsing && !self.is_lost && now >= self.deadline.saturating_sub(self.term_lead) {
            self.is_lapsing = true;
            link.tell(Message::Lapsing);
            let killed_at = self.deadline.saturating_sub(self.kill_lead);
            self.end_by(killed_at.min(now.saturating_add(self.kill_after)));
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill(link);
            return !self.reap();
        }
        false
    }

    /// Returns whether others are left.
    fn reap(&mut self) -> bool {
        tree::reap(|pid, how| {
            if pid == self.command {
                self.status = Some(code_of_end(how));
            }
        })
    }

    /// Tells all to end, and has those killed that have not by then.
    fn end_by(&mut self, at: u64) {
        if self.kill_at.is_none() && at > clock_micros() {
            tree::signal_all(&tree::descendants(&HashSet::new()), Signal::TERM);
        }
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Kills all processes that it finds. One that it misses becomes a child of this process, and is found the
    /// next time: there is a next time until there are no children.
    fn kill(&mut self, link: &Link) {
        for pid in tree::kill_all(&HashSet::new(), || self.reap()) {
            if self.refused.insert(pid) {
                link.tell(Message::Refused(pid.as_raw_pid().unsigned_abs().into()));
            }
        }
        self.again = self.again.saturating_mul(2).min(LAST_LOOK);
    }

    /// How long nothing is due, unless something is heard.
    fn pause(&self) -> Duration {
        let now = clock_micros();
        let due = match self.kill_at {
            Some(at) if now >= at => now + self.again,
            Some(at) => at,
            None => u64::MAX,
        };
        let due = if self.is_lapsing || self.is_lost {
            due
        } else {
            due.min(self.deadline.saturating_sub(self.term_lead))
        };
        // Timers stand still while the machine sleeps; the lock's time does not.
        Duration::from_micros(due.saturating_sub(now).clamp(FIRST_LOOK, 1_000_000))
    }
}

/// The last step before the command: has the kernel kill it when the supervisor ends.
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
            // Refused by some sandboxes. Then `steadlock run` ends the supervisor's orphans, as it does
            // for a command that takes this back.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            // It may have ended before.
            if getppid().map(Pid::as_raw_pid) != Some(self.parent) {
                return Ok(ExitCode::FAILURE);
            }
        }
        let (program, arguments) = split(&self.command)?;
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

fn split(command: &[OsString]) -> Result<(&OsStr, &[OsString]), Exit> {
    match command.split_first() {
        Some((program, arguments)) => Ok((program, arguments)),
        None => Err(Exit::new(Exit::CONFIG, "no command is given")),
    }
}

/// The exit status that shells give.
fn code_of_end(how: WaitStatus) -> u8 {
    match (how.exit_status(), how.terminating_signal()) {
        (Some(status), _) => u8::try_from(status).unwrap_or(u8::MAX),
        (None, Some(signal)) => code_of(signal),
        (None, None) => Exit::SOFTWARE,
    }
}

/// Microseconds: those killed are gone soon, and nobody asks in vain for long.
const FIRST_LOOK: u64 = 500;
const LAST_LOOK: u64 = 100_000;
