//! A Redis or Valkey server: three connections, each kept open by itself.
//!
//! Commands, renewals and subscriptions have a connection each, so that none of
//! them queues behind another, and so that nothing a subscription brings can be
//! taken for a command's reply. Each is lost and found by itself.
//!
//! ```text
//!             ┌──────── fails: wait 0–50 ms, then 50 ms … 1 s ◄───────┐
//!             ▼                                                       │
//!   Connecting ── handshake, version, role ──► Open ── closed, silent,┘
//!                                                      no primary
//! ```
//!
//! All three are to one server (`identity.rs`), whichever of a name's addresses that is
//! (`choice.rs`).
//!
//! Only a server that is no primary any more takes all three with it: it keeps its
//! connections when it is demoted, and the address may lead elsewhere by now. Whether
//! it is one still is asked now and then while the client has something there.

mod address;
mod choice;
pub(super) mod cluster;
mod connect;
mod dial;
mod failure;
mod identity;
mod in_flight;
mod lane;
#[cfg(feature = "admin")]
mod link;
mod membership;
mod outage;
pub(super) mod peers;
mod permission;
mod place;
mod primary;
mod probe;
mod proof;
mod purpose;
mod resolve;
mod resp;
mod role;
mod scan;
pub(super) mod sentinel;
mod socket;
mod subscriptions;
mod tls;
#[cfg(feature = "admin")]
pub(crate) mod tools;
mod way;
mod wire;

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use steadlock_protocol::{CallId, Instant, Lane, Transmit};

use super::interface::{NODE, Seen, Transport};
use crate::settings::Settings;
use crate::target::Target;
use crate::world::Defect;

use self::connect::Connector;
use self::failure::Failure;
use self::lane::LaneLink;
use self::membership::Membership;
use self::peers::Peers;
use self::proof::Proof;
use self::subscriptions::SubscriptionLink;

/// One server and its connections.
pub(super) struct Redis {
    connector: Arc<Connector>,
    commands: LaneLink,
    renewals: LaneLink,
    subscriptions: SubscriptionLink,
    proof: Proof,
    state: State,
    first: Failing,
    /// Both lanes are open, and that was told.
    is_ready: bool,
    /// Subscriptions have a connection.
    hears: bool,
}

/// What it means when the first attempt to connect fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failing {
    /// The client cannot be used.
    IsFatal,
    /// It is tried again, unless the server is one that locks cannot work with.
    MayPass,
    /// Nothing more than a later one: the client was connected before.
    IsAnOutage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A failure to connect ends the client.
    First,
    /// Each connection is told of by itself.
    Told,
    /// Connecting failed at first; nothing is tried again.
    Failed,
}

impl Redis {
    /// `first` is what a failure of the first attempt means; with `peers`, the server
    /// must be none of theirs.
    pub(super) fn open(settings: &Arc<Settings>, target: &Target, first: Failing, peers: Option<Peers>) -> Self {
        let connector = Connector::new(settings, target, Membership::Alone, peers);
        Self::with(Arc::new(connector), settings, first)
    }

    fn with(connector: Arc<Connector>, settings: &Settings, first: Failing) -> Self {
        Self {
            commands: LaneLink::new(&connector, settings, Lane::Command),
            renewals: LaneLink::new(&connector, settings, Lane::Renewal),
            subscriptions: SubscriptionLink::new(&connector, settings),
            proof: Proof::new(&connector),
            connector,
            state: match first {
                Failing::IsFatal | Failing::MayPass => State::First,
                Failing::IsAnOutage => State::Told,
            },
            first,
            is_ready: false,
            hears: false,
        }
    }

    /// Moves a lane on. Says why it has no connection any more, or still none.
    fn poll_lane(
        &mut self,
        lane: Lane,
        context: &mut Context<'_>,
        now: Instant,
        seen: &mut Vec<Seen>,
    ) -> Option<Failure> {
        let link = match lane {
            Lane::Command => &mut self.commands,
            Lane::Renewal => &mut self.renewals,
        };
        let was_told = link.is_told();
        let failure = link.poll(context, now, seen)?;
        if !was_told && self.state == State::Told {
            // The cause may become clearer with each try.
            seen.push(Seen::Closed(NODE, lane, failure.cause().clone()));
        }
        Some(failure)
    }

    /// The server is no primary any more: no connection to it is of use.
    fn leave(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        self.renewals.give_up(failure, now, seen);
        self.commands.give_up(failure, now, seen);
        self.subscriptions.give_up(now);
    }

    /// The primary is elsewhere now: connects to it, and leaves what there is.
    fn follow(&mut self, failure: &Failure, now: Instant, seen: &mut Vec<Seen>) {
        self.renewals.follow(failure, now, seen);
        self.commands.follow(failure, now, seen);
        self.subscriptions.follow(now);
    }

    /// Moves both lanes on. Says why one has no connection any more, or still none.
    fn poll_lanes(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) -> Option<Failure> {
        let renewals = self.poll_lane(Lane::Renewal, context, now, seen);
        let commands = self.poll_lane(Lane::Command, context, now, seen);
        let demotion = [&commands, &renewals].into_iter().flatten().find(|of| of.is_demotion());
        if let Some(demotion) = demotion {
            self.leave(demotion, now, seen);
        }
        self.answer_questions(now);
        commands.or(renewals)
    }

    /// Has what a connection that is being made asks found out on one that there is.
    fn answer_questions(&mut self, now: Instant) {
        for question in self.connector.identity.take_questions() {
            // If neither is open, nobody is told anything: the client is nowhere.
            let _ = self
                .renewals
                .read(question, now)
                .or_else(|question| self.commands.read(question, now));
        }
    }

    /// Looks whether it is none of the other primaries, if they had reason to; else it is left.
    fn poll_proof(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) {
        // A connection that is being made looks by itself: it may lead elsewhere now.
        let is_open = self.commands.is_open() && self.renewals.is_open();
        if let Some(failure) = self.proof.poll(context, now, is_open) {
            self.leave(&failure, now, seen);
        }
    }

    /// Moves the subscriptions on. Nothing is lost with them: each waiter polls, and asks again
    /// once its channel is confirmed on the next connection.
    fn poll_subscriptions(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) {
        if let Some(server) = self.connector.identity.server() {
            self.subscriptions.leave_unless_at(&server, now);
        }
        self.subscriptions.poll(context, now, self.commands.is_open(), seen);
        if self.connector.identity.is_asked() {
            // A connection that is open is to answer.
            context.waker().wake_by_ref();
        }
        let hears = self.subscriptions.is_open();
        if self.hears && !hears {
            seen.push(Seen::Deaf(NODE));
        }
        self.hears = hears;
    }

    /// The first attempt failed.
    fn failed_at_first(&mut self, failure: Failure, seen: &mut Vec<Seen>) {
        if self.first == Failing::MayPass && !failure.is_lasting() {
            self.state = State::Told;
            seen.push(Seen::Closed(NODE, Lane::Command, failure.cause().clone()));
        } else {
            // Of several primaries the others may do meanwhile, so this one is tried again.
            self.state = match self.connector.peers {
                Some(_) => State::Told,
                None => State::Failed,
            };
            seen.push(Seen::Unreachable(failure.into_error(&self.connector.node)));
        }
    }

    /// Tells what has opened.
    fn tell(&mut self, now: Instant, seen: &mut Vec<Seen>) {
        let is_ready = self.renewals.is_open() && self.commands.is_open();
        if self.state == State::First && is_ready {
            self.state = State::Told;
        }
        if self.state != State::Told {
            return;
        }
        // Renewals have their own lane if both open at once.
        if self.renewals.tell_open(seen) {
            // It may lead to another server than the other one does.
            self.commands.look_soon(now);
        }
        if self.commands.tell_open(seen) {
            self.renewals.look_soon(now);
        }
        if is_ready && !self.is_ready {
            seen.push(Seen::Ready);
        }
        self.is_ready = is_ready;
    }
}

impl Transport for Redis {
    fn transmit(&mut self, item: Transmit) {
        match item {
            Transmit::Call(call) => match call.lane {
                Lane::Command => self.commands.push(call, false),
                Lane::Renewal if self.connector.world.has(Defect::WatchdogStopsWithCommands) => {
                    self.commands.push(call, false)
                }
                Lane::Renewal => self.renewals.push(call, false),
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

    fn poll(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) {
        if self.state == State::Failed {
            return;
        }
        if let Some(failure) = self.poll_lanes(context, now, seen)
            && self.state == State::First
        {
            self.failed_at_first(failure, seen);
        }
        self.poll_proof(context, now, seen);
        self.poll_subscriptions(context, now, seen);
        self.tell(now, seen);
    }

    fn set_in_use(&mut self, is_in_use: bool) {
        self.commands.set_in_use(is_in_use);
        self.renewals.set_in_use(is_in_use);
    }

    fn set_shortest_lease(&mut self, lease: Option<Duration>) {
        self.connector.limits.set_shortest_lease(lease);
        self.renewals.set_shortest_lease(lease);
    }

    fn start_again(&mut self, now: Instant, seen: &mut Vec<Seen>) -> bool {
        self.proof = Proof::new(&self.connector);
        self.follow(&Failure::descriptors_closed(), now, seen);
        true
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // Nothing is tried again; what is open already is left alone.
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
