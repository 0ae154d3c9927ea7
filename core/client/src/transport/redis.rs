//! A Redis or Valkey server: three connections, each kept open by itself.
//!
//! Commands, renewals and subscriptions have a connection each, so that none of
//! them queues behind another, and so that nothing a subscription brings can be
//! taken for a command's reply.
//!
//! ```text
//!             ┌───────────── fails: wait 0, then 50 ms … 1 s ◄────────────┐
//!             ▼                                                           │
//!   Connecting ── handshake, version, scripts ──► Open ── closed, silent ─┘
//! ```

pub(super) mod connect;
mod lane;
mod permission;
mod subscriptions;
mod tls;

use std::sync::Arc;
use std::task::Context;

use leasehold_protocol::{CallId, Error, Instant, Lane, NodeId, Transmit};

use super::{Seen, Transport};
use crate::host::Settings;
use crate::target::Target;

use self::connect::{Connector, Failure, Peers};
use self::lane::LaneLink;
use self::subscriptions::SubscriptionLink;

/// One server and its connections.
pub(super) struct Redis {
    connector: Arc<Connector>,
    commands: LaneLink,
    renewals: LaneLink,
    subscriptions: SubscriptionLink,
    state: State,
    first: First,
}

/// What it means when the first try to connect fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The client cannot be used.
    IsFatal,
    /// Others may make up for it, unless the server is one that locks cannot work with.
    MayFail,
    /// Nothing: the client was connected before.
    WasMade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A failure to connect ends the client.
    First,
    /// Not both lanes are open.
    Down,
    /// Both are. The subscriptions may be down: then the waiters poll.
    Up,
    /// Connecting failed at first; nothing is tried again.
    Failed,
}

const NODE: NodeId = NodeId(0);

impl Redis {
    /// `first` is what a failure of the first try means; with `peers`, the server
    /// must be none of theirs.
    pub(super) fn open(
        settings: &Arc<Settings>,
        target: &Target,
        first: First,
        peers: Option<Peers>,
    ) -> Result<Self, Error> {
        let connector = Arc::new(Connector::new(settings, target, peers)?);
        Ok(Self {
            commands: LaneLink::new(&connector, settings, Lane::Command),
            renewals: LaneLink::new(&connector, settings, Lane::Renewal),
            subscriptions: SubscriptionLink::new(&connector, settings),
            connector,
            state: match first {
                First::IsFatal | First::MayFail => State::First,
                First::WasMade => State::Down,
            },
            first,
        })
    }

    /// Compares what is open with what was said about it.
    fn tell(&mut self, failure: Option<Failure>, seen: &mut Vec<Seen>) {
        let is_up = self.commands.is_open() && self.renewals.is_open();
        match (self.state, is_up) {
            (State::First | State::Down, true) => {
                self.state = State::Up;
                seen.push(Seen::Connected(NODE));
                seen.push(Seen::Ready);
            }
            (State::First, false) => {
                if let Some(failure) = failure {
                    if self.first == First::MayFail && !failure.is_lasting() {
                        self.state = State::Down;
                        seen.push(Seen::Disconnected(NODE, self.cause(Some(failure))));
                        return;
                    }
                    self.state = State::Failed;
                    seen.push(Seen::Unreachable(failure.into_error(&self.connector.node)));
                }
            }
            (State::Up, false) => {
                self.state = State::Down;
                seen.push(Seen::Disconnected(NODE, self.cause(failure)));
            }
            // The cause may become clearer with each try.
            (State::Down, false) => {
                if failure.is_some() {
                    seen.push(Seen::Disconnected(NODE, self.cause(failure)));
                }
            }
            (State::Up, true) | (State::Failed, _) => {}
        }
    }

    fn cause(&self, failure: Option<Failure>) -> String {
        match failure {
            Some(failure) => format!("{}: {}", self.connector.node, failure.cause()),
            None => format!("{}: the connection closed", self.connector.node),
        }
    }
}

impl Transport for Redis {
    fn transmit(&mut self, item: Transmit) {
        match item {
            Transmit::Call(call) => match call.lane {
                Lane::Command => self.commands.push(call),
                Lane::Renewal => self.renewals.push(call),
            },
            Transmit::Subscribe { channel, .. } => self.subscriptions.subscribe(channel),
            Transmit::Unsubscribe { channel, .. } => self.subscriptions.unsubscribe(&channel),
        }
    }

    fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId)) {
        self.commands.flush(now, sent);
        self.renewals.flush(now, sent);
        self.subscriptions.flush();
    }

    fn poll(&mut self, context: &mut Context<'_>, now: Instant, seen: &mut Vec<Seen>) {
        if self.state == State::Failed {
            return;
        }
        // A connection's end is told before its calls are answered, and its
        // opening after everything that came of the one before it.
        let mut replies = Vec::new();
        let commands = self.commands.poll(context, now, &mut replies);
        let renewals = self.renewals.poll(context, now, &mut replies);
        let mut failure = commands.or(renewals);
        // Nothing is lost with the subscriptions: each waiter polls, and asks again
        // once its channel is confirmed on the next connection.
        drop(self.subscriptions.poll(context, now, &mut replies));
        let went_down = self.state == State::Up && failure.is_some();
        if went_down {
            self.state = State::Down;
            let cause = self.cause(failure.take());
            seen.push(Seen::Disconnected(NODE, cause));
        }
        seen.append(&mut replies);
        self.tell(failure, seen);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [
            self.commands.poll_timeout(),
            self.renewals.poll_timeout(),
            self.subscriptions.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
