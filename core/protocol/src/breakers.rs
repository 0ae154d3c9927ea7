//! Which primaries do not answer: a circuit breaker for each.
//!
//! ```text
//!          so many failures in a row            the pause is over, or a connection opened
//!  Closed ───────────────────────────► Open ────────────────────────────────────► Probing
//!    ▲                                  ▲         the probe came to nothing          │
//!    │                                  └────────────────────────────────────────────┤
//!    └───────────────────────────────────────────────────────────────────────────────┘
//!            a call to that primary is answered: the probe, a renewal, a release
//! ```
//!
//! While one is not closed, nobody is made to wait for that primary: what becomes of an
//! acquisition is as [`OnUnavailable`] says. Releases and renewals go on. Only what tells of
//! unavailability counts: an answer that is overdue, a connection that is lost or cannot be
//! made, an error that says that the server cannot serve.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Cause;
use crate::ids::{CallId, NodeId, Primary};
use crate::instant::Instant;
use crate::kinds::{Invocation, Keys};
use crate::reply::{CallError, Reply};
use crate::slot::slot;
use crate::sorted::SortedMap;
use crate::wording::brief;

/// When a circuit breaker opens, and how long it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// It opens after so many failures in a row.
    pub failures: u32,
    /// The time between two probes while it is open.
    pub pause: Duration,
}

impl Breaker {
    /// Five failures, and a probe every 10 s.
    pub const DEFAULT: Self = Self {
        failures: 5,
        pause: Duration::from_secs(10),
    };
}

/// Why nobody waits for a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) since: Instant,
    pub(crate) cause: Cause,
}

impl Outage {
    /// What who would have to wait is told.
    pub(crate) fn told(&self, now: Instant) -> Cause {
        let open = brief(now.saturating_since(self.since));
        let cause = self.cause.clone();
        cause.reworded(|text| format!("the circuit breaker has been open for {open}: {text}"))
    }
}

/// What an answer, or none, says of a primary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Serves,
    /// It does not; why.
    Fails(Cause),
    /// It does not say.
    Unknown,
}

/// The breakers of a client.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    terms: Option<Breaker>,
    /// Of a cluster, which primary has which slot.
    slots: SortedMap<NodeId, Arc<[u16]>>,
    /// Those of which there is something to be kept.
    by_primary: SortedMap<Primary, State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many failures in a row there were.
    failures: u32,
    /// Set while it is open.
    outage: Option<Outage>,
    /// The probe in flight.
    probe: Option<CallId>,
    /// A lock of that primary, which a probe asks about.
    of: Option<Arc<Keys>>,
}

impl Breakers {
    pub(crate) fn new(terms: Option<Breaker>) -> Self {
        Self {
            terms,
            ..Self::default()
        }
    }

    /// From now on none opens. Gives the primaries of which one was kept.
    pub(crate) fn close(&mut self) -> Vec<Primary> {
        self.terms = None;
        std::mem::take(&mut self.by_primary).into_keys().collect()
    }

    /// The time between two probes.
    pub(crate) fn pause(&self) -> Duration {
        self.terms.unwrap_or(Breaker::DEFAULT).pause
    }

    /// Which primary of a cluster has which slot. Gives those with an open breaker that have none any more.
    pub(crate) fn set_slots(&mut self, node: NodeId, slots: Arc<[u16]>) -> Vec<Primary> {
        let open = self.open_at(node).into_iter();
        let gone = open.filter(|primary| !slots.contains(&primary.number)).collect();
        self.slots.insert(node, slots);
        gone
    }

    /// Whether a node is a cluster, whose primaries have breakers of their own.
    pub(crate) fn is_cluster(&self, node: NodeId) -> bool {
        self.slots.contains_key(&node)
    }

    /// The node of a lock, and its slot if that is a cluster.
    pub(crate) fn place(&self, keys: &Keys) -> (NodeId, Option<u16>) {
        let slot = self.is_cluster(keys.node).then(|| slot(&keys.record));
        (keys.node, slot)
    }

    /// The primary that has a key.
    pub(crate) fn primary(&self, node: NodeId, key: &[u8]) -> Primary {
        let number = self.slots.get(&node);
        let number = number.and_then(|slots| slots.get(usize::from(slot(key))));
        Primary {
            node,
            number: number.copied().unwrap_or_default(),
        }
    }

    /// Whether nothing is known against any primary, as nearly always.
    pub(crate) fn is_quiet(&self) -> bool {
        self.by_primary.is_empty()
    }

    /// Whether the breaker of any primary is open.
    pub(crate) fn is_any_open(&self) -> bool {
        self.by_primary.values().any(|state| state.outage.is_some())
    }

    /// Why nobody waits for the primary of this lock; `None` while its breaker is closed.
    pub(crate) fn outage(&self, keys: &Keys) -> Option<&Outage> {
        if self.is_quiet() {
            return None;
        }
        let primary = self.primary(keys.node, &keys.record);
        self.by_primary.get(&primary)?.outage.as_ref()
    }

    /// A call or an attempt to connect failed. Says whether that opens the breaker.
    pub(crate) fn failed(&mut self, primary: Primary, cause: &Cause, now: Instant) -> bool {
        let Some(terms) = self.terms else { return false };
        let state = self.by_primary.get_or_default(primary);
        state.failures = state.failures.saturating_add(1);
        if state.outage.is_some() || state.failures < terms.failures {
            return false;
        }
        state.outage = Some(Outage {
            since: now,
            cause: cause.clone(),
        });
        true
    }

    /// It was answered. Gives the outage that is over by that, if there was one.
    pub(crate) fn answered(&mut self, primary: Primary) -> Option<Outage> {
        self.by_primary.remove(&primary)?.outage
    }

    /// A connection opened, which is an answer, too: failures before it are of another row. One
    /// that is open stays so until a call is answered.
    pub(crate) fn connected(&mut self, primary: Primary) {
        let state = self.by_primary.get_mut(&primary);
        if let Some(state) = state.filter(|state| state.outage.is_none()) {
            state.failures = 0;
        }
    }

    /// A lock of that primary, which the next probe may ask about.
    pub(crate) fn note_lock(&mut self, keys: &Arc<Keys>) {
        if self.is_quiet() {
            return;
        }
        let primary = self.primary(keys.node, &keys.record);
        if let Some(state) = self.by_primary.get_mut(&primary) {
            state.of = Some(Arc::clone(keys));
        }
    }

    /// The question of a probe, if one is due and is not under way; `Err` if nothing is known to
    /// ask about.
    pub(crate) fn probe(&self, primary: Primary) -> Option<Result<Invocation, NothingToAsk>> {
        let state = self.by_primary.get(&primary)?;
        if state.outage.is_none() || state.probe.is_some() {
            return None;
        }
        // The slot of one that was noted may be another primary's by now.
        let is_its = |keys: &&Arc<Keys>| self.primary(keys.node, &keys.record) == primary;
        let of = state.of.as_ref().filter(is_its);
        Some(of.map(|keys| keys.inspect()).ok_or(NothingToAsk))
    }

    pub(crate) fn probes(&mut self, primary: Primary, call: CallId) {
        if let Some(state) = self.by_primary.get_mut(&primary) {
            state.probe = Some(call);
        }
    }

    /// A probe came to nothing. False if it is not the one that counts.
    pub(crate) fn probe_failed(&mut self, primary: Primary, call: CallId) -> bool {
        let state = self.by_primary.get_mut(&primary);
        let Some(state) = state.filter(|state| state.probe == Some(call)) else {
            return false;
        };
        state.probe = None;
        true
    }

    /// The open ones of a node.
    pub(crate) fn open_at(&self, node: NodeId) -> Vec<Primary> {
        let open = self.by_primary.iter().filter(|(_, state)| state.outage.is_some());
        open.map(|(primary, _)| *primary)
            .filter(|primary| primary.node == node)
            .collect()
    }
}

/// No lock of the primary was wanted yet.
#[derive(Debug)]
pub(crate) struct NothingToAsk;

impl Health {
    /// What the answer to a call says.
    pub(crate) fn of(result: &Result<Reply, CallError>) -> Self {
        match result {
            Ok(_) => Self::Serves,
            // That the connection is lost is told once for all of its calls.
            Err(CallError::Disconnected(_)) => Self::Unknown,
            Err(CallError::Server { code, message }) => match code.as_str() {
                "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "READONLY" => {
                    Self::Fails(Cause::new(format!("the server refused: {code} {message}")))
                }
                // It answers, and may not write for now: who holds a lock goes on there.
                "OOM" | "NOREPLICAS" | "MISCONF" => Self::Unknown,
                // Of one slot, or on its way elsewhere.
                "TRYAGAIN" | "MOVED" | "ASK" | "NOSCRIPT" | "UNBLOCKED" => Self::Unknown,
                _ => Self::Serves,
            },
        }
    }
}
