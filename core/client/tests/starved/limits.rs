//! Limits of a process, and descriptors that are closed for it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::RawFd;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Uid, getrlimit, getuid, setrlimit};
use rustix::thread::set_thread_res_uid;

/// A user of no right, with no processes.
const NOBODY: u32 = 65_534;

/// Threads that this thread starts from now on are counted: root may have as many as it likes.
pub struct Unprivileged;

impl Unprivileged {
    pub fn new() -> Self {
        Self::set(NOBODY);
        Self
    }

    fn set(uid: u32) {
        if Uid::ROOT == getuid() || uid == 0 {
            let uid = Uid::from_raw(uid);
            set_thread_res_uid(uid, uid, Uid::ROOT).expect("root may be anybody");
        }
    }
}

/// Back to who can stop the server.
impl Drop for Unprivileged {
    fn drop(&mut self) {
        if getuid() == Uid::from_raw(NOBODY) {
            Self::set(0);
        }
    }
}

/// A limit, until it is dropped.
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
        setrlimit(self.0, self.1).expect("the limit of before");
    }
}

/// Threads that live until this is dropped.
pub struct Others {
    _end: Sender<()>,
}

impl Others {
    /// Until no more can be had: the stacks of those that have ended are used again.
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

/// How many bytes of addresses this process has.
pub fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes: u64 = size
        .and_then(|size| size.trim().strip_suffix(" kB")?.parse().ok())
        .expect("a size");
    kilobytes * 1024
}

/// All but the first three.
pub fn descriptors() -> Vec<RawFd> {
    let listed = std::fs::read_dir("/proc/self/fd").expect("a list");
    let numbers = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let numbers: Vec<RawFd> = numbers.filter(|number| *number > 2).collect();
    // The descriptor of the list is closed by now.
    let is_open = |number: &RawFd| std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok();
    numbers.into_iter().filter(is_open).collect()
}

/// As `os.closerange` does, while every client is idle: for a moment after a call it looks at its descriptors again and
/// again, and could not find out before tokio does.
pub fn close(descriptors: Vec<RawFd>) {
    thread::sleep(Duration::from_millis(50));
    close_at_once(descriptors);
}

/// The same, whatever is under way.
pub fn close_at_once(descriptors: Vec<RawFd>) {
    for number in descriptors {
        // It may be gone by now.
        // SAFETY: that its owner does not know of this is what the test is about.
        let _ = unsafe { rustix::io::try_close(number) };
    }
}

/// Files whose numbers were those of the client's descriptors.
pub fn open_files() -> Vec<File> {
    (0..64)
        .map(|_| File::open("/proc/self/cmdline").expect("a file"))
        .collect()
}

pub fn are_open(files: Vec<File>) {
    for mut file in files {
        let mut text = Vec::new();
        file.read_to_end(&mut text).expect("the file is open");
        assert!(!text.is_empty());
    }
}
