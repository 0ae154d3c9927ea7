//! Opening a socket to a server's address.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::select_ok;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};

use crate::world::Stream;

/// A host and a port.
pub(super) struct Tcp {
    pub(super) host: String,
    pub(super) port: u16,
    /// A peer that is gone without a word is noticed after so long.
    pub(super) silence: Duration,
}

impl Tcp {
    /// Connects to the first of the host's addresses that answers.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let tries: Vec<_> = lookup_host((self.host.as_str(), self.port))
            .await?
            .map(|address| Box::pin(TcpStream::connect(address)))
            .collect();
        if tries.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        }
        let (tcp, _) = select_ok(tries).await?;
        tcp.set_nodelay(true)?;
        let socket = SockRef::from(&tcp);
        // The kernel counts keepalive in whole seconds.
        let third = (self.silence / 3).max(Duration::from_secs(1));
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(third).with_interval(third))?;
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        socket.set_tcp_user_timeout(Some(self.silence))?;
        Ok(tcp)
    }
}

#[cfg(unix)]
pub(super) async fn unix(path: &PathBuf) -> io::Result<impl Stream + use<>> {
    tokio::net::UnixStream::connect(path).await
}

#[cfg(not(unix))]
pub(super) async fn unix(_: &PathBuf) -> io::Result<TcpStream> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system has no unix sockets",
    ))
}
