//! The choice of the transport.

use std::sync::Arc;

use steadlock_protocol::Error;

use super::memory::Memory;
use super::quorum::Quorum;
use super::redis::cluster::Cluster;
use super::redis::peers::Peers;
use super::redis::sentinel::Sentinel;
use super::redis::{FirstFailure, Redis};
use super::{FirstConnection, Transport};
use crate::settings::Settings;
use crate::target::{Scheme, Target};

/// Creates the transport for these settings. The transport connects when it is polled.
pub(crate) fn open(settings: &Arc<Settings>, first: FirstConnection) -> Result<Box<dyn Transport>, Error> {
    match settings.targets.as_slice() {
        [target] => {
            let first = match first {
                FirstConnection::Awaited => FirstFailure::Fatal,
                FirstConnection::Lazy => FirstFailure::Retryable,
                FirstConnection::Inherited => FirstFailure::Outage,
            };
            open_one(settings, target, first, None)
        }
        targets => {
            // A server that cannot be reached is not fatal, because the others may be a majority.
            let first_of_each = match first {
                FirstConnection::Awaited | FirstConnection::Lazy => FirstFailure::Retryable,
                FirstConnection::Inherited => FirstFailure::Outage,
            };
            let peers = Peers::new(settings);
            let nodes = targets
                .iter()
                .zip(peers)
                .map(|(target, peers)| open_one(settings, target, first_of_each, Some(peers)))
                .collect::<Result<_, Error>>()?;
            Ok(Box::new(Quorum::new(nodes, settings.servers(), first)))
        }
    }
}

fn open_one(
    settings: &Arc<Settings>,
    target: &Target,
    first: FirstFailure,
    peers: Option<Peers>,
) -> Result<Box<dyn Transport>, Error> {
    match &target.scheme {
        Scheme::Memory { name } => Ok(Box::new(Memory::open(name.as_deref())?)),
        Scheme::Tcp { .. } | Scheme::Unix { .. } => Ok(Box::new(Redis::open(settings, target, first, peers))),
        Scheme::Sentinel { .. } => Ok(Box::new(Sentinel::open(settings, target, first, peers))),
        Scheme::Cluster { .. } => Ok(Box::new(Cluster::open(settings, target, first, peers))),
    }
}
