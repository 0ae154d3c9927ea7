//! A descriptor that notices when its number belongs to another file.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

/// One end of a pipe or of a pair of sockets, whose device and inode identify it. A program can close descriptors that
/// it did not open, as `os.closerange` does, and then open files that get the same numbers. When an `OwnFile` is
/// dropped after that, it does not close the program's file.
#[derive(Debug)]
pub struct OwnFile {
    /// `None` only during the drop.
    file: Option<File>,
    identity: FileIdentity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl OwnFile {
    /// Takes ownership of the descriptor.
    ///
    /// # Errors
    /// The system's error, if the descriptor is closed already.
    pub fn new(descriptor: impl Into<OwnedFd>) -> io::Result<Self> {
        let file = File::from(descriptor.into());
        Ok(Self {
            identity: identity(&file)?,
            file: Some(file),
        })
    }

    /// Returns the file under the descriptor's number, even if the number belongs to another file by now
    /// ([`is_still_ours`](Self::is_still_ours)). Never `None`, except during the drop.
    #[must_use]
    pub const fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Whether the number still belongs to this file. Costs one system call.
    #[must_use]
    pub fn is_still_ours(&self) -> bool {
        let current = self.file().and_then(|file| identity(file).ok());
        current == Some(self.identity)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if !self.is_still_ours() {
            // The number belongs to a file of the program now, or to no file.
            mem::forget(self.file.take());
        }
    }
}

fn identity(file: &File) -> io::Result<FileIdentity> {
    let metadata = file.metadata()?;
    Ok(FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}
