//! The state that all machines of a session share: the configuration, the source of random numbers, the open
//! connections, the calls in flight, the timers, and the calls to send.
//!
//! A node has three connections: one for each lane, and one for the subscriptions. Each opens and closes independently
//! of the others, and a call waits only for the connection that it needs:
//!
//! | | needs |
//! |---|---|
//! | an attempt, a poll, a question | the command lane |
//! | a release | the command lane; while that is closed, the renewal lane, unless a later call of its owner may follow |
//! | a renewal | the renewal lane, or the command lane while the renewal lane is closed or silent |
//! | notifications of releases | the subscriptions; without them waiters poll |

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::breakers::{Breakers, NothingToAsk, Outage};
use crate::calls::{Calls, Heir, InFlight, Purpose};
use crate::client_info::ClientInfo;
use crate::defects::Defect;
use crate::error::{Cause, Error};
use crate::identities::{EVERY, Identities};
use crate::ids::{CallId, LeaseId, NodeId, Primary, Ticket, Verb};
use crate::instant::{Instant, micros};
use crate::kinds::{Invocation, Keys};
use crate::observed::{Detail, Observed};
use crate::owner::{ClientId, Entropy, OwnerId};
use crate::reply::{CallError, Reply};
use crate::server_clocks::ServerClocks;
use crate::sorted::{SortedMap, SortedSet};
use crate::step::Step;
use crate::timers::{Timer, Timers};
use crate::token::Token;
use crate::types::{Call, Config, Event, Lane, Limits, Outcome, Transmit};
use crate::wording::brief;

/// What all machines share.
pub(crate) struct Io {
    config: Config,
    /// Who owns what this client holds.
    client: Arc<ClientId>,
    limits: Limits,
    entropy: Box<dyn Entropy>,
    /// What the next renewal's place among others is drawn from.
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
    /// What follows from the input, to be handed on in this order; after what has just been added.
    steps: VecDeque<Step>,
    added: Vec<Step>,
    /// How much those who watch want to know, and what they were not told yet.
    detail: Detail,
    observed: VecDeque<Observed>,
    #[cfg(feature = "defects")]
    defect: Option<Defect>,
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
            #[cfg(feature = "defects")]
            defect: None,
        }
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// Changes what leases last that were given no length.
    pub(crate) const fn set_lease(&mut self, lease: crate::lease::LeaseDuration) {
        self.config.lease = lease;
    }

    pub(crate) const fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// How long a caller without a bound bears to hear nothing: one lease, but no less
    /// than it takes to ask again and be answered.
    pub(crate) fn longest_silence(&self) -> Duration {
        let asked_again = self.config.retry_interval.1.saturating_add(self.config.command_timeout);
        self.config.lease.get().max(asked_again)
    }

    /// When a call that is sent now is overdue.
    pub(crate) fn timeout(&self, now: Instant) -> Instant {
        now + self.config.command_timeout
    }

    /// A number for what a caller wants.
    pub(crate) const fn next_ticket(&mut self, verb: Verb) -> Ticket {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        Ticket::new(self.last_ticket, verb)
    }

    /// A number for a lease.
    pub(crate) const fn next_lease(&mut self) -> LeaseId {
        self.last_lease = self.last_lease.wrapping_add(1);
        LeaseId::from_u64(self.last_lease)
    }

    /// An owner id that nobody has.
    pub(crate) fn owner_id(&mut self) -> OwnerId {
        OwnerId::random(Arc::clone(&self.client), &mut *self.entropy)
    }

    /// The owner id that a server or a message names, if it is one of this client.
    pub(crate) fn own(&self, owner: &[u8]) -> Option<OwnerId> {
        OwnerId::of_client(&self.client, owner)
    }

    /// A duration between two, drawn at random.
    pub(crate) fn between(&mut self, (low, high): (Duration, Duration)) -> Duration {
        let span = micros(high.saturating_sub(low));
        let drawn = self.entropy.next_u64().checked_rem(span.saturating_add(1)).unwrap_or(0);
        low.saturating_add(Duration::from_micros(drawn))
    }

    /// A part of `most`, drawn by a generator of its own.
    pub(crate) fn part_of(&mut self, most: Duration) -> Duration {
        // Knuth's generator: nothing depends on what it draws, and it costs nothing.
        let next = self.spread.wrapping_mul(6_364_136_223_846_793_005);
        self.spread = next.wrapping_add(1_442_695_040_888_963_407);
        let part = u32::try_from(self.spread >> 48).unwrap_or_default();
        most.saturating_mul(part).checked_div(1 << 16).unwrap_or_default()
    }

    /// Sends a script call. Its answer is overdue at `overdue`, if it has a timer of its own.
    pub(crate) fn call(
        &mut self,
        purpose: Purpose,
        (node, lane): (NodeId, Lane),
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

    /// Asks to listen on a channel.
    pub(crate) fn subscribe(&mut self, node: NodeId, channel: Arc<[u8]>) {
        self.outbox.push_back(Transmit::Subscribe { node, channel });
    }

    /// Asks to listen on it no longer.
    pub(crate) fn unsubscribe(&mut self, node: NodeId, channel: Arc<[u8]>) {
        self.outbox.push_back(Transmit::Unsubscribe { node, channel });
    }

    /// The next thing to send.
    pub(crate) fn next_transmit(&mut self) -> Option<Transmit> {
        self.outbox.pop_front()
    }

    /// Something follows for another machine.
    pub(crate) fn step(&mut self, step: Step) {
        self.added.push(step);
    }

    /// A caller is told what its ticket came to.
    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.step(Step::Tell(Event::Completed { ticket, outcome }));
    }

    /// The next thing that follows. What follows from a step comes before what comes after it.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        for step in self.added.drain(..).rev() {
            self.steps.push_front(step);
        }
        self.steps.pop_front()
    }

    /// Takes what follows so far.
    #[cfg(test)]
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.added)
    }

    /// What follows so far from the input that is under way.
    #[cfg(any(test, feature = "transitions"))]
    pub(crate) fn steps(&self) -> &[Step] {
        &self.added
    }

    /// From now on those who watch are told so much.
    pub(crate) const fn set_detail(&mut self, detail: Detail) {
        self.detail = detail;
    }

    /// Those who watch so closely are told; nothing is computed if nobody does.
    pub(crate) fn observe(&mut self, detail: Detail, observed: impl FnOnce(&Self) -> Observed) {
        if self.detail >= detail {
            let observed = observed(self);
            self.observed.push_back(observed);
        }
    }

    /// The next thing that they are told.
    pub(crate) fn next_observed(&mut self) -> Option<Observed> {
        self.observed.pop_front()
    }

    /// A call's bytes are about to go to the socket.
    pub(crate) fn sent(&mut self, id: CallId, now: Instant) -> Option<InFlight> {
        self.calls.sent(id, now)
    }

    /// Takes a call out, since its answer came, and says who has waited for it beside the
    /// one that sent it.
    pub(crate) fn finish(&mut self, id: CallId) -> Option<(InFlight, Vec<Heir>)> {
        let call = self.calls.finish(id)?;
        self.timers.stop(Timer::CallTimeout(id));
        Some(call)
    }

    /// A call in flight.
    pub(crate) fn in_flight(&self, id: CallId) -> Option<InFlight> {
        self.calls.get(id)
    }

    /// What all calls in flight are for.
    pub(crate) fn purposes(&self) -> impl Iterator<Item = Purpose> {
        self.calls.purposes()
    }

    /// What attempts in flight may yet get is a hold's or a release's from now on.
    pub(crate) fn leave_to(&mut self, attempts: &[CallId], heir: Heir) {
        self.calls.leave_to(attempts, heir);
    }

    /// How many calls are in flight.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Sets a timer, whatever it was set to before.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.timers.set(timer, at);
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.timers.stop(timer);
    }

    /// When a timer is due, if it is set.
    pub(crate) fn due(&self, timer: Timer) -> Option<Instant> {
        self.timers.get(timer)
    }

    /// Takes one timer that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        self.timers.take_due(now)
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// When the next renewal is due.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        self.timers.next_renewal()
    }

    /// How many timers are set.
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

    /// Whether callers' calls can be sent.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        self.links.is_open(node, Lane::Command)
    }

    /// Whether the first connection for callers' calls is being made, and nothing has gone wrong so far.
    pub(crate) fn is_connecting(&self, node: NodeId) -> bool {
        self.links.is_connecting(node)
    }

    /// A call was answered. Of several primaries it is noted how long that took.
    pub(crate) fn note_round_trip(&mut self, call: &InFlight, now: Instant) {
        if let Some(sent) = call.sent.filter(|_| self.config.primaries > 1) {
            self.links.answered(call.primary.node, now.saturating_since(sent), now);
        }
    }

    /// How long the last answer of a primary took, if it came since then.
    pub(crate) fn round_trip(&self, node: NodeId, since: Instant) -> Option<Duration> {
        self.links.round_trip(node, since)
    }

    /// The nodes to which callers' calls can be sent.
    pub(crate) const fn connected(&self) -> &SortedSet<NodeId> {
        self.links.connected()
    }

    /// Why a node does not answer.
    pub(crate) fn silence_of(&self, node: NodeId) -> Cause {
        self.links.silence_of(node)
    }

    /// Why nothing came from a server within that time, and what to do.
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

    /// Why nobody waits for the primary of a lock, if that is so.
    pub(crate) fn outage(&self, keys: &Keys) -> Option<&Outage> {
        self.breakers.outage(keys)
    }

    /// The primary that a lock is on.
    pub(crate) fn primary(&self, keys: &Keys) -> Primary {
        self.breakers.primary(keys.node, &keys.record)
    }

    /// Which primary of a cluster has which slot.
    pub(crate) fn set_slots(&mut self, node: NodeId, slots: Arc<[u16]>, now: Instant) {
        for primary in self.breakers.set_slots(node, slots) {
            self.answered_by(primary, now);
        }
        // A waiter whose holder is known by now is decided like the waiters before it.
        for primary in self.breakers.open_at(node) {
            self.step(Step::Outage(primary));
        }
    }

    pub(crate) const fn breakers(&self) -> &Breakers {
        &self.breakers
    }

    /// What a probe may ask about.
    pub(crate) fn note_lock(&mut self, keys: &Arc<Keys>) {
        self.breakers.note_lock(keys);
    }

    /// Nobody acquires anything any more, and this client says no more which program it is.
    pub(crate) fn closed(&mut self) {
        self.identities.forget_what_was_said();
        self.stop(Timer::Identify);
        for primary in self.breakers.close() {
            self.stop(Timer::Probe(primary));
        }
    }

    /// Something of a primary came to nothing.
    pub(crate) fn failed_at(&mut self, primary: Primary, cause: &Cause, now: Instant) {
        if self.breakers.failed(primary, cause, now) {
            self.set(Timer::Probe(primary), now + self.breakers.pause());
            self.observe(Detail::Trouble, |_| Observed::BreakerOpened {
                primary,
                why: cause.to_string(),
            });
            self.step(Step::Outage(primary));
        }
    }

    /// A primary answered.
    pub(crate) fn answered_by(&mut self, primary: Primary, now: Instant) {
        if let Some(outage) = self.breakers.answered(primary) {
            self.stop(Timer::Probe(primary));
            self.observe(Detail::Trouble, |_| Observed::BreakerClosed {
                primary,
                open: now.saturating_since(outage.since),
            });
            self.step(Step::OutageOver(primary));
        }
    }

    /// Asks a primary whose breaker is open whether it serves, unless it is being asked.
    pub(crate) fn probe(&mut self, primary: Primary, now: Instant) {
        if self.has(Defect::BreakerStaysOpen) {
            return;
        }
        match self.breakers.probe(primary) {
            None => {}
            Some(_) if !self.is_connected(primary.node) => {
                self.set(Timer::Probe(primary), now + self.breakers.pause());
            }
            // The next caller that wants a lock of it finds out.
            Some(Err(NothingToAsk)) => self.answered_by(primary, now),
            Some(Ok(question)) => {
                let overdue = self.timeout(now);
                let to = (primary.node, Lane::Command);
                let call = self.call(Purpose::Probe(primary), to, question, Some(overdue));
                self.breakers.probes(primary, call);
                self.stop(Timer::Probe(primary));
            }
        }
    }

    /// A connection to a primary opened.
    pub(crate) fn connected_to(&mut self, primary: Primary, now: Instant) {
        self.breakers.connected(primary);
        self.probe(primary, now);
    }

    /// A probe came to nothing: the next one follows.
    pub(crate) fn probe_failed(&mut self, primary: Primary, call: CallId, now: Instant) {
        if self.breakers.probe_failed(primary, call) {
            self.set(Timer::Probe(primary), now + self.breakers.pause());
        }
    }

    /// A connection to a node opened: those that do not serve there are asked at once.
    pub(crate) fn breakers_connected(&mut self, node: NodeId, now: Instant) {
        self.breakers.connected(Primary::only(node));
        for primary in self.breakers.open_at(node) {
            self.probe(primary, now);
        }
    }

    /// Makes the session make a mistake from now on.
    #[cfg(feature = "defects")]
    pub(crate) fn switch_on(&mut self, defect: Defect) {
        self.defect = Some(defect);
    }

    /// Whether the session makes this mistake.
    #[cfg(feature = "defects")]
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// Whether the session makes this mistake: it makes none.
    #[cfg(not(feature = "defects"))]
    #[inline(always)]
    pub(crate) const fn has(&self, _defect: Defect) -> bool {
        false
    }
}

impl Io {
    /// A server drew a token for a call that was sent and answered at these times.
    pub(crate) fn token_came(&mut self, keys: &Keys, token: Token, times: (Instant, Instant)) {
        if self.detail < Detail::Trouble {
            return;
        }
        let place = self.breakers.place(keys);
        if let Some(by) = self.server_clocks.told(place, token, times, self.config.lease) {
            self.observe(Detail::Trouble, |io| Observed::ClockAhead {
                primary: io.primary(keys),
                by,
            });
        }
    }
}

impl Io {
    /// This client is about to use a node: it says which program it is, unless it did so lately.
    pub(crate) fn identify(&mut self, node: NodeId, now: Instant) {
        if let Some(invocation) = self.identities.say(node) {
            self.call(Purpose::Identify, (node, Lane::Command), invocation, None);
            if self.due(Timer::Identify).is_none() {
                self.set(Timer::Identify, now + EVERY);
            }
        }
    }

    /// Says it again where it was said, while this client is in use.
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

    /// By now another server may be there. Whether anything was said.
    pub(crate) fn forget_identity(&mut self, node: NodeId) -> bool {
        self.identities.forget_what_was_said_at(node)
    }

    /// Which program an owner id is of, if that is known.
    pub(crate) fn identity_of(&self, owner: &str) -> Option<Arc<ClientInfo>> {
        self.identities.of_owner(owner)
    }

    /// Asks which program an owner id is of, unless that is known.
    pub(crate) fn ask_identity(&mut self, node: NodeId, owner: &str, now: Instant) {
        if let Some((client, invocation)) = self.identities.question(owner, now) {
            let call = self.call(Purpose::Identity, (node, Lane::Command), invocation, None);
            self.identities.asked(call, client, now);
        }
    }

    /// Whether the answer is under way.
    pub(crate) fn is_identity_asked(&self, owner: &str) -> bool {
        self.identities.is_asked(owner)
    }

    /// Whether an answer is under way that says which program the holder is that an error names.
    pub(crate) fn is_name_asked(&self, error: &Error) -> bool {
        error
            .holder()
            .is_some_and(|holder| self.is_identity_asked(&holder.owner))
    }

    /// A caller is refused whose wait ended before: if the name of the holder is under way, it has until then.
    pub(crate) fn name_by(&mut self, ticket: Ticket, outcome: &Outcome, until: Option<Instant>, now: Instant) {
        if let Outcome::NotGranted(error) = outcome
            && self.is_name_asked(error)
        {
            self.set(Timer::Name(ticket), until.unwrap_or(now));
        }
    }

    /// The answer came, or none will.
    pub(crate) fn identified(&mut self, call: CallId, result: &Result<Reply, CallError>, now: Instant) {
        self.identities.answered(call, result, now);
    }
}

/// The lanes that are open.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// The nodes whose command lane is open.
    commands: SortedSet<NodeId>,
    /// The nodes whose renewal lane is open.
    renewals: SortedSet<NodeId>,
    /// Why each node's last command lane closed.
    outages: SortedMap<NodeId, Cause>,
    /// Of several primaries, when each last answered, and how long that took.
    round_trips: SortedMap<NodeId, (Instant, Duration)>,
}

impl Links {
    pub(crate) fn opened(&mut self, node: NodeId, lane: Lane) {
        match lane {
            Lane::Command => {
                self.commands.insert(node);
                self.outages.remove(&node);
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
                self.outages.insert(node, cause);
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

    /// The nodes whose command lane is open.
    pub(crate) const fn connected(&self) -> &SortedSet<NodeId> {
        &self.commands
    }

    /// Whether its first connection is being made, and nothing has gone wrong so far.
    pub(crate) fn is_connecting(&self, node: NodeId) -> bool {
        !self.commands.contains(&node) && !self.outages.contains_key(&node)
    }

    /// A node answered a call after so long.
    pub(crate) fn answered(&mut self, node: NodeId, took: Duration, now: Instant) {
        self.round_trips.insert(node, (now, took));
    }

    /// How long the last answer of a node took, if it came since then.
    pub(crate) fn round_trip(&self, node: NodeId, since: Instant) -> Option<Duration> {
        let (at, took) = self.round_trips.get(&node)?;
        (*at >= since).then_some(*took)
    }

    /// Why a node does not answer.
    pub(crate) fn silence_of(&self, node: NodeId) -> Cause {
        match self.outages.get(&node) {
            _ if self.commands.contains(&node) => "no answer".into(),
            Some(cause) => cause.clone().reworded(|text| format!("not connected ({text})")),
            None => "not connected".into(),
        }
    }
}
