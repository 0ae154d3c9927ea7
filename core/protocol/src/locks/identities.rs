//! When this client says which program it is, and who hears which program another one is.

use super::Locks;
use crate::ids::{CallId, NodeId};
use crate::instant::Instant;
use crate::machines::inspections;
use crate::reply::{CallError, Reply};

impl Locks {
    /// It was said long ago: if anything is wanted or held here, it is said again.
    pub(super) fn identify_again(&mut self, now: Instant) {
        let is_in_use = self.waiters.len() > 0 || self.holds.len() > 0;
        self.io.identify_again(is_in_use, now);
    }

    /// Another connection may lead to another server.
    pub(super) fn identify_there(&mut self, node: NodeId, now: Instant) {
        if self.io.forget_identity(node) {
            self.io.identify(node, now);
        }
    }

    /// A question about another client was answered, or will not be.
    pub(super) fn identified(&mut self, call: CallId, result: &Result<Reply, CallError>, now: Instant) {
        self.io.identified(call, result, now);
        self.inspect(inspections::Input::Identified, now);
    }
}
