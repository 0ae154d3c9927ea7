//! Who listens on which channel, and what is still to be delivered.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One listener, by a number of the embedding code's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// A published message on its way to one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Who is to have it.
    pub subscriber: SubscriberId,
    /// Where it was published.
    pub channel: Arc<[u8]>,
    /// What was published.
    pub payload: Arc<[u8]>,
    /// It was published to a sharded channel, by `SPUBLISH`.
    pub is_sharded: bool,
}

/// The subscribers of each channel.
type Channels = HashMap<Arc<[u8]>, BTreeSet<SubscriberId>>;

#[derive(Debug, Default)]
pub(crate) struct PubSub {
    channels: Channels,
    /// Those of a cluster's slots. They share no name with the others.
    sharded: Channels,
    outbox: Vec<Delivery>,
    /// What the outbox takes.
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

    /// Whether it was not subscribed before.
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

    /// Whether it was subscribed.
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

    /// Queues the message for each subscriber and says how many there are; `None` if more than so many bytes would
    /// wait then.
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
        // The first may be as large as it likes: its sender has sent it.
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

    /// The channels with a subscriber, sorted.
    pub(crate) fn channels(&self) -> Vec<Arc<[u8]>> {
        let mut channels: Vec<_> = self.channels.keys().cloned().collect();
        channels.sort_unstable();
        channels
    }
}
