//! A primary that sentinels watch: they name the primary, and report when another server becomes it.
//!
//! ```text
//!             a round names a primary: its address, then its own greeting
//!   asking ────────────────────────────────────────────────────► connected
//!     ▲  ▲── none is named, or it is a replica: later ─────┐         │
//!     │                                                    │         │
//!     └── a connection to it is lost ◄─────────────────────┴─────────┤
//!         all are asked before the next attempt                      │
//!                                                                    │
//!   connected to the new one ◄── a round ◄── a newer answer, or one that is changed
//!         calls and subscriptions go there       ◄── a switch, or a new connection to a sentinel: it is asked
//! ```
//!
//! The client connects to every sentinel, including those that the others name; one of them in the URL is enough. No
//! answer counts before its [`Round`] is over. The client only uses a server whose own greeting says that it is a
//! primary.
//!
//! A single sentinel may announce a newer epoch than all others. A majority of the sentinels granted that epoch, and
//! every other sentinel adopts it when it learns of it. The newest answer of a round is therefore followed, even if
//! only one sentinel gives it.

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

use self::answer::{Choice, Trust, Vote};
use self::round::{Known, Round};
use self::watcher::{Heard, Said, Watcher};
use super::address::Address;
use super::connect::Connector;
use super::failure::Failure;
use super::membership::Membership;
use super::peers::Peers;
use super::primary::Named;
use super::{FirstFailure, Redis, State};
use crate::settings::Settings;
use crate::target::{Scheme, Target};
use crate::transport::{Transport, TransportEvent};
use crate::world::Defect;

/// The shortest and the longest pause between two rounds of questions.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// The longest pause between two attempts to connect to the primary, or to a sentinel of the URL.
const LONGEST: Duration = Duration::from_millis(500);
/// The same for a sentinel that others name, because it may be unreachable from here.
const LONGEST_OF_OTHERS: Duration = Duration::from_secs(10);
/// The largest number of sentinels to connect to, beside those of the URL.
const OTHERS: usize = 16;

/// A service of sentinels, and the connections to its primary.
pub(in crate::transport) struct Sentinel {
    settings: Arc<Settings>,
    target: Target,
    service: Arc<str>,
    redis: Redis,
    watchers: BTreeMap<Address, Watcher>,
    /// The primary's address, as the connections to the primary see it.
    named: watch::Sender<Named>,
    /// The last primary that was named.
    known: Option<Vote>,
    round: Option<Round>,
    /// Whether another round is needed, because the sentinels disagree.
    is_wanted: bool,
    /// The earliest time of the next round.
    not_before: Instant,
    pause: Duration,
    is_in_use: bool,
    /// The time until which failures of the first connection are retried.
    first_until: Option<Instant>,
}

impl Sentinel {
    pub(in crate::transport) fn open(
        settings: &Arc<Settings>,
        target: &Target,
        first: FirstFailure,
        peers: Option<Peers>,
    ) -> Self {
        let (given, service) = match &target.scheme {
            Scheme::Sentinel { sentinels, service, .. } => (sentinels.as_slice(), service.as_str().into()),
            _ => (&[][..], "".into()),
        };
        let named = watch::Sender::new(Named::Asked);
        let connector = Connector::elected(settings, target, named.clone(), peers).pausing(LONGEST);
        let mut this = Self {
            settings: Arc::clone(settings),
            target: target.clone(),
            service,
            redis: Redis::with(Arc::new(connector), settings, first),
            watchers: BTreeMap::new(),
            named,
            known: None,
            round: None,
            is_wanted: false,
            not_before: Instant::ZERO,
            pause: PAUSE.0,
            is_in_use: false,
            first_until: None,
        };
        for (host, port) in given {
            this.watch(Address::new(host, *port), true);
        }
        this
    }

    fn watch(&mut self, address: Address, is_given: bool) {
        let target = self.target.sentinel_target(&address.host, address.port);
        let connector = if is_given {
            Connector::new(&self.settings, &target, Membership::Sentinel, None).pausing(LONGEST)
        } else {
            Connector::announced(&self.settings, &target, Membership::Sentinel).pausing(LONGEST_OF_OTHERS)
        };
        let watcher = Watcher::new(&self.settings, connector, &self.service, is_given);
        self.watchers.insert(address, watcher);
    }

    /// Whether attempts to connect wait for an answer of the sentinels.
    fn is_asked(&self) -> bool {
        matches!(*self.named.borrow(), Named::Asked)
    }

    /// Whether the client may connect to the primary.
    fn is_at(&self) -> bool {
        matches!(*self.named.borrow(), Named::At(_))
    }

    fn poll_watchers(&mut self, context: &mut Context<'_>, now: Instant) {
        let mut news = Vec::new();
        let mut heard = Vec::new();
        for (address, watcher) in &mut self.watchers {
            watcher.poll(context, now, self.is_in_use, &mut heard);
            news.extend(heard.drain(..).map(|heard| (address.clone(), heard)));
        }
        let mut is_list_due = false;
        for (address, heard) in news {
            match heard {
                Heard::Says(said) => self.hear(address, said, now),
                Heard::Others | Heard::Lost => is_list_due = true,
                Heard::Fails(failure) => {
                    is_list_due = true;
                    if let Some(round) = &mut self.round {
                        round.failed(&address, failure);
                    }
                }
            }
        }
        if is_list_due && self.learn() {
            // The new watchers must be polled, too.
            context.waker().wake_by_ref();
        }
    }

    /// Handles the answer of one sentinel.
    fn hear(&mut self, address: Address, said: Said, now: Instant) {
        let is_newer = |vote: &Vote| answer::is_newer(vote, self.known.as_ref());
        let is_newer = said.vote.as_ref().is_some_and(is_newer);
        if said.is_outdated && !is_newer {
            return;
        }
        if self.round.is_none() && is_newer {
            // The other sentinels are asked at once, without the pause before most rounds.
            self.begin(Some(&address), now);
        }
        if let Some(round) = &mut self.round {
            round.answered(address, said.vote, now);
        } else if let Some(vote) = said.vote {
            let is_other = self.known.as_ref().is_some_and(|known| known.primary != vote.primary);
            self.is_wanted |= is_other && said.is_changed || !self.is_at();
        }
    }

    /// Watches the sentinels that others name, beside those of the URL. Returns whether some are new.
    fn learn(&mut self) -> bool {
        let others = self.watchers.values().flat_map(Watcher::others);
        let named: Vec<Address> = others.map(|other| other.address.clone()).collect();
        self.watchers
            .retain(|address, watcher| watcher.is_given() || watcher.is_open() || named.contains(address));
        let before = self.watchers.len();
        for address in named {
            let reached = self.settings.address_map.lookup(&address.host, address.port);
            if reached.is_some_and(|(host, port)| self.target.names_address(&host, port)) {
                // This sentinel is connected by the URL, and must not count twice.
                continue;
            }
            let others = self.watchers.values().filter(|watcher| !watcher.is_given()).count();
            if others < OTHERS && !self.watchers.contains_key(&address) {
                self.watch(address, false);
            }
        }
        self.watchers.len() > before
    }

    /// Returns all sentinels that are known.
    fn known_sentinels(&self) -> impl Iterator<Item = Known<'_>> {
        let others = self.watchers.values().flat_map(Watcher::others);
        let named = others.filter_map(|other| Some((&other.address, other.id.as_deref()?)));
        let ids: BTreeMap<&Address, &str> = named.collect();
        self.watchers.iter().map(move |(address, watcher)| Known {
            address,
            id: watcher.id().or_else(|| ids.get(address).copied()),
            is_down: watcher.is_down(),
        })
    }

    /// Begins a round, and asks all sentinels but the one that has just answered.
    fn begin(&mut self, but: Option<&Address>, now: Instant) {
        self.is_wanted = false;
        let round = if self.is_at() {
            Round::aside(now)
        } else {
            Round::awaited(self.settings.connect_timeout, now)
        };
        self.round = Some(round.hasty(self.settings.world.has(Defect::FirstSentinelWins)));
        for (address, watcher) in &mut self.watchers {
            if but != Some(address) {
                watcher.ask(now);
            }
        }
    }

    /// Begins a round when it is due, and acts on its outcome when it is over.
    fn poll_round(&mut self, now: Instant, events: &mut Vec<TransportEvent>) {
        let is_due = match &self.round {
            // Answers from before the loss of a connection do not show where the next one must go.
            Some(round) => !round.is_awaited() && !self.is_at(),
            None => (self.is_wanted || self.is_asked()) && now >= self.not_before,
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
        self.pause = self.pause.saturating_mul(2).min(PAUSE.1);
        // A minority of sentinels may be cut off from the others, so its answers are trusted less.
        let is_missing = !self.redis.commands.is_open() && !self.redis.renewals.is_open();
        let trust = match outcome.have_most_answered {
            true if is_missing => Trust::Older,
            true => Trust::Other,
            false if round.is_awaited() => Trust::Other,
            false => Trust::Newer,
        };
        match answer::choose(outcome.votes.iter(), self.known.as_ref(), trust) {
            Choice::Follow(vote) => self.follow(vote, now, events),
            Choice::Stay if self.is_at() => {}
            Choice::Stay => self.stay(),
            Choice::Nobody => self.nobody(&round, events),
        }
    }

    /// Confirms the known primary.
    fn stay(&self) {
        if let Some(known) = &self.known {
            self.named.send_replace(Named::At(known.primary.clone()));
        }
    }

    /// Adopts a primary that is not the known one, or that has another epoch.
    fn follow(&mut self, vote: Vote, now: Instant, events: &mut Vec<TransportEvent>) {
        let known = self.known.replace(vote);
        let (Some(known), Some(vote)) = (known, &self.known) else {
            return self.stay();
        };
        if known.primary != vote.primary {
            let cause = format!("the primary was {} and is {} now", known.primary, vote.primary);
            self.redis.follow(&Failure::unavailable(cause), now, events);
        }
        self.stay();
    }

    /// Reports that no sentinel named a primary.
    fn nobody(&mut self, round: &Round, events: &mut Vec<TransportEvent>) {
        let failure = round.failure(&self.service);
        if self.redis.state == State::First {
            self.redis.failed_at_first(failure.clone(), events);
        }
        if self.is_asked() {
            self.named.send_replace(Named::Nowhere(failure));
        }
    }

    /// Handles a failed first attempt to connect to the primary.
    fn failed_at_first(&mut self, failure: Failure, now: Instant, events: &mut Vec<TransportEvent>) {
        // The server may just be going down or being demoted, and the sentinels may name another one soon.
        let may_pass = self.redis.first == FirstFailure::Fatal
            && !failure.is_lasting()
            && self.first_until.is_some_and(|until| now < until);
        if !may_pass {
            self.redis.failed_at_first(failure, events);
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
        self.first_until.get_or_insert(now + self.settings.connect_timeout);
        self.poll_watchers(context, now);
        self.poll_round(now, events);
        if self.redis.state == State::Failed {
            return;
        }
        let failure = self.redis.poll_lanes(context, now, events);
        if self.redis.state == State::First
            && let Some(failure) = failure
        {
            self.failed_at_first(failure, now, events);
        }
        self.redis.poll_proof(context, now, events);
        self.redis.poll_subscriptions(context, now, events);
        self.redis.tell(now, events);
        if self.redis.every_lane_is_open() {
            self.pause = PAUSE.0;
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
            self.watch(address, watcher.is_given());
        }
        self.round = None;
        self.is_wanted = true;
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
            None => Some(self.not_before).filter(|_| self.is_wanted || self.is_asked()),
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
