//! How the engine thread wakes Python without touching the interpreter.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use steadlock::host::Process;

/// A file descriptor that is readable while events are queued.
///
/// Ringing it is one system call that takes no GIL and never blocks; an event
/// loop, or a thread in `poll`, watches the other end. A forked child gets a
/// pair of its own on first use: the inherited one is its parent's.
pub(crate) struct Bell {
    process: Process,
    // Both ends live as long as either user, so that ringing never meets a closed pipe.
    ring: UnixStream,
    listen: UnixStream,
    child: OnceLock<Option<Box<Self>>>,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let (ring, listen) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        listen.set_nonblocking(true)?;
        Ok(Self {
            process: Process::current(),
            ring,
            listen,
            child: OnceLock::new(),
        })
    }

    /// Makes [`Bell::fd`] readable. A full buffer is no loss: the bell has rung.
    pub(crate) fn ring(&self) {
        if let Ok(bell) = self.own() {
            let _ = (&bell.ring).write(&[1]);
        }
    }

    /// Makes [`Bell::fd`] unreadable until the next ring. Call it before taking the events.
    pub(crate) fn silence(&self) {
        if let Ok(bell) = self.own() {
            let mut rings = [0; 16];
            let _ = (&bell.listen).read(&mut rings);
        }
    }

    /// What to watch for reading.
    pub(crate) fn fd(&self) -> io::Result<RawFd> {
        Ok(self.own()?.listen.as_raw_fd())
    }

    fn own(&self) -> io::Result<&Self> {
        let mut bell = self;
        while !bell.process.is_current() {
            let child = bell.child.get_or_init(|| Self::new().ok().map(Box::new));
            bell = child
                .as_deref()
                .ok_or_else(|| io::Error::other("no file descriptor for the bell of a forked child"))?;
        }
        Ok(bell)
    }
}
