//! The state that all connections of a server share.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use tokio::sync::Semaphore;

use super::connections::Connections;
use crate::data::PortInfo;
use crate::embedded::Embedded;
use crate::limits::server::CLIENTS;

pub(super) struct Shared {
    pub(super) store: Embedded,
    pub(super) port: u16,
    pub(super) password: Option<Vec<u8>>,
    pub(super) next_id: AtomicU64,
    pub(super) clients: AtomicUsize,
    pub(super) most_clients: AtomicUsize,
    pub(super) connections: Connections,
    /// A single permit, which a request that can be slow holds while it runs.
    pub(super) turn: Semaphore,
}

impl Shared {
    pub(super) fn new(store: Embedded, port: u16, password: Option<Vec<u8>>) -> Self {
        Self {
            store,
            port,
            password,
            next_id: AtomicU64::new(1),
            clients: AtomicUsize::new(0),
            most_clients: AtomicUsize::new(CLIENTS),
            connections: Connections::default(),
            turn: Semaphore::new(1),
        }
    }

    /// Sets the facts for `INFO`.
    pub(super) fn update_info(&self, clients: usize) {
        let port_info = PortInfo {
            port: self.port,
            clients,
        };
        self.store.with_store(|store, _| store.set_port_info(port_info));
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password is left out.
        f.debug_struct("Shared")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
