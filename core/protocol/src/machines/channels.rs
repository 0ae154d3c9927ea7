//! The channels that the client subscribes to, the locks that use each channel, and the effect of a message on them.
//!
//! ```text
//!            a waiter was refused          the server confirms
//!   Unused ───────────────────────► Requested ────────────────► Confirmed
//!      ▲                              │  ▲                          │
//!      │                              │  └─── subscription lost ────┤
//!      │ no waiters for a while       │                             │
//!      └──────────────────────────────┴─────────────────────────────┘
//! ```
//!
//! A subscription is lost when its connection closes, or when the server ends this one subscription. The client relies on a
//! subscription only after the server has confirmed it. After a confirmation the waiters ask the server, because
//! messages that were published earlier are lost. An election uses a channel as a waiter does. On the channel for releases, a message reports that the lock may be
//! free. On the channel for grants, a message reports that a waiter in the server's queue was granted the lock. If a
//! message is lost, the next poll has the same effect.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steadlock_collections::{SortedMap, SortedSet};

use crate::ids::{ElectionId, LockId, NodeId};
use crate::io::Io;
use crate::step::{ElectionInput, FairInput, Listen, Listener, Step, Topic, WaiterInput};
use crate::transitions;

/// The events that concern channels.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    /// A waiter of a lock needs the messages of a channel.
    Listen(Listen),
    /// The lock has no waiters any more.
    Unused(LockId),
    /// An election needs the messages of a channel.
    Watch(ElectionId, NodeId, Arc<[u8]>),
    /// An election needs no messages any more.
    Unwatch(ElectionId, NodeId),
    /// The server confirmed a subscription.
    Confirmed { node: NodeId, channel: &'a [u8] },
    /// A message arrived.
    Message {
        node: NodeId,
        channel: &'a [u8],
        payload: &'a [u8],
    },
    /// The connection that carried the subscriptions closed. The driver subscribes again on the next connection.
    Lost(NodeId),
    /// One subscription was lost. The driver subscribes again.
    LostOne { node: NodeId, channel: &'a [u8] },
}

/// The channels that are subscribed to, and the locks that use each channel.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    by_node: SortedMap<NodeId, SortedMap<Arc<[u8]>, Channel>>,
    by_lock: SortedMap<LockId, Subscriptions>,
}

#[derive(Debug, Default)]
struct Channel {
    locks: SortedSet<LockId>,
    /// The elections that use the channel.
    elections: SortedSet<ElectionId>,
    is_confirmed: bool,
}

/// The channels that the waiters of a lock use.
#[derive(Debug)]
struct Subscriptions {
    node: NodeId,
    /// The channel for releases of the lock.
    releases: Option<Subscription>,
    /// The channel for grants to waiters of this client.
    grants: Option<Arc<[u8]>>,
}

/// A channel that the waiters of a lock use.
#[derive(Debug)]
struct Subscription {
    channel: Arc<[u8]>,
    /// Whether the server has confirmed the subscription.
    is_confirmed: bool,
}

impl Channel {
    fn is_unused(&self) -> bool {
        self.locks.is_empty() && self.elections.is_empty()
    }
}

impl Channels {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input<'_>) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Listen(to) => match to.topic {
                Topic::Releases(listener) => self.subscribe_to_releases(io, to, listener),
                Topic::Grants => self.subscribe_to_grants(io, &to),
            },
            Input::Unused(lock) => {
                if let Some(subscriptions) = self.by_lock.remove(&lock) {
                    let releases = subscriptions.releases.map(|releases| releases.channel);
                    for channel in releases.into_iter().chain(subscriptions.grants) {
                        self.unsubscribe(io, lock, subscriptions.node, channel);
                    }
                }
            }
            Input::Watch(election, node, channel) => self.watch(io, election, node, channel),
            Input::Unwatch(election, node) => self.unwatch(io, election, node),
            Input::Confirmed { node, channel } => self.confirmed(io, node, channel),
            Input::Message { node, channel, payload } => {
                self.tell_elections(io, node, channel);
                for lock in self.locks(node, channel) {
                    let subscriptions = self.by_lock.get(&lock);
                    let is_grant =
                        subscriptions.is_some_and(|subscriptions| subscriptions.grants.as_deref() == Some(channel));
                    io.step(if is_grant {
                        let payload = payload.to_vec();
                        Step::Fair(FairInput::GrantMessage { lock, payload })
                    } else {
                        Step::Waiter(WaiterInput::ReleaseMessage(lock))
                    });
                }
            }
            Input::Lost(node) => self.lost(node),
            Input::LostOne { node, channel } => self.lost_one(node, channel),
        }
        transitions::after(self, io, &before);
    }

    /// Whether the client uses the channel for releases of this lock.
    pub(crate) fn is_listening(&self, lock: LockId) -> bool {
        self.by_lock
            .get(&lock)
            .is_some_and(|subscriptions| subscriptions.releases.is_some())
    }

    /// Returns how many of the `listeners`, which received a message about a lock, belong to other clients.
    pub(crate) fn others(&self, lock: LockId, listeners: u32) -> u32 {
        let releases = self
            .by_lock
            .get(&lock)
            .and_then(|subscriptions| subscriptions.releases.as_ref());
        match releases {
            Some(Subscription { is_confirmed: true, .. }) => listeners.saturating_sub(1),
            _ => listeners,
        }
    }

    /// Returns the number of channels that are subscribed to.
    pub(crate) fn len(&self) -> usize {
        self.by_node.values().map(SortedMap::len).sum()
    }

    fn subscriptions(&mut self, to: &Listen) -> &mut Subscriptions {
        self.by_lock.get_or_insert_with(to.lock, || Subscriptions {
            node: to.node,
            releases: None,
            grants: None,
        })
    }

    /// Subscribes to the channel for releases of a lock. If the channel was confirmed earlier, for another lock that
    /// uses it, a message for this lock may have arrived already, so the waiters ask the server.
    fn subscribe_to_releases(&mut self, io: &mut Io, to: Listen, listener: Listener) {
        let lock = to.lock;
        if self.is_listening(lock) {
            return;
        }
        let is_confirmed = self.subscribe(io, &to);
        let subscriptions = self.subscriptions(&to);
        subscriptions.releases = Some(Subscription {
            channel: to.channel,
            is_confirmed,
        });
        if is_confirmed {
            io.step(match listener {
                Listener::Waiter(ticket) => Step::Waiter(WaiterInput::AnswerMayBeStale(ticket)),
                Listener::ServerQueue => Step::Fair(FairInput::PollSoon(lock)),
            });
        }
    }

    /// Subscribes to the channel for grants. Grant messages may be lost until the server confirms the subscription.
    /// After the confirmation the waiters ask the server.
    fn subscribe_to_grants(&mut self, io: &mut Io, to: &Listen) {
        let subscriptions = self.subscriptions(to);
        if subscriptions.grants.is_none() {
            subscriptions.grants = Some(Arc::clone(&to.channel));
            self.subscribe(io, to);
        }
    }

    /// Adds a lock to the locks that use a channel. Returns whether the server had already confirmed the channel.
    fn subscribe(&mut self, io: &mut Io, to: &Listen) -> bool {
        let channels = self.by_node.get_or_default(to.node);
        let channel = channels.get_or_default(Arc::clone(&to.channel));
        let is_new = channel.is_unused();
        let was_confirmed = channel.locks.insert(to.lock) && channel.is_confirmed;
        if is_new {
            io.subscribe(to.node, Arc::clone(&to.channel));
        }
        was_confirmed
    }

    /// Removes a lock from the locks that use a channel, and unsubscribes after the last one.
    fn unsubscribe(&mut self, io: &mut Io, lock: LockId, node: NodeId, name: Arc<[u8]>) {
        let Some(channels) = self.by_node.get_mut(&node) else {
            return;
        };
        let Some(channel) = channels.get_mut(&name) else { return };
        if channel.locks.remove(&lock) && channel.is_unused() {
            channels.remove(&name);
            io.unsubscribe(node, name);
        }
    }

    /// Adds an election to those that use a channel.
    fn watch(&mut self, io: &mut Io, election: ElectionId, node: NodeId, name: Arc<[u8]>) {
        let channel = self.by_node.get_or_default(node).get_or_default(Arc::clone(&name));
        let is_new = channel.is_unused();
        channel.elections.insert(election);
        if is_new {
            io.subscribe(node, name);
        }
    }

    /// Removes an election from those that use a channel, and unsubscribes if nothing uses the channel any more.
    fn unwatch(&mut self, io: &mut Io, election: ElectionId, node: NodeId) {
        let Some(channels) = self.by_node.get_mut(&node) else {
            return;
        };
        let of_election = channels
            .iter()
            .find(|(_, channel)| channel.elections.contains(&election));
        let Some(name) = of_election.map(|(name, _)| Arc::clone(name)) else {
            return;
        };
        if let Some(channel) = channels.get_mut(&name) {
            channel.elections.remove(&election);
            if channel.is_unused() {
                channels.remove(&name);
                io.unsubscribe(node, name);
            }
        }
    }

    /// Tells the elections of a channel that something may have changed.
    fn tell_elections(&self, io: &mut Io, node: NodeId, name: &[u8]) {
        let channel = self.by_node.get(&node).and_then(|channels| channels.get(name));
        for election in channel.into_iter().flat_map(|channel| channel.elections.iter()) {
            io.step(Step::Election(ElectionInput::MayHaveChanged(*election)));
        }
    }

    /// Notes that the server confirmed a subscription. Messages that were published earlier are lost, so the waiters
    /// ask the server at once.
    fn confirmed(&mut self, io: &mut Io, node: NodeId, name: &[u8]) {
        let channels = self.by_node.get_mut(&node);
        let Some(channel) = channels.and_then(|channels| channels.get_mut(name)) else {
            return;
        };
        channel.is_confirmed = true;
        self.set_confirmed(node, name);
        self.tell_elections(io, node, name);
        for lock in self.locks(node, name) {
            io.step(Step::Waiter(WaiterInput::MayBeFree(lock)));
        }
    }

    fn lost(&mut self, node: NodeId) {
        let channels = self.by_node.get_mut(&node).into_iter().flat_map(SortedMap::iter_mut);
        let names: Vec<Arc<[u8]>> = channels
            .map(|(name, channel)| {
                channel.is_confirmed = false;
                Arc::clone(name)
            })
            .collect();
        for name in names {
            self.set_confirmed(node, &name);
        }
    }

    fn lost_one(&mut self, node: NodeId, name: &[u8]) {
        let channels = self.by_node.get_mut(&node);
        if let Some(channel) = channels.and_then(|channels| channels.get_mut(name)) {
            channel.is_confirmed = false;
            self.set_confirmed(node, name);
        }
    }

    /// Stores for each lock of a channel whether the client receives messages about releases.
    fn set_confirmed(&mut self, node: NodeId, name: &[u8]) {
        let channel = self.by_node.get(&node).and_then(|channels| channels.get(name));
        let is_confirmed = channel.is_some_and(|channel| channel.is_confirmed);
        for lock in self.locks(node, name) {
            let releases = self
                .by_lock
                .get_mut(&lock)
                .and_then(|subscriptions| subscriptions.releases.as_mut());
            if let Some(releases) = releases.filter(|releases| *releases.channel == *name) {
                releases.is_confirmed = is_confirmed;
            }
        }
    }

    /// Returns the locks that a message on this channel is for.
    fn locks(&self, node: NodeId, name: &[u8]) -> Vec<LockId> {
        let channel = self.by_node.get(&node).and_then(|channels| channels.get(name));
        channel.map_or_else(Vec::new, |channel| channel.locks.iter().copied().collect())
    }
}
