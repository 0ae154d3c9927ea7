//! The store behind a port: what `steadlock serve` runs.
//!
//! It speaks RESP2 and RESP3 to ordinary Redis clients, one task for each
//! connection. Commands that change the connection (`HELLO`, `AUTH`, `CLIENT`,
//! `SUBSCRIBE`, `MULTI`, …) are carried out here, all others by the store. Who
//! speaks another protocol for it has the [`Door`].

mod connection;
mod connections;
mod door;
mod handshake;
mod mailbox;
mod metrics;
mod place;
mod request;
mod shared;
mod stream;
mod transaction;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::JoinSet;

pub use self::door::{Door, Guest, Hold, Subscription};
pub use self::handshake::is_same;
pub use self::metrics::Metrics;

use self::place::Place;
use self::shared::Shared;
use self::stream::Stream;
use self::watch::CpuWatch;
use crate::embedded::Embedded;
use crate::limits::server::{CLIENTS, OTHER_FILES};
use crate::limits::{Limits, Scripts};

impl Embedded {
    /// Returns a store for clients that can be hostile: [`Limits::SERVED`] bounds what each can use. Clients that are
    /// not trusted must not send [any](Scripts::Any) script.
    #[must_use]
    pub fn served(scripts: Scripts) -> Self {
        let limits = Limits {
            scripts,
            ..Limits::SERVED
        };
        Self::watched(limits, Some(Arc::new(CpuWatch::new())))
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
    /// Listens on an address; port 0 takes a free one. With a password, clients
    /// must give it, as the user `default`.
    ///
    /// # Errors
    /// When the address is taken or is not this machine's.
    pub async fn bind(address: impl ToSocketAddrs, password: Option<Vec<u8>>, store: Embedded) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(store, address.port(), password));
        shared.tell_store(0);
        Ok(Self {
            listener,
            address,
            shared,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Says how many files the process may have open; fewer clients are let in if that is little.
    pub fn set_open_files(&self, most: usize) {
        let clients = CLIENTS.min(most.saturating_sub(OTHER_FILES)).max(1);
        self.shared.most_clients.store(clients, Ordering::Relaxed);
    }

    /// What it counts, also while it serves.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::new(Arc::clone(&self.shared))
    }

    /// A way in for clients of other protocols, also while it serves.
    #[must_use]
    pub fn door(&self) -> Door {
        Door::new(Arc::clone(&self.shared))
    }

    /// Serves until `stop` is ready, then closes every connection at once.
    /// Dropping the future does the same.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        tasks.spawn(welcome(Arc::clone(&self.shared), stream, peer));
                    }
                    // Out of file descriptors, most likely: somebody has to make room.
                    Err(_) => {
                        self.shared.connections.send_strangers_away(1);
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    }
                },
                Some(_) = tasks.join_next() => {}
            }
        }
    }
}

async fn welcome(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let place = Place::take(&shared);
    if !place.is_free() {
        stream::turn_away(stream).await;
        return;
    }
    // Small replies must not wait for more of them.
    let _ = stream.set_nodelay(true);
    let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
    // An error means that the client has gone, which is no news to anybody.
    let _ = Stream::new(&shared, id, peer).run(stream).await;
}
