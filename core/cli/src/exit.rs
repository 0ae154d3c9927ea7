//! How `steadlock` ends when it fails.

use std::process::ExitCode;

use steadlock::admin::readable;
use steadlock::{Error, ErrorKind};

/// An end before the work is done: an exit status, and a message that may be empty. The statuses from 69 to 78 are
/// those of `sysexits.h`.
#[derive(Debug)]
pub(crate) struct Exit {
    status: u8,
    message: String,
}

impl Exit {
    /// Wrong usage. clap uses the same status.
    pub(crate) const USAGE: u8 = 2;
    /// The machine, the network or the server prevents the work.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// An internal error.
    pub(crate) const SOFTWARE: u8 = 70;
    /// The lock was lost before the command of `steadlock run` ended.
    pub(crate) const LOST: u8 = 74;
    /// Timed out: another owner holds the lock. A later run can succeed.
    pub(crate) const NOT_ACQUIRED: u8 = 75;
    /// The configuration makes the request impossible.
    pub(crate) const CONFIG: u8 = 78;
    /// The command of `steadlock run` cannot be executed. Shells use the same status.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// The command of `steadlock run` does not exist. Shells use the same status.
    pub(crate) const NOT_FOUND: u8 = 127;

    pub(crate) fn new(status: u8, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// Returns an end that is no failure and has no message.
    pub(crate) const fn silent_success() -> Self {
        Self {
            status: 0,
            message: String::new(),
        }
    }

    /// Replaces the message by the result of `rewrite`.
    pub(crate) fn map_message(mut self, rewrite: impl FnOnce(&str) -> String) -> Self {
        self.message = rewrite(&self.message);
        self
    }

    /// Prints the message on standard error and returns the status.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            // Commands and paths in the message are the caller's text and can have characters that a terminal obeys.
            eprintln!("steadlock: {}", readable(&self.message));
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
