//! Faults of a cluster: slots move, replicas take over, nodes refuse.
//!
//! Only one fault at a time changes the slots of nodes. Each node learns of the change at another time.

use std::time::Duration;

use tokio::time::sleep;

use super::faults::{Faults, up_to};
use super::network::ConnectOutcome;
use super::plan::Plan;
use super::shards::{Shards, slot};
use crate::random::Random;
use crate::snapshot::Snapshot;

/// The time within which clients learn of a change that all nodes know.
const PROPAGATION: Duration = Duration::from_secs(2);

const LOADING: &str = "LOADING Redis is loading the dataset in memory";
const DOWN: &str = "CLUSTERDOWN The cluster is down";

impl Faults {
    /// Returns the locks whose slots a node serves.
    pub(super) fn names_at(&self, shards: &Shards, node: usize) -> Vec<usize> {
        self.names_in(|slot| shards.owner(slot) == node)
    }

    /// Returns the locks whose calls may be sent to a node.
    pub(super) fn names_meant_for(&self, shards: &Shards, node: usize) -> Vec<usize> {
        self.names_in(|slot| shards.is_meant(slot, node))
    }

    /// Returns the locks in slots for which `is_so` is true.
    fn names_in(&self, is_so: impl Fn(usize) -> bool) -> Vec<usize> {
        let names = 0..self.plan().names.len();
        names.filter(|name| is_so(slot(Plan::name(*name).as_bytes()))).collect()
    }

    /// Moves a slot to another node, key by key.
    pub(super) async fn move_slot(&self, shards: &Shards, mut random: Random) {
        let Some(_alone) = self.reshape() else { return };
        let slot = slot(Plan::name(random.index(self.plan().names.len())).as_bytes());
        let from = shards.owner(slot);
        let others: Vec<usize> = shards.primaries().into_iter().filter(|node| *node != from).collect();
        let to = random.pick(&others);
        let excuse = self.ledger().excuse_errors(Some(self.names_in(|of| of == slot)));
        self.note(format_args!("slot {slot} is to move from {from} to {to}"));
        shards.begin_import(slot, to);
        sleep(up_to(&mut random, 50)).await;
        shards.begin_move(slot, from, to);
        let longest = random.pick(&[20, 300, 3_000, 12_000]);
        sleep(up_to(&mut random, longest)).await;
        let slowest = random.pick(&[0, 20, 500]);
        let (source, target) = (self.network().machine(from), self.network().machine(to));
        loop {
            let keys = source.data().keys_in(slot, self.clock().server_time());
            if keys.is_empty() {
                break;
            }
            for key in keys {
                sleep(up_to(&mut random, slowest)).await;
                source.unpaused().await;
                target.unpaused().await;
                source.data().move_key(&key, target.data(), self.clock().server_time());
                self.note(format_args!("key {} has moved", String::from_utf8_lossy(&key)));
            }
        }
        sleep(up_to(&mut random, longest)).await;
        shards.end_move(slot, to);
        // After most moves the new node learns of the move first.
        let first = if random.chance(800) { [to, from] } else { [from, to] };
        for node in first {
            self.inform_node(shards, node);
            sleep(up_to(&mut random, 100)).await;
        }
        self.inform_all(shards, &mut random).await;
        self.ledger().end_error_excuse(excuse);
    }

    /// Lets a primary fail or pause until its replica has taken over, with all data or without the last writes.
    pub(super) async fn take_over(&self, shards: &Shards, is_lossy: bool, mut random: Random) {
        let Some(_alone) = self.reshape() else { return };
        let old = random.pick(&shards.primaries());
        let names = self.names_at(shards, old);
        let replicated = match is_lossy {
            true => Some(self.lag(old, &mut random).await),
            false => None,
        };
        let losses = self.ledger().excuse_losses(Some(names.clone()));
        let errors = self.ledger().excuse_errors(Some(self.names_meant_for(shards, old)));
        let stands_still = random.chance(300);
        // The old primary may continue to act as a primary until it is demoted.
        let is_stale = stands_still && is_lossy && random.chance(500);
        self.note(format_args!(
            "node {old} is gone: stands still {stands_still}, stale {is_stale}"
        ));
        let gone = self.network().machine(old);
        if stands_still {
            gone.set_paused(true);
        } else {
            let outcome = random.pick(&[ConnectOutcome::Refused, ConnectOutcome::Unanswered]);
            self.network().set_unreachable(old, Some(outcome));
            gone.die();
            self.network().cut_machine(gone.id());
        }
        sleep(Duration::from_millis(500) + up_to(&mut random, 6_000)).await;
        self.promote(shards, shards.partner(old), replicated, is_stale);
        if is_lossy {
            self.ledger().lose_data(&names);
        }
        self.inform_all_but(shards, old, &mut random).await;
        sleep(up_to(&mut random, 10_000)).await;
        if is_stale {
            gone.set_paused(false);
            sleep(up_to(&mut random, 300)).await;
            self.ledger().lose_data(&names);
        }
        gone.demote();
        gone.data().restore(Snapshot::empty(), self.clock().server_time());
        self.inform_node(shards, old);
        if stands_still && !is_stale {
            gone.set_paused(false);
        }
        self.network().set_unreachable(old, None);
        self.note(format_args!("node {old} is a replica"));
        sleep(PROPAGATION).await;
        self.ledger().end_loss_excuse(losses);
        self.ledger().end_error_excuse(errors);
    }

    /// Lets a replica take over from its primary, with all data or with the state that it has received.
    fn promote(&self, shards: &Shards, new: usize, replicated: Option<Snapshot>, is_stale: bool) {
        let (old, now) = (shards.partner(new), self.clock().server_time());
        let (gone, next) = (self.network().machine(old), self.network().machine(new));
        let last = gone.data().snapshot(now);
        next.data().restore(replicated.unwrap_or(last), now);
        if !is_stale {
            gone.data().restore(Snapshot::empty(), now);
        }
        next.forget_scripts();
        next.promote();
        shards.promote(new);
        self.note(format_args!("node {new} has taken the place of {old}"));
        self.inform_node(shards, new);
    }

    /// Lets one node, or all of them, refuse every call for a while.
    pub(super) async fn refuse(&self, shards: &Shards, mut random: Random) {
        let (refusal, nodes) = match random.index(3) {
            0 => (LOADING, vec![random.pick(&shards.primaries())]),
            1 => (DOWN, vec![random.pick(&shards.primaries())]),
            _ => (DOWN, shards.nodes().collect()),
        };
        let longest = random.pick(&[300, 2_000, 12_000]);
        let duration = up_to(&mut random, longest);
        self.note(format_args!("nodes {nodes:?} say {refusal} for {duration:?}"));
        let names: Vec<usize> = nodes
            .iter()
            .flat_map(|node| self.names_meant_for(shards, *node))
            .collect();
        let excuse = self.excuse(duration, Some(names));
        for node in &nodes {
            self.network().machine(*node).refuse(Some(refusal));
        }
        sleep(duration).await;
        for node in &nodes {
            self.network().machine(*node).refuse(None);
        }
        self.note(format_args!("they refuse no more"));
        self.end_excuse(excuse);
    }

    /// Lets a node learn the current state of the cluster.
    fn inform_node(&self, shards: &Shards, node: usize) {
        let left = shards.learn(node);
        self.note(format_args!("node {node} learns of it"));
        for slot in left {
            self.network().machine(node).end_channels(slot);
        }
    }

    async fn inform_all(&self, shards: &Shards, random: &mut Random) {
        self.inform_all_but(shards, usize::MAX, random).await;
    }

    /// Lets all nodes but one learn the current state of the cluster, one after another.
    async fn inform_all_but(&self, shards: &Shards, but: usize, random: &mut Random) {
        let mut nodes: Vec<usize> = shards.nodes().filter(|node| *node != but).collect();
        random.shuffle(&mut nodes);
        for node in nodes {
            sleep(up_to(random, 400)).await;
            self.inform_node(shards, node);
        }
    }
}
