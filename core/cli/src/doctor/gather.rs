//! Asks all servers for everything that can be read.

mod asking;
mod info;
mod passwordless_login;
mod permission;
mod sentinel;
mod server;
mod timing;

use std::time::Duration;

use steadlock::admin::{Deployment, Reply, Scratch, Servers, Topology};
use steadlock::{Builder, Error, ErrorKind};
use tokio::time::timeout;

use self::asking::{ask, number};
use self::passwordless_login::Login;
use super::facts::{Coverage, Fact, Facts, Layout, Sentinels, Server, Unreachable};

/// The servers to look at, and how to reach them.
pub(super) struct Request<'a, E> {
    /// One URL, or the URLs of the primaries of RedLock.
    pub(super) urls: &'a [String],
    /// Returns the options of a client for one of the URLs.
    pub(super) client: &'a dyn Fn(&str) -> Result<Builder, E>,
    /// Returns the options of a client for the URL of a server that was reached. The options have no address map,
    /// because the URL has an address that is already mapped. `None` if the URL is not acceptable.
    pub(super) client_of_reached: &'a dyn Fn(&str) -> Option<Builder>,
    /// The prefix that programs put before the name of each lock.
    pub(super) key_prefix: &'a str,
    pub(super) lease: Duration,
}

/// Gathers the facts about the servers.
///
/// # Errors
/// Fails like the request's `client`, and with `InvalidArgument` for a malformed URL or option. With one URL, also
/// fails like [`Servers::open`], and if it is the URL of a single server that does not answer.
pub(super) async fn gather<E: From<Error>>(request: &Request<'_, E>) -> Result<Facts, E> {
    let mut facts = Facts {
        layout: Layout::OneServer,
        lease: request.lease,
        prefix: request.key_prefix.into(),
        database: 0,
        primary_count: request.urls.len(),
        servers: Vec::new(),
        unreachable: Vec::new(),
        coverage: None,
        sentinels: None,
    };
    if request.urls.len() > 1 {
        facts.layout = Layout::RedLock;
    }
    for url in request.urls {
        let login = Login::new(url, request.client_of_reached)?;
        facts.database = facts.database.max(login.database());
        match Servers::open((request.client)(url)?).await {
            Ok(mut servers) => gather_from(&mut servers, &login, &mut facts).await?,
            Err(error) if facts.layout != Layout::RedLock || error.kind() == ErrorKind::InvalidArgument => {
                return Err(error.into());
            }
            Err(error) => facts.unreachable.push(unreachable(None, &error)),
        }
    }
    Ok(facts)
}

fn unreachable(name: Option<&str>, error: &Error) -> Unreachable {
    Unreachable {
        name: name.or_else(|| error.node()).unwrap_or("a primary").into(),
        why: error.cause().unwrap_or("no answer").into(),
    }
}

/// Gathers the facts about the servers of one URL.
async fn gather_from(servers: &mut Servers, login: &Login<'_>, facts: &mut Facts) -> Result<(), Error> {
    let scratches: Vec<(Scratch, Option<Scratch>)> = (0..SCRATCH_NAMES).map(|_| servers.test_keys()).collect();
    for deployment in servers.deployments_mut() {
        let topology = deployment.topology();
        if facts.layout != Layout::RedLock {
            facts.layout = match topology {
                Topology::Sentinel => Layout::Sentinel,
                Topology::Cluster => Layout::Cluster,
                _ => Layout::OneServer,
            };
        }
        for index in 0..deployment.primaries().len() {
            let scratch = scratch_on(deployment, index, &scratches);
            let is_node = topology == Topology::Cluster;
            let Some(primary) = deployment.primaries_mut().get_mut(index) else {
                continue;
            };
            let probe = server::Probe {
                layout: facts.layout,
                is_node,
                login,
                scratch,
            };
            match probe.gather(primary).await {
                Ok(mut server) => {
                    measure_replica_clocks(deployment, &mut server).await;
                    facts.servers.push(server);
                }
                Err(error) if facts.layout == Layout::OneServer => return Err(error),
                Err(error) => facts.unreachable.push(unreachable(Some(primary.address()), &error)),
            }
        }
        if facts.layout == Layout::Cluster {
            facts.coverage = Some(coverage(deployment).await);
        }
        if facts.layout == Layout::Sentinel {
            facts.sentinels = sentinels(deployment).await;
        }
    }
    Ok(())
}

/// Measures the clock of each replica that a primary names.
async fn measure_replica_clocks(deployment: &Deployment, server: &mut Server) {
    let Fact::Known(replicas) = &mut server.replicas else {
        return;
    };
    for replica in replicas {
        let Some(mut link) = deployment.announced(&replica.address) else {
            continue;
        };
        replica.clock = match timeout(REPLICA_TIMEOUT, timing::measure(&mut link)).await {
            Ok((clock, _)) => clock,
            Err(_) => Fact::Unknown(format!("a replica does not answer within {REPLICA_TIMEOUT:?}")),
        };
    }
}

/// The limit on the time for measuring the clock of a replica. The primary can name an address of the replica that this
/// machine cannot reach.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of scratch names, which belong to no lock. In a cluster of usual size, each node serves the slot of at
/// least one.
const SCRATCH_NAMES: usize = 1_000;

/// Returns scratch keys that the primary at `index` serves, or the first scratch keys if it serves none.
fn scratch_on<'a>(
    deployment: &mut Deployment,
    index: usize,
    scratches: &'a [(Scratch, Option<Scratch>)],
) -> &'a (Scratch, Option<Scratch>) {
    let wanted = deployment
        .primaries()
        .get(index)
        .map(|primary| primary.address().to_owned());
    let is_there = |scratch: &&(Scratch, Option<Scratch>)| {
        let owner = deployment.primary_of(&scratch.0.key).ok();
        owner.map(|owner| owner.address().to_owned()) == wanted
    };
    scratches.iter().find(is_there).unwrap_or(&scratches[0])
}

/// Returns how many slots no node serves, according to the first node that answers.
async fn coverage(deployment: &mut Deployment) -> Fact<Coverage> {
    let mut why = "no node answers".to_owned();
    for primary in deployment.primaries_mut() {
        match ask(primary, &["CLUSTER", "SLOTS"]).await {
            Fact::Known(Reply::Array(ranges)) => {
                let served: i64 = ranges.iter().filter_map(slot_count).sum();
                return Fact::Known(Coverage {
                    unserved: u32::try_from(16_384 - served).unwrap_or(0),
                });
            }
            Fact::Known(_) => {}
            Fact::Unknown(reason) => why = reason,
        }
    }
    Fact::Unknown(why)
}

/// Returns the number of slots in a range.
fn slot_count(range: &Reply) -> Option<i64> {
    let Reply::Array(parts) = range else { return None };
    Some(number(parts.get(1)?)? - number(parts.first()?)? + 1)
}

async fn sentinels(deployment: &mut Deployment) -> Option<Sentinels> {
    let service = deployment.service()?.to_owned();
    Some(sentinel::gather(deployment.sentinels_mut(), &service).await)
}
