//! Which of a node's connections are open.
//!
//! A node has three: one for each lane, and one that carries the subscriptions. Each
//! comes and goes by itself, and what needs one waits for no other:
//!
//! | | needs |
//! |---|---|
//! | an attempt, a poll, a question | the command lane |
//! | a release | the command lane; while that is closed, the renewal lane, if nothing of its owner may come after it |
//! | a renewal | the renewal lane, or the command lane while that is closed or silent |
//! | hearing of releases | the subscriptions; without them waiters poll |

use std::time::Duration;

use crate::cause::Cause;
use crate::ids::NodeId;
use crate::instant::Instant;
use crate::sorted::{SortedMap, SortedSet};
use crate::types::Lane;

/// The lanes that are open.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// The nodes whose command lane is open.
    commands: SortedSet<NodeId>,
    /// The nodes whose renewal lane is open.
    renewals: SortedSet<NodeId>,
    /// Why each node's last command lane closed.
    outages: SortedMap<NodeId, Cause>,
    /// Of several primaries, when each last answered, and how long that took.
    round_trips: SortedMap<NodeId, (Instant, Duration)>,
}

impl Links {
    pub(crate) fn opened(&mut self, node: NodeId, lane: Lane) {
        match lane {
            Lane::Command => {
                self.commands.insert(node);
                self.outages.remove(&node);
            }
            Lane::Renewal => {
                self.renewals.insert(node);
            }
        }
    }

    pub(crate) fn closed(&mut self, node: NodeId, lane: Lane, cause: Cause) {
        match lane {
            Lane::Command => {
                self.commands.remove(&node);
                self.outages.insert(node, cause);
            }
            Lane::Renewal => {
                self.renewals.remove(&node);
            }
        }
    }

    pub(crate) fn is_open(&self, node: NodeId, lane: Lane) -> bool {
        match lane {
            Lane::Command => self.commands.contains(&node),
            Lane::Renewal => self.renewals.contains(&node),
        }
    }

    /// The nodes whose command lane is open.
    pub(crate) const fn connected(&self) -> &SortedSet<NodeId> {
        &self.commands
    }

    /// Whether its first connection is being made, and nothing has gone wrong so far.
    pub(crate) fn is_connecting(&self, node: NodeId) -> bool {
        !self.commands.contains(&node) && !self.outages.contains_key(&node)
    }

    /// A node answered a call after so long.
    pub(crate) fn answered(&mut self, node: NodeId, took: Duration, now: Instant) {
        self.round_trips.insert(node, (now, took));
    }

    /// How long the last answer of a node took, if it came since then.
    pub(crate) fn round_trip(&self, node: NodeId, since: Instant) -> Option<Duration> {
        let (at, took) = self.round_trips.get(&node)?;
        (*at >= since).then_some(*took)
    }

    /// Why a node does not answer.
    pub(crate) fn silence_of(&self, node: NodeId) -> Cause {
        match self.outages.get(&node) {
            _ if self.commands.contains(&node) => "no answer".into(),
            Some(cause) => cause.clone().reworded(|text| format!("not connected ({text})")),
            None => "not connected".into(),
        }
    }
}
