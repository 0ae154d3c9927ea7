//! Channels: which are listened to, and what a message wakes.
//!
//! A waiter that was refused listens on its lock's channel. A subscription is
//! confirmed by the server before it counts, and a confirmation wakes the waiter:
//! what was published before it is lost. A message carries nothing but the news
//! that the lock may be free; when it is lost, the poll finds out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::instant::Instant;
use crate::queue::QueueId;
use crate::session::{NodeId, Session, Transmit};
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
    queues: BTreeMap<Arc<[u8]>, QueueId>,
}

impl Session {
    /// Listens on the queue's channel, if it does not already.
    pub(crate) fn subscribe(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        if queue.subscription != Subscription::None {
            return;
        }
        queue.subscription = Subscription::Requested;
        let channel = Arc::clone(&queue.channel);
        self.channels.queues.insert(Arc::clone(&channel), id);
        self.transmits.push_back(Transmit::Subscribe {
            node: NodeId::default(),
            channel,
        });
    }

    /// The server confirmed a subscription: what was published before it is
    /// lost, so the waiter asks at once.
    pub(crate) fn subscribed(&mut self, channel: &[u8], now: Instant) {
        let Some(id) = self.channels.queues.get(channel).copied() else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(id) {
            queue.subscription = Subscription::Confirmed;
        }
        self.wake_first(id, now);
    }

    /// A lock may have become free.
    pub(crate) fn message(&mut self, channel: &[u8], now: Instant) {
        if let Some(id) = self.channels.queues.get(channel).copied() {
            self.wake_first(id, now);
        }
    }

    /// The connection that carried the subscriptions is gone. The driver asks
    /// for them again on the next one.
    pub(crate) fn subscriptions_lost(&mut self) {
        for id in self.channels.queues.values() {
            if let Some(queue) = self.queues.get_mut(*id) {
                queue.subscription = Subscription::Requested;
            }
        }
    }

    /// Forgets a queue that nobody needs: at once if nothing else knows of it,
    /// else after a while.
    pub(crate) fn tidy(&mut self, id: QueueId, now: Instant) {
        let Some(queue) = self.queues.get(id) else { return };
        if !queue.is_idle() {
            return;
        }
        if queue.subscription != Subscription::None || queue.turn.is_shared() {
            self.timers.set(Timer::Linger(id), now + LINGER);
        } else if !self.reentrancy.any(id) {
            self.forget(id);
        }
    }

    /// A queue has been idle for a while, unless it is in use again.
    pub(crate) fn linger_over(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        if !queue.is_idle() {
            return;
        }
        if queue.subscription != Subscription::None {
            queue.subscription = Subscription::None;
            let channel = Arc::clone(&queue.channel);
            self.channels.queues.remove(&channel);
            self.transmits.push_back(Transmit::Unsubscribe {
                node: NodeId::default(),
                channel,
            });
        }
        if !self.reentrancy.any(id) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: QueueId) {
        self.timers.stop(Timer::Linger(id));
        self.queues.remove(id);
    }

    /// How many connections other than ours hear what is published to `id`.
    pub(crate) fn others_listening(&self, id: QueueId, listeners: u32) -> u32 {
        match self.queues.get(id).map(|queue| queue.subscription) {
            Some(Subscription::Confirmed) => listeners.saturating_sub(1),
            _ => listeners,
        }
    }
}
