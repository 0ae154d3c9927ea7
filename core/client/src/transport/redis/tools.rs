//! The individual servers behind a URL, for tools. Addresses, credentials, TLS and the address map are those of the
//! client (`connect.rs`).

use std::sync::Arc;

use steadlock_protocol::Error;

use super::cluster::lookup::ClusterMap;
pub(crate) use super::link::Link;
use super::sentinel::lookup;
use super::server_kind::ServerKind;
use crate::settings::Settings;
use crate::target::{Scheme, Target};

/// The servers behind one URL.
pub(crate) struct Found {
    pub(crate) arrangement: Arrangement,
    pub(crate) primaries: Vec<Link>,
    pub(crate) sentinels: Vec<Link>,
}

/// The arrangement of the servers.
pub(crate) enum Arrangement {
    Alone,
    /// The service whose primary the sentinels name.
    Service(String),
    /// A cluster, with the node of each key.
    Cluster(ClusterMap),
}

/// Returns a link to a server that the servers of the URL `origin` announce.
pub(crate) fn announced(settings: &Settings, origin: &Target, host: &str, port: u16) -> Link {
    let server_kind = match &origin.scheme {
        Scheme::Cluster { .. } => ServerKind::ClusterNode,
        _ => ServerKind::Standalone,
    };
    Link::of(settings, origin, &origin.node_target(host, port), server_kind)
}

/// Finds the servers. Asks the cluster or the sentinels, if there are any.
pub(crate) async fn find(settings: &Arc<Settings>, target: &Target) -> Result<Found, Error> {
    match &target.scheme {
        Scheme::Cluster { .. } => {
            let map = ClusterMap::ask(settings, target).await?;
            let primaries = map.primaries().iter().map(|address| {
                let node = target.node_target(&address.host, address.port);
                Link::of(settings, target, &node, ServerKind::ClusterNode)
            });
            Ok(Found {
                primaries: primaries.collect(),
                sentinels: Vec::new(),
                arrangement: Arrangement::Cluster(map),
            })
        }
        Scheme::Sentinel { service, .. } => {
            let found = lookup::ask(settings, target).await?;
            let primary = target.node_target(&found.primary.host, found.primary.port);
            Ok(Found {
                arrangement: Arrangement::Service(service.clone()),
                primaries: vec![Link::announced(settings, &primary, ServerKind::Standalone)],
                sentinels: found.sentinels,
            })
        }
        Scheme::Tcp { .. } | Scheme::Unix { .. } | Scheme::Memory { .. } => Ok(Found {
            arrangement: Arrangement::Alone,
            primaries: vec![Link::configured(settings, target, ServerKind::Standalone)],
            sentinels: Vec::new(),
        }),
    }
}
