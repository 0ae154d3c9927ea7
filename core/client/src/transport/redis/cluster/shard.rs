//! One node of a cluster: its connections, and what is known of it.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Cause, Instant, Lane};

use crate::settings::Settings;
use crate::target::Target;
use crate::transport::redis::connect::Connector;
use crate::transport::redis::lane::LaneLink;
use crate::transport::redis::membership::Membership;
use crate::transport::redis::{Failing, Redis};

/// A node without slots is left when it had nothing to do for so long.
const IDLE: Duration = Duration::from_secs(5);
/// The cluster is asked about a node that has not answered for so long.
const SILENT: Duration = Duration::from_secs(1);

/// A node.
pub(super) struct Shard {
    redis: Redis,
    used: Instant,
    cause: Option<Cause>,
}

impl Shard {
    pub(super) fn new(settings: &Arc<Settings>, target: &Target, now: Instant) -> Self {
        let connector = Connector::announced(settings, target, Membership::Shard);
        Self {
            redis: Redis::with(Arc::new(connector), settings, Failing::IsAnOutage),
            used: now,
            cause: None,
        }
    }

    /// Its connections.
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

    /// Something was, or is to be, done there.
    pub(super) const fn used(&mut self, now: Instant) {
        self.used = now;
    }

    /// When it may be left, if it has no slots.
    pub(super) fn idle_at(&self) -> Instant {
        self.used + IDLE
    }

    /// When its oldest call has waited so long that another node may have taken its place.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let lanes = [&self.redis.commands, &self.redis.renewals];
        let oldest = lanes.into_iter().filter_map(LaneLink::unanswered_since).min()?;
        Some(oldest + SILENT)
    }

    /// A connection to it failed.
    pub(super) fn failed(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    /// Why the last connection failed that did.
    pub(super) const fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }
}
