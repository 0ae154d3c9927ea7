//! The node at which the client subscribes to each channel. It is the node with the channel's slot: the lock's scripts
//! run there, publish there and count the subscribers.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadlock_protocol::slot;

use super::slots::Slots;
use crate::transport::redis::address::Address;
use crate::transport::{NODE, TransportEvent};

/// The channels in use.
#[derive(Default)]
pub(super) struct Channels(BTreeMap<Arc<[u8]>, Placement>);

struct Placement {
    slot: u16,
    node: Option<Address>,
    is_confirmed: bool,
    /// Whether the node lost the channel's slot, or refused the channel. The next topology shows where the channel
    /// belongs.
    has_moved: bool,
}

/// A change of a subscription at a node.
pub(super) enum Change {
    Subscribe { node: Address, channel: Arc<[u8]> },
    Unsubscribe { node: Address, channel: Arc<[u8]> },
}

impl Channels {
    pub(super) fn subscribe(&mut self, channel: Arc<[u8]>) {
        let slot = slot(&channel);
        self.0.entry(channel).or_insert(Placement {
            slot,
            node: None,
            is_confirmed: false,
            has_moved: false,
        });
    }

    pub(super) fn unsubscribe(&mut self, channel: &Arc<[u8]>) -> Option<Change> {
        let placement = self.0.remove(channel)?;
        placement.node.map(|node| Change::Unsubscribe {
            node,
            channel: Arc::clone(channel),
        })
    }

    /// Whether a channel has no node yet.
    pub(super) fn has_unplaced(&self) -> bool {
        self.0
            .values()
            .any(|placement| placement.node.is_none() && !placement.has_moved)
    }

    /// Makes lost channels ready to be placed, because the topology is known again.
    pub(super) fn retry_moved(&mut self) {
        for placement in self.0.values_mut() {
            placement.has_moved = false;
        }
    }

    /// Notes that a node lost or refused this channel.
    pub(super) fn mark_moved(
        &mut self,
        node: &Address,
        channel: &Arc<[u8]>,
        events: &mut Vec<TransportEvent>,
    ) -> Option<Change> {
        let placement = self
            .0
            .get_mut(channel)
            .filter(|placement| placement.node.as_ref() == Some(node))?;
        placement.has_moved = true;
        if std::mem::take(&mut placement.is_confirmed) {
            events.push(TransportEvent::SubscriptionLost {
                node: NODE,
                channel: Arc::clone(channel),
            });
        }
        Some(Change::Unsubscribe {
            node: placement.node.take()?,
            channel: Arc::clone(channel),
        })
    }

    /// Moves each channel to the node that has its slot, except those that wait for the next topology.
    pub(super) fn assign_nodes(&mut self, slots: &Slots, events: &mut Vec<TransportEvent>) -> Vec<Change> {
        let mut changes = Vec::new();
        for (channel, placement) in &mut self.0 {
            let Some(owner) = slots.owner(placement.slot) else {
                continue;
            };
            if placement.has_moved || placement.node.as_ref() == Some(owner) {
                continue;
            }
            if std::mem::take(&mut placement.is_confirmed) {
                events.push(TransportEvent::SubscriptionLost {
                    node: NODE,
                    channel: Arc::clone(channel),
                });
            }
            if let Some(before) = placement.node.replace(owner.clone()) {
                changes.push(Change::Unsubscribe {
                    node: before,
                    channel: Arc::clone(channel),
                });
            }
            changes.push(Change::Subscribe {
                node: owner.clone(),
                channel: Arc::clone(channel),
            });
        }
        changes
    }

    /// Notes that a node confirmed a channel. Returns whether the channel belongs to this node.
    pub(super) fn on_confirmation(&mut self, node: &Address, channel: &Arc<[u8]>) -> bool {
        let placement = self
            .0
            .get_mut(channel)
            .filter(|placement| placement.node.as_ref() == Some(node));
        placement.is_some_and(|placement| {
            placement.is_confirmed = true;
            true
        })
    }

    /// Notes that a node's connection closed. Its next connection subscribes again.
    pub(super) fn connection_lost(&mut self, node: &Address, events: &mut Vec<TransportEvent>) {
        for (channel, placement) in &mut self.0 {
            if placement.node.as_ref() == Some(node) && std::mem::take(&mut placement.is_confirmed) {
                events.push(TransportEvent::SubscriptionLost {
                    node: NODE,
                    channel: Arc::clone(channel),
                });
            }
        }
    }

    /// Whether a channel is subscribed to at this node.
    pub(super) fn has_any_at(&self, node: &Address) -> bool {
        self.0.values().any(|placement| placement.node.as_ref() == Some(node))
    }
}
