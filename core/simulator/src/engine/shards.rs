//! A cluster: the node that serves each slot, each node's view of the cluster, and a node's reply
//! to a call that it does not run.
//!
//! ```text
//!   a slot moves:   importing, migrating ─► its keys, one by one ─► the other node is the owner
//!   a node is gone: its replica has all its slots
//! ```
//!
//! Each node learns of a change at another time. Until then it redirects calls to the previous owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadlock_protocol::Script;
use steadlock_store::{Reply, SlotMigration, StoreError};

use super::ledger::Ledger;
use crate::kinds::{Role, role};

/// The number of slots in a cluster.
const SLOTS: usize = 16_384;
/// The port of all servers.
pub(super) const PORT: u16 = 6379;

/// A cluster. Node `n` is the host `server-n`. The first `count` nodes are the primaries at the start; node `n + count`
/// is the replica of node `n`.
pub(super) struct Shards {
    count: usize,
    ledger: Arc<Ledger>,
    /// Whether moving slots is the only fault. Calls then run in the order in which they were sent.
    is_orderly: bool,
    state: Mutex<State>,
}

struct State {
    /// The primary of each shard.
    primaries: Vec<usize>,
    /// The shard of each slot. A move ends with the change of this entry; the nodes learn of it afterwards.
    shards: Vec<usize>,
    /// The nodes that served a slot earlier. Clients with an old map still send calls there.
    previous_owners: BTreeSet<(usize, usize)>,
    views: Vec<View>,
    /// The owner ids that were released.
    released: BTreeSet<Vec<u8>>,
}

/// The state of the cluster as one node knows it.
#[derive(Clone)]
struct View {
    owners: Vec<usize>,
    migrating: BTreeMap<usize, usize>,
    importing: BTreeSet<usize>,
}

/// Returns the slot of a key or channel.
pub(super) fn slot(key: &[u8]) -> usize {
    steadlock_protocol::slot(key).into()
}

impl Shards {
    pub(super) fn new(count: usize, is_orderly: bool, ledger: &Arc<Ledger>) -> Arc<Self> {
        let owners: Vec<usize> = (0..SLOTS).map(|slot| slot * count / SLOTS).collect();
        let view = View {
            owners: owners.clone(),
            migrating: BTreeMap::new(),
            importing: BTreeSet::new(),
        };
        Arc::new(Self {
            count,
            ledger: Arc::clone(ledger),
            is_orderly,
            state: Mutex::new(State {
                primaries: (0..count).collect(),
                shards: owners,
                previous_owners: BTreeSet::new(),
                views: vec![view; 2 * count],
                released: BTreeSet::new(),
            }),
        })
    }

    pub(super) fn primaries(&self) -> Vec<usize> {
        self.lock().primaries.clone()
    }

    pub(super) const fn nodes(&self) -> std::ops::Range<usize> {
        0..2 * self.count
    }

    /// Returns the other node of a node's shard.
    pub(super) const fn partner(&self, node: usize) -> usize {
        (node + self.count) % (2 * self.count)
    }

    pub(super) fn owner(&self, slot: usize) -> usize {
        let state = self.lock();
        state.primaries[state.shards[slot]]
    }

    /// Begins the import of a slot at a node. No other node knows of it yet.
    pub(super) fn begin_import(&self, slot: usize, to: usize) {
        self.lock().views[to].importing.insert(slot);
    }

    /// Begins the migration of a slot at its owner.
    pub(super) fn begin_move(&self, slot: usize, from: usize, to: usize) {
        self.lock().views[from].migrating.insert(slot, to);
    }

    /// Makes another node the owner of a slot.
    pub(super) fn end_move(&self, slot: usize, to: usize) {
        let shard = to % self.count;
        let mut state = self.lock();
        let before = state.primaries[state.shards[slot]];
        state.previous_owners.insert((slot, before));
        state.shards[slot] = shard;
    }

    /// Returns whether calls for a slot may be sent to a node.
    pub(super) fn is_meant(&self, slot: usize, node: usize) -> bool {
        self.owner(slot) == node || self.lock().previous_owners.contains(&(slot, node))
    }

    /// Makes a replica the primary of its shard.
    pub(super) fn promote(&self, node: usize) {
        self.lock().primaries[node % self.count] = node;
    }

    /// Lets a node learn the current state. Returns the slots that it does not serve any more.
    pub(super) fn learn(&self, node: usize) -> Vec<usize> {
        let mut state = self.lock();
        let State {
            primaries,
            shards,
            views,
            ..
        } = &mut *state;
        let view = &mut views[node];
        let mut left = Vec::new();
        for (slot, owner) in view.owners.iter_mut().enumerate() {
            let now = primaries[shards[slot]];
            if *owner == now {
                continue;
            }
            if *owner == node {
                left.push(slot);
            }
            *owner = now;
            view.migrating.remove(&slot);
            view.importing.remove(&slot);
        }
        left
    }

    /// Returns a node's reply to a call for these keys; `None` if the node runs the call. `has` returns whether the
    /// node has a key.
    pub(super) fn refusal_of(
        &self,
        node: usize,
        keys: &[Vec<u8>],
        is_asking: bool,
        mut has: impl FnMut(&[u8]) -> bool,
    ) -> Option<Reply> {
        let slot_of_all = slot(keys.first()?);
        if keys.iter().any(|key| slot(key) != slot_of_all) {
            return Some(error("CROSSSLOT Keys in request don't hash to the same slot"));
        }
        let state = self.lock();
        let view = &state.views[node];
        let owner = view.owners[slot_of_all];
        let (there, missing) = keys.iter().partition::<Vec<_>, _>(|key| has(key));
        if owner == node {
            let to = view.migrating.get(&slot_of_all).filter(|_| !missing.is_empty())?;
            return Some(match there.is_empty() {
                true => redirection("ASK", slot_of_all, *to),
                false => error("TRYAGAIN Multiple keys request during rehashing of slot"),
            });
        }
        if is_asking && view.importing.contains(&slot_of_all) {
            let is_torn = keys.len() > 1 && !missing.is_empty();
            return is_torn.then(|| error("TRYAGAIN Multiple keys request during rehashing of slot"));
        }
        Some(redirection("MOVED", slot_of_all, owner))
    }

    /// Returns whether the keys of a call that a node runs are being moved.
    pub(super) fn slot_migration(&self, node: usize, keys: &[Vec<u8>]) -> SlotMigration {
        let Some(slot) = keys.first().map(|key| slot(key)) else {
            return SlotMigration::None;
        };
        let view = &self.lock().views[node];
        if view.migrating.contains_key(&slot) {
            SlotMigration::Migrating
        } else if view.importing.contains(&slot) {
            SlotMigration::Importing
        } else {
            SlotMigration::None
        }
    }

    /// Returns a node's reply to a subscribe or unsubscribe request, if the channel's slot belongs to another node.
    pub(super) fn refuse_listener(&self, node: usize, channel: &[u8]) -> Option<Reply> {
        let slot = slot(channel);
        let owner = self.lock().views[node].owners[slot];
        (owner != node).then(|| redirection("MOVED", slot, owner))
    }

    /// Returns a node's reply to `CLUSTER SLOTS`.
    pub(super) fn slots(&self, node: usize) -> Reply {
        let state = self.lock();
        let owners = &state.views[node].owners;
        let (mut ranges, mut first) = (Vec::new(), 0);
        for run in owners.chunk_by(|a, b| a == b) {
            let last = first + run.len() - 1;
            ranges.push(Reply::Array(vec![
                number(first),
                number(last),
                described(run[0]),
                described(self.partner(run[0])),
            ]));
            first = last + 1;
        }
        Reply::Array(ranges)
    }

    /// Checks a script that ran. If calls run in the order in which they were sent, the compensating release of a call
    /// must not run before that call.
    pub(super) fn ran(&self, script: Script, args: &[Vec<u8>], reply: &Reply) {
        let released = &mut self.lock().released;
        match role(script).0 {
            Role::Release => {
                released.insert(args[0].clone());
            }
            Role::Acquire if self.is_orderly && is_granted(reply) && released.contains(&args[1]) => {
                let what = format!("{} granted to an owner that has released", script.file());
                self.ledger.break_promise("what undoes a call comes after it", what);
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of a server's host.
pub(super) fn host(server: usize) -> String {
    format!("server-{server}")
}

/// Returns a node as an entry of `CLUSTER SLOTS`: host, port and id.
fn described(node: usize) -> Reply {
    Reply::Array(vec![
        text(host(node)),
        number(usize::from(PORT)),
        text(format!("{node:040}")),
    ])
}

fn number(number: usize) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(parts) if parts.first() == Some(&Reply::Int(1)))
}

fn redirection(code: &str, slot: usize, node: usize) -> Reply {
    error(&format!("{code} {slot} {}:{PORT}", host(node)))
}

pub(super) fn error(line: &str) -> Reply {
    Reply::Error(StoreError::parse(line))
}

/// Returns a reply that is text.
pub(super) fn text(text: impl Into<Vec<u8>>) -> Reply {
    Reply::Bytes(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_a_server_computes() {
        // The expected values are those of CLUSTER KEYSLOT.
        for (key, expected) in [("123456789", 12_739), ("foo", 12_182), ("{foo}:x", 12_182), ("", 0)] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
