//! The servers behind a URL as a tool sees them: one by one. Addresses, credentials, TLS and the address map are
//! those of the client (`connect.rs`).

use std::sync::Arc;

use steadlock_protocol::Error;

use super::cluster::lookup::Map;
pub(crate) use super::link::Link;
use super::membership::Membership;
use super::sentinel::lookup;
use crate::settings::Settings;
use crate::target::{Scheme, Target};

/// What one URL leads to.
pub(crate) struct Found {
    pub(crate) place: Place,
    pub(crate) primaries: Vec<Link>,
    pub(crate) sentinels: Vec<Link>,
}

/// What is known of the servers.
pub(crate) enum Place {
    Alone,
    /// The primary of this service.
    Service(String),
    /// A cluster; which of its nodes has which key.
    Cluster(Nodes),
}

/// Which node has which key.
pub(crate) struct Nodes(Map);

impl Nodes {
    /// The place among the primaries of the one that has this key; `None` if nobody has its slot.
    pub(crate) fn place_of(&self, key: &[u8]) -> Option<usize> {
        self.0.place_of(key)
    }
}

/// A server that those of `whole` announce.
pub(crate) fn announced(settings: &Settings, whole: &Target, host: &str, port: u16) -> Link {
    let membership = match &whole.scheme {
        Scheme::Cluster { .. } => Membership::Shard,
        _ => Membership::Alone,
    };
    Link::of(settings, whole, &whole.node(host, port), membership)
}

/// Finds the servers; asks the cluster, or the sentinels, if it is one, or there are some.
pub(crate) async fn find(settings: &Arc<Settings>, target: &Target) -> Result<Found, Error> {
    match &target.scheme {
        Scheme::Cluster { .. } => {
            let map = Map::ask(settings, target).await?;
            let primaries = map.primaries().iter().map(|address| {
                let node = target.node(&address.host, address.port);
                Link::of(settings, target, &node, Membership::Shard)
            });
            Ok(Found {
                primaries: primaries.collect(),
                sentinels: Vec::new(),
                place: Place::Cluster(Nodes(map)),
            })
        }
        Scheme::Sentinel { service, .. } => {
            let said = lookup::ask(settings, target).await?;
            let primary = target.node(&said.primary.host, said.primary.port);
            Ok(Found {
                place: Place::Service(service.clone()),
                primaries: vec![Link::announced(settings, &primary, Membership::Alone)],
                sentinels: said.sentinels,
            })
        }
        Scheme::Tcp { .. } | Scheme::Unix { .. } | Scheme::Memory { .. } => Ok(Found {
            place: Place::Alone,
            primaries: vec![Link::given(settings, target, Membership::Alone)],
            sentinels: Vec::new(),
        }),
    }
}
