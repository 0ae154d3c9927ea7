//! The server that each client uses. While a client keeps a connection on which a call ran, all calls of the client
//! must run on the server of that connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::cable::Cable;
use super::data::Data;
use super::ledger::Ledger;

pub(super) struct ServerPerClient {
    ledger: Arc<Ledger>,
    /// By client and connection: the data on which its calls ran.
    used: Mutex<BTreeMap<(usize, u64), Used>>,
}

struct Used {
    cable: Arc<Cable>,
    data: Arc<Data>,
}

impl ServerPerClient {
    pub(super) fn new(ledger: &Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self {
            ledger: Arc::clone(ledger),
            used: Mutex::default(),
        })
    }

    /// Checks a call of a client that is about to run on this connection.
    pub(super) fn runs(&self, client: usize, connection: u64, cable: &Arc<Cable>, data: &Arc<Data>) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, used| used.cable.is_in_use());
        if !cable.is_in_use() {
            // The client sent the call before it closed the connection.
            return;
        }
        let mut of_client = used.iter().filter(|((of, _), _)| *of == client);
        if let Some(((_, other), _)) = of_client.find(|(_, used)| !Arc::ptr_eq(&used.data, data)) {
            let what = format!("client {client} uses connections {other} and {connection}, to two servers");
            self.ledger.break_promise("a client is at one server", what);
        }
        used.entry((client, connection)).or_insert_with(|| Used {
            cable: Arc::clone(cable),
            data: Arc::clone(data),
        });
    }
}
