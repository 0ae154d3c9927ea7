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
    /// One whose primaries stay what they are: on a busy machine a node may be silent for longer than the
    /// second after which a replica takes over, and what a test moves by hand would be gone.
    pub fn start() -> Self {
        let cluster = Self::start_failing_over();
        for node in &cluster.nodes {
            node.run(&["CONFIG", "SET", "cluster-node-timeout", "15000"]);
            node.run(&["CONFIG", "SET", "cluster-replica-no-failover", "yes"]);
        }
        cluster
    }

    /// One whose replica takes over after a second without its primary.
    pub fn start_failing_over() -> Self {
        Self(Rig::start("cluster"))
    }

    /// One that speaks TLS only; its nodes cannot be asked by [`Node::run`].
    pub fn start_tls() -> Self {
        Self(Rig::start("tls-cluster"))
    }

    /// The primary that has a name's slot, as all nodes that answer say.
    pub fn owner(&self, name: &str) -> Option<&Node> {
        let slot = self.slot(name);
        let mut owners: Vec<u16> = self.nodes.iter().filter_map(|node| node.owner(slot)).collect();
        owners.dedup();
        let &[port] = &owners[..] else { return None };
        self.nodes.iter().find(|node| node.port == port)
    }

    /// A name `{prefix}-{number}` whose slot is the primary's at `node`. That node must have slots.
    pub fn name_at(&self, node: &Node, prefix: &str) -> String {
        let mut names = (0..10_000).map(|number| format!("{prefix}-{number}"));
        let is_there = |name: &String| node.owner(self.slot(name)) == Some(node.port);
        names.find(is_there).expect("names enough")
    }

    /// The slot of a name, as a server computes it.
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

    /// Begins to move a slot: what is not at `from` any more is asked for at `to`.
    pub fn begin_move(&self, slot: u16, from: &Node, to: &Node) {
        begin_move(slot, from, to);
    }

    /// Moves the keys that a slot has; says how many.
    pub fn move_keys(&self, slot: u16, from: &Node, to: &Node) -> usize {
        move_keys(slot, from, to)
    }

    /// Ends the move of a slot whose keys have moved.
    pub fn end_move(&self, slot: u16, from: &Node, to: &Node) {
        end_move(&self.nodes, slot, from, to);
    }

    /// Moves a slot with all that it has.
    pub async fn move_slot(&self, slot: u16, from: &Node, to: &Node) {
        move_slot(&self.nodes, slot, from, to).await;
    }

    /// The replica of a primary.
    pub fn replica_of(&self, primary: &Node) -> Option<Node> {
        let id = primary.id();
        let told = primary.text(&["CLUSTER", "NODES"]);
        let line = told.lines().find(|line| line.contains("slave") && line.contains(&id))?;
        let address = line.split(' ').nth(1)?.split('@').next()?;
        let port: u16 = address.rsplit_once(':')?.1.parse().ok()?;
        self.nodes.iter().find(|node| node.port == port).cloned()
    }
}

/// Moves a slot of a cluster with all that it has, from one of its nodes to another.
pub async fn move_slot(nodes: &[Node], slot: u16, from: &Node, to: &Node) {
    begin_move(slot, from, to);
    while move_keys(slot, from, to) > 0 {}
    // Else its claim may be older than one that `from` made before: that would take the slot back, and drop
    // what has moved.
    eventually("the new owner knows the old one's epoch", SOON, || {
        to.epoch_of(from) == from.epoch_of(from)
    })
    .await;
    end_move(nodes, slot, from, to);
    // Else one that has not heard of the new owner's epoch believes an old claim that arrives late. Once it sees
    // the old owner with a newer epoch, it tells the new owner that the slot is the old one's.
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
        // Replicas refuse it, and hear of it from the others.
        let _ = node.try_run(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &to.id()]);
    }
}

impl Node {
    pub fn id(&self) -> String {
        self.text(&["CLUSTER", "MYID"])
    }

    /// The slot of a name.
    pub fn slot(&self, name: &str) -> u16 {
        let Reply::Int(slot) = self.run(&["CLUSTER", "KEYSLOT", name]) else {
            panic!("no slot")
        };
        u16::try_from(slot).expect("a slot")
    }

    /// Tells a primary what a slot's state is, until it has taken it: Valkey first has its replica confirm it, which
    /// on a busy machine may come too late.
    fn set_slot(&self, slot: u16, state: &str, other: &Self) {
        let (slot, id) = (slot.to_string(), other.id());
        let end = Instant::now() + SOON;
        while let Err(error) = self.try_run(&["CLUSTER", "SETSLOT", &slot, state, &id]) {
            let is_late = error.is_timeout() || error.code() == Some("NOREPLICAS");
            assert!(is_late && Instant::now() < end, "{state} of slot {slot}: {error}");
        }
    }

    /// The epoch of another node's settings, by what this one knows.
    fn epoch_of(&self, other: &Self) -> Option<u64> {
        let id = other.id();
        let told = self.text(&["CLUSTER", "NODES"]);
        let line = told.lines().find(|line| line.starts_with(&id))?;
        line.split(' ').nth(6)?.parse().ok()
    }

    /// The port of a slot's owner, by what this one knows.
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
