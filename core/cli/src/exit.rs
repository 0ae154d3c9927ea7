//! How the command ends when it cannot do what it was asked to.

use std::process::ExitCode;

use steadlock::admin::readable;
use steadlock::{Error, ErrorKind};

/// A failure: what to say, and the exit status, after `sysexits.h`.
#[derive(Debug)]
pub(crate) struct Exit {
    status: u8,
    message: String,
}

impl Exit {
    /// Wrong usage, as clap has it.
    pub(crate) const USAGE: u8 = 2;
    /// The machine, the network or the server is in the way.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// Something that should not happen.
    pub(crate) const SOFTWARE: u8 = 70;
    /// The lock was lost before the command was done.
    pub(crate) const LOST: u8 = 74;
    /// Timed out: another owner holds the lock; another time it may be free.
    pub(crate) const NOT_ACQUIRED: u8 = 75;
    /// What was asked for cannot be, as configured.
    pub(crate) const CONFIG: u8 = 78;
    /// The command cannot be executed, as shells have it.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// There is no such command, as shells have it.
    pub(crate) const NOT_FOUND: u8 = 127;

    pub(crate) fn new(status: u8, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// An end that is no failure, and of which there is nothing to say.
    pub(crate) const fn quiet() -> Self {
        Self {
            status: 0,
            message: String::new(),
        }
    }

    /// The same in other words.
    pub(crate) fn reworded(mut self, words: impl FnOnce(&str) -> String) -> Self {
        self.message = words(&self.message);
        self
    }

    /// Says it on standard error and gives the status.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            // Commands and paths are as the caller wrote them.
            eprintln!("steadlock: {}", readable(self.message.as_bytes(), usize::MAX));
        }
        ExitCode::from(self.status)
    }
}

impl From<Error> for Exit {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::LockTimeout => Self::NOT_ACQUIRED,
            ErrorKind::Unavailable => Self::UNAVAILABLE,
            ErrorKind::InvalidArgument | ErrorKind::Misconfigured => Self::CONFIG,
            ErrorKind::LockLost | ErrorKind::NotOwner => Self::LOST,
            _ => Self::SOFTWARE,
        };
        Self::new(status, error.to_string())
    }
}
