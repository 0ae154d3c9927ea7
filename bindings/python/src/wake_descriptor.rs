//! A file descriptor by which the engine's thread wakes Python without using the interpreter.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use steadlock::host::{OwnFile, PerProcess};

/// A file descriptor that is readable while events are queued.
///
/// Signalling needs no GIL and never blocks. An event loop, a hub of gevent, or a thread in `poll` watches the reading
/// end. A forked child makes a new pair at its first use, because the inherited pair belongs to its parent. A program
/// that closes descriptors which it did not open, for example with `os.closerange`, gets a new pair too. The old
/// numbers can belong to files of the program by then, so nothing here writes to, reads or closes a number that is not
/// its own any more. Python checks once a second whether the descriptor is still the same.
#[derive(Default)]
pub(crate) struct WakeDescriptor(PerProcess<Mutex<Option<Pair>>>);

impl WakeDescriptor {
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = Self::default();
        descriptor.with_pair(|_| ())?;
        Ok(descriptor)
    }

    /// Makes the descriptor readable. An error of a full buffer does not matter, because the descriptor is readable
    /// then.
    pub(crate) fn signal(&self) {
        let _ = self.with_pair(|pair| pair.writer.file().map(|mut file| file.write(&[1])));
    }

    /// Takes up to 16 signals; further ones wake the reader again. Must be called before the events are taken, so that
    /// the signal of a later event stays.
    pub(crate) fn clear(&self) {
        let mut signals = [0; 16];
        let _ = self.with_pair(|pair| pair.reader.file().map(|mut file| file.read(&mut signals)));
    }

    /// Returns the descriptor to poll for reading, and a number that no other descriptor of this process ever has.
    pub(crate) fn fd(&self) -> io::Result<(RawFd, u64)> {
        self.with_pair(|pair| {
            let file = pair.reader.file().ok_or(io::ErrorKind::NotConnected)?;
            Ok((file.as_raw_fd(), pair.number))
        })?
    }

    /// Calls `work` with both ends. Makes a new pair if this process has none, or if one of its ends was closed.
    fn with_pair<T>(&self, work: impl FnOnce(&Pair) -> T) -> io::Result<T> {
        let mut pair = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = match &mut *pair {
            Some(pair) if pair.is_still_ours() => pair,
            // After an error, the next use tries again: the program may have closed files by then.
            other => other.insert(Pair::new()?),
        };
        Ok(work(pair))
    }
}

/// Both ends of a socket pair. They live until the engine and Python have dropped the descriptor, so that a signal is
/// never written to a closed socket.
struct Pair {
    writer: OwnFile,
    reader: OwnFile,
    number: u64,
}

impl Pair {
    fn new() -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (writer, reader) = UnixStream::pair()?;
        Ok(Self {
            writer: own_end(writer)?,
            reader: own_end(reader)?,
            number: COUNT.fetch_add(1, Ordering::Relaxed),
        })
    }

    fn is_still_ours(&self) -> bool {
        self.writer.is_still_ours() && self.reader.is_still_ours()
    }
}

fn own_end(socket: UnixStream) -> io::Result<OwnFile> {
    socket.set_nonblocking(true)?;
    OwnFile::new(socket)
}
