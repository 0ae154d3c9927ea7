//! A file descriptor by which the engine's thread wakes Python without using the interpreter.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use steadlock::host::{OwnFile, Process};

/// A file descriptor that is readable while events are queued.
///
/// Ringing the bell needs no GIL and never blocks. An event loop, or a thread in `poll`, watches the other end. A
/// forked child makes a new pair at its first use, because the inherited pair belongs to its parent. A program that
/// closes descriptors which it did not open, for example with `os.closerange`, gets a new pair too. The old numbers can
/// belong to files of the program by then, so the bell never writes to, reads or closes a number that is not its own
/// any more. Python checks once a second whether the descriptor is still the same.
pub(crate) struct Bell {
    process: Process,
    pair: Mutex<Pair>,
    child: OnceLock<Box<Self>>,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            process: Process::current(),
            pair: Mutex::new(Pair::new()?),
            child: OnceLock::new(),
        })
    }

    /// Makes the descriptor readable. An error of a full buffer does not matter, because the descriptor is readable
    /// then.
    pub(crate) fn ring(&self) {
        if let Ok(pair) = self.pair() {
            let _ = pair.ring.file().map(|mut file| file.write(&[1]));
        }
    }

    /// Makes the descriptor unreadable until the next ring. Must be called before the events are taken.
    pub(crate) fn silence(&self) {
        if let Ok(pair) = self.pair() {
            let mut rings = [0; 16];
            let _ = pair.listen.file().map(|mut file| file.read(&mut rings));
        }
    }

    /// Returns the descriptor to poll for reading, and a number that no other descriptor of this process ever has.
    pub(crate) fn fd(&self) -> io::Result<(RawFd, u64)> {
        let pair = self.pair()?;
        let file = pair.listen.file().ok_or(io::ErrorKind::NotConnected)?;
        Ok((file.as_raw_fd(), pair.number))
    }

    /// Returns both ends. Makes a new pair if one of them was closed.
    fn pair(&self) -> io::Result<MutexGuard<'_, Pair>> {
        let mut bell = self;
        while !bell.process.is_current() {
            bell = match bell.child.get() {
                Some(child) => child,
                // After an error, the next use tries again: the program may have closed files by then.
                None => {
                    let child = Box::new(Self::new()?);
                    bell.child.get_or_init(|| child)
                }
            };
        }
        let mut pair = bell.pair.lock().unwrap_or_else(PoisonError::into_inner);
        if !pair.ring.is_still_ours() || !pair.listen.is_still_ours() {
            *pair = Pair::new()?;
        }
        Ok(pair)
    }
}

/// Both ends of a socket pair. They live as long as either user, so that a ring never writes to a closed socket.
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
