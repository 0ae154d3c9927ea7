//! A cluster of three primaries with a replica each.

use std::ops::Deref;
use std::time::{Duration, Instant};

use steadlock_protocol::Reply;

use super::eventually;
use super::rig::{Node, Rig};

const SOON: Duration = Duration::from_secs(10);

/// A cluster, whose servers are stopped when it is dropped.
pub struct Cluster(Rig);

impl Deref for Cluster {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.0
    }
}

impl Cluster {
    /// Starts a cluster without failovers. By default a replica takes over after a second of silence, which happens on
    /// a busy machine. Slots that a test has moved by hand would then be lost.
    pub fn start() -> Self {
        let cluster = Self::start_failing_over();
        for node in &cluster.nodes {
            node.run(&["CONFIG", "SET", "cluster-node-timeout", "15000"]);
            node.run(&["CONFIG", "SET", "cluster-replica-no-failover", "yes"]);
        }
        cluster
    }

    /// Starts a cluster in which a replica takes over after a second without its primary.
    pub fn start_failing_over() -> Self {
        Self(Rig::start("cluster"))
    }

    /// Starts a cluster that speaks only TLS. [`Node::run`] does not work with its nodes.
    pub fn start_tls() -> Self {
        Self(Rig::start("tls-cluster"))
    }

    /// Returns the primary of a name's slot, if all nodes that answer agree on it.
    pub fn owner(&self, name: &str) -> Option<&Node> {
        let slot = self.slot(name);
        let mut owners: Vec<u16> = self.nodes.iter().filter_map(|node| node.owner(slot)).collect();
        owners.dedup();
        let &[port] = &owners[..] else { return None };
        self.nodes.iter().find(|node| node.port == port)
    }

    /// Returns a name `{prefix}-{number}` whose slot belongs to the primary `node`. The node must have slots.
    pub fn name_at(&self, node: &Node, prefix: &str) -> String {
        let mut names = (0..10_000).map(|number| format!("{prefix}-{number}"));
        let is_there = |name: &String| node.owner(self.slot(name)) == Some(node.port);
        names.find(is_there).expect("names enough")
    }

    /// Returns the slot of a name, as a server computes it.
    pub fn slot(&self, name: &str) -> u16 {
        let mut answers = self
            .nodes
            .iter()
            .filter_map(|node| node.try_run(&["CLUSTER", "KEYSLOT", name]).ok());
        let Some(Reply::Int(slot)) = answers.next() else {
            panic!("no node answers")
        };
        u16::try_from(slot).expect("a slot")
    }

    pub fn primaries(&self) -> Vec<Node> {
        self.nodes.iter().filter(|node| node.is_primary()).cloned().collect()
    }

    /// Begins to move a slot: from now on `from` redirects clients to `to` for keys that it does not have.
    pub fn begin_move(&self, slot: u16, from: &Node, to: &Node) {
        begin_move(slot, from, to);
    }

    /// Moves the keys of a slot. Returns their number.
    pub fn move_keys(&self, slot: u16, from: &Node, to: &Node) -> usize {
        move_keys(slot, from, to)
    }

    /// Ends the move of a slot whose keys have moved.
    pub fn end_move(&self, slot: u16, from: &Node, to: &Node) {
        end_move(&self.nodes, slot, from, to);
    }

    /// Moves a slot and all of its keys.
    pub async fn move_slot(&self, slot: u16, from: &Node, to: &Node) {
        move_slot(&self.nodes, slot, from, to).await;
    }

    /// Returns the replica of a primary.
    pub fn replica_of(&self, primary: &Node) -> Option<Node> {
        let id = primary.id();
        let reply = primary.text(&["CLUSTER", "NODES"]);
        let line = reply
            .lines()
            .find(|line| line.contains("slave") && line.contains(&id))?;
        let address = line.split(' ').nth(1)?.split('@').next()?;
        let port: u16 = address.rsplit_once(':')?.1.parse().ok()?;
        self.nodes.iter().find(|node| node.port == port).cloned()
    }
}

/// Moves a slot and all of its keys from one node of a cluster to another.
pub async fn move_slot(nodes: &[Node], slot: u16, from: &Node, to: &Node) {
    begin_move(slot, from, to);
    while move_keys(slot, from, to) > 0 {}
    // Otherwise the new owner's claim could have a lower epoch than an earlier claim of `from`. The earlier claim
    // would win the slot back, and the moved keys would be dropped.
    eventually("the new owner knows the old one's epoch", SOON, || {
        to.epoch_of(from) == from.epoch_of(from)
    })
    .await;
    end_move(nodes, slot, from, to);
    // Otherwise a primary that does not know the new owner's epoch believes an old claim that arrives late. Once it
    // sees the old owner with a newer epoch, it tells the new owner that the slot belongs to the old one.
    eventually("all primaries know the new owner and its epoch", SOON, || {
        let epoch = to.epoch_of(to);
        let mut primaries = nodes.iter().filter(|node| node.is_primary());
        primaries.all(|node| node.owner(slot) == Some(to.port) && node.epoch_of(to) == epoch)
    })
    .await;
}

fn begin_move(slot: u16, from: &Node, to: &Node) {
    to.set_slot(slot, "IMPORTING", from);
    from.set_slot(slot, "MIGRATING", to);
}

fn move_keys(slot: u16, from: &Node, to: &Node) -> usize {
    let Reply::Array(keys) = from.run(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"]) else {
        panic!("no keys");
    };
    let keys: Vec<String> = keys
        .into_iter()
        .map(|key| match key {
            Reply::Bytes(key) => String::from_utf8(key).expect("text"),
            other => panic!("{other:?}"),
        })
        .collect();
    if !keys.is_empty() {
        let port = to.port.to_string();
        let mut args = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        args.extend(keys.iter().map(String::as_str));
        from.run(&args);
    }
    keys.len()
}

fn end_move(nodes: &[Node], slot: u16, from: &Node, to: &Node) {
    to.set_slot(slot, "NODE", to);
    from.set_slot(slot, "NODE", to);
    let others = nodes.iter().filter(|node| *node != from && *node != to);
    for node in others {
        // Replicas refuse this command. They learn the new owner from the other nodes.
        let _ = node.try_run(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &to.id()]);
    }
}

impl Node {
    pub fn id(&self) -> String {
        self.text(&["CLUSTER", "MYID"])
    }

    /// Returns the slot of a name.
    pub fn slot(&self, name: &str) -> u16 {
        let Reply::Int(slot) = self.run(&["CLUSTER", "KEYSLOT", name]) else {
            panic!("no slot")
        };
        u16::try_from(slot).expect("a slot")
    }

    /// Sets the state of a slot at a primary, and repeats that until it succeeds. Valkey first waits for its replica to
    /// confirm the state, and on a busy machine that can time out.
    fn set_slot(&self, slot: u16, state: &str, other: &Self) {
        let (slot, id) = (slot.to_string(), other.id());
        let end = Instant::now() + SOON;
        while let Err(error) = self.try_run(&["CLUSTER", "SETSLOT", &slot, state, &id]) {
            let is_late = error.is_timeout() || error.code() == Some("NOREPLICAS");
            assert!(is_late && Instant::now() < end, "{state} of slot {slot}: {error}");
        }
    }

    /// Returns the config epoch of another node, as this node knows it.
    fn epoch_of(&self, other: &Self) -> Option<u64> {
        let id = other.id();
        let reply = self.text(&["CLUSTER", "NODES"]);
        let line = reply.lines().find(|line| line.starts_with(&id))?;
        line.split(' ').nth(6)?.parse().ok()
    }

    /// Returns the port of a slot's owner, as this node knows it.
    pub fn owner(&self, slot: u16) -> Option<u16> {
        let Ok(Reply::Array(ranges)) = self.try_run(&["CLUSTER", "SLOTS"]) else {
            return None;
        };
        ranges.iter().find_map(|range| {
            let Reply::Array(parts) = range else { return None };
            let [Reply::Int(first), Reply::Int(last), Reply::Array(owner), ..] = &parts[..] else {
                return None;
            };
            let &Reply::Int(port) = owner.get(1)? else { return None };
            (*first..=*last)
                .contains(&i64::from(slot))
                .then(|| u16::try_from(port).ok())?
        })
    }
}
