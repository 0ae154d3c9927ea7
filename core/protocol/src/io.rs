//! The state that all machines of a session share: the configuration, the source of random numbers, the open
//! connections, the calls in flight, the timers, and the calls to send.
//!
//! For the session, a node has three connections: the command lane, the renewal lane, and one for the subscriptions.
//! Each opens and closes independently of the others, and a call waits only for the connection that it needs:
//!
//! | operation | connection |
//! |---|---|
//! | an attempt, a poll, a question | the command lane |
//! | a release | the command lane; while it is closed, the renewal lane if no earlier call of the owner can run later |
//! | a renewal | the renewal lane; the command lane if the renewal lane is closed or failed the last renewal |
//! | a renewal when a lane opens | that lane, unless the last renewal failed on it |
//! | notifications of releases and grants | the subscriptions; waiters also poll, because a message can be lost |

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::{SortedMap, SortedSet};

use crate::breakers::{Breakers, NothingToAsk, Outage};
use crate::calls::{Calls, InFlight, Purpose, Successor};
use crate::client_info::ClientInfo;
use crate::error::{Cause, Error};
use crate::identities::{EVERY, Identities};
use crate::ids::{CallId, LeaseId, NodeId, Primary, Ticket, Verb};
use crate::instant::{Instant, micros};
use crate::kinds::{Invocation, Keys};
use crate::observed::{Detail, Observed};
use crate::owner::{ClientId, Entropy, OwnerId};
use crate::reply::{CallError, Reply};
use crate::server_clocks::ServerClocks;
use crate::step::{Step, WaiterInput};
use crate::timers::{Timer, Timers};
use crate::token::Token;
use crate::types::{Call, Config, Event, Lane, Limits, Outcome, Transmit};
use crate::wording::brief;

/// The parts that all machines share.
pub(crate) struct Io {
    config: Config,
    /// The first part of all owner ids of this client.
    client: Arc<ClientId>,
    limits: Limits,
    entropy: Box<dyn Entropy>,
    /// The state of the generator that spreads renewals in time.
    spread: u64,
    last_ticket: u64,
    last_lease: u64,
    links: Links,
    breakers: Breakers,
    server_clocks: ServerClocks,
    identities: Identities,
    calls: Calls,
    timers: Timers,
    outbox: VecDeque<Transmit>,
    /// The steps to perform, in order, and the steps that the current input has added. The added steps go to the front.
    steps: VecDeque<Step>,
    added: Vec<Step>,
    /// How much is observed, and the observations that were not taken yet.
    detail: Detail,
    observed: VecDeque<Observed>,
}

impl Io {
    pub(crate) fn new(config: Config, mut entropy: Box<dyn Entropy>) -> Self {
        let breakers = Breakers::new(config.breaker);
        let identities = Identities::new(config.client, config.identity.clone());
        Self {
            spread: entropy.next_u64(),
            last_ticket: 0,
            last_lease: 0,
            client: Arc::new(config.client),
            config,
            limits: Limits::default(),
            entropy,
            links: Links::default(),
            breakers,
            server_clocks: ServerClocks::default(),
            identities,
            calls: Calls::default(),
            timers: Timers::default(),
            outbox: VecDeque::new(),
            steps: VecDeque::new(),
            added: Vec::new(),
            detail: Detail::Nothing,
            observed: VecDeque::new(),
        }
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) const fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns how long a wait without a bound lasts while no answer arrives: the client's lease, but at least the
    /// longest retry interval plus the command timeout, because the next answer may take that long.
    pub(crate) fn silence_timeout(&self) -> Duration {
        let longest_pause = self.config.retry_interval.end();
        let next_answer = longest_pause.saturating_add(self.config.command_timeout);
        self.config.lease.get().max(next_answer)
    }

    /// Returns when a call that is sent now is overdue.
    pub(crate) fn timeout(&self, now: Instant) -> Instant {
        now + self.config.command_timeout
    }

    /// Returns a new ticket.
    pub(crate) const fn next_ticket(&mut self, verb: Verb) -> Ticket {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        Ticket::new(self.last_ticket, verb)
    }

    /// Returns a new lease id.
    pub(crate) const fn next_lease(&mut self) -> LeaseId {
        self.last_lease = self.last_lease.wrapping_add(1);
        LeaseId::from_u64(self.last_lease)
    }

    /// Returns a new owner id.
    pub(crate) fn owner_id(&mut self) -> OwnerId {
        OwnerId::random(Arc::clone(&self.client), &mut *self.entropy)
    }

    /// Parses an owner id that a server or a message names; `None` if it belongs to another client.
    pub(crate) fn parse_own_owner(&self, owner: &[u8]) -> Option<OwnerId> {
        OwnerId::of_client(&self.client, owner)
    }

    /// Returns a random duration in a range.
    pub(crate) fn random_between(&mut self, range: RangeInclusive<Duration>) -> Duration {
        let (low, high) = range.into_inner();
        let span = micros(high.saturating_sub(low));
        let drawn = self.entropy.next_u64().checked_rem(span.saturating_add(1)).unwrap_or(0);
        low.saturating_add(Duration::from_micros(drawn))
    }

    /// Returns a random part of `most`, without using the entropy of the session.
    pub(crate) fn random_part(&mut self, most: Duration) -> Duration {
        // Knuth's generator is cheap, and its quality is enough because no safety depends on the result.
        let next = self.spread.wrapping_mul(6_364_136_223_846_793_005);
        self.spread = next.wrapping_add(1_442_695_040_888_963_407);
        let part = u32::try_from(self.spread >> 48).unwrap_or_default();
        most.saturating_mul(part).checked_div(1 << 16).unwrap_or_default()
    }

    /// Sends a script call. With `overdue`, the call has a timer that fires at this instant.
    pub(crate) fn call(
        &mut self,
        purpose: Purpose,
        node: NodeId,
        lane: Lane,
        invocation: Invocation,
        overdue: Option<Instant>,
    ) -> CallId {
        let primary = match invocation.keys.first() {
            Some(key) => self.breakers.primary(node, key),
            None => Primary::default(),
        };
        let id = self.calls.start(purpose, primary);
        if let Some(overdue) = overdue {
            self.timers.set(Timer::CallTimeout(id), overdue);
        }
        self.outbox.push_back(Transmit::Call(Call {
            id,
            node,
            lane,
            script: invocation.script,
            keys: invocation.keys,
            args: invocation.args,
        }));
        id
    }

    /// Subscribes to a channel.
    pub(crate) fn subscribe(&mut self, node: NodeId, channel: Arc<[u8]>) {
        self.outbox.push_back(Transmit::Subscribe { node, channel });
    }

    /// Unsubscribes from a channel.
    pub(crate) fn unsubscribe(&mut self, node: NodeId, channel: Arc<[u8]>) {
        self.outbox.push_back(Transmit::Unsubscribe { node, channel });
    }

    /// Returns the next thing to send.
    pub(crate) fn next_transmit(&mut self) -> Option<Transmit> {
        self.outbox.pop_front()
    }

    /// Adds a step for the router.
    pub(crate) fn step(&mut self, step: Step) {
        self.added.push(step);
    }

    /// Completes a ticket: its caller receives this outcome.
    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.step(Step::Emit(Event::Completed { ticket, outcome }));
    }

    /// Returns the next step. Steps that were added since the last call come before all others.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        for step in self.added.drain(..).rev() {
            self.steps.push_front(step);
        }
        self.steps.pop_front()
    }

    /// Takes the steps that were added so far.
    #[cfg(test)]
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.added)
    }

    /// Returns the steps that the current input has added so far.
    #[cfg(any(test, feature = "transitions"))]
    pub(crate) fn steps(&self) -> &[Step] {
        &self.added
    }

    /// Sets how much is observed from now on.
    pub(crate) const fn set_detail(&mut self, detail: Detail) {
        self.detail = detail;
    }

    /// Makes an observation if it is wanted; otherwise the closure does not run.
    pub(crate) fn observe(&mut self, detail: Detail, observed: impl FnOnce(&Self) -> Observed) {
        if self.detail >= detail {
            let observed = observed(self);
            self.observed.push_back(observed);
        }
    }

    /// Returns the next observation.
    pub(crate) fn next_observed(&mut self) -> Option<Observed> {
        self.observed.pop_front()
    }

    /// Notes that the bytes of a call are about to be written to the socket.
    pub(crate) fn sent(&mut self, id: CallId, now: Instant) -> Option<InFlight> {
        self.calls.sent(id, now)
    }

    /// Removes an answered call, and returns it with the successors that also get its result.
    pub(crate) fn finish(&mut self, id: CallId) -> Option<(InFlight, Vec<Successor>)> {
        let call = self.calls.finish(id)?;
        self.timers.stop(Timer::CallTimeout(id));
        Some(call)
    }

    /// Returns a call in flight.
    pub(crate) fn in_flight(&self, id: CallId) -> Option<InFlight> {
        self.calls.get(id)
    }

    /// Makes a hold or a release a successor for these attempts. The successor gets their results from now on.
    pub(crate) fn add_successor(&mut self, attempts: &[CallId], successor: Successor) {
        self.calls.add_successor(attempts, successor);
    }

    /// Returns the number of calls in flight.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Sets a timer. An earlier setting of the same timer is replaced.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.timers.set(timer, at);
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.timers.stop(timer);
    }

    /// Returns when a timer is due, if it is set.
    pub(crate) fn due(&self, timer: Timer) -> Option<Instant> {
        self.timers.get(timer)
    }

    /// Takes one timer that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        self.timers.take_due(now)
    }

    /// Returns when the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Returns when the next renewal is due.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        self.timers.next_renewal()
    }

    /// Returns the number of timers that are set.
    pub(crate) fn timers(&self) -> usize {
        self.timers.len()
    }

    pub(crate) fn lane_opened(&mut self, node: NodeId, lane: Lane) {
        self.links.opened(node, lane);
    }

    pub(crate) fn lane_closed(&mut self, node: NodeId, lane: Lane, cause: Cause) {
        self.links.closed(node, lane, cause);
    }

    /// Whether a lane is open.
    pub(crate) fn is_open(&self, node: NodeId, lane: Lane) -> bool {
        self.links.is_open(node, lane)
    }

    /// Whether the calls of callers can be sent, because the command lane is open.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        self.links.is_open(node, Lane::Command)
    }

    /// Whether the command lane has never opened, and no attempt to connect has failed so far.
    pub(crate) fn is_connecting(&self, node: NodeId) -> bool {
        self.links.is_connecting(node)
    }

    /// Notes the round trip of an answered call, in a client with several primaries.
    pub(crate) fn note_round_trip(&mut self, call: &InFlight, now: Instant) {
        if let Some(sent) = call.sent.filter(|_| self.config.primaries > 1) {
            self.links.answered(call.primary.node, now.saturating_since(sent), now);
        }
    }

    /// Returns the last round trip of a primary, if its answer came no earlier than `since`.
    pub(crate) fn round_trip(&self, node: NodeId, since: Instant) -> Option<Duration> {
        self.links.round_trip(node, since)
    }

    /// Returns the nodes whose command lane is open.
    pub(crate) const fn connected(&self) -> &SortedSet<NodeId> {
        self.links.connected()
    }

    /// Returns why a node does not answer.
    pub(crate) fn silence_of(&self, node: NodeId) -> Cause {
        self.links.silence_of(node)
    }

    /// Returns why no answer came from a server in this time, with advice.
    pub(crate) fn unreached(&self, node: NodeId, within: Duration) -> Cause {
        if self.is_connected(node) {
            let cause = Cause::new(format!("the server did not answer within {}", brief(within)));
            return cause.with_advice("check that it is up and reachable");
        }
        let cause = self.silence_of(node);
        match cause.advice() {
            Some(_) => cause,
            None => cause.with_advice("check that the server is up and reachable"),
        }
    }

    /// Returns the outage of a lock's primary, if the circuit breaker of the primary is open.
    pub(crate) fn outage(&self, keys: &Keys) -> Option<&Outage> {
        self.breakers.outage(keys)
    }

    /// Returns the primary of a lock.
    pub(crate) fn primary(&self, keys: &Keys) -> Primary {
        self.breakers.primary(keys.node, &keys.record)
    }

    /// Notes which primary of a cluster has which slot.
    pub(crate) fn set_slots(&mut self, node: NodeId, slots: Arc<[u16]>, now: Instant) {
        for primary in self.breakers.set_slots(node, slots) {
            self.answered_by(primary, now);
        }
        // A slot may have moved to a primary with an open breaker. For the waiters of the slot, the breaker opens now.
        for primary in self.breakers.open_at(node) {
            self.step(Step::Waiter(WaiterInput::Outage(primary)));
        }
    }

    pub(crate) const fn breakers(&self) -> &Breakers {
        &self.breakers
    }

    /// Notes a lock that the next probe of its primary can ask about.
    pub(crate) fn note_lock(&mut self, keys: &Arc<Keys>) {
        self.breakers.note_lock(keys);
    }

    /// Ends probes and identification, because the client is closed.
    pub(crate) fn closed(&mut self) {
        self.identities.forget_what_was_said();
        self.stop(Timer::Identify);
        for primary in self.breakers.close() {
            self.stop(Timer::Probe(primary));
        }
    }

    /// Notes a failure of a primary: a call that failed, or a connection that was lost or could not be made.
    pub(crate) fn failed_at(&mut self, primary: Primary, cause: &Cause, now: Instant) {
        if self.breakers.failed(primary, cause, now) {
            self.set(Timer::Probe(primary), now + self.breakers.pause());
            self.observe(Detail::Trouble, |_| Observed::BreakerOpened {
                primary,
                why: cause.to_string(),
            });
            self.step(Step::Waiter(WaiterInput::Outage(primary)));
        }
    }

    /// Notes that a primary serves, and closes its breaker.
    pub(crate) fn answered_by(&mut self, primary: Primary, now: Instant) {
        if let Some(outage) = self.breakers.answered(primary) {
            self.stop(Timer::Probe(primary));
            self.observe(Detail::Trouble, |_| Observed::BreakerClosed {
                primary,
                open: now.saturating_since(outage.since),
            });
            self.step(Step::Waiter(WaiterInput::OutageOver(primary)));
        }
    }

    /// Asks a primary with an open breaker whether it serves, unless a probe is in flight.
    pub(crate) fn probe(&mut self, primary: Primary, now: Instant) {
        match self.breakers.probe(primary) {
            None => {}
            Some(_) if !self.is_connected(primary.node) => {
                self.set(Timer::Probe(primary), now + self.breakers.pause());
            }
            // There is no lock to ask about, so the breaker closes. The next request for a lock shows whether the
            // primary serves.
            Some(Err(NothingToAsk)) => self.answered_by(primary, now),
            Some(Ok(question)) => {
                let overdue = self.timeout(now);
                let purpose = Purpose::Probe(primary);
                let call = self.call(purpose, primary.node, Lane::Command, question, Some(overdue));
                self.breakers.probes(primary, call);
                self.stop(Timer::Probe(primary));
            }
        }
    }

    /// Notes that a connection to a primary opened, and probes the primary if its breaker is open.
    pub(crate) fn connected_to(&mut self, primary: Primary, now: Instant) {
        self.breakers.connected(primary);
        self.probe(primary, now);
    }

    /// Schedules the next probe after a probe that failed.
    pub(crate) fn probe_failed(&mut self, primary: Primary, call: CallId, now: Instant) {
        if self.breakers.probe_failed(primary, call) {
            self.set(Timer::Probe(primary), now + self.breakers.pause());
        }
    }

    /// Probes the primaries of a node whose breakers are open, because a connection to the node opened.
    pub(crate) fn breakers_connected(&mut self, node: NodeId, now: Instant) {
        self.breakers.connected(Primary::only(node));
        for primary in self.breakers.open_at(node) {
            self.probe(primary, now);
        }
    }
}

impl Io {
    /// Notes the token of a call that was sent at `sent`. Reports a server's clock that has jumped ahead.
    pub(crate) fn note_token(&mut self, keys: &Keys, token: Token, sent: Instant, now: Instant) {
        if self.detail < Detail::Trouble {
            return;
        }
        let place = self.breakers.place(keys);
        if let Some(by) = self
            .server_clocks
            .note_token(place, token, self.config.lease, sent, now)
        {
            self.observe(Detail::Trouble, |io| Observed::ClockAhead {
                primary: io.primary(keys),
                by,
            });
        }
    }
}

impl Io {
    /// Tells a node which program this client is, unless the node was told since `Timer::Identify` last fired.
    pub(crate) fn identify(&mut self, node: NodeId, now: Instant) {
        if let Some(invocation) = self.identities.say(node) {
            self.call(Purpose::Identify, node, Lane::Command, invocation, None);
            if self.due(Timer::Identify).is_none() {
                self.set(Timer::Identify, now + EVERY);
            }
        }
    }

    /// Repeats the identity on all nodes that know it, if this client is in use.
    pub(crate) fn identify_again(&mut self, is_in_use: bool, now: Instant) {
        let nodes = self.identities.forget_what_was_said();
        if is_in_use {
            for node in nodes {
                if self.is_connected(node) {
                    self.identify(node, now);
                }
            }
            self.set(Timer::Identify, now + EVERY);
        }
    }

    /// Forgets that a node knows the identity of this client, because another server may be there by now. Returns
    /// whether the node knew it.
    pub(crate) fn forget_identity(&mut self, node: NodeId) -> bool {
        self.identities.forget_what_was_said_at(node)
    }

    /// Returns the information that this client gives about itself, as text; `None` if it gives none.
    pub(crate) fn own_info(&self) -> Option<&Arc<[u8]>> {
        self.identities.own_info()
    }

    /// Returns the program of an owner id, if it is known.
    pub(crate) fn identity_of(&self, owner: &str) -> Option<Arc<ClientInfo>> {
        self.identities.of_owner(owner)
    }

    /// Asks the server for the program of an owner id, unless the program is known or the question is in flight.
    pub(crate) fn ask_identity(&mut self, node: NodeId, owner: &str, now: Instant) {
        if let Some((client, invocation)) = self.identities.question(owner, now) {
            let call = self.call(Purpose::Identity, node, Lane::Command, invocation, None);
            self.identities.asked(call, client, now);
        }
    }

    /// Whether the question about an owner id is in flight.
    pub(crate) fn is_identity_asked(&self, owner: &str) -> bool {
        self.identities.is_asked(owner)
    }

    /// Whether the question about the holder that an error names is in flight.
    pub(crate) fn is_name_asked(&self, error: &Error) -> bool {
        error
            .holder()
            .is_some_and(|holder| self.is_identity_asked(&holder.owner))
    }

    /// Sets until when a refusal whose wait is already over may wait for the name of the holder. Does nothing if the
    /// name is not being asked for.
    pub(crate) fn name_by(&mut self, ticket: Ticket, outcome: &Outcome, until: Option<Instant>, now: Instant) {
        if let Outcome::NotGranted(error) = outcome
            && self.is_name_asked(error)
        {
            self.set(Timer::Name(ticket), until.unwrap_or(now));
        }
    }

    /// Handles the answer to a question about another client, or its failure.
    pub(crate) fn identified(&mut self, call: CallId, result: &Result<Reply, CallError>, now: Instant) {
        self.identities.answered(call, result, now);
    }
}

/// The lanes that are open, and the round trips of nodes.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// The nodes whose command lane is open.
    commands: SortedSet<NodeId>,
    /// The nodes whose renewal lane is open.
    renewals: SortedSet<NodeId>,
    /// Why the command lane of a node closed, or could not be opened; only while the lane is closed.
    close_causes: SortedMap<NodeId, Cause>,
    /// The last answer of each primary; only in a client with several primaries.
    round_trips: SortedMap<NodeId, RoundTrip>,
}

#[derive(Debug)]
struct RoundTrip {
    /// When the answer came.
    at: Instant,
    took: Duration,
}

impl Links {
    pub(crate) fn opened(&mut self, node: NodeId, lane: Lane) {
        match lane {
            Lane::Command => {
                self.commands.insert(node);
                self.close_causes.remove(&node);
            }
            Lane::Renewal => {
                self.renewals.insert(node);
            }
        }
    }

    pub(crate) fn closed(&mut self, node: NodeId, lane: Lane, cause: Cause) {
        match lane {
            Lane::Command => {
                self.commands.remove(&node);
                self.close_causes.insert(node, cause);
            }
            Lane::Renewal => {
                self.renewals.remove(&node);
            }
        }
    }

    pub(crate) fn is_open(&self, node: NodeId, lane: Lane) -> bool {
        match lane {
            Lane::Command => self.commands.contains(&node),
            Lane::Renewal => self.renewals.contains(&node),
        }
    }

    /// Returns the nodes whose command lane is open.
    pub(crate) const fn connected(&self) -> &SortedSet<NodeId> {
        &self.commands
    }

    /// Whether the command lane of a node has never opened, and no attempt to connect has failed so far.
    pub(crate) fn is_connecting(&self, node: NodeId) -> bool {
        !self.commands.contains(&node) && !self.close_causes.contains_key(&node)
    }

    /// Notes that a node answered a call, and how long that took.
    pub(crate) fn answered(&mut self, node: NodeId, took: Duration, now: Instant) {
        self.round_trips.insert(node, RoundTrip { at: now, took });
    }

    /// Returns the last round trip of a node, if its answer came no earlier than `since`.
    pub(crate) fn round_trip(&self, node: NodeId, since: Instant) -> Option<Duration> {
        let last = self.round_trips.get(&node)?;
        (last.at >= since).then_some(last.took)
    }

    /// Returns why a node does not answer.
    pub(crate) fn silence_of(&self, node: NodeId) -> Cause {
        match self.close_causes.get(&node) {
            _ if self.commands.contains(&node) => "no answer".into(),
            Some(cause) => cause.clone().reworded(|text| format!("not connected ({text})")),
            None => "not connected".into(),
        }
    }
}
