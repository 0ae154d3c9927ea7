//! The count of clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shared::Shared;

/// A connection's share in the count of clients.
pub(super) struct Place(Arc<Shared>);

impl Place {
    pub(super) fn take(shared: &Arc<Shared>) -> Self {
        shared.tell_store(shared.clients.fetch_add(1, Ordering::Relaxed) + 1);
        Self(Arc::clone(shared))
    }

    /// Returns whether the connection can stay: there are not too many clients, or a stranger is closed for it.
    pub(super) fn is_free(&self) -> bool {
        let clients = self.0.clients.load(Ordering::Relaxed);
        clients <= self.0.most_clients.load(Ordering::Relaxed) || self.0.connections.send_strangers_away(1) > 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.tell_store(self.0.clients.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}
