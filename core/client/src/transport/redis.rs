//! A Redis or Valkey server with three connections, each of which is reopened independently.
//!
//! Commands, renewals and subscriptions have one connection each; the first two are the lanes. None of them queues
//! behind another, and a message on a subscription cannot be mistaken for the reply to a command.
//!
//! ```text
//!             ┌──── a pause of 0–50 ms, later of 25 ms … 1 s ◄─────┐
//!             ▼                                                    │
//!   Connecting ── handshake, version, role ──► Open ── it closes, ─┤
//!             │                          is silent, or no primary  │
//!             └── the attempt fails ───────────────────────────────┘
//! ```
//!
//! All three connections go to the same server (`identity.rs`), even if the name in the URL leads to several
//! (`choice.rs`).
//!
//! All three are closed together only if the client must leave the server, mostly because the server was demoted, or if
//! the program has closed their descriptors. A server that is demoted to a replica keeps its connections, and the
//! address may lead to another server by now. The client therefore asks regularly whether the server is still a
//! primary, while it holds or waits for locks or owes a release.

mod address;
mod address_mapping;
mod attempt;
mod choice;
pub(super) mod cluster;
mod connect;
mod dial;
mod failure;
mod identity;
mod lane;
#[cfg(feature = "admin")]
mod link;
mod outage;
mod peer_check;
pub(super) mod peers;
mod permission;
mod primary;
mod probe;
mod role;
pub(super) mod sentinel;
mod server_kind;
mod subscriptions;
mod tls;
#[cfg(feature = "admin")]
pub(crate) mod tools;
mod wire;

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use steadlock_protocol::{CallId, Instant, Lane, Transmit};

use super::{NODE, Transport, TransportEvent};
use crate::settings::Settings;
use crate::target::Target;

use self::connect::Connector;
use self::failure::Failure;
use self::lane::LaneLink;
use self::peer_check::PeerCheck;
use self::peers::Peers;
use self::server_kind::ServerKind;
use self::subscriptions::SubscriptionLink;

/// One server and its connections.
pub(super) struct Redis {
    connector: Arc<Connector>,
    commands: LaneLink,
    renewals: LaneLink,
    subscriptions: SubscriptionLink,
    peer_check: PeerCheck,
    state: State,
    first: FirstFailure,
    /// Whether both lanes are open and `TransportEvent::Ready` was reported.
    is_ready: bool,
    /// Whether subscriptions have a connection.
    has_subscriptions: bool,
}

/// The meaning of a failure of the first attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstFailure {
    /// The client cannot be used.
    Fatal,
    /// The client tries again, unless a retry cannot help.
    Retryable,
    /// The failure is an ordinary outage, as after a lost connection.
    Outage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The two lanes were never open together. A failure to connect may end the client.
    First,
    /// The opening and the loss of each lane are reported.
    Reported,
    /// The first attempt failed, and no other follows.
    Failed,
}

impl Redis {
    /// Creates the transport. `first` is the meaning of a failure of the first attempt. `peers` stands for the other
    /// primaries of the client, from whose servers this server must differ; `None` if there are none.
    pub(super) fn open(settings: &Arc<Settings>, target: &Target, first: FirstFailure, peers: Option<Peers>) -> Self {
        let connector = Connector::new(settings, target, ServerKind::Standalone, peers);
        Self::with(Arc::new(connector), settings, first)
    }

    fn with(connector: Arc<Connector>, settings: &Settings, first: FirstFailure) -> Self {
        Self {
            commands: LaneLink::new(&connector, settings, Lane::Command),
            renewals: LaneLink::new(&connector, settings, Lane::Renewal),
            subscriptions: SubscriptionLink::new(&connector, settings),
            peer_check: PeerCheck::new(&connector),
            connector,
            state: match first {
                FirstFailure::Fatal | FirstFailure::Retryable => State::First,
                FirstFailure::Outage => State::Reported,
            },
            first,
            is_ready: false,
            has_subscriptions: false,
        }
    }

    /// Advances a lane. Returns the reason why the lane lost its connection or could not connect.
    fn poll_lane(
        &mut self,
        lane: Lane,
        context: &mut Context<'_>,
        now: Instant,
        events: &mut Vec<TransportEvent>,
    ) -> Option<Failure> {
        let link = match lane {
            Lane::Command => &mut self.commands,
            Lane::Renewal => &mut self.renewals,
        };
        let was_reported = link.is_reported();
        let failure = link.poll(context, now, events)?;
        if !was_reported && self.state == State::Reported {
            // Each failed attempt is reported, because the cause can become clearer.
            events.push(TransportEvent::LaneClosed {
                node: NODE,
                lane,
                cause: failure.cause().clone(),
            });
        }
        Some(failure)
    }

    /// Closes all connections to a server that the client must leave.
    fn give_up_all(&mut self, failure: &Failure, now: Instant, events: &mut Vec<TransportEvent>) {
        self.renewals.give_up(failure, now, events);
        self.commands.give_up(failure, now, events);
        self.subscriptions.give_up(now);
    }

    /// Closes all connections, ends the attempts to connect, and connects again; after a switch, to the new primary.
    fn follow(&mut self, failure: &Failure, now: Instant, events: &mut Vec<TransportEvent>) {
        self.renewals.follow(failure, now, events);
        self.commands.follow(failure, now, events);
        self.subscriptions.follow(now);
    }

    /// Advances both lanes. Returns the reason why a lane lost its connection or could not connect.
    fn poll_lanes(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        events: &mut Vec<TransportEvent>,
    ) -> Option<Failure> {
        let renewal_failure = self.poll_lane(Lane::Renewal, context, now, events);
        let command_failure = self.poll_lane(Lane::Command, context, now, events);
        let demotion = [&command_failure, &renewal_failure]
            .into_iter()
            .flatten()
            .find(|of| of.is_demotion());
        if let Some(demotion) = demotion {
            self.give_up_all(demotion, now, events);
        }
        self.answer_questions(now);
        command_failure.or(renewal_failure)
    }

    /// Lets an open lane answer the questions of connections that are being made (`identity.rs`).
    fn answer_questions(&mut self, now: Instant) {
        for question in self.connector.identity.take_questions() {
            // If neither lane is open, the question is dropped: the client is at no server.
            let _ = self
                .renewals
                .read_key(question, now)
                .or_else(|question| self.commands.read_key(question, now));
        }
    }

    /// If another primary requested the check, checks that this server is none of the other primaries. Gives up the
    /// connections if it is one of them.
    fn poll_peer_check(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        // A connection that is being made does this check itself, because it may lead to another server.
        let is_open = self.commands.is_open() && self.renewals.is_open();
        if let Some(failure) = self.peer_check.poll(context, now, is_open) {
            self.give_up_all(&failure, now, events);
        }
    }

    /// Advances the subscriptions. A lost connection loses no grant: each waiter polls, and asks again when its channel
    /// is confirmed on the next connection.
    fn poll_subscriptions(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        if let Some(server) = self.connector.identity.server() {
            self.subscriptions.leave_unless_at(&server, now);
        }
        self.subscriptions.poll(context, now, self.commands.is_open(), events);
        if self.connector.identity.has_questions() {
            // The next turn lets an open lane answer the question.
            context.waker().wake_by_ref();
        }
        let has_subscriptions = self.subscriptions.is_open();
        if self.has_subscriptions && !has_subscriptions {
            events.push(TransportEvent::SubscriptionsLost(NODE));
        }
        self.has_subscriptions = has_subscriptions;
    }

    /// Handles a failure of the first attempt.
    fn first_attempt_failed(&mut self, failure: Failure, events: &mut Vec<TransportEvent>) {
        if self.first == FirstFailure::Retryable && !failure.is_lasting() {
            self.state = State::Reported;
            events.push(TransportEvent::LaneClosed {
                node: NODE,
                lane: Lane::Command,
                cause: failure.cause().clone(),
            });
        } else {
            // With several primaries the others may suffice meanwhile, so this one keeps trying.
            self.state = match self.connector.peers {
                Some(_) => State::Reported,
                None => State::Failed,
            };
            events.push(TransportEvent::Unreachable(failure.into_error(&self.connector.node)));
        }
    }

    /// Reports the lanes that have opened.
    fn report_opened(&mut self, now: Instant, events: &mut Vec<TransportEvent>) {
        let is_ready = self.renewals.is_open() && self.commands.is_open();
        if self.state == State::First && is_ready {
            self.state = State::Reported;
        }
        if self.state != State::Reported {
            return;
        }
        // Renewals first: if both lanes open in one poll, the session would otherwise send renewals on the command
        // lane.
        if self.renewals.report_open(events) {
            // The new connection may lead to another server than the other lane's.
            self.commands.check_role_soon(now);
        }
        if self.commands.report_open(events) {
            self.renewals.check_role_soon(now);
        }
        if is_ready && !self.is_ready {
            events.push(TransportEvent::Ready);
        }
        self.is_ready = is_ready;
    }
}

impl Transport for Redis {
    fn transmit(&mut self, item: Transmit) {
        match item {
            Transmit::Call(call) => match call.lane {
                Lane::Command => self.commands.push(call.into()),
                Lane::Renewal => self.renewals.push(call.into()),
            },
            Transmit::Subscribe { channel, .. } => self.subscriptions.subscribe(channel),
            Transmit::Unsubscribe { channel, .. } => self.subscriptions.unsubscribe(&channel),
        }
    }

    fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId)) {
        if self.state == State::Failed {
            return;
        }
        self.commands.flush(now, sent);
        self.renewals.flush(now, sent);
        self.subscriptions.flush();
    }

    fn poll(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        if self.state == State::Failed {
            return;
        }
        if let Some(failure) = self.poll_lanes(context, now, events)
            && self.state == State::First
        {
            self.first_attempt_failed(failure, events);
        }
        self.poll_peer_check(context, now, events);
        self.poll_subscriptions(context, now, events);
        self.report_opened(now, events);
    }

    fn set_in_use(&mut self, is_in_use: bool) {
        self.commands.set_in_use(is_in_use);
        self.renewals.set_in_use(is_in_use);
    }

    fn set_shortest_lease(&mut self, lease: Option<Duration>) {
        self.connector.limits.set_shortest_lease(lease);
        self.renewals.set_shortest_lease(lease);
    }

    fn restart(&mut self, now: Instant, events: &mut Vec<TransportEvent>) -> bool {
        self.peer_check = PeerCheck::new(&self.connector);
        self.follow(&Failure::descriptors_closed(), now, events);
        true
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // No attempt follows, and open connections are no longer polled.
        if self.state == State::Failed {
            return None;
        }
        [
            self.commands.poll_timeout(),
            self.renewals.poll_timeout(),
            self.subscriptions.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn every_lane_is_open(&self) -> bool {
        self.commands.is_open() && self.renewals.is_open()
    }
}
