//! Looks up a server's addresses, and opens a socket to one of them.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::wire::Socket;
use crate::blocking_pool;
use crate::sleep::note_descriptor_closed;
use crate::world::{Stream, World};

pub(super) struct Tcp {
    pub(super) host: String,
    pub(super) port: u16,
    /// The time after which a peer that vanished without closing the connection is noticed.
    pub(super) silence_timeout: Duration,
}

/// The largest number of a host's addresses that are tried.
const MAX_ADDRESSES: usize = 16;

impl Tcp {
    /// Looks up the addresses of the host, without duplicates.
    pub(super) async fn addresses(&self, world: &World) -> io::Result<Vec<SocketAddr>> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in resolve(world, &self.host, self.port).await? {
            if !addresses.contains(&address) && addresses.len() < MAX_ADDRESSES {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        }
        Ok(addresses)
    }

    /// Connects to one of the host's addresses.
    pub(super) async fn connect(&self, address: SocketAddr) -> io::Result<Socket<TcpStream>> {
        let tcp = TcpStream::connect(address).await.inspect_err(note_if_closed)?;
        tcp.set_nodelay(true)?;
        let socket = SockRef::from(&tcp);
        // The kernel counts keepalive in whole seconds.
        let third = (self.silence_timeout / 3).max(Duration::from_secs(1));
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(third).with_interval(third))?;
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        socket.set_tcp_user_timeout(Some(self.silence_timeout))?;
        Ok(Socket::new(tcp))
    }
}

/// Returns the addresses that the system knows for a host, in the system's order. An IP address resolves to itself.
///
/// # Errors
/// The system's error. `WouldBlock`, with an explanation, if no thread is available for the lookup.
async fn resolve(world: &World, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    #[cfg(feature = "simulation")]
    if let Some(simulation) = world.simulation() {
        return Ok(simulation.resolve(host, port));
    }
    let _ = world;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    let found = blocking_pool::run(move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect)).await;
    found.unwrap_or_else(|failure| {
        let text = format!("the name {host} cannot be looked up: {failure}");
        Err(io::Error::new(io::ErrorKind::WouldBlock, text))
    })
}

#[cfg(unix)]
pub(super) async fn unix(path: &PathBuf) -> io::Result<impl Stream + use<>> {
    let connected = tokio::net::UnixStream::connect(path).await;
    connected.inspect_err(note_if_closed).map(Socket::new)
}

/// Notes a closed descriptor of the runtime. A new socket cannot be closed yet, so the error can only be about one of
/// the runtime's own.
fn note_if_closed(error: &io::Error) {
    const BAD_DESCRIPTOR: i32 = 9;
    if cfg!(unix) && error.raw_os_error() == Some(BAD_DESCRIPTOR) {
        note_descriptor_closed();
    }
}

#[cfg(not(unix))]
pub(super) async fn unix(_: &PathBuf) -> io::Result<TcpStream> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system has no unix sockets",
    ))
}
