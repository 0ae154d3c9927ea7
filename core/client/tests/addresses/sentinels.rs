//! Tests of sentinels that announce addresses which are not reachable from here.

use steadlock::{Client, ErrorKind};

use super::support::crowd::wait_until_replicated;
use super::support::fake_sentinel::FakeSentinel;
use super::support::proxy::Proxy;
use super::support::rig::Node;
use super::support::sentinel::SentinelRig;
use super::support::{Redis, eventually};
use super::{ELSEWHERE, SOON, check_lock, check_lock_until};

fn elsewhere(port: u16) -> String {
    format!("{ELSEWHERE}:{port}")
}

fn here(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[tokio::test]
async fn the_primary_that_sentinels_name_and_the_next_one_are_reached_through_the_map() {
    let (first, second) = (Redis::start(), Redis::start());
    let other = FakeSentinel::naming_at(ELSEWHERE, 7001, 1, None);
    let sentinel = FakeSentinel::naming_at(ELSEWHERE, 7001, 1, Some(26_380));
    let url = format!("redis+sentinel://127.0.0.1:{}/mymaster", sentinel.port);
    let builder = || Client::builder().url(&url);
    let error = builder()
        .connect()
        .await
        .map(drop)
        .expect_err("the server is unreachable");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains(&elsewhere(7001)), "{error}");
    assert_eq!(other.calls(), 0);
    let map = [
        (elsewhere(7001), here(first.port)),
        (elsewhere(7002), here(second.port)),
        (elsewhere(26_380), here(other.port)),
    ];
    let client = builder().address_map(map).connect().await.unwrap();
    check_lock(&client, "a").await;
    eventually("the sentinel that the first one names is called", SOON, || {
        other.calls() > 0
    })
    .await;
    assert_eq!(second.scripts_called(), 0);
    sentinel.switch(7002, 2);
    check_lock_until(&client, "b", "not at the next primary", || second.scripts_called() > 0).await;
}

#[tokio::test]
async fn a_sentinel_in_the_url_that_another_one_announces_is_asked_once() {
    let primary = Redis::start();
    let one = FakeSentinel::naming(primary.port, 1);
    let other = FakeSentinel::naming_at("127.0.0.1", primary.port, 1, Some(26_380));
    let url = format!(
        "redis+sentinel://127.0.0.1:{},127.0.0.1:{}/mymaster",
        one.port, other.port
    );
    let map = [("127.0.0.1:26380", here(one.port))];
    let client = Client::builder().url(url).address_map(map).connect().await.unwrap();
    eventually("both are called", SOON, || one.calls() > 0 && other.calls() > 0).await;
    check_lock(&client, "a").await;
    assert_eq!(one.connections(), 1);
}

/// Returns the number of connections of the client's user to a server.
fn client_connections(node: &Node) -> usize {
    let reply = node.text(&["CLIENT", "LIST"]);
    reply.lines().filter(|line| line.contains("user=app")).count()
}

/// Sentinels must reach the addresses that they announce, so these work for the client here as well. The test shows
/// that the client uses the mapped addresses instead.
#[tokio::test]
async fn a_failover_is_followed_through_mapped_addresses_only() {
    let rig = SentinelRig::start();
    let servers = [vec![rig.primary()], rig.replicas()].concat();
    for server in &servers {
        server.run(&["ACL", "SETUSER", "app", "on", ">sesame", "~*", "&*", "+@all"]);
    }
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::to(server.port)).collect();
    let pairs = servers.iter().zip(&proxies);
    let map: Vec<(String, String)> = pairs
        .map(|(server, proxy)| (here(server.port), here(proxy.port)))
        .collect();
    let url = rig.url.replace("://", "://app:sesame@");
    let client = Client::builder().url(url).address_map(map).connect().await.unwrap();
    check_lock(&client, "a").await;
    eventually("the connections of the client are open", SOON, || {
        client_connections(&servers[0]) >= 3
    })
    .await;
    let kept = client.lock("kept").acquire().await.unwrap();
    for replica in &servers[1..] {
        wait_until_replicated(&servers[0], replica).await;
    }
    let promoted = || servers[1..].iter().position(Node::is_primary);
    eventually("a replica is the primary", 6 * SOON, || {
        promoted().is_some() || {
            // The sentinel refuses while another failover is in progress, or while it knows no good replica. On a slow
            // machine a failover may be aborted.
            let _ = rig.sentinels()[0].try_run(&["SENTINEL", "FAILOVER", "mymaster"]);
            false
        }
    })
    .await;
    let next = 1 + promoted().unwrap();
    check_lock_until(&client, "b", "not at the new primary", || {
        client_connections(&servers[next]) >= 3
    })
    .await;
    kept.extend(None).await.unwrap();
    kept.release().await.unwrap();
    for (server, proxy) in servers.iter().zip(&proxies) {
        eventually("all connections use the map", SOON, || {
            client_connections(server) == proxy.connections_to(server.port)
        })
        .await;
    }
}
