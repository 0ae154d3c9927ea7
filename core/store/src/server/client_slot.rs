//! The count of clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shared::Shared;

/// A connection's share in the count of clients.
pub(super) struct ClientSlot(Arc<Shared>);

impl ClientSlot {
    pub(super) fn occupy(shared: &Arc<Shared>) -> Self {
        shared.update_info(shared.clients.fetch_add(1, Ordering::Relaxed) + 1);
        Self(Arc::clone(shared))
    }

    /// Returns whether the connection can stay: there are not too many clients, or a connection that has not completed
    /// a command is closed instead.
    pub(super) fn may_stay(&self) -> bool {
        let clients = self.0.clients.load(Ordering::Relaxed);
        clients <= self.0.most_clients.load(Ordering::Relaxed) || self.0.connections.close_oldest_new(1) > 0
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.update_info(self.0.clients.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}
