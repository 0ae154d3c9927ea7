//! Finds the descendants of this process, and sends them signals. On Linux it also finds descendants that try to
//! escape.
//!
//! `/proc` lists the parent of each process, so a new session, a new process group or an ignored signal hides no
//! process. When a parent ends, its children get a new parent: the nearest *subreaper* above it. This process must
//! therefore be a subreaper.
//!
//! A scan of `/proc` is slower than a process that only starts another one and ends, so a chain of such processes can
//! escape every scan. But the processes of a chain stay in their *process group* unless they leave it on purpose. A
//! process that has ended is a zombie until it is reaped, and `/proc` still shows its group. The kernel kills all
//! members of a group in one step, so none of them can start another process meanwhile.

use std::collections::{HashMap, HashSet};
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait};

use crate::exit::Exit;

pub(crate) use system::has_terminal;

/// Makes this process the new parent of descendants whose parent ends, because they cannot be found otherwise.
/// `steadlock run` calls this before it acquires the lock: after a failure there is no lock to release. Does nothing on
/// systems other than Linux.
pub(crate) fn become_subreaper() -> Result<(), Exit> {
    system::become_subreaper().map_err(|error| {
        Exit::new(
            Exit::CONFIG,
            format!("steadlock run has to see the command's processes: {error}"),
        )
    })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    id: ProcessId,
    parent: i32,
    /// The process group. Zero or negative if it is not known, or is a group of another container.
    group: i32,
    /// Whether the process has ended and its parent has not reaped it.
    is_zombie: bool,
}

impl Process {
    pub(crate) fn pid(&self) -> Pid {
        self.id.pid
    }
}

/// The identity of a process. Process ids are reused, but not within one clock tick. On Linux the start time therefore
/// tells processes with the same id apart.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct ProcessId {
    pid: Pid,
    /// The start time in clock ticks; 0 on systems other than Linux.
    start: u64,
}

/// Returns this process's descendants, parents before their children, without the processes in `except` and their
/// descendants.
pub(crate) fn descendants(except: &HashSet<ProcessId>) -> Vec<Process> {
    descendants_among(&system::processes(), except)
}

fn descendants_among(all: &[Process], except: &HashSet<ProcessId>) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        if !except.contains(&process.id) {
            children.entry(process.parent).or_default().push(*process);
        }
    }
    let mut found = children.remove(&getpid().as_raw_pid()).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let pid = process.id.pid.as_raw_pid();
        found.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// Returns all descendants of this process. Before `steadlock run` has started a process, they are the descendants of
/// the program that became `steadlock run` by exec.
pub(crate) fn inherited() -> HashSet<ProcessId> {
    // Most programs have no children at exec. On a large machine, a scan of all processes would take longer than the
    // start of the command.
    if cfg!(target_os = "linux") && system::children(getpid()).is_empty() {
        return HashSet::new();
    }
    let found = descendants(&HashSet::new());
    found.into_iter().map(|process| process.id).collect()
}

/// Sends a signal to all of these processes. Returns the processes to which this user may not send signals.
pub(crate) fn signal_all(processes: &[Process], signal: Signal) -> Vec<Pid> {
    let is_refused = |process: &&Process| system::signal(process, signal) == Err(Errno::PERM);
    processes
        .iter()
        .filter(is_refused)
        .map(|process| process.id.pid)
        .collect()
}

/// Kills this process's descendants, without the processes in `except` and their descendants. Repeats this for
/// processes that were started meanwhile, [`MAX_SCANS`] times at most. Stops early when two scans in a row find no new
/// process, when no children are left, or when this user may kill none of the processes that are left. `reap` reaps
/// ended children, and returns whether any are left. Returns the processes to which this user may not send signals.
pub(crate) fn kill_all(except: &HashSet<ProcessId>, mut reap: impl FnMut() -> bool) -> HashSet<Pid> {
    let mut killed = HashSet::new();
    let mut refused = HashSet::new();
    let mut scans_without_new = 0;
    for _ in 0..MAX_SCANS {
        let before = killed.len();
        if except.is_empty() {
            kill_by_child_lists(&mut killed, &mut refused);
        }
        let all = system::processes();
        let found = descendants_among(&all, except);
        kill_groups(&all, &found);
        let is_new = |process: &&Process| !process.is_zombie && killed.insert(process.id);
        let new: Vec<Process> = found.iter().filter(is_new).copied().collect();
        refused.extend(signal_all(&new, Signal::KILL));
        // One scan can miss a process that was started during the scan. It is unlikely that two scans in a row miss
        // one.
        scans_without_new = if killed.len() == before {
            scans_without_new + 1
        } else {
            0
        };
        let is_refused = |process: &Process| refused.contains(&process.id.pid);
        let may_signal_none = !found.is_empty() && found.iter().all(is_refused);
        if !reap() || scans_without_new == 2 || may_signal_none {
            break;
        }
    }
    refused
}

/// Kills each process group that consists only of processes in `found`. A zombie's group is killed too: it can contain
/// processes that were started after the scan.
fn kill_groups(all: &[Process], found: &[Process]) {
    let found_ids: HashSet<ProcessId> = found.iter().map(|process| process.id).collect();
    let is_outside = |process: &&Process| !found_ids.contains(&process.id);
    // The groups of other processes. This process's own group is added below.
    let mut spared_groups: HashSet<i32> = all.iter().filter(is_outside).map(|process| process.group).collect();
    let Some(own) = system::read_process(getpid()) else {
        return;
    };
    spared_groups.insert(own.group);
    for process in found {
        let is_unchanged = |now: Process| now.id == process.id && now.group == process.group;
        // Zero and negative numbers are no groups, and a kill of "group" 1 would kill all processes.
        if process.group <= 1 || spared_groups.contains(&process.group) {
            continue;
        }
        // The scan may be old by now. A check just before the kill is enough, because the kernel reuses an id only
        // after it has used all others.
        if !system::read_process(process.id.pid).is_some_and(is_unchanged) {
            continue;
        }
        spared_groups.insert(process.group);
        if let Some(group) = Pid::from_raw(process.group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Kills the descendants that the kernel's lists of children name. Reading these lists needs no scan of all processes,
/// and is fast enough to catch a process that leaves its group, starts the next process and ends.
fn kill_by_child_lists(killed: &mut HashSet<ProcessId>, refused: &mut HashSet<Pid>) {
    for _ in 0..MAX_PASSES {
        let before = killed.len();
        let mut parents = vec![getpid()];
        while let Some(parent) = parents.pop() {
            for pid in system::children(parent) {
                // The process may have ended, and its id can belong to another process now.
                let Some(child) = system::read_process(pid).filter(|now| now.parent == parent.as_raw_pid()) else {
                    continue;
                };
                if !child.is_zombie {
                    if killed.insert(child.id) {
                        refused.extend(signal_all(&[child], Signal::KILL));
                    }
                    parents.push(pid);
                }
            }
        }
        if killed.len() == before {
            return;
        }
    }
}

/// Reaps every child that has ended, and reports it to `ended`. Returns whether other children are left.
pub(crate) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) | Err(Errno::INTR) => return true,
            Err(_) => return false,
        }
    }
}

/// Limits on the repetitions in [`kill_all`] and [`kill_by_child_lists`]. They are enough in practice, and ensure that
/// both functions end.
const MAX_SCANS: usize = 50;
const MAX_PASSES: usize = 50;

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::OsStr;
    use std::path::PathBuf;

    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal, set_child_subreaper};

    use super::{Errno, Pid, Process, ProcessId, Signal, getpid, io};

    pub(super) fn become_subreaper() -> io::Result<()> {
        set_child_subreaper(Some(getpid()))?;
        // A `/proc` of another process namespace would show other processes under these ids.
        let own_name = std::fs::read_link("/proc/self").unwrap_or_default();
        if own_name.as_os_str() == OsStr::new(&getpid().as_raw_pid().to_string()) {
            Ok(())
        } else {
            Err(io::Error::other(
                "/proc is not mounted, or shows another container's processes",
            ))
        }
    }

    pub(super) fn processes() -> Vec<Process> {
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| read_process(Pid::from_raw(pid)?))
            .collect()
    }

    /// Returns whether this process has a terminal; true if that is not known. A terminal sends signals such as that of
    /// Ctrl-C to its foreground group only, and stops processes of other groups that read from it.
    pub(crate) fn has_terminal() -> bool {
        // The terminal is the 7th field of the file.
        stat(getpid()).is_none_or(|fields| fields.split_ascii_whitespace().nth(4) != Some("0"))
    }

    /// Returns the children of a process, as the kernel lists them. Empty if the kernel has no such list, or the
    /// process is gone.
    pub(super) fn children(parent: Pid) -> Vec<Pid> {
        let pid = parent.as_raw_pid();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let listed = if parent == getpid() {
            // The main thread of this process starts all children, and becomes the parent of descendants whose own
            // parent has ended.
            read(format!("/proc/{pid}/task/{pid}/children").into())
        } else {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
                return Vec::new();
            };
            let threads = threads.filter_map(Result::ok);
            threads
                .map(|thread| read(thread.path().join("children")) + " ")
                .collect()
        };
        let parse = |number: &str| Pid::from_raw(number.parse().ok()?);
        listed.split_ascii_whitespace().filter_map(parse).collect()
    }

    /// Reads the state of a process; `None` if the process is gone.
    pub(super) fn read_process(pid: Pid) -> Option<Process> {
        let stat = stat(pid)?;
        let mut fields = stat.split_ascii_whitespace();
        // The state, the parent and the group are the 3rd to 5th field of the file, the number of threads is the 20th,
        // and the start time the 22nd.
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        // The state is that of the main thread, which can end before the other threads.
        let threads: usize = fields.nth(14)?.parse().ok()?;
        let is_zombie = has_ended && threads <= 1;
        let start = fields.nth(1)?.parse().ok()?;
        Some(Process {
            id: ProcessId { pid, start },
            parent,
            group,
            is_zombie,
        })
    }

    /// Returns the fields of `/proc/PID/stat` from the third one on.
    fn stat(pid: Pid) -> Option<String> {
        let mut stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
        // The program's name is in parentheses, and can contain parentheses itself.
        let name_ends = stat.iter().rposition(|&byte| byte == b')')?;
        String::from_utf8(stat.split_off(name_ends + 1)).ok()
    }

    /// Sends a signal to the process, but not to another one that has got its id meanwhile.
    pub(super) fn signal(process: &Process, signal: Signal) -> Result<(), Errno> {
        let handle = match pidfd_open(process.id.pid, PidfdFlags::empty()) {
            Ok(handle) => Some(handle),
            // On an old kernel, in a sandbox, or with too many open files, the signal is sent by id, right after the
            // check below.
            Err(Errno::NOSYS | Errno::PERM | Errno::MFILE | Errno::NFILE) => None,
            Err(error) => return Err(error),
        };
        if read_process(process.id.pid).is_none_or(|now| now.id != process.id) {
            return Ok(());
        }
        match handle {
            Some(handle) => pidfd_send_signal(handle, signal),
            None => kill_process(process.id.pid, signal),
        }
    }
}

/// Best effort on other systems: processes whose parent has ended cannot be found there. Start times, groups and
/// zombies are not known.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::process::Command;

    use rustix::process::kill_process;

    use super::{Errno, Pid, Process, ProcessId, Signal, io};

    pub(super) fn become_subreaper() -> io::Result<()> {
        Ok(())
    }

    pub(super) fn processes() -> Vec<Process> {
        let Ok(listed) = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output() else {
            return Vec::new();
        };
        let parse = |line: &str| {
            let mut numbers = line.split_ascii_whitespace().map(str::parse);
            let pid = Pid::from_raw(numbers.next()?.ok()?)?;
            let parent = numbers.next()?.ok()?;
            Some(Process {
                id: ProcessId { pid, start: 0 },
                parent,
                group: 0,
                is_zombie: false,
            })
        };
        String::from_utf8_lossy(&listed.stdout)
            .lines()
            .filter_map(parse)
            .collect()
    }

    pub(crate) fn has_terminal() -> bool {
        true
    }

    pub(super) fn children(_parent: Pid) -> Vec<Pid> {
        Vec::new()
    }

    pub(super) fn read_process(_pid: Pid) -> Option<Process> {
        None
    }

    pub(super) fn signal(process: &Process, signal: Signal) -> Result<(), Errno> {
        kill_process(process.id.pid, signal)
    }
}
