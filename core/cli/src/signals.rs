//! The signals that this process receives.

use std::io::IsTerminal;
use std::process::ExitCode;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use crate::exit::Exit;

/// Catches the signals that ask a program to end. If this program was started with a signal ignored, the signal stays
/// ignored: `nohup` ignores SIGHUP, and a shell without job control ignores SIGINT for programs in the background.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Option<SignalStream>,
    interrupt: Option<SignalStream>,
    hangup: Option<SignalStream>,
}

impl Signals {
    /// Starts to catch the signals. From now on they do not end the process by themselves.
    pub(crate) fn listen() -> Result<Self, Exit> {
        let listen = |kind: SignalKind| {
            if is_ignored(kind) {
                return Ok(None);
            }
            let failed = |error| Exit::new(Exit::SOFTWARE, format!("cannot listen for signals: {error}"));
            signal(kind).map(Some).map_err(failed)
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            () = receive(&mut self.terminate) => Signal::TERM,
            () = receive(&mut self.interrupt) => Signal::INT,
            () = receive(&mut self.hangup) => Signal::HUP,
        }
    }
}

async fn receive(stream: &mut Option<SignalStream>) {
    match stream {
        Some(stream) => {
            stream.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Returns whether this program was started with the signal ignored. False where the system does not report it.
pub(crate) fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    // Signal 1 has the lowest bit.
    let bit = u32::try_from(kind.as_raw_value() - 1).unwrap_or(u32::MAX);
    mask.checked_shr(bit).unwrap_or(0) & 1 == 1
}

/// Returns the exit status that shells give to a program that a signal ended.
pub(crate) fn status_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

pub(crate) fn exit_code_of_signal(signal: Signal) -> ExitCode {
    ExitCode::from(status_of_signal(signal.as_raw()))
}

/// Returns whether a signal must be forwarded to a command in this process's group. A terminal also sends Ctrl-C to the
/// command itself, and many programs treat a second Ctrl-C as an order to stop without cleaning up.
pub(crate) fn must_forward(signal: Signal) -> bool {
    signal != Signal::INT || !std::io::stdin().is_terminal()
}
