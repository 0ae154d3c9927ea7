//! Tests of the channels without the other machines.

use super::*;
use crate::kinds::Kind;
use crate::machines::bench::{Bench, NODE, keys};
use crate::types::Transmit;

const RELEASES: Topic = Topic::Releases(Listener::ServerQueue);

struct Alone {
    bench: Bench,
    channels: Channels,
    lock: LockId,
    name: Arc<[u8]>,
}

impl Alone {
    /// Makes the channels of a client that has requested one subscription, for messages about this topic.
    fn listening(topic: Topic) -> Self {
        let mut alone = Self {
            bench: Bench::new(),
            channels: Channels::default(),
            lock: LockId::default(),
            name: keys(Kind::Fair).channel().unwrap(),
        };
        let to = alone.to(alone.lock, topic);
        alone.input(Input::Listen(to));
        alone
    }

    fn to(&self, lock: LockId, topic: Topic) -> Listen {
        Listen {
            lock,
            node: NODE,
            channel: Arc::clone(&self.name),
            topic,
        }
    }

    fn confirmed() -> Self {
        let mut alone = Self::listening(RELEASES);
        alone.confirm();
        alone
    }

    fn confirm(&mut self) {
        let name = Arc::clone(&self.name);
        self.input(Input::Confirmed {
            node: NODE,
            channel: &name,
        });
    }

    fn lose(&mut self, channel: &[u8]) {
        self.input(Input::LostOne { node: NODE, channel });
    }

    fn input(&mut self, input: Input<'_>) {
        self.bench.io.take_steps();
        self.channels.input(&mut self.bench.io, input);
    }

    fn last_transmit(&mut self) -> Option<Transmit> {
        std::iter::from_fn(|| self.bench.io.next_transmit()).last()
    }
}

#[test]
fn a_channel_is_subscribed_once_and_counts_when_the_server_confirms_it() {
    for topic in [RELEASES, Topic::Grants] {
        let mut alone = Alone::listening(topic);
        assert!(matches!(alone.last_transmit(), Some(Transmit::Subscribe { .. })));
        alone.confirm();
        assert!(matches!(
            alone.bench.io.steps(),
            [Step::Waiter(WaiterInput::MayBeFree(_))]
        ));
    }
}

#[test]
fn only_a_confirmed_subscription_counts_among_the_listeners_of_a_release() {
    let alone = Alone::listening(RELEASES);
    assert_eq!(alone.channels.others(alone.lock, 3), 3);
    let mut alone = Alone::confirmed();
    assert_eq!(alone.channels.others(alone.lock, 3), 2);
    alone.input(Input::Lost(NODE));
    assert_eq!(alone.channels.others(alone.lock, 3), 3);
}

#[test]
fn the_loss_of_one_subscription_affects_no_other() {
    let mut alone = Alone::confirmed();
    alone.lose(b"another");
    assert_eq!(alone.channels.others(alone.lock, 3), 2);
    alone.lose(&Arc::clone(&alone.name));
    assert_eq!(alone.channels.others(alone.lock, 3), 3);
    alone.confirm();
    assert_eq!(alone.channels.others(alone.lock, 3), 2);
}

#[test]
fn a_channel_without_waiters_is_unsubscribed() {
    for mut alone in [
        Alone::listening(RELEASES),
        Alone::listening(Topic::Grants),
        Alone::confirmed(),
    ] {
        alone.input(Input::Unused(alone.lock));
        assert!(matches!(alone.last_transmit(), Some(Transmit::Unsubscribe { .. })));
        assert_eq!(alone.channels.len(), 0);
    }
}

#[test]
fn a_message_reports_a_release_or_a_grant() {
    for topic in [RELEASES, Topic::Grants] {
        let mut alone = Alone::listening(topic);
        alone.input(Input::Message {
            node: NODE,
            channel: &Arc::clone(&alone.name),
            payload: b"0",
        });
        let is_grant = matches!(alone.bench.io.steps(), [Step::Fair(FairInput::GrantMessage { .. })]);
        assert_eq!(is_grant, matches!(topic, Topic::Grants));
    }
}

#[test]
fn a_lock_that_joins_a_confirmed_channel_polls_soon() {
    let mut alone = Alone::confirmed();
    let to = alone.to(alone.lock.next(), RELEASES);
    alone.input(Input::Listen(to));
    assert!(matches!(alone.bench.io.steps(), [Step::Fair(FairInput::PollSoon(_))]));
}

#[test]
fn a_channel_is_subscribed_while_an_election_uses_it() {
    for is_confirmed in [false, true] {
        let mut alone = Alone::listening(RELEASES);
        let lock = alone.lock;
        alone.input(Input::Unused(lock));
        let (election, name) = (ElectionId::default(), Arc::clone(&alone.name));
        alone.input(Input::Watch(election, NODE, name));
        assert!(matches!(alone.last_transmit(), Some(Transmit::Subscribe { .. })));
        if is_confirmed {
            // Messages from before the subscription are lost, so the election asks.
            alone.confirm();
            assert!(matches!(
                alone.bench.io.steps(),
                [Step::Election(ElectionInput::MayHaveChanged(_))]
            ));
        }
        alone.input(Input::Unwatch(election, NODE));
        assert!(matches!(alone.last_transmit(), Some(Transmit::Unsubscribe { .. })));
    }
}
