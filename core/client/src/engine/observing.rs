//! Informs observers, the host's log and the metrics of what the session, the transport and the callers do.
//!
//! An engine has an `Observing` only if one of these is in use, or can come into use later.

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::{SortedMap, Table};
use steadlock_protocol::{
    Cause, Detail, Error, Instant, Kind, Lane, LeaseId, LostReason, NodeId, Observed, Outcome, Primary, RunEnd, Ticket,
    shown,
};

use super::metering::Metering;
use crate::observe::metrics::{Groups, Metrics};
use crate::observe::{Journal, Level, Link, Observation, ObservedLock, Observers, WaitOutcome};
use crate::port::{Event, Lease, Port, host_id};
use crate::settings::Settings;
use crate::transport::TransportEvent;

pub(super) struct Observing {
    settings: Arc<Settings>,
    generation: u64,
    /// The amount of detail for observers and the log.
    detail: Detail,
    metering: Option<Metering>,
    observers: Observers,
    /// The least severe level that the host's log shows. `None` if it is off.
    log: Option<Level>,
    /// The writer of the host's log. `None` if the host has no log.
    journal: Option<Journal>,
    events: Vec<Event>,
    /// The names of the servers in messages, by node.
    servers: Vec<Arc<str>>,
    /// For each node that is a whole cluster: the names of its primaries, by primary number.
    primaries: SortedMap<NodeId, Arc<[Arc<str>]>>,
    links: SortedMap<(Arc<str>, Lane), LinkState>,
    /// The waiters, each with the time when its wait began. This table, `held` and `releases` are kept only with
    /// `Detail::Everything`.
    waits: Table<Ticket, Ongoing>,
    held: Table<LeaseId, Ongoing>,
    /// Releases whose callers no longer wait.
    releases: Table<Ticket, LeaseId>,
    /// The losses that the session has just observed. Their events follow next.
    losses: Vec<ObservedLoss>,
}

/// The state of a connection.
enum LinkState {
    Open,
    Missing {
        /// The time when the connection was lost or first failed.
        since: Instant,
        /// The number of failed attempts in this outage.
        failures: u32,
    },
}

/// A wait or a hold, and the time when it began.
struct Ongoing {
    lock: ObservedLock,
    since: Instant,
}

/// One lost hold of one lock.
struct ObservedLoss {
    leases: Vec<LeaseId>,
    lock: ObservedLock,
    server: Arc<str>,
    reason: LostReason,
    cause: Option<String>,
    held: Duration,
    length: Duration,
}

impl Observing {
    /// Returns `None` if nothing can ever observe this engine. A host with a log counts as an observer even while its
    /// log is off: it can turn the log on later, and the log must know then which connections were open before.
    pub(super) fn new(settings: &Arc<Settings>, port: &Port) -> Option<Box<Self>> {
        let (log, metrics) = (settings.log.get(), port.metrics());
        let detail = required_detail(&settings.observers, log);
        (detail > Detail::Nothing || metrics.is_some() || port.is_drained()).then(|| {
            Box::new(Self {
                settings: Arc::clone(settings),
                generation: port.generation(),
                detail,
                metering: metrics.map(|metrics| metering(settings, Arc::clone(metrics))),
                observers: settings.observers.clone(),
                log,
                journal: port.is_drained().then(|| Journal::new(log)),
                events: Vec::new(),
                servers: settings.servers().into_iter().map(Into::into).collect(),
                primaries: SortedMap::new(),
                links: SortedMap::new(),
                waits: Table::default(),
                held: Table::default(),
                releases: Table::default(),
                losses: Vec::new(),
            })
        })
    }

    /// Adopts a new level of the host's log. Returns whether the level has changed.
    pub(super) fn update_log_level(&mut self) -> bool {
        let log = self.settings.log.get();
        if log == self.log {
            return false;
        }
        self.log = log;
        self.detail = required_detail(&self.observers, log);
        if let Some(journal) = &mut self.journal {
            journal.set_level(log);
        }
        if self.detail < Detail::Everything {
            // At this detail nothing removes entries from these tables when waits and holds end.
            (self.waits, self.held, self.releases) = Default::default();
        }
        true
    }

    /// Returns the amount of detail that the session has to report.
    pub(super) fn detail(&self) -> Detail {
        let metering_detail = self.metering.as_ref().map_or(Detail::Nothing, |_| Detail::Renewals);
        self.detail.max(metering_detail)
    }

    /// Returns the lines for the host's log.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the name of a cluster's primary, or of its node if the primary is unknown.
    fn primary(&self, primary: Primary) -> Arc<str> {
        let names = self.primaries.get(&primary.node);
        let name = names.and_then(|names| names.get(usize::from(primary.number)));
        name.map_or_else(|| self.server(primary.node), Arc::clone)
    }

    /// Handles an event of the transport.
    pub(super) fn on_transport_event(&mut self, event: &TransportEvent, now: Instant) {
        match event {
            TransportEvent::LaneOpened { node, lane } => self.opened(self.server(*node), *lane, now),
            TransportEvent::LaneClosed { node, lane, cause } => self.closed(self.server(*node), *lane, cause, now),
            TransportEvent::ShardLaneOpened { server, lane } => self.opened(Arc::clone(server), *lane, now),
            TransportEvent::ShardLaneClosed { server, lane, cause } => {
                self.closed(Arc::clone(server), *lane, cause, now)
            }
            TransportEvent::Slots { node, primaries, .. } => {
                self.primaries.insert(*node, Arc::clone(primaries));
            }
            TransportEvent::SubscriptionsLost(_)
            | TransportEvent::SubscriptionLost { .. }
            | TransportEvent::Sendable
            | TransportEvent::Ready
            | TransportEvent::Unreachable(_)
            | TransportEvent::Reply { .. }
            | TransportEvent::Subscribed { .. }
            | TransportEvent::Message { .. } => {}
        }
    }

    fn opened(&mut self, server: Arc<str>, lane: Lane, now: Instant) {
        let before = self.links.insert((Arc::clone(&server), lane), LinkState::Open);
        let missing = match before {
            Some(LinkState::Missing { since, .. }) => Some(now.saturating_since(since)),
            Some(LinkState::Open) | None => None,
        };
        let link = link_of(lane);
        if let Some(metering) = self.metering.as_ref().filter(|_| missing.is_some()) {
            metering.reconnected(link);
        }
        self.report(&Observation::Connected { server, link, missing }, now);
    }

    fn closed(&mut self, server: Arc<str>, lane: Lane, cause: &Cause, now: Instant) {
        let (key, link, cause) = ((Arc::clone(&server), lane), link_of(lane), cause.to_string());
        let (since, failures) = match self.links.get(&key) {
            Some(LinkState::Open) => (now, 0),
            Some(LinkState::Missing { since, failures }) => (*since, failures.saturating_add(1)),
            None => (now, 1),
        };
        self.links.insert(key, LinkState::Missing { since, failures });
        if let Some(metering) = &self.metering {
            match failures {
                0 => metering.connection_lost(link),
                _ => metering.connect_failed(link),
            }
        }
        let observation = match failures {
            0 => Observation::Disconnected { server, link, cause },
            _ => Observation::ConnectFailing {
                server,
                link,
                cause,
                missing: now.saturating_since(since),
                failures,
            },
        };
        self.report(&observation, now);
    }

    /// Handles an observation of the session.
    pub(super) fn on_session_observation(&mut self, observed: Observed, now: Instant) {
        self.count(&observed);
        // At this detail the session reports renewals only for the metrics.
        if matches!(observed, Observed::Renewed { failures: 0, .. }) && self.detail < Detail::Renewals {
            return;
        }
        let observation = match observed {
            Observed::Attempt { place, outcome, took } => Observation::Attempt {
                lock: self.lock(place.kind.name(), place.name.as_str()),
                server: self.server(place.node),
                outcome,
                took,
            },
            Observed::Renewed { place, took, failures } => Observation::Renewed {
                lock: self.lock(place.kind.name(), place.name.as_str()),
                server: self.server(place.node),
                took,
                failures,
            },
            Observed::RenewalFailed {
                place,
                why,
                left,
                failures,
            } => Observation::RenewalFailing {
                lock: self.lock(place.kind.name(), place.name.as_str()),
                server: self.server(place.node),
                cause: why,
                left,
                failures,
            },
            Observed::BreakerOpened { primary, why } => Observation::BreakerOpened {
                server: self.primary(primary),
                cause: why,
            },
            Observed::BreakerClosed { primary, open } => Observation::BreakerClosed {
                server: self.primary(primary),
                open,
            },
            Observed::ClockAhead { primary, by } => self.clock_ahead(primary, by),
            Observed::Lost {
                place,
                leases,
                reason,
                why,
                held,
                lease,
            } => {
                return self.losses.push(ObservedLoss {
                    leases,
                    lock: self.lock(place.kind.name(), place.name.as_str()),
                    server: self.server(place.node),
                    reason,
                    cause: why,
                    held,
                    length: lease,
                });
            }
        };
        self.report(&observation, now);
    }

    fn clock_ahead(&self, primary: Primary, by: Duration) -> Observation {
        let server = self.primary(primary);
        Observation::ClockAhead { server, by }
    }

    fn count(&mut self, observed: &Observed) {
        let Some(metering) = &mut self.metering else { return };
        match observed {
            Observed::Renewed { place, .. } => {
                let name = self.settings.without_prefix(place.name.as_str());
                metering.renewal_confirmed(place.kind.name(), name);
            }
            Observed::RenewalFailed { place, .. } => {
                let name = self.settings.without_prefix(place.name.as_str());
                metering.renewal_failed(place.kind.name(), name);
            }
            Observed::BreakerOpened { .. } => metering.breaker_opened(),
            Observed::BreakerClosed { .. } => metering.breaker_closed(),
            Observed::Attempt { .. } | Observed::ClockAhead { .. } | Observed::Lost { .. } => {}
        }
    }

    /// Reports the loss of a lease to observers, the log and the metrics when its holder is informed. A composite lock
    /// is lost together with its members, whose losses the session observed before.
    pub(super) fn lost(&mut self, id: LeaseId, lease: &Lease, why: LostReason, now: Instant) {
        if let Some(metering) = &mut self.metering {
            metering.lost(id, why, now);
        }
        let known = self.losses.iter().find(|loss| loss.leases.contains(&id));
        let loss = known.or_else(|| self.losses.last());
        let observation = Observation::Lost {
            lock: known.map_or_else(|| self.composite(lease.name()), |loss| loss.lock.clone()),
            lease: lease.id(),
            server: loss.map_or_else(|| self.settings.server().into(), |loss| Arc::clone(&loss.server)),
            reason: known.map_or(why, |loss| loss.reason),
            cause: loss.and_then(|loss| loss.cause.clone()),
            held: known.map(|loss| loss.held),
            length: known.map(|loss| loss.length),
        };
        self.held.remove(&id);
        self.report(&observation, now);
    }

    /// Forgets the session's losses whose events have been passed on.
    pub(super) fn clear_losses(&mut self) {
        self.losses.clear();
    }

    /// Notes a caller that begins to wait for a lock. `kind` is `None` if the caller asked for several locks at once.
    pub(super) fn wait_began(&mut self, ticket: Ticket, kind: Option<Kind>, name: &str, now: Instant) {
        let composite = self.composite_kind();
        if let Some(metering) = &mut self.metering {
            metering.wait_began(ticket, kind.map_or(composite, Kind::name), name, now);
        }
        if self.detail < Detail::Everything {
            return;
        }
        let lock = match kind {
            Some(kind) => ObservedLock::new(kind.name(), shown(name).into()),
            None => self.composite(name),
        };
        let wait = Ongoing {
            lock: lock.clone(),
            since: now,
        };
        self.waits.insert(ticket, wait);
        self.report(&Observation::WaitBegan { lock }, now);
    }

    /// Notes how a run ends that is about to be released.
    pub(super) fn run_ends(&mut self, lease: LeaseId, end: RunEnd) {
        if let Some(metering) = &mut self.metering {
            metering.run_ends(lease, end);
        }
    }

    /// Notes a release that continues although its caller went away.
    pub(super) fn release_detached(&mut self, ticket: Ticket, lease: LeaseId) {
        if let Some(metering) = &mut self.metering {
            metering.release_detached(ticket, lease);
        }
        if self.detail >= Detail::Everything {
            self.releases.insert(ticket, lease);
        }
    }

    /// Reports the outcome of a ticket. Only a release uses `released`: its lease, or `None` if its caller went away.
    pub(super) fn completed(&mut self, ticket: Ticket, outcome: &Outcome, released: Option<LeaseId>, now: Instant) {
        if let Some(metering) = &mut self.metering {
            metering.completed(ticket, outcome, released, now);
        }
        if self.detail < Detail::Everything {
            return;
        }
        let released = released.or_else(|| self.releases.remove(&ticket));
        if let (Some(lease), Outcome::Released(outcome)) = (released, outcome)
            && let Some(Ongoing { lock, since }) = self.held.remove(&lease)
        {
            let observation = Observation::Released {
                lock,
                lease: host_id(self.generation, lease.get()),
                outcome: *outcome,
                held: now.saturating_since(since),
            };
            return self.report(&observation, now);
        }
        let ended = match outcome {
            Outcome::Granted(_) => WaitOutcome::Granted,
            Outcome::NotGranted(error) => match error.skip() {
                Some(skip) => WaitOutcome::Skipped(skip.reason),
                None => WaitOutcome::TimedOut,
            },
            Outcome::Failed(error) => WaitOutcome::Failed(Error::kind(error)),
            Outcome::Released(_) | Outcome::Extended(_) | Outcome::State(_) | Outcome::Forced(_) => return,
        };
        let Some((lock, waited)) = self.wait_ended(ticket, ended, now) else {
            return;
        };
        if let Outcome::Granted(grant) = outcome {
            let hold = Ongoing {
                lock: lock.clone(),
                since: now,
            };
            self.held.insert(grant.lease, hold);
            let granted = Observation::Granted {
                lock,
                lease: host_id(self.generation, grant.lease.get()),
                token: grant.token.map(steadlock_protocol::Token::get),
                waited,
            };
            self.report(&granted, now);
        }
    }

    /// Reports that the caller of a ticket went away.
    pub(super) fn cancelled(&mut self, ticket: Ticket, now: Instant) {
        if let Some(metering) = &mut self.metering {
            metering.cancelled(ticket, now);
        }
        self.wait_ended(ticket, WaitOutcome::Cancelled, now);
    }

    fn wait_ended(&mut self, ticket: Ticket, outcome: WaitOutcome, now: Instant) -> Option<(ObservedLock, Duration)> {
        let Ongoing { lock, since } = self.waits.remove(&ticket)?;
        let waited = now.saturating_since(since);
        let ended = Observation::WaitEnded {
            lock: lock.clone(),
            outcome,
            waited,
        };
        self.report(&ended, now);
        Some((lock, waited))
    }

    fn report(&mut self, observation: &Observation, now: Instant) {
        self.observers.notify(observation);
        let line = self.journal.as_mut().and_then(|journal| journal.line(observation, now));
        self.events.extend(line.map(|line| Event::Observed(Box::new(line))));
    }

    fn server(&self, node: NodeId) -> Arc<str> {
        match self.servers.get(usize::from(node.0)) {
            Some(server) => Arc::clone(server),
            None => self.settings.server().into(),
        }
    }

    fn lock(&self, kind: &'static str, name: &str) -> ObservedLock {
        ObservedLock::new(kind, shown(self.settings.without_prefix(name)).into())
    }

    /// Returns a composite lock of this name: a multi-lock, or one lock on several servers.
    fn composite(&self, name: &str) -> ObservedLock {
        ObservedLock::new(self.composite_kind(), shown(name).into())
    }

    /// Returns the kind of a composite lock.
    const fn composite_kind(&self) -> &'static str {
        if self.servers.len() > 1 { "lock" } else { "multi_lock" }
    }
}

/// Returns the detail that these observers and a log of this level need.
fn required_detail(observers: &Observers, log: Option<Level>) -> Detail {
    log.map_or(Detail::Nothing, Level::detail).max(observers.detail())
}

fn metering(settings: &Settings, metrics: Arc<Metrics>) -> Metering {
    let grouping = settings.metrics.clone().unwrap_or_default();
    let groups = Groups::new(Arc::clone(&metrics), grouping);
    Metering::new(metrics, groups, settings.world.clone())
}

const fn link_of(lane: Lane) -> Link {
    match lane {
        Lane::Command => Link::Calls,
        Lane::Renewal => Link::Renewals,
    }
}
