//! Checks whether a runtime still receives the events of its sockets.
//!
//! A program may have closed a single descriptor of the runtime, and the number may belong to another runtime by now.
//! Then no connection can be made any more, and nothing else shows the reason.

/// Runs the check after a failed attempt to connect. Costs no call to a server.
#[cfg(unix)]
pub(super) async fn probe() {
    use std::io;
    use std::time::Duration;

    use tokio::net::UnixStream;

    use super::wire::Socket;
    use crate::sleep::{note_descriptor_closed, timeout};

    /// A healthy runtime gets the event of a new socket in its next poll, long before this limit.
    const EVENT_TIMEOUT: Duration = Duration::from_secs(1);
    /// ENFILE and EMFILE, the limits of the system and of the process, which tell nothing about the runtime.
    const NO_MORE_DESCRIPTORS: [i32; 2] = [23, 24];

    let (here, there) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => {
            let is_limit = |code: i32| NO_MORE_DESCRIPTORS.contains(&code);
            if !error.raw_os_error().is_some_and(is_limit) {
                note_descriptor_closed();
            }
            return;
        }
    };
    let writable: Option<io::Result<()>> = timeout(EVENT_TIMEOUT, here.writable()).await;
    if writable.is_none_or(|ready| ready.is_err()) {
        note_descriptor_closed();
    }
    // A `Socket` closes its descriptor only if the number is still its own.
    drop((Socket::new(here), Socket::new(there)));
}

#[cfg(not(unix))]
pub(super) const fn probe() -> std::future::Ready<()> {
    std::future::ready(())
}
