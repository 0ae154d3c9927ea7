//! The world of one client: virtual time, seeded randomness, and connections of the simulated network.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use steadlock::simulation::{BoxFuture, Path, Simulated, Stream};

use super::clock::Clock;
use super::ledger::Ledger;
use super::network::Network;
use crate::random::Random;

/// The limit on reads of the clock at one moment: a client that reads the clock more often is in an endless loop.
const MOST_LOOKS: u64 = 1_000_000;

pub(super) struct ClientWorld {
    client: usize,
    clock: Clock,
    random: Mutex<Random>,
    network: Arc<Network>,
    ledger: Arc<Ledger>,
    last_look: AtomicU64,
    looks: AtomicU64,
}

impl ClientWorld {
    pub(super) fn new(
        client: usize,
        clock: Clock,
        random: Random,
        network: &Arc<Network>,
        ledger: &Arc<Ledger>,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            clock,
            random: Mutex::new(random),
            network: Arc::clone(network),
            ledger: Arc::clone(ledger),
            last_look: AtomicU64::new(0),
            looks: AtomicU64::new(0),
        })
    }
}

impl Simulated for ClientWorld {
    fn now(&self) -> u64 {
        let now = self.clock.client_time();
        if self.last_look.swap(now, Ordering::Relaxed) != now {
            self.looks.store(0, Ordering::Relaxed);
        }
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        assert!(looks < MOST_LOOKS, "client {} never sleeps", self.client);
        now
    }

    fn draw(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    fn resolve(&self, host: &str, port: u16) -> Vec<SocketAddr> {
        self.network.resolve(host, port)
    }

    fn dial(&self, address: SocketAddr, path: Path) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        Box::pin(Arc::clone(&self.network).dial(self.client, address, path))
    }

    fn spawn(&self, engine: BoxFuture<()>) {
        let (client, ledger) = (self.client, Arc::clone(&self.ledger));
        let engine = tokio::spawn(engine);
        tokio::spawn(async move {
            if let Err(error) = engine.await {
                ledger.break_promise("an engine never fails", format!("that of client {client}: {error}"));
            }
        });
    }
}
