//! The node of each slot, as far as is known.

use std::collections::BTreeSet;

use steadlock_protocol::Reply;
use steadlock_resp::replies::text;

use crate::target::{Scheme, Target};
use crate::transport::redis::address::Address;
use crate::transport::{NODE, TransportEvent};

/// The number of slots of a cluster.
pub(super) const SLOTS: usize = 16_384;

/// The owner of each slot.
pub(super) struct Slots {
    owners: Vec<Address>,
    /// For each slot the index of its owner.
    owner_of_slot: Vec<Option<usize>>,
    /// All nodes that were announced, replicas too.
    known: BTreeSet<Address>,
    /// The ids of the owners. No node of another cluster has the same id.
    ids: BTreeSet<String>,
}

impl Slots {
    /// Creates an empty table.
    pub(super) fn unknown() -> Self {
        Self {
            owners: Vec::new(),
            owner_of_slot: vec![None; SLOTS],
            known: BTreeSet::new(),
            ids: BTreeSet::new(),
        }
    }

    /// Reads the reply to `CLUSTER SLOTS`. `asked_host` is the host for nodes that are listed without one. `None` if no
    /// slot has an owner.
    pub(super) fn read(answer: &Reply, asked_host: &str) -> Option<Self> {
        let Reply::Array(ranges) = answer else { return None };
        let mut slots = Self::unknown();
        for range in ranges {
            let Reply::Array(parts) = range else { continue };
            let (Some(Reply::Int(first)), Some(Reply::Int(last))) = (parts.first(), parts.get(1)) else {
                continue;
            };
            let (Ok(first), Ok(last)) = (usize::try_from(*first), usize::try_from(*last)) else {
                continue;
            };
            let nodes = parts.iter().skip(2);
            slots.known.extend(nodes.filter_map(|node| address(node, asked_host)));
            let Some(owner) = parts.get(2).and_then(|node| address(node, asked_host)) else {
                continue;
            };
            slots.ids.extend(parts.get(2).and_then(id).map(str::to_owned));
            let owner = slots.owner_index(owner);
            for slot in slots.owner_of_slot.iter_mut().take(last.saturating_add(1)).skip(first) {
                *slot = Some(owner);
            }
        }
        (!slots.owners.is_empty()).then_some(slots)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        let owner_index = *self.owner_of_slot.get(usize::from(slot))?;
        self.owners.get(owner_index?)
    }

    /// Notes that a node named the owner of a slot. Returns whether this changes the table.
    pub(super) fn set_owner(&mut self, slot: u16, owner: &Address) -> bool {
        if self.owner(slot) == Some(owner) {
            return false;
        }
        self.known.insert(owner.clone());
        let owner_index = self.owner_index(owner.clone());
        if let Some(owner_of_slot) = self.owner_of_slot.get_mut(usize::from(slot)) {
            *owner_of_slot = Some(owner_index);
        }
        true
    }

    /// Returns the nodes to ask about the slots: those of the URL and all that were announced.
    pub(super) fn nodes(&self, target: &Target) -> Vec<Address> {
        let mut nodes = self.known().clone();
        if let Scheme::Cluster { nodes: configured, .. } = &target.scheme {
            nodes.extend(configured.iter().map(|(host, port)| Address::new(host, *port)));
        }
        nodes.into_iter().collect()
    }

    /// Returns all nodes that were announced.
    pub(super) const fn known(&self) -> &BTreeSet<Address> {
        &self.known
    }

    /// Returns the ids of the owners, by the last topology.
    pub(super) const fn ids(&self) -> &BTreeSet<String> {
        &self.ids
    }

    /// Returns the nodes that have slots, by the last topology and the owners that nodes named since. A node that has
    /// lost its last slot since then is still among them.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Address> {
        self.owners.iter()
    }

    /// Whether a node is among the [`owners`](Self::owners).
    pub(super) fn has(&self, node: &Address) -> bool {
        self.owners.contains(node)
    }

    fn owner_index(&mut self, owner: Address) -> usize {
        let known = self.owners.iter().position(|known| *known == owner);
        known.unwrap_or_else(|| {
            self.owners.push(owner);
            self.owners.len() - 1
        })
    }
}

/// Returns a node's address from the reply. An empty host stands for the host that was asked. `None` for the host `?`:
/// the node does not know its own host.
fn address(node: &Reply, asked_host: &str) -> Option<Address> {
    let Reply::Array(parts) = node else { return None };
    let host = match parts.first()? {
        Reply::Nil => "",
        host => text(host)?,
    };
    let Some(Reply::Int(port)) = parts.get(1) else {
        return None;
    };
    Address::from_reply(host, u16::try_from(*port).ok()?, asked_host)
}

/// A number for each primary that has ever had a slot.
#[derive(Default)]
pub(super) struct PrimaryNumbers(Vec<Address>);

impl PrimaryNumbers {
    /// Returns the event that reports the number of each slot's owner, and the names of all primaries.
    pub(super) fn slots_event(&mut self, slots: &Slots) -> TransportEvent {
        for owner in slots.owners() {
            if !self.0.contains(owner) {
                self.0.push(owner.clone());
            }
        }
        let number = |owner: &Address| self.0.iter().position(|known| known == owner);
        let numbers: Vec<Option<usize>> = slots.owners().map(number).collect();
        let owner_of_slot = slots.owner_of_slot.iter().map(|owner_index| {
            let number = owner_index.and_then(|owner_index| *numbers.get(owner_index)?);
            number.and_then(|number| u16::try_from(number).ok()).unwrap_or(u16::MAX)
        });
        let names = self.0.iter().map(|owner| owner.to_string().into());
        TransportEvent::Slots {
            node: NODE,
            primary_of_slot: owner_of_slot.collect(),
            primaries: names.collect(),
        }
    }
}

/// Returns a node's id from the reply.
fn id(node: &Reply) -> Option<&str> {
    let Reply::Array(parts) = node else { return None };
    text(parts.get(2)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Reply, port: i64) -> Reply {
        Reply::Array(vec![host, Reply::Int(port), Reply::Bytes(b"id".into())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Reply>) -> Reply {
        let mut parts = vec![Reply::Int(first), Reply::Int(last)];
        parts.extend(nodes);
        Reply::Array(parts)
    }

    #[test]
    fn the_reply_names_owners_and_replicas_and_implies_the_host_that_was_asked() {
        let answer = Reply::Array(vec![
            range(
                0,
                99,
                vec![node(Reply::Bytes(b"a".into()), 1), node(Reply::Bytes(b"r".into()), 2)],
            ),
            range(100, 16_383, vec![node(Reply::Nil, 3)]),
        ]);
        let slots = Slots::read(&answer, "here").unwrap();
        assert_eq!(slots.owner(99), Some(&Address::new("a", 1)));
        assert_eq!(slots.owner(100), Some(&Address::new("here", 3)));
        assert_eq!(slots.owner(16_383), Some(&Address::new("here", 3)));
        assert!(slots.known().contains(&Address::new("r", 2)));
        assert!(!slots.has(&Address::new("r", 2)));
        assert!(slots.ids().iter().eq(["id"]));
        let nobody = range(0, 16_383, vec![node(Reply::Bytes(b"?".into()), 3)]);
        assert!(Slots::read(&Reply::Array(vec![nobody]), "here").is_none());
    }

    #[test]
    fn a_slot_that_moved_has_its_new_owner() {
        let mut slots = Slots::unknown();
        let owner = Address::parse("::1:7000", "here").unwrap();
        assert_eq!(owner, Address::new("::1", 7000));
        assert!(slots.set_owner(5, &owner));
        assert!(!slots.set_owner(5, &owner));
        assert_eq!(slots.owner(5), Some(&owner));
        assert_eq!(slots.owner(6), None);
        assert_eq!(Address::parse(":7001", "here"), Some(Address::new("here", 7001)));
        assert_eq!(Address::parse("?:7001", "here"), None);
    }
}
