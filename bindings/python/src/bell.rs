//! How the engine thread wakes Python without touching the interpreter.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use steadlock::host::{OwnFile, Process};

/// A file descriptor that is readable while events are queued.
///
/// Ringing it takes no GIL and never blocks; an event loop, or a thread in `poll`, watches the other end. A forked
/// child gets a pair of its own on first use: the inherited one is its parent's. So does a program that closed
/// descriptors which it did not open, as `os.closerange` does: their numbers may belong to the program's own files by
/// now, so the bell never writes to, reads or closes a number that is no longer its own. Python looks once a second
/// whether the descriptor is the same.
pub(crate) struct Bell {
    process: Process,
    pair: Mutex<Pair>,
    child: OnceLock<Option<Box<Self>>>,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            process: Process::current(),
            pair: Mutex::new(Pair::new()?),
            child: OnceLock::new(),
        })
    }

    /// Makes the descriptor readable. A full buffer is no loss: the bell has rung.
    pub(crate) fn ring(&self) {
        if let Ok(pair) = self.pair() {
            let _ = pair.ring.file().map(|mut file| file.write(&[1]));
        }
    }

    /// Makes it unreadable until the next ring. Call it before taking the events.
    pub(crate) fn silence(&self) {
        if let Ok(pair) = self.pair() {
            let mut rings = [0; 16];
            let _ = pair.listen.file().map(|mut file| file.read(&mut rings));
        }
    }

    /// The descriptor to poll for reading, and a number that no other one of this process ever had.
    pub(crate) fn fd(&self) -> io::Result<(RawFd, u64)> {
        let pair = self.pair()?;
        let file = pair.listen.file().ok_or(io::ErrorKind::NotConnected)?;
        Ok((file.as_raw_fd(), pair.number))
    }

    /// Both ends, which are there.
    fn pair(&self) -> io::Result<MutexGuard<'_, Pair>> {
        let mut bell = self;
        while !bell.process.is_current() {
            let child = bell.child.get_or_init(|| Self::new().ok().map(Box::new));
            bell = child
                .as_deref()
                .ok_or_else(|| io::Error::other("no file descriptor for the bell of a forked child"))?;
        }
        let mut pair = bell.pair.lock().unwrap_or_else(PoisonError::into_inner);
        if !pair.ring.is_there() || !pair.listen.is_there() {
            *pair = Pair::new()?;
        }
        Ok(pair)
    }
}

/// Both ends live as long as either user, so that ringing never meets a closed pipe.
struct Pair {
    ring: OwnFile,
    listen: OwnFile,
    number: u64,
}

impl Pair {
    fn new() -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (ring, listen) = UnixStream::pair()?;
        Ok(Self {
            ring: end(ring)?,
            listen: end(listen)?,
            number: COUNT.fetch_add(1, Ordering::Relaxed),
        })
    }
}

fn end(socket: UnixStream) -> io::Result<OwnFile> {
    socket.set_nonblocking(true)?;
    OwnFile::new(socket)
}
