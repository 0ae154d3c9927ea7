//! Channels: which are listened to, and what a message wakes.
//!
//! A waiter that was refused listens on its lock's channel. A subscription is
//! confirmed by the server before it counts, and a confirmation wakes the waiter:
//! what was published before it is lost. A message carries the news that the lock
//! may be free or, to a waiter in the server's queue, the grant; when it is lost,
//! the poll finds out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::defects::Defect;
use crate::ids::{LockId, NodeId};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::session::Session;
use crate::timers::Timer;

/// How long a subscription outlives the last waiter, so that a lock in steady
/// use is not subscribed and unsubscribed for each of them.
const LINGER: Duration = Duration::from_secs(1);

/// Whether a queue hears of releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// Not asked for.
    None,
    /// Asked for; messages may still pass unheard.
    Requested,
    /// Confirmed by the server.
    Confirmed,
}

/// The channels that are subscribed, and whose they are.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    by_node: BTreeMap<NodeId, BTreeMap<Arc<[u8]>, Channel>>,
}

#[derive(Debug, Default)]
struct Channel {
    queues: BTreeSet<LockId>,
    is_confirmed: bool,
}

impl Channels {
    /// How many are listened to.
    pub(crate) fn len(&self) -> usize {
        self.by_node.values().map(BTreeMap::len).sum()
    }

    /// The queues that a message on this channel is for.
    fn queues(&self, node: NodeId, name: &[u8]) -> Vec<LockId> {
        let channel = self.by_node.get(&node).and_then(|channels| channels.get(name));
        channel.map_or_else(Vec::new, |channel| channel.queues.iter().copied().collect())
    }
}

impl Session {
    /// Listens on the queue's channel, if it does not already. Says whether the
    /// channel was listened to before, so that news may have passed this queue by.
    pub(crate) fn subscribe(&mut self, id: LockId) -> bool {
        let Some(queue) = self.queues.get_mut(id) else {
            return false;
        };
        if queue.subscription != Subscription::None {
            return false;
        }
        let (node, channel) = (queue.node, Arc::clone(&queue.channel));
        let is_confirmed = self.listen(node, channel, id);
        if let Some(queue) = self.queues.get_mut(id) {
            queue.subscription = if is_confirmed {
                Subscription::Confirmed
            } else {
                Subscription::Requested
            };
        }
        is_confirmed
    }

    /// Adds a queue to those that a channel is listened to for. Says whether the
    /// server confirmed the channel before, so that news may have passed this queue by.
    fn listen(&mut self, node: NodeId, name: Arc<[u8]>, id: LockId) -> bool {
        let channels = self.channels.by_node.entry(node).or_default();
        let channel = channels.entry(Arc::clone(&name)).or_default();
        let is_new = channel.queues.is_empty();
        let is_confirmed = channel.queues.insert(id) && channel.is_confirmed;
        if is_new {
            self.io.subscribe(node, name);
        }
        is_confirmed
    }

    /// Listens for the grants of a queue, if the client does not already. Until the
    /// server confirms it they may pass unheard; then the waiters ask.
    pub(crate) fn listen_for_grants(&mut self, id: LockId, keys: &Keys) {
        let client = self.io.config().client;
        let Some(queue) = self.queues.get_mut(id).filter(|queue| queue.line.grants.is_none()) else {
            return;
        };
        let channel = keys.grants(client);
        queue.line.grants = Some(Arc::clone(&channel));
        let node = queue.node;
        self.listen(node, channel, id);
    }

    /// Takes a queue from those that a channel is listened to for.
    fn unlisten(&mut self, node: NodeId, name: Arc<[u8]>, id: LockId) {
        let Some(channels) = self.channels.by_node.get_mut(&node) else {
            return;
        };
        let Some(channel) = channels.get_mut(&name) else { return };
        if channel.queues.remove(&id) && channel.queues.is_empty() {
            channels.remove(&name);
            self.io.unsubscribe(node, name);
        }
    }

    /// The server confirmed a subscription: what was published before it is
    /// lost, so the waiters ask at once.
    pub(crate) fn subscribed(&mut self, node: NodeId, name: &[u8], now: Instant) {
        let channels = self.channels.by_node.get_mut(&node);
        let Some(channel) = channels.and_then(|channels| channels.get_mut(name)) else {
            return;
        };
        channel.is_confirmed = true;
        for id in self.channels.queues(node, name) {
            if let Some(queue) = self.queues.get_mut(id).filter(|queue| *queue.channel == *name) {
                queue.subscription = Subscription::Confirmed;
            }
            self.maybe_free(id, now);
        }
    }

    /// A message came: a lock may have become free, or was granted to a waiter of
    /// ours.
    pub(crate) fn message(&mut self, node: NodeId, name: &[u8], payload: &[u8], now: Instant) {
        for id in self.channels.queues(node, name) {
            let grants = self.queues.get(id).and_then(|queue| queue.line.grants.as_deref());
            if grants == Some(name) {
                self.granted_unasked(id, payload, now);
            } else {
                self.heard(id, now);
            }
        }
    }

    /// A message says that a lock may be free, or something that is not to be believed: those
    /// who wait ask, unless messages before it have made them ask in vain.
    pub(crate) fn heard(&mut self, id: LockId, now: Instant) {
        if self.io.has(Defect::MessagesWakeNobody) {
            return;
        }
        let poll = self.io.config().retry_interval.0;
        let Some(queue) = self.queues.get_mut(id).filter(|queue| queue.is_waited_at()) else {
            return;
        };
        match queue.wakes.earliest(queue.longest_gap(poll)) {
            Some(earliest) if now < earliest => {
                // What it may have said is not forgotten.
                self.io.set(Timer::Heard(id), earliest);
            }
            _ => {
                queue.wakes.asks(now);
                self.line_asks_again(id);
                self.maybe_free(id, now);
            }
        }
    }

    /// A lock may be free: the first local waiter asks, and those in the server's
    /// queue.
    pub(crate) fn maybe_free(&mut self, id: LockId, now: Instant) {
        self.wake_first(id, now);
        self.poll_line_soon(id, now);
    }

    /// The connection that carried the subscriptions is gone. The driver asks
    /// for them again on the next one.
    pub(crate) fn subscriptions_lost(&mut self, node: NodeId) {
        for (name, channel) in self.channels.by_node.get_mut(&node).into_iter().flatten() {
            channel.is_confirmed = false;
            for id in &channel.queues {
                if let Some(queue) = self.queues.get_mut(*id).filter(|queue| queue.channel == *name) {
                    queue.subscription = Subscription::Requested;
                }
            }
        }
    }

    /// Forgets a queue that nobody needs: at once if nothing else knows of it,
    /// else after a while.
    pub(crate) fn tidy(&mut self, id: LockId, now: Instant) {
        let Some(queue) = self.queues.get(id) else { return };
        if !queue.is_unused() {
            return;
        }
        if queue.subscription != Subscription::None || queue.turn.is_shared() {
            self.io.set(Timer::Linger(id), now + LINGER);
        } else if !self.reentrancy.any(id) {
            self.forget(id);
        }
    }

    /// A queue has been idle for a while, unless it is in use again.
    pub(crate) fn linger_over(&mut self, id: LockId) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        if !queue.is_unused() {
            return;
        }
        queue.subscription = Subscription::None;
        let (node, channel, grants) = (queue.node, Arc::clone(&queue.channel), queue.line.grants.take());
        self.unlisten(node, channel, id);
        if let Some(grants) = grants {
            self.unlisten(node, grants, id);
        }
        if !self.reentrancy.any(id) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: LockId) {
        self.io.stop(Timer::Linger(id));
        self.io.stop(Timer::Heard(id));
        self.queues.remove(id);
    }

    /// How many connections other than ours hear what is published to `id`.
    pub(crate) fn others_listening(&self, id: LockId, listeners: u32) -> u32 {
        match self.queues.get(id).map(|queue| queue.subscription) {
            Some(Subscription::Confirmed) => listeners.saturating_sub(1),
            _ => listeners,
        }
    }
}
