//! Asks a cluster which node has which slot.
//!
//! Several nodes are asked at once, and a few more if those fail, or are slow for 250 ms: nodes that hang delay the
//! answer only briefly. The first good answer is used. If it is wrong, MOVED replies correct it.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::{Instant, Reply};

use super::slots::Slots;
use crate::settings::Settings;
use crate::target::Target;
use crate::transport::redis::address::Address;
use crate::transport::redis::connect::{Boxed, Connector};
use crate::transport::redis::failure::Failure;
use crate::transport::redis::outage::Outage;
use crate::transport::redis::server_kind::ServerKind;

pub(super) const QUESTION: &[&[u8]] = &[b"CLUSTER", b"SLOTS"];
/// The number of nodes that are asked at once.
const NODES_AT_ONCE: usize = 3;
/// The time without an answer after which more nodes are asked.
const SLOW_AFTER: Duration = Duration::from_millis(250);
/// The shortest pause between two rounds of questions.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two rounds of questions.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Asks the cluster for its topology in rounds of questions to its nodes.
pub(super) struct Topology {
    settings: Arc<Settings>,
    target: Target,
    pending: Vec<PendingAnswer>,
    /// The nodes to ask if the first ones fail or are slow.
    next: Vec<Address>,
    /// The time at which the asked nodes count as slow.
    slow_at: Instant,
    /// Whether a round is requested: there is no answer yet, or it may be outdated.
    is_requested: bool,
    /// The earliest time of the next round.
    not_before: Instant,
    pause: Duration,
    outage: Outage,
    /// The most telling failure of the current round.
    failure: Option<Failure>,
}

struct PendingAnswer {
    host: Arc<str>,
    answer: Boxed<Result<Reply, Failure>>,
}

impl Topology {
    pub(super) fn new(settings: &Arc<Settings>, target: &Target) -> Self {
        Self {
            settings: Arc::clone(settings),
            target: target.clone(),
            pending: Vec::new(),
            next: Vec::new(),
            slow_at: Instant::ZERO,
            is_requested: true,
            not_before: Instant::ZERO,
            pause: SHORTEST_PAUSE,
            outage: Outage::default(),
            failure: None,
        }
    }

    /// Requests a round. If one is running, another one follows.
    pub(super) const fn request(&mut self) {
        self.is_requested = true;
    }

    /// Notes that no node is missing. If the pause after the last round is over, the next pause is the shortest one
    /// again.
    pub(super) fn on_stable(&mut self, now: Instant) {
        if !self.is_requested && self.pending.is_empty() && now >= self.not_before {
            self.pause = SHORTEST_PAUSE;
        }
    }

    /// Whether a round is requested or running.
    pub(super) const fn is_requested(&self) -> bool {
        self.is_requested || !self.pending.is_empty()
    }

    /// Advances a round, or begins one with `nodes`. Returns the answer or the failure of a round that is over.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        nodes: impl FnOnce() -> Vec<Address>,
    ) -> Option<Result<Slots, Failure>> {
        if self.pending.is_empty() && self.is_requested && now >= self.not_before {
            self.is_requested = false;
            self.next = nodes();
            self.shuffle();
            self.ask_next(now);
        }
        loop {
            if let Some(slots) = self.poll_pending(context) {
                self.pending.clear();
                self.end_round(now);
                self.outage = Outage::default();
                return Some(Ok(slots));
            }
            if self.pending.is_empty() && self.next.is_empty() {
                let failure = self.failure.take()?;
                self.outage.failed(now);
                self.end_round(now);
                return Some(Err(failure));
            }
            if !self.pending.is_empty() && now < self.slow_at || self.next.is_empty() {
                return None;
            }
            self.ask_next(now);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if self.pending.is_empty() {
            Some(self.not_before).filter(|_| self.is_requested)
        } else {
            Some(self.slow_at).filter(|_| !self.next.is_empty())
        }
    }

    fn poll_pending(&mut self, context: &mut Context<'_>) -> Option<Slots> {
        let mut slots = None;
        let mut remaining = Vec::new();
        for mut pending in mem::take(&mut self.pending) {
            match pending.answer.as_mut().poll(context) {
                Poll::Pending => remaining.push(pending),
                Poll::Ready(Ok(answer)) => match Slots::read(&answer, &pending.host) {
                    Some(read) => slots = slots.or(Some(read)),
                    None => self.add_failure(Failure::unavailable("no slot of the cluster has an owner")),
                },
                Poll::Ready(Err(failure)) => self.add_failure(failure),
            }
        }
        self.pending = remaining;
        slots
    }

    /// Notes a failure. A lasting failure explains more than one that can pass.
    fn add_failure(&mut self, failure: Failure) {
        if self.failure.as_ref().is_none_or(|known| !known.is_lasting()) {
            self.failure = Some(failure);
        }
    }

    /// Ends the round. The pause before the next one doubles each time.
    fn end_round(&mut self, now: Instant) {
        self.next.clear();
        self.failure = None;
        self.not_before = now + self.pause;
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
    }

    fn ask_next(&mut self, now: Instant) {
        self.slow_at = now + SLOW_AFTER;
        for node in self.next.split_off(self.next.len().saturating_sub(NODES_AT_ONCE)) {
            let target = self.target.node_target(&node.host, node.port);
            let connector = Arc::new(if self.target.names_address(&node.host, node.port) {
                Connector::new(&self.settings, &target, ServerKind::ClusterNode, None)
            } else {
                Connector::announced(&self.settings, &target, ServerKind::ClusterNode)
            });
            self.pending.push(PendingAnswer {
                host: Arc::clone(&node.host),
                answer: connector.ask(QUESTION, &self.outage, now),
            });
        }
    }

    /// Shuffles the nodes, so that many clients that lost the same node do not all ask the same others.
    fn shuffle(&mut self) {
        for end in (1..self.next.len()).rev() {
            let other = self.settings.world.below(end as u64 + 1);
            self.next.swap(end, usize::try_from(other).unwrap_or(end));
        }
    }
}
