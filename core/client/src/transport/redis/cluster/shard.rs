//! One node of a cluster, with its connections.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Cause, Instant, Lane};

use crate::settings::Settings;
use crate::target::Target;
use crate::transport::redis::connect::Connector;
use crate::transport::redis::lane::LaneLink;
use crate::transport::redis::server_kind::ServerKind;
use crate::transport::redis::{FirstFailure, Redis};

/// A node without slots is left when it had nothing to do for this long.
const IDLE_LIMIT: Duration = Duration::from_secs(5);
/// The cluster is asked about a node that has not answered for this long.
const SILENCE_LIMIT: Duration = Duration::from_secs(1);

/// One node of a cluster.
pub(super) struct Shard {
    redis: Redis,
    last_used: Instant,
    /// The cause of the last failed connection.
    cause: Option<Cause>,
}

impl Shard {
    pub(super) fn new(settings: &Arc<Settings>, target: &Target, now: Instant) -> Self {
        let connector = Connector::announced(settings, target, ServerKind::ClusterNode);
        Self {
            redis: Redis::with(Arc::new(connector), settings, FirstFailure::Outage),
            last_used: now,
            cause: None,
        }
    }

    /// Returns the connections of the node.
    pub(super) const fn redis(&self) -> &Redis {
        &self.redis
    }

    pub(super) const fn redis_mut(&mut self) -> &mut Redis {
        &mut self.redis
    }

    pub(super) const fn lane(&mut self, lane: Lane) -> &mut LaneLink {
        match lane {
            Lane::Command => &mut self.redis.commands,
            Lane::Renewal => &mut self.redis.renewals,
        }
    }

    pub(super) const fn is_open(&self, lane: Lane) -> bool {
        match lane {
            Lane::Command => self.redis.commands.is_open(),
            Lane::Renewal => self.redis.renewals.is_open(),
        }
    }

    /// Notes that the node was needed.
    pub(super) const fn mark_used(&mut self, now: Instant) {
        self.last_used = now;
    }

    /// Returns the time at which the node may be left if it has no slots.
    pub(super) fn idle_at(&self) -> Instant {
        self.last_used + IDLE_LIMIT
    }

    /// Returns the time at which the oldest call will have waited so long that another node may have replaced this one.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let lanes = [&self.redis.commands, &self.redis.renewals];
        let oldest = lanes.into_iter().filter_map(LaneLink::unanswered_since).min()?;
        Some(oldest + SILENCE_LIMIT)
    }

    /// Notes a failed connection.
    pub(super) fn record_failure(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    /// Returns the cause of the last failed connection.
    pub(super) const fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }
}
