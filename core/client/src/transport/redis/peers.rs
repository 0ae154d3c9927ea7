//! What makes sure that several primaries are several servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_protocol::Reply;

use super::failure::Failure;
use super::resp::text;

/// One of several primaries.
#[derive(Clone, Debug)]
pub(in crate::transport) struct Peers {
    /// The run id of each server, or the ids of each cluster's nodes, by its node.
    ids: Arc<Mutex<BTreeMap<usize, BTreeSet<String>>>>,
    node: usize,
}

impl Peers {
    /// One for each of `count` primaries.
    pub(in crate::transport) fn new(count: usize) -> Vec<Self> {
        let ids = Arc::default();
        let peer = |node| Self {
            ids: Arc::clone(&ids),
            node,
        };
        (0..count).map(peer).collect()
    }

    /// Notes who the server is, by what `INFO server` says.
    pub(super) fn check(&self, info: &Reply) -> Result<(), Failure> {
        let run_id = text(info).and_then(|info| info.lines().find_map(|line| line.strip_prefix("run_id:")));
        let Some(run_id) = run_id else {
            return Err(Failure::misconfigured(
                "the server does not say its run id, by which primaries are told apart",
            ));
        };
        self.check_ids([run_id.to_owned()].into())
    }

    /// Notes by which ids the server or cluster is known.
    pub(super) fn check_ids(&self, own: BTreeSet<String>) -> Result<(), Failure> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids
            .iter()
            .any(|(node, known)| *node != self.node && !known.is_disjoint(&own))
        {
            return Err(
                Failure::misconfigured("it is the same server as another one of the primaries")
                    .advising("a majority needs independent ones"),
            );
        }
        ids.insert(self.node, own);
        Ok(())
    }
}
