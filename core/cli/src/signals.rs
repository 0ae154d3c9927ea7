//! The signals that others send to this process.

use std::io::IsTerminal;
use std::process::ExitCode;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit::Exit;

/// Listens for the signals that ask a program to end.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Stream,
    interrupt: Stream,
    hang_up: Stream,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves.
    pub(crate) fn listen() -> Result<Self, Exit> {
        let listen = |kind| {
            signal(kind).map_err(|error| Exit::new(Exit::SOFTWARE, format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.hang_up.recv() => Signal::HUP,
        }
    }
}

/// The exit status that shells give to a program that a signal ended.
pub(crate) fn status_of(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

/// Whether a signal has to be passed on: a terminal sends Ctrl-C to the command
/// as well, and many programs take a second one as an order to drop everything.
pub(crate) fn must_forward(signal: Signal) -> bool {
    signal != Signal::INT || !std::io::stdin().is_terminal()
}
