//! The store behind a port, as `steadlock serve` runs it.
//!
//! The server speaks RESP2 and RESP3 to ordinary Redis clients, with one task for each connection. It executes commands
//! that concern the connection (`HELLO`, `AUTH`, `CLIENT`, `SUBSCRIBE`, `MULTI`, …), and the store executes all others.
//! Servers for other protocols use the [`Gateway`].

mod client_slot;
mod connection;
mod connections;
mod cpu_time_limit;
mod gateway;
mod handshake;
mod mailbox;
mod metrics;
mod shared;
mod stream;
mod transaction;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::JoinSet;

pub use self::gateway::{ClientMemory, ExternalClient, Gateway, Subscription};
pub use self::handshake::is_equal_in_constant_time;
pub use self::metrics::Metrics;

use self::client_slot::ClientSlot;
use self::cpu_time_limit::CpuTimeLimit;
use self::shared::Shared;
use self::stream::Stream;
use crate::embedded::Embedded;
use crate::limits::server::{CLIENTS, OTHER_FILES};
use crate::limits::{Limits, Scripts};

impl Embedded {
    /// Returns a store with [`Limits::SERVED`], for clients that can be hostile. Pass [`Scripts::Any`] only if the
    /// clients are trusted.
    #[must_use]
    pub fn served(scripts: Scripts) -> Self {
        let limits = Limits {
            scripts,
            ..Limits::SERVED
        };
        Self::with_time_limit(limits, Some(Arc::new(CpuTimeLimit::new())))
    }
}

/// A listening port in front of a store.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens on an address; port 0 chooses a free port. With a password, clients must log in as the user `default`.
    ///
    /// # Errors
    /// Fails if the server cannot listen there, for example because the address is in use.
    pub async fn bind(address: impl ToSocketAddrs, password: Option<Vec<u8>>, store: Embedded) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(store, address.port(), password));
        shared.update_info(0);
        Ok(Self {
            listener,
            address,
            shared,
        })
    }

    /// Returns the address of the server.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Tells the server how many files the process may have open. If the number is small, the server accepts fewer
    /// clients.
    pub fn set_open_files(&self, most: usize) {
        let clients = CLIENTS.min(most.saturating_sub(OTHER_FILES)).max(1);
        self.shared.most_clients.store(clients, Ordering::Relaxed);
    }

    /// Returns the metrics, which can be read while the server runs.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::new(Arc::clone(&self.shared))
    }

    /// Returns the entry for clients of other protocols, which can be used while the server runs.
    #[must_use]
    pub fn gateway(&self) -> Gateway {
        Gateway::new(Arc::clone(&self.shared))
    }

    /// Serves until `stop` is ready, then closes every connection of the port at once. Dropping the future closes them,
    /// too.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        tasks.spawn(serve_client(Arc::clone(&self.shared), stream, peer));
                    }
                    // The process has probably run out of file descriptors. The oldest connection that has not
                    // completed a command is closed.
                    Err(_) => {
                        self.shared.connections.close_oldest_new(1);
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    }
                },
                Some(_) = tasks.join_next() => {}
            }
        }
    }
}

async fn serve_client(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let slot = ClientSlot::occupy(&shared);
    if !slot.may_stay() {
        stream::refuse(stream).await;
        return;
    }
    // A small reply must be sent at once, without waiting for more data.
    let _ = stream.set_nodelay(true);
    let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
    // An error means that the client has disconnected, which needs no report.
    let _ = Stream::new(&shared, id, peer).run(stream).await;
}
