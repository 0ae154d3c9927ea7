//! The addresses of a host.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use crate::blocking_pool;
use crate::world::World;

/// The addresses that the system knows for a host, in its order. An address is its own.
///
/// # Errors
/// The system's. `WouldBlock`, with a text that says so, if no thread can be had to ask it.
pub(super) async fn resolve(world: &World, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    #[cfg(feature = "simulation")]
    if let Some(given) = world.given() {
        return Ok(given.resolve(host, port));
    }
    let _ = world;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    let found = blocking_pool::run(move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect)).await;
    found.unwrap_or_else(|failed| {
        let text = format!("the name {host} cannot be looked up: {failed}");
        Err(io::Error::new(io::ErrorKind::WouldBlock, text))
    })
}
