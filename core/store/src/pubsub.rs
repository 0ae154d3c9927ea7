//! The subscribers of each channel, and the messages that have not been delivered.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A subscriber, by a number that the embedding code chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// A published message for one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The subscriber that receives the message.
    pub subscriber: SubscriberId,
    /// The channel of the message.
    pub channel: Arc<[u8]>,
    /// The payload of the message.
    pub payload: Arc<[u8]>,
    /// Whether the message was published to a sharded channel, by `SPUBLISH`.
    pub is_sharded: bool,
}

/// The subscribers of each channel.
type Channels = HashMap<Arc<[u8]>, BTreeSet<SubscriberId>>;

#[derive(Debug, Default)]
pub(crate) struct PubSub {
    channels: Channels,
    /// The channels of `SPUBLISH`. A channel here and one of the same name in `channels` are different.
    sharded: Channels,
    outbox: Vec<Delivery>,
    /// The memory of the outbox.
    bytes: usize,
}

impl PubSub {
    const fn channels_of(&mut self, is_sharded: bool) -> &mut Channels {
        if is_sharded {
            &mut self.sharded
        } else {
            &mut self.channels
        }
    }

    /// Subscribes to a channel. Returns whether the subscription is new.
    pub(crate) fn subscribe(&mut self, subscriber: SubscriberId, channel: &[u8], is_sharded: bool) -> bool {
        let channels = self.channels_of(is_sharded);
        match channels.get_mut(channel) {
            Some(subscribers) => subscribers.insert(subscriber),
            None => {
                channels.insert(channel.into(), BTreeSet::from([subscriber]));
                true
            }
        }
    }

    /// Unsubscribes from a channel. Returns whether there was a subscription.
    pub(crate) fn unsubscribe(&mut self, subscriber: SubscriberId, channel: &[u8], is_sharded: bool) -> bool {
        let channels = self.channels_of(is_sharded);
        let Some(subscribers) = channels.get_mut(channel) else {
            return false;
        };
        let was_subscribed = subscribers.remove(&subscriber);
        if subscribers.is_empty() {
            channels.remove(channel);
        }
        was_subscribed
    }

    /// Queues the message for each subscriber, and returns the number of subscribers; `None` if the queue has other
    /// messages and would exceed `most_bytes`.
    pub(crate) fn publish(
        &mut self,
        channel: &[u8],
        payload: &[u8],
        is_sharded: bool,
        most_bytes: usize,
    ) -> Option<usize> {
        let channels = if is_sharded { &self.sharded } else { &self.channels };
        let Some((channel, subscribers)) = channels.get_key_value(channel) else {
            return Some(0);
        };
        // The first message of the queue may have any size, because its publisher was allowed to send it.
        let bytes = payload.len() + subscribers.len() * size_of::<Delivery>();
        if self.bytes > 0 && self.bytes.saturating_add(bytes) > most_bytes {
            return None;
        }
        self.bytes += bytes;
        let payload: Arc<[u8]> = payload.into();
        self.outbox.extend(subscribers.iter().map(|subscriber| Delivery {
            subscriber: *subscriber,
            channel: Arc::clone(channel),
            payload: Arc::clone(&payload),
            is_sharded,
        }));
        Some(subscribers.len())
    }

    pub(crate) fn take_deliveries(&mut self) -> Vec<Delivery> {
        self.bytes = 0;
        std::mem::take(&mut self.outbox)
    }

    pub(crate) fn subscriber_count(&self, channel: &[u8]) -> usize {
        self.channels.get(channel).map_or(0, BTreeSet::len)
    }

    /// Returns the channels with a subscriber, sorted.
    pub(crate) fn channels(&self) -> Vec<Arc<[u8]>> {
        let mut channels: Vec<_> = self.channels.keys().cloned().collect();
        channels.sort_unstable();
        channels
    }
}
