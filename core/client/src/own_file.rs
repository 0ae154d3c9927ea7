//! A descriptor that is told from a file of the program which has its number later.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

/// An end of a pipe or of a pair of sockets: no other file is this one. A program may close descriptors that it did not
/// open, as `os.closerange` does, and then open files that get their numbers. Dropped after that, this one leaves its
/// number alone.
#[derive(Debug)]
pub struct OwnFile {
    /// `None` in its drop only.
    file: Option<File>,
    identity: (u64, u64),
}

impl OwnFile {
    /// Takes the descriptor.
    ///
    /// # Errors
    /// The system's, if it is closed already.
    pub fn new(descriptor: impl Into<OwnedFd>) -> io::Result<Self> {
        let file = File::from(descriptor.into());
        Ok(Self {
            identity: identity(&file)?,
            file: Some(file),
        })
    }

    /// The file under its number, whether that is still its own ([`is_there`](Self::is_there)) or not.
    #[must_use]
    pub const fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Whether its number is still its own. Takes a system call.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let known = self.file().and_then(|file| identity(file).ok());
        known == Some(self.identity)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if !self.is_there() {
            // Its number is the program's now.
            mem::forget(self.file.take());
        }
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let known = file.metadata()?;
    Ok((known.dev(), known.ino()))
}
