//! A primary that sentinels watch: they name the primary, and report when another server becomes the primary.
//!
//! ```text
//!   asking ───── a round names a server, which says itself that it is a primary ─► connected
//!   asking ───── none is named, or the server is a replica ─► asking, after a pause
//!   connected ── a connection to the primary is lost ───────► asking: a round comes before the next attempt
//!   connected ── a round names another server ──────────────► calls and subscriptions go to that server
//! ```
//!
//! The client connects to every sentinel of the URL, and to at most 16 others that they name; one sentinel in the URL
//! is enough. In a round of questions, all sentinels are asked. A sentinel is also asked when it reports a switch, when
//! it is connected again, and at intervals while the client is in use. While the client is connected, a round begins
//! when an answer is newer than the known one, or changes to another primary. No answer counts before its [`Round`] is
//! over. The client only uses a server whose own greeting says that it is a primary.
//!
//! A single sentinel may announce a newer epoch (the number of a failover) than all others. A majority of the sentinels
//! agreed to that epoch, and every other sentinel adopts the epoch when it learns of it. The newest answer of a round
//! is therefore followed, even if only one sentinel gives it.

mod answer;
#[cfg(feature = "admin")]
pub(super) mod lookup;
mod round;
mod watcher;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use steadlock_protocol::{CallId, Instant, Transmit};
use tokio::sync::watch;

use self::answer::{Answer, Choice, Trust};
use self::round::{KnownSentinel, Round};
use self::watcher::{Origin, Watcher, WatcherEvent, WatcherReply};
use super::address::Address;
use super::connect::Connector;
use super::failure::Failure;
use super::peers::Peers;
use super::primary::PrimaryAddress;
use super::server_kind::ServerKind;
use super::{FirstFailure, Redis, State};
use crate::settings::Settings;
use crate::target::{Scheme, Target};
use crate::transport::{Transport, TransportEvent};

/// The shortest pause between two rounds of questions.
const SHORTEST_ROUND_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two rounds of questions.
const LONGEST_ROUND_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause between two attempts to connect to the primary, or to a sentinel of the URL.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause for a sentinel that others name. It is longer, because such a sentinel may be unreachable from
/// here.
const LONGEST_PAUSE_OF_OTHERS: Duration = Duration::from_secs(10);
/// The largest number of sentinels to connect to, beside those of the URL.
const MAX_OTHERS: usize = 16;

/// A service of sentinels, and the connections to its primary.
pub(in crate::transport) struct Sentinel {
    settings: Arc<Settings>,
    target: Target,
    service: Arc<str>,
    redis: Redis,
    watchers: BTreeMap<Address, Watcher>,
    /// The primary's address, as the connections to the primary see it.
    primary_address: watch::Sender<PrimaryAddress>,
    /// The answer that the client followed last.
    known: Option<Answer>,
    round: Option<Round>,
    /// Whether another round is needed: a sentinel names another primary than before, or the primary is not known or
    /// not confirmed.
    is_round_requested: bool,
    /// The earliest time of the next round.
    not_before: Instant,
    pause: Duration,
    is_in_use: bool,
    /// The time until which failures of the first connection are retried.
    first_attempt_until: Option<Instant>,
}

impl Sentinel {
    pub(in crate::transport) fn open(
        settings: &Arc<Settings>,
        target: &Target,
        first: FirstFailure,
        peers: Option<Peers>,
    ) -> Self {
        let (configured, service) = match &target.scheme {
            Scheme::Sentinel { sentinels, service, .. } => (sentinels.as_slice(), service.as_str().into()),
            _ => (&[][..], "".into()),
        };
        let primary_address = watch::Sender::new(PrimaryAddress::Pending);
        let connector = Connector::for_sentinels(settings, target, primary_address.clone(), peers)
            .with_longest_pause(LONGEST_PAUSE);
        let mut this = Self {
            settings: Arc::clone(settings),
            target: target.clone(),
            service,
            redis: Redis::with(Arc::new(connector), settings, first),
            watchers: BTreeMap::new(),
            primary_address,
            known: None,
            round: None,
            is_round_requested: false,
            not_before: Instant::ZERO,
            pause: SHORTEST_ROUND_PAUSE,
            is_in_use: false,
            first_attempt_until: None,
        };
        for (host, port) in configured {
            this.watch(Address::new(host, *port), Origin::Url);
        }
        this
    }

    fn watch(&mut self, address: Address, origin: Origin) {
        let target = self.target.sentinel_target(&address.host, address.port);
        let connector = match origin {
            Origin::Url => {
                Connector::new(&self.settings, &target, ServerKind::Sentinel, None).with_longest_pause(LONGEST_PAUSE)
            }
            Origin::Announced => Connector::announced(&self.settings, &target, ServerKind::Sentinel)
                .with_longest_pause(LONGEST_PAUSE_OF_OTHERS),
        };
        let watcher = Watcher::new(&self.settings, connector, &self.service, origin);
        self.watchers.insert(address, watcher);
    }

    /// Whether attempts to connect wait for an answer of the sentinels.
    fn is_primary_pending(&self) -> bool {
        matches!(*self.primary_address.borrow(), PrimaryAddress::Pending)
    }

    /// Whether the client may connect to the primary.
    fn is_primary_known(&self) -> bool {
        matches!(*self.primary_address.borrow(), PrimaryAddress::Known(_))
    }

    fn poll_watchers(&mut self, context: &mut Context<'_>, now: Instant) {
        let mut events = Vec::new();
        let mut watcher_events = Vec::new();
        for (address, watcher) in &mut self.watchers {
            watcher.poll(context, now, self.is_in_use, &mut watcher_events);
            events.extend(watcher_events.drain(..).map(|event| (address.clone(), event)));
        }
        let mut is_list_due = false;
        for (address, event) in events {
            match event {
                WatcherEvent::Replied(reply) => self.on_answer(address, reply, now),
                WatcherEvent::OthersListed | WatcherEvent::Lost => is_list_due = true,
                WatcherEvent::Failed(failure) => {
                    is_list_due = true;
                    if let Some(round) = &mut self.round {
                        round.add_failure(&address, failure);
                    }
                }
            }
        }
        if is_list_due && self.update_watchers() {
            // The new watchers must be polled, too.
            context.waker().wake_by_ref();
        }
    }

    /// Handles the answer of one sentinel.
    fn on_answer(&mut self, address: Address, reply: WatcherReply, now: Instant) {
        let is_newer = |answer: &Answer| answer::is_newer(answer, self.known.as_ref());
        let is_newer = reply.answer.as_ref().is_some_and(is_newer);
        if reply.is_outdated && !is_newer {
            return;
        }
        if self.round.is_none() && is_newer {
            // The other sentinels are asked at once, without the usual pause before a round.
            self.begin(Some(&address), now);
        }
        if let Some(round) = &mut self.round {
            round.add_answer(address, reply.answer, now);
        } else if let Some(answer) = reply.answer {
            let is_other = self.known.as_ref().is_some_and(|known| known.primary != answer.primary);
            self.is_round_requested |= is_other && reply.is_changed || !self.is_primary_known();
        }
    }

    /// Watches the sentinels that others name, beside those of the URL. Stops watching a sentinel that is named no more
    /// and has no connection. Returns whether some are new.
    fn update_watchers(&mut self) -> bool {
        let others = self.watchers.values().flat_map(Watcher::others);
        let named: Vec<Address> = others.map(|other| other.address.clone()).collect();
        self.watchers
            .retain(|address, watcher| watcher.is_configured() || watcher.is_open() || named.contains(address));
        let before = self.watchers.len();
        for address in named {
            let reached = self.settings.address_map.lookup(&address.host, address.port);
            if reached.is_some_and(|(host, port)| self.target.names_address(&host, port)) {
                // The URL names this sentinel already, and it must not count twice.
                continue;
            }
            let others = self
                .watchers
                .values()
                .filter(|watcher| !watcher.is_configured())
                .count();
            if others < MAX_OTHERS && !self.watchers.contains_key(&address) {
                self.watch(address, Origin::Announced);
            }
        }
        self.watchers.len() > before
    }

    /// Returns all sentinels that are known.
    fn known_sentinels(&self) -> impl Iterator<Item = KnownSentinel<'_>> {
        let others = self.watchers.values().flat_map(Watcher::others);
        let named = others.filter_map(|other| Some((&other.address, other.id.as_deref()?)));
        let ids: BTreeMap<&Address, &str> = named.collect();
        self.watchers.iter().map(move |(address, watcher)| KnownSentinel {
            address,
            id: watcher.id().or_else(|| ids.get(address).copied()),
            is_down: watcher.is_down(),
        })
    }

    /// Begins a round, and asks all sentinels but the one that has just answered.
    fn begin(&mut self, except: Option<&Address>, now: Instant) {
        self.is_round_requested = false;
        self.round = Some(if self.is_primary_known() {
            Round::background(now)
        } else {
            Round::foreground(self.settings.connect_timeout, now)
        });
        for (address, watcher) in &mut self.watchers {
            if except != Some(address) {
                watcher.ask(now);
            }
        }
    }

    /// Begins a round when it is due, and acts on its outcome when it is over.
    fn poll_round(&mut self, now: Instant, events: &mut Vec<TransportEvent>) {
        let is_due = match &self.round {
            // Answers from before the loss of a connection do not show where the next connection must go.
            Some(round) => !round.is_foreground() && !self.is_primary_known(),
            None => (self.is_round_requested || self.is_primary_pending()) && now >= self.not_before,
        };
        if is_due {
            self.begin(None, now);
        }
        let Some(mut round) = self.round.take() else { return };
        let Some(outcome) = round.outcome(self.known_sentinels(), self.known.as_ref(), now) else {
            self.round = Some(round);
            return;
        };
        self.not_before = now + self.pause;
        self.pause = self.pause.saturating_mul(2).min(LONGEST_ROUND_PAUSE);
        // A minority of sentinels may be cut off from the others, so its answers are trusted less.
        let is_missing = !self.redis.commands.is_open() && !self.redis.renewals.is_open();
        let trust = match outcome.has_majority_answered {
            true if is_missing => Trust::Older,
            true => Trust::Other,
            false if round.is_foreground() => Trust::Other,
            false => Trust::Newer,
        };
        match answer::choose(outcome.answers.iter(), self.known.as_ref(), trust) {
            Choice::Follow(answer) => self.follow(answer, now, events),
            Choice::Keep if self.is_primary_known() => {}
            Choice::Keep => self.publish_primary(),
            Choice::NoPrimary => self.no_primary(&round, events),
        }
    }

    /// Lets connections go to the known primary.
    fn publish_primary(&self) {
        if let Some(known) = &self.known {
            self.primary_address
                .send_replace(PrimaryAddress::Known(known.primary.clone()));
        }
    }

    /// Adopts an answer that has another primary or another epoch than the known one.
    fn follow(&mut self, answer: Answer, now: Instant, events: &mut Vec<TransportEvent>) {
        let known = self.known.replace(answer);
        let (Some(known), Some(answer)) = (known, &self.known) else {
            return self.publish_primary();
        };
        if known.primary != answer.primary {
            let cause = format!("the primary was {} and is {} now", known.primary, answer.primary);
            self.redis.follow(&Failure::unavailable(cause), now, events);
        }
        self.publish_primary();
    }

    /// Reports that no sentinel named a primary.
    fn no_primary(&mut self, round: &Round, events: &mut Vec<TransportEvent>) {
        let failure = round.failure(&self.service);
        if self.redis.state == State::First {
            self.redis.first_attempt_failed(failure.clone(), events);
        }
        if self.is_primary_pending() {
            self.primary_address.send_replace(PrimaryAddress::Unknown(failure));
        }
    }

    /// Handles a failed first attempt to connect to the primary.
    fn first_attempt_failed(&mut self, failure: Failure, now: Instant, events: &mut Vec<TransportEvent>) {
        // The server may just be going down or being demoted, and the sentinels may name another one soon.
        let may_pass = self.redis.first == FirstFailure::Fatal
            && !failure.is_lasting()
            && self.first_attempt_until.is_some_and(|until| now < until);
        if !may_pass {
            self.redis.first_attempt_failed(failure, events);
        }
    }
}

impl Transport for Sentinel {
    fn transmit(&mut self, item: Transmit) {
        self.redis.transmit(item);
    }

    fn flush(&mut self, now: Instant, sent: &mut dyn FnMut(CallId)) {
        self.redis.flush(now, sent);
    }

    fn poll(&mut self, context: &mut Context<'_>, now: Instant, events: &mut Vec<TransportEvent>) {
        if self.redis.state == State::Failed {
            return;
        }
        self.first_attempt_until
            .get_or_insert(now + self.settings.connect_timeout);
        self.poll_watchers(context, now);
        self.poll_round(now, events);
        if self.redis.state == State::Failed {
            return;
        }
        let failure = self.redis.poll_lanes(context, now, events);
        if self.redis.state == State::First
            && let Some(failure) = failure
        {
            self.first_attempt_failed(failure, now, events);
        }
        self.redis.poll_peer_check(context, now, events);
        self.redis.poll_subscriptions(context, now, events);
        self.redis.report_opened(now, events);
        if self.redis.every_lane_is_open() {
            self.pause = SHORTEST_ROUND_PAUSE;
        }
        // A connection that was just lost needs a new round.
        self.poll_round(now, events);
    }

    fn set_in_use(&mut self, is_in_use: bool) {
        self.is_in_use = is_in_use;
        self.redis.set_in_use(is_in_use);
    }

    fn restart(&mut self, now: Instant, events: &mut Vec<TransportEvent>) -> bool {
        for (address, watcher) in mem::take(&mut self.watchers) {
            self.watch(address, watcher.origin());
        }
        self.round = None;
        self.is_round_requested = true;
        self.redis.restart(now, events)
    }

    fn set_shortest_lease(&mut self, lease: Option<Duration>) {
        self.redis.set_shortest_lease(lease);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.redis.state == State::Failed {
            return None;
        }
        let round = match &self.round {
            Some(round) => round.poll_timeout(),
            None => Some(self.not_before).filter(|_| self.is_round_requested || self.is_primary_pending()),
        };
        let watchers = self
            .watchers
            .values()
            .filter_map(|watcher| watcher.poll_timeout(self.is_in_use));
        watchers.chain(round).chain(self.redis.poll_timeout()).min()
    }

    fn every_lane_is_open(&self) -> bool {
        self.redis.every_lane_is_open()
    }
}
