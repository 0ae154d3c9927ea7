//! At which node each channel is listened to: the one that has the channel's slot, where the
//! lock's scripts publish and count who hears.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadlock_protocol::slot;

use super::slots::Slots;
use crate::transport::interface::{NODE, Seen};
use crate::transport::redis::address::Address;

/// The channels that are wanted.
#[derive(Default)]
pub(super) struct Channels(BTreeMap<Arc<[u8]>, Place>);

struct Place {
    slot: u16,
    node: Option<Address>,
    is_confirmed: bool,
    /// The node that was to have it has it no more. Where it is, the cluster is to say.
    is_astray: bool,
}

/// What to tell a node.
pub(super) enum Change {
    Subscribe(Address, Arc<[u8]>),
    Unsubscribe(Address, Arc<[u8]>),
}

impl Channels {
    pub(super) fn subscribe(&mut self, channel: Arc<[u8]>) {
        let slot = slot(&channel);
        self.0.entry(channel).or_insert(Place {
            slot,
            node: None,
            is_confirmed: false,
            is_astray: false,
        });
    }

    pub(super) fn unsubscribe(&mut self, channel: &Arc<[u8]>) -> Option<Change> {
        let place = self.0.remove(channel)?;
        place.node.map(|node| Change::Unsubscribe(node, Arc::clone(channel)))
    }

    /// Whether one of them waits for a node.
    pub(super) fn any_is_nowhere(&self) -> bool {
        self.0.values().any(|place| place.node.is_none() && !place.is_astray)
    }

    /// The cluster has said which node has which slot: those that went astray are placed with the next.
    pub(super) fn find(&mut self) {
        for place in self.0.values_mut() {
            place.is_astray = false;
        }
    }

    /// A node does not listen to this channel any more, or never did.
    pub(super) fn astray(&mut self, node: &Address, channel: &Arc<[u8]>, seen: &mut Vec<Seen>) -> Option<Change> {
        let place = self
            .0
            .get_mut(channel)
            .filter(|place| place.node.as_ref() == Some(node))?;
        place.is_astray = true;
        if std::mem::take(&mut place.is_confirmed) {
            seen.push(Seen::Unheard(NODE, Arc::clone(channel)));
        }
        let before = place.node.take()?;
        Some(Change::Unsubscribe(before, Arc::clone(channel)))
    }

    /// Puts each where its slot is.
    pub(super) fn place(&mut self, slots: &Slots, seen: &mut Vec<Seen>) -> Vec<Change> {
        let mut changes = Vec::new();
        for (channel, place) in &mut self.0 {
            let Some(owner) = slots.owner(place.slot) else { continue };
            if place.is_astray || place.node.as_ref() == Some(owner) {
                continue;
            }
            if std::mem::take(&mut place.is_confirmed) {
                seen.push(Seen::Unheard(NODE, Arc::clone(channel)));
            }
            if let Some(before) = place.node.replace(owner.clone()) {
                changes.push(Change::Unsubscribe(before, Arc::clone(channel)));
            }
            changes.push(Change::Subscribe(owner.clone(), Arc::clone(channel)));
        }
        changes
    }

    /// A node confirmed a channel. Whether it is the one where that is listened to.
    pub(super) fn confirmed(&mut self, node: &Address, channel: &Arc<[u8]>) -> bool {
        let place = self
            .0
            .get_mut(channel)
            .filter(|place| place.node.as_ref() == Some(node));
        place.is_some_and(|place| {
            place.is_confirmed = true;
            true
        })
    }

    /// A node's connection is gone. It asks for them again on its next one.
    pub(super) fn deaf(&mut self, node: &Address, seen: &mut Vec<Seen>) {
        for (channel, place) in &mut self.0 {
            if place.node.as_ref() == Some(node) && std::mem::take(&mut place.is_confirmed) {
                seen.push(Seen::Unheard(NODE, Arc::clone(channel)));
            }
        }
    }

    /// Whether one is listened to at this node.
    pub(super) fn any_at(&self, node: &Address) -> bool {
        self.0.values().any(|place| place.node.as_ref() == Some(node))
    }
}
