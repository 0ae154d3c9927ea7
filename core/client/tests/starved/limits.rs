//! Limits of this process, and functions that close its descriptors without the client's knowledge.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::RawFd;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Uid, getrlimit, getuid, setrlimit};
use rustix::thread::set_thread_res_uid;

/// The user id of `nobody`, which has no privileges and usually no processes.
const NOBODY: u32 = 65_534;

/// Gives this thread an unprivileged user until the value is dropped. The limit of threads does not apply to root.
pub struct Unprivileged;

impl Unprivileged {
    pub fn new() -> Self {
        Self::set(NOBODY);
        Self
    }

    fn set(uid: u32) {
        if Uid::ROOT == getuid() || uid == 0 {
            let uid = Uid::from_raw(uid);
            set_thread_res_uid(uid, uid, Uid::ROOT).expect("root may become any user");
        }
    }
}

/// Switches back to root. The test's server runs as root, so no other user could stop it.
impl Drop for Unprivileged {
    fn drop(&mut self) {
        if getuid() == Uid::from_raw(NOBODY) {
            Self::set(0);
        }
    }
}

/// A limit of this process. Dropping it restores the previous limit.
pub struct Limited(Resource, Rlimit);

impl Limited {
    pub fn to(resource: Resource, most: u64) -> Self {
        let before = getrlimit(resource);
        let this = Self(resource, before);
        let lower = Rlimit {
            current: Some(most),
            maximum: before.maximum,
        };
        setrlimit(resource, lower).expect("a limit");
        this
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        setrlimit(self.0, self.1).expect("the previous limit");
    }
}

/// Waits until only two threads of clients are left: an engine and one of its pool. The system reuses the memory of a
/// thread that has ended, so a client could start a thread there although no other memory is left.
pub fn wait_for_ended_threads(limit: Duration) {
    let start = Instant::now();
    while threads_of_clients() > 2 {
        assert!(
            start.elapsed() < limit,
            "not within {limit:?}: ended threads of the client"
        );
        thread::yield_now();
    }
}

/// Also counts a thread that does not run yet: until it runs, it has the name of the thread that started it.
fn threads_of_clients() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a list");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("steadlock-")).count()
}

/// Threads that run until this is dropped.
pub struct ManyThreads {
    _end: Sender<()>,
}

impl ManyThreads {
    /// Starts threads until the system refuses another one, so that no memory of threads that have ended is left.
    pub fn as_many_as_possible() -> Self {
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let wait = || {
            let ended = Arc::clone(&ended);
            thread::Builder::new().spawn(move || drop(ended.lock().map(|ended| ended.recv())))
        };
        while wait().is_ok() {}
        Self { _end: end }
    }
}

/// Returns the size of this process's address space in bytes.
pub fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes: u64 = size
        .and_then(|size| size.trim().strip_suffix(" kB")?.parse().ok())
        .expect("a size");
    kilobytes * 1024
}

/// Returns all open descriptors of this process except stdin, stdout and stderr.
pub fn descriptors() -> Vec<RawFd> {
    let listed = std::fs::read_dir("/proc/self/fd").expect("a list");
    let numbers = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let numbers: Vec<RawFd> = numbers.filter(|number| *number > 2).collect();
    // Leaves out the descriptor that the directory was read with: it is closed by now.
    let is_open = |number: &RawFd| std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok();
    numbers.into_iter().filter(is_open).collect()
}

/// Closes descriptors as Python's `os.closerange` does, once every client is idle.
///
/// For a moment after a call, an engine polls its descriptors continuously. If they were closed then, tokio would
/// notice it before the client can.
pub fn close(descriptors: Vec<RawFd>) {
    thread::sleep(Duration::from_millis(50));
    close_at_once(descriptors);
}

/// Closes descriptors at once, even while clients are in the middle of calls.
pub fn close_at_once(descriptors: Vec<RawFd>) {
    for number in descriptors {
        // The owner may have closed it already, so the result does not matter.
        // SAFETY: the test is about descriptors that are closed without their owner's knowledge.
        let _ = unsafe { rustix::io::try_close(number) };
    }
}

/// Opens files, which receive the numbers of the client's closed descriptors.
pub fn open_files() -> Vec<File> {
    (0..64)
        .map(|_| File::open("/proc/self/cmdline").expect("a file"))
        .collect()
}

pub fn check_open(files: Vec<File>) {
    for mut file in files {
        let mut text = Vec::new();
        file.read_to_end(&mut text).expect("the file is open");
        assert!(!text.is_empty());
    }
}
