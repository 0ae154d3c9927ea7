//! Asks a cluster once which node has which slot, for tools.

use std::sync::Arc;

use futures_util::future::select_ok;
use steadlock_protocol::{Error, Instant, slot};

use super::slots::Slots;
use super::topology::QUESTION;
use crate::settings::Settings;
use crate::target::{Scheme, Target};
use crate::transport::redis::address::Address;
use crate::transport::redis::connect::Connector;
use crate::transport::redis::failure::Failure;
use crate::transport::redis::outage::Outage;
use crate::transport::redis::server_kind::ServerKind;

/// The node of each slot, by the answer of one node.
pub(crate) struct ClusterMap {
    slots: Slots,
    primaries: Vec<Address>,
}

impl ClusterMap {
    /// Asks all nodes of the URL. Uses the first good answer.
    pub(in crate::transport::redis) async fn ask(settings: &Arc<Settings>, target: &Target) -> Result<Self, Error> {
        let Scheme::Cluster { nodes, .. } = &target.scheme else {
            unreachable!("it is no cluster");
        };
        let questions = nodes.iter().map(|(host, port)| {
            let node = target.node_target(host, *port);
            let connector = Arc::new(Connector::new(settings, &node, ServerKind::ClusterNode, None));
            let answer = connector.ask(QUESTION, &Outage::default(), Instant::ZERO);
            Box::pin(async move {
                let slots = Slots::read(&answer.await?, host);
                slots.ok_or_else(|| Failure::unavailable("no slot of the cluster has an owner"))
            })
        });
        let answered = select_ok(questions).await;
        let (slots, _) = answered.map_err(|failure| failure.into_error(&target.to_string()))?;
        let mut primaries: Vec<Address> = slots.owners().cloned().collect();
        primaries.sort();
        Ok(Self { slots, primaries })
    }

    /// Returns all nodes that have slots, sorted by address.
    pub(in crate::transport::redis) fn primaries(&self) -> &[Address] {
        &self.primaries
    }

    /// Returns the index of the primary that has this key; `None` if no node has its slot.
    pub(crate) fn index_of(&self, key: &[u8]) -> Option<usize> {
        let owner = self.slots.owner(slot(key))?;
        self.primaries.iter().position(|primary| primary == owner)
    }
}
