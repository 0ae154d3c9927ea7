//! Tests of locks in a cluster of three primaries with a replica each, also while its nodes fail or change.

#![allow(unreachable_pub, reason = "what the modules of this binary share")]

mod failing;
mod messages;
mod moving;
mod nodes;
mod resharding;
mod rights;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use steadlock::{Client, ErrorKind, ReleaseOutcome};
use support::cluster::Cluster;
use support::version::Version;
use support::{Redis, unused_port};

const SOON: Duration = Duration::from_secs(10);
/// The length of a crowd's leases.
const LEASE: Duration = Duration::from_secs(12);

async fn connect(cluster: &Cluster) -> Client {
    Client::connect(cluster.url.as_str()).await.unwrap()
}

fn has_sharded_channels() -> bool {
    Version::chosen() != Version::Redis62
}

#[tokio::test]
async fn a_url_of_the_wrong_mode_is_refused_and_the_error_names_the_right_one() {
    let cluster = Cluster::start();
    let error = Client::connect(cluster.url.replace("+cluster", "")).await.map(drop);
    let error = error.expect_err("more than one address");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let node = &cluster.nodes[0];
    let error = Client::connect(format!("redis://127.0.0.1:{}", node.port))
        .await
        .map(drop);
    let error = error.expect_err("a cluster");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("redis+cluster://"), "{error}");
    let single = Redis::start();
    let error = Client::connect(format!("redis+cluster://127.0.0.1:{}", single.port))
        .await
        .map(drop);
    let error = error.expect_err("no cluster");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("redis://"), "{error}");
    let error = Client::connect(format!("redis+cluster://127.0.0.1:{}", unused_port()))
        .await
        .map(drop);
    let error = error.expect_err("nothing listens at this address");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn the_credentials_of_the_url_are_used_at_every_node() {
    let cluster = Cluster::start();
    for node in &cluster.nodes {
        node.run(&["CONFIG", "SET", "requirepass", "sesame"]);
    }
    for password in ["", ":wrong@"] {
        let url = cluster.url.replace("://", &format!("://{password}"));
        let error = Client::connect(url).await.map(drop).expect_err("no credentials");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
    let client = Client::connect(cluster.url.replace("://", "://:sesame@"))
        .await
        .unwrap();
    for number in 0..20 {
        let lease = client.lock(format!("behind-{number}")).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn one_reachable_node_is_enough_to_find_the_others() {
    let cluster = Cluster::start();
    let replica = cluster.nodes.iter().find(|node| !node.is_primary()).unwrap();
    let url = format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", unused_port(), replica.port);
    let client = Client::connect(url).await.unwrap();
    for number in 0..20 {
        let lease = client.lock(format!("found-{number}")).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn a_redlock_may_have_clusters_among_its_primaries_but_none_twice() {
    let (cluster, other, single) = (Cluster::start(), Cluster::start(), Redis::start());
    let client = Client::builder()
        .primaries([&cluster.url, &other.url, &single.url()])
        .connect()
        .await
        .unwrap();
    for number in 0..10 {
        let lease = client.lock(format!("redlock-{number}")).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
    let twice = [
        format!("redis+cluster://127.0.0.1:{}", cluster.nodes[4].port),
        single.url(),
    ];
    let primaries = [&cluster.url, &twice[0], &twice[1]];
    let error = Client::builder().primaries(primaries).connect().await.map(drop);
    let error = error.expect_err("one cluster by two addresses");
    assert!(error.message().contains("the same server"), "{error}");
}
