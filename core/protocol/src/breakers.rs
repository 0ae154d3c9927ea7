//! The circuit breakers: one for each primary, open while the primary does not answer.
//!
//! ```text
//!          enough failures in a row             the pause is over, or a connection opened
//!  Closed ───────────────────────────► Open ────────────────────────────────────► Probing
//!    ▲                                 │  ▲           the probe failed             │   │
//!    │                                 │  └────────────────────────────────────────┘   │
//!    └─────────────────────────────────┴───────────────────────────────────────────────┘
//!            a call to that primary is answered: the probe, a renewal, a release
//! ```
//!
//! A breaker also closes if no lock is known that a probe could ask about, or if its primary has no slot of the cluster
//! any more. While a breaker is not closed, no request waits for its primary: `OnUnavailable` decides what happens
//! instead. A RedLock continues with the other primaries while they are a majority. Releases and renewals go on. Only
//! signs of unavailability count as failures: an overdue answer, a connection that is lost or cannot be made, and an
//! error that says that the server cannot serve.

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::SortedMap;

use crate::error::Cause;
use crate::ids::{CallId, NodeId, Primary};
use crate::instant::Instant;
use crate::kinds::{Invocation, Keys};
use crate::reply::{CallError, Reply};
use crate::slot::slot;
use crate::wording::brief;

/// The settings of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// The number of failures in a row that open the breaker.
    pub failures: u32,
    /// The time between two probes while the breaker is open.
    pub pause: Duration,
}

impl Breaker {
    /// Five failures, and a probe every 10 s.
    pub const DEFAULT: Self = Self {
        failures: 5,
        pause: Duration::from_secs(10),
    };
}

/// Why and since when the breaker of a primary is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) since: Instant,
    pub(crate) cause: Cause,
}

impl Outage {
    /// Returns the cause for the error of a caller that would have to wait.
    pub(crate) fn refusal_cause(&self, now: Instant) -> Cause {
        let open = brief(now.saturating_since(self.since));
        let cause = self.cause.clone();
        cause.reworded(|text| format!("the circuit breaker has been open for {open}: {text}"))
    }
}

/// The health of a primary, as the result of a call shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Serves,
    /// The primary cannot serve, for this reason.
    Fails(Cause),
    /// The result says nothing about the primary.
    Unknown,
}

/// The breakers of a client.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    terms: Option<Breaker>,
    /// Which primary has which slot, for each node that is a cluster.
    slots: SortedMap<NodeId, Arc<[u16]>>,
    /// The primaries that have had failures since their last answer.
    by_primary: SortedMap<Primary, State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of failures in a row.
    failures: u32,
    /// Why the breaker is open; `None` while it is closed.
    outage: Option<Outage>,
    /// The probe in flight.
    probe: Option<CallId>,
    /// A lock of the primary, which a probe can ask about.
    lock: Option<Arc<Keys>>,
}

impl Breakers {
    pub(crate) fn new(terms: Option<Breaker>) -> Self {
        Self {
            terms,
            ..Self::default()
        }
    }

    /// Disables the breakers. Returns the primaries that may have a probe timer.
    pub(crate) fn close(&mut self) -> Vec<Primary> {
        self.terms = None;
        std::mem::take(&mut self.by_primary).into_keys().collect()
    }

    /// Returns the time between two probes.
    pub(crate) fn pause(&self) -> Duration {
        self.terms.unwrap_or(Breaker::DEFAULT).pause
    }

    /// Notes which primary of a cluster has which slot. Returns the primaries with an open breaker that have no slot
    /// any more.
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

    /// Returns the node of a lock, and the slot of the lock if the node is a cluster.
    pub(crate) fn place(&self, keys: &Keys) -> (NodeId, Option<u16>) {
        let slot = self.is_cluster(keys.node).then(|| slot(&keys.record));
        (keys.node, slot)
    }

    /// Returns the primary of a key.
    pub(crate) fn primary(&self, node: NodeId, key: &[u8]) -> Primary {
        let slots = self.slots.get(&node);
        let number = slots.and_then(|slots| slots.get(usize::from(slot(key))));
        Primary {
            node,
            number: number.copied().unwrap_or_default(),
        }
    }

    /// Whether no primary has had failures since its last answer. This is nearly always true.
    pub(crate) fn is_quiet(&self) -> bool {
        self.by_primary.is_empty()
    }

    /// Whether the breaker of any primary is open.
    pub(crate) fn is_any_open(&self) -> bool {
        self.by_primary.values().any(|state| state.outage.is_some())
    }

    /// Returns why the breaker of a lock's primary is open; `None` while it is closed.
    pub(crate) fn outage(&self, keys: &Keys) -> Option<&Outage> {
        if self.is_quiet() {
            return None;
        }
        let primary = self.primary(keys.node, &keys.record);
        self.by_primary.get(&primary)?.outage.as_ref()
    }

    /// Counts a failure: a failed call, or a connection that was lost or could not be made. Returns whether the breaker
    /// opens now.
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

    /// Notes that a primary answered a call. Returns the outage that ends now, if there was one.
    pub(crate) fn answered(&mut self, primary: Primary) -> Option<Outage> {
        self.by_primary.remove(&primary)?.outage
    }

    /// Notes that a connection to a primary opened. This resets the number of failures, but an open breaker stays open
    /// until a call is answered.
    pub(crate) fn connected(&mut self, primary: Primary) {
        let state = self.by_primary.get_mut(&primary);
        if let Some(state) = state.filter(|state| state.outage.is_none()) {
            state.failures = 0;
        }
    }

    /// Notes a lock of a primary, which the next probe can ask about.
    pub(crate) fn note_lock(&mut self, keys: &Arc<Keys>) {
        if self.is_quiet() {
            return;
        }
        let primary = self.primary(keys.node, &keys.record);
        if let Some(state) = self.by_primary.get_mut(&primary) {
            state.lock = Some(Arc::clone(keys));
        }
    }

    /// Returns the question of a probe, if the breaker is open and no probe is in flight; `Err` if there is no lock to
    /// ask about.
    pub(crate) fn probe(&self, primary: Primary) -> Option<Result<Invocation, NothingToAsk>> {
        let state = self.by_primary.get(&primary)?;
        if state.outage.is_none() || state.probe.is_some() {
            return None;
        }
        // The slot of the lock may belong to another primary by now.
        let is_its = |keys: &&Arc<Keys>| self.primary(keys.node, &keys.record) == primary;
        let lock = state.lock.as_ref().filter(is_its);
        Some(lock.map(|keys| keys.inspect()).ok_or(NothingToAsk))
    }

    /// Notes that a call is the probe of a primary.
    pub(crate) fn probes(&mut self, primary: Primary, call: CallId) {
        if let Some(state) = self.by_primary.get_mut(&primary) {
            state.probe = Some(call);
        }
    }

    /// Notes that a probe failed. Returns `false` if it is not the current probe.
    pub(crate) fn probe_failed(&mut self, primary: Primary, call: CallId) -> bool {
        let state = self.by_primary.get_mut(&primary);
        let Some(state) = state.filter(|state| state.probe == Some(call)) else {
            return false;
        };
        state.probe = None;
        true
    }

    /// Returns the primaries of a node whose breakers are open.
    pub(crate) fn open_at(&self, node: NodeId) -> Vec<Primary> {
        let open = self.by_primary.iter().filter(|(_, state)| state.outage.is_some());
        open.map(|(primary, _)| *primary)
            .filter(|primary| primary.node == node)
            .collect()
    }
}

/// There is no lock of the primary that a probe could ask about.
#[derive(Debug)]
pub(crate) struct NothingToAsk;

impl Health {
    /// Returns what the result of a call says about its primary.
    pub(crate) fn of(result: &Result<Reply, CallError>) -> Self {
        match result {
            Ok(_) => Self::Serves,
            // The loss of the connection is reported once, not for each of its calls.
            Err(CallError::Disconnected(_)) => Self::Unknown,
            Err(CallError::Server { code, message }) => match code.as_str() {
                "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "READONLY" => {
                    Self::Fails(Cause::new(format!("the server refused: {code} {message}")))
                }
                // The server answers, but refuses writes for now. Its holders keep their locks, so the breaker must not
                // open.
                "OOM" | "NOREPLICAS" | "MISCONF" => Self::Unknown,
                // These errors concern one slot (TRYAGAIN, MOVED, ASK), a call that the driver sends again (NOSCRIPT),
                // or a call that the server ended when its role changed (UNBLOCKED).
                "TRYAGAIN" | "MOVED" | "ASK" | "NOSCRIPT" | "UNBLOCKED" => Self::Unknown,
                _ => Self::Serves,
            },
        }
    }
}
