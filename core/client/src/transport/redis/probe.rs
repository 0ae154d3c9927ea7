//! Whether a runtime still learns of its sockets.
//!
//! A program may have closed just one of the runtime's descriptors, and another runtime's may have its number by now.
//! Then no connection can be made any more, and nothing else shows why.

/// Finds out after an attempt to connect has failed. Costs no call to a server.
#[cfg(unix)]
pub(super) async fn probe() {
    use std::io;
    use std::time::Duration;

    use tokio::net::UnixStream;

    use super::socket::Socket;
    use crate::sleep::{note_lost, timeout};

    /// A healthy runtime learns of a new socket when it next looks.
    const LONGEST: Duration = Duration::from_secs(1);
    /// The limits of the process and of the system: they say nothing of the runtime.
    const NO_MORE_DESCRIPTORS: [i32; 2] = [23, 24];

    let (here, there) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => {
            let is_limit = |code: i32| NO_MORE_DESCRIPTORS.contains(&code);
            if !error.raw_os_error().is_some_and(is_limit) {
                note_lost();
            }
            return;
        }
    };
    let writable: Option<io::Result<()>> = timeout(LONGEST, here.writable()).await;
    if writable.is_none_or(|ready| ready.is_err()) {
        note_lost();
    }
    // Each closes no number but its own.
    drop((Socket::new(here), Socket::new(there)));
}

#[cfg(not(unix))]
pub(super) const fn probe() -> std::future::Ready<()> {
    std::future::ready(())
}
