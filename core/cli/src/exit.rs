//! How the command ends when it cannot do what it was asked to.

use std::process::ExitCode;

/// A failure: what to say, and the exit status, after `sysexits.h`.
#[derive(Debug)]
pub(crate) struct Exit {
    status: u8,
    message: String,
}

impl Exit {
    /// The machine or the network is in the way.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// What was asked for cannot be, as configured.
    pub(crate) const CONFIG: u8 = 78;

    pub(crate) fn new(status: u8, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// Says it on standard error and gives the status.
    #[expect(clippy::needless_pass_by_value, reason = "it ends with this")]
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("leasehold: {}", self.message);
        ExitCode::from(self.status)
    }
}
