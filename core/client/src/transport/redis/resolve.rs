//! The addresses of a host.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use crate::blocking_pool;
use crate::world::World;

/// Returns the addresses that the system knows for a host, in the system's order. An IP address resolves to itself.
///
/// # Errors
/// The system's error. `WouldBlock`, with an explanation, if no thread is available for the lookup.
pub(super) async fn resolve(world: &World, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
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
