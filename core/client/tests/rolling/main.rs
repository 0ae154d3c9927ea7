//! Tests of the change from one tier to the next while locks are held: one server, sentinels, a cluster. The section
//! "From one to the next" in docs/servers.md describes the tested behaviour.

#![allow(unreachable_pub, reason = "what the modules of this binary share")]

mod first_node;
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, Lease, LostReason};
use steadlock_protocol::Reply;
use support::cluster::Cluster;
use support::crowd::{
    check_hand_over, connect_with_rare_polls, kinds, spawn_waiter, wait_until_only_tokens, wait_until_replicated,
    wait_until_subscribed,
};
use support::proxy::Proxy;
use support::rig::Node;
use support::sentinel::{SERVICE, SentinelRig};
use support::{Redis, check_released, eventually, lost_within, refusal};

const SOON: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(3);
/// A lease that is long enough for the steps of a test on a busy machine.
const LONG_LEASE: Duration = Duration::from_secs(12);
/// The delay, besides a third of the lease, until the holder of an auto-renewed lease learns that its record is gone.
const NOTICE_DELAY: Duration = Duration::from_secs(5);

async fn connect(url: &str, lease: Duration) -> Client {
    Client::builder()
        .url(url)
        .lease(lease)
        .connect()
        .await
        .unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn url_of(node: &Node) -> String {
    format!("redis://127.0.0.1:{}", node.port)
}

/// Returns one field of a sentinel's reply about the service.
fn service_field(sentinel: &Node, field: &str) -> Option<String> {
    let Ok(Reply::Array(parts)) = sentinel.try_run(&["SENTINEL", "MASTER", SERVICE]) else {
        return None;
    };
    let texts: Vec<String> = parts
        .into_iter()
        .map(|part| match part {
            Reply::Bytes(text) => String::from_utf8(text).expect("text"),
            other => format!("{other:?}"),
        })
        .collect();
    let pair = texts.chunks_exact(2).find(|pair| pair[0] == field)?;
    Some(pair[1].clone())
}

/// Starts a primary without replicas or sentinels, and two other servers and three sentinels that are not in use yet.
fn start_without_replication() -> SentinelRig {
    let rig = SentinelRig::start();
    for sentinel in rig.sentinels() {
        sentinel.run(&["SENTINEL", "REMOVE", SERVICE]);
    }
    for server in rig.replicas() {
        server.run(&["REPLICAOF", "NO", "ONE"]);
    }
    rig
}

/// Attaches the replicas to the primary and makes the sentinels watch it, as an operator does.
async fn put_under_sentinels(rig: &SentinelRig) {
    let (primary, replicas) = (rig.primary(), rig.replicas());
    let port = primary.port.to_string();
    for replica in &replicas {
        replica.run(&["REPLICAOF", "127.0.0.1", &port]);
    }
    eventually("the replicas are linked", SOON, || {
        primary.text(&["INFO", "replication"]).matches("state=online").count() == 2
    })
    .await;
    for sentinel in rig.sentinels() {
        sentinel.run(&["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", &port, "2"]);
        sentinel.run(&["SENTINEL", "SET", SERVICE, "down-after-milliseconds", "1000"]);
        sentinel.run(&["SENTINEL", "SET", SERVICE, "failover-timeout", "5000"]);
    }
    let sees_all = |sentinel: &Node| {
        service_field(sentinel, "num-slaves").as_deref() == Some("2")
            && service_field(sentinel, "num-other-sentinels").as_deref() == Some("2")
    };
    eventually("each sentinel knows all servers", SOON, || {
        rig.sentinels().iter().all(sees_all)
    })
    .await;
}

/// Makes sentinels promote a replica that has all data. Returns that replica.
async fn fail_over(rig: &SentinelRig) -> Node {
    let replicas = rig.replicas();
    for replica in &replicas {
        wait_until_replicated(&rig.primary(), replica).await;
    }
    let start_failover = || rig.sentinels()[0].try_run(&["SENTINEL", "FAILOVER", SERVICE]).is_ok();
    eventually("a sentinel starts the failover", SOON, start_failover).await;
    let promoted = || replicas.iter().find(|replica| replica.is_primary()).cloned();
    eventually("a replica is promoted", SOON, || promoted().is_some()).await;
    promoted().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_gets_sentinels_keeps_its_locks_and_clients_of_both_urls_share_them() {
    let rig = start_without_replication();
    let primary = rig.primary();
    let before = connect(&url_of(&primary), LEASE).await;
    let mut held = Vec::new();
    for (kind, lock) in kinds(&before, "kept") {
        held.push((kind, lock.acquire().await.unwrap()));
    }
    put_under_sentinels(&rig).await;
    let after = connect(&rig.url, LEASE).await;
    for ((kind, lease), (_, lock)) in held.into_iter().zip(kinds(&after, "kept")) {
        assert!(lease.is_valid(), "{kind}: {:?}", lease.lost_reason());
        if kind != "read_lock" {
            assert!(lock.try_acquire().await.unwrap().is_none(), "{kind}");
        }
        let token = lease.token();
        check_released(lease).await;
        let next = lock.wait(SOON).acquire().await.unwrap();
        assert!(
            next.token() >= token && (token.is_none() || next.token() > token),
            "{kind}"
        );
        check_released(next).await;
    }
    // Clients of either kind wake waiters of the other kind.
    let (old, new) = (
        connect_with_rare_polls(&url_of(&primary)).await,
        connect_with_rare_polls(&rig.url).await,
    );
    for (one, other) in [(&before, &new), (&after, &old)] {
        for ((kind, lock), (_, theirs)) in kinds(one, "woken").into_iter().zip(kinds(other, "woken")) {
            if kind != "read_lock" {
                let lease = lock.acquire().await.unwrap();
                check_hand_over(kind, lease, theirs, &primary, "woken").await;
            }
        }
    }
}

/// Repeats attempts until this server grants a lock to the client, and returns the lease.
async fn granted_at(client: &Client, name: &str, server: &Node) -> Lease {
    let start = Instant::now();
    loop {
        if let Ok(Some(lease)) = client.lock(name).try_acquire().await {
            assert!(server.has_key(name), "another server granted it");
            return lease;
        }
        assert!(start.elapsed() < SOON, "not at the new primary");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_demoted_servers_address_gets_an_error_and_its_leases_end() {
    let rig = start_without_replication();
    let primary = rig.primary();
    let before = connect(&url_of(&primary), LEASE).await;
    put_under_sentinels(&rig).await;
    let after = connect(&rig.url, LEASE).await;
    let (held, theirs) = (
        before.lock("held").acquire().await.unwrap(),
        after.lock("theirs").acquire().await.unwrap(),
    );
    let token = held.token();
    let promoted = fail_over(&rig).await;
    // Until sentinels make the old primary a replica, its direct clients stay there and are granted locks.
    let start = Instant::now();
    let ours = before
        .lock("both")
        .try_acquire()
        .await
        .unwrap()
        .expect("the old server grants it");
    let both = granted_at(&after, "both", &promoted).await;
    assert!(ours.is_valid() && both.is_valid(), "there were two owners");
    let next = spawn_waiter(after.lock("held"), SOON);
    eventually("the old primary is a replica", SOON, || primary.is_replica()).await;
    println!("the old primary became a replica {:?} later", start.elapsed());
    assert_eq!(lost_within(&ours, LEASE + NOTICE_DELAY).await, LostReason::Expired);
    // A renewal may have succeeded just before, so the loss can take a whole lease.
    assert_eq!(lost_within(&held, LEASE + NOTICE_DELAY).await, LostReason::Expired);
    let next = next.await.unwrap();
    assert!(next.token() > token, "{:?} after {token:?}", next.token());
    assert!(theirs.is_valid(), "{:?}", theirs.lost_reason());
    assert!(promoted.has_key("theirs"));
    for lease in [next, theirs, both] {
        check_released(lease).await;
    }
    let error = refusal(before.lock("new").wait(Duration::from_millis(500)).acquire().await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("replica"), "{error}");
    let error = refusal(Client::connect(url_of(&primary)).await);
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("connect to its primary"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_host_name_leads_to_the_promoted_server_keeps_its_locks() {
    let rig = start_without_replication();
    let primary = rig.primary();
    let proxy = Proxy::to(primary.port);
    let before = connect(&proxy.url(), Duration::from_secs(30)).await;
    let held = before.lock("held").acquire().await.unwrap();
    let token = held.token();
    put_under_sentinels(&rig).await;
    let promoted = fail_over(&rig).await;
    proxy.lead_to(promoted.port);
    eventually("all connections lead to the promoted server", SOON, || {
        proxy.connections_to(primary.port) == 0 && proxy.connections_to(promoted.port) > 1
    })
    .await;
    assert!(held.is_valid(), "{:?}", held.lost_reason());
    check_released(held).await;
    let after = connect(&rig.url, LEASE).await;
    let next = after.lock("held").wait(SOON).acquire().await.unwrap();
    assert!(next.token() > token);
    check_released(next).await;
}

/// Makes a server grant no more locks, while held ones can still be renewed and released.
fn close_to_new_grants(server: &Node) {
    server.run(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_closed_to_new_grants_empties_and_the_cluster_continues_with_higher_tokens() {
    let (rig, cluster) = (SentinelRig::start(), Cluster::start());
    let old = rig.primary();
    let before = connect(&rig.url, LEASE).await;
    let renewed = before.lock("renewed").acquire().await.unwrap();
    let fixed = before.lock("fixed").lease(LEASE).acquire().await.unwrap();
    let fair = before.fair_lock("fair").acquire().await.unwrap();
    let in_turn = spawn_waiter(before.fair_lock("fair"), SOON);
    wait_until_subscribed(&old, "fair").await;
    let token = renewed.token();
    close_to_new_grants(&old);
    let error = refusal(before.lock("new").wait(Duration::from_millis(500)).acquire().await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("OOM"), "{error}");
    assert_eq!(lost_within(&fixed, LEASE + NOTICE_DELAY).await, LostReason::Expired);
    assert!(renewed.is_valid(), "{:?}", renewed.lost_reason());
    renewed.extend(Some(2 * LEASE)).await.unwrap();
    // Waiters in the queue are still served.
    check_released(fair).await;
    check_released(in_turn.await.unwrap()).await;
    check_released(renewed).await;
    wait_until_only_tokens(&old).await;
    let after = connect(&cluster.url, LEASE).await;
    let next = after.lock("renewed").acquire().await.unwrap();
    assert!(next.token() > token, "{:?} after {token:?}", next.token());
    check_released(next).await;
}

/// Moves all keys of a server to the nodes of a cluster that have their slots.
fn move_keys(old: &Node, cluster: &Cluster) -> usize {
    let Reply::Array(keys) = old.run(&["KEYS", "*"]) else {
        panic!("no keys")
    };
    for key in &keys {
        let Reply::Bytes(key) = key else { panic!("{key:?}") };
        let key = std::str::from_utf8(key).expect("text");
        let port = cluster.owner(key).expect("an owner").port.to_string();
        old.run(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    }
    keys.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_moved_to_a_cluster_exclude_others_until_the_leases_end() {
    let (rig, cluster) = (SentinelRig::start(), Cluster::start());
    let old = rig.primary();
    let before = connect(&rig.url, LONG_LEASE).await;
    let after = connect(&cluster.url, LONG_LEASE).await;
    let mut held = Vec::new();
    for (kind, lock) in kinds(&before, "moved") {
        held.push((kind, lock.acquire().await.unwrap()));
    }
    let other = connect(&rig.url, LONG_LEASE).await;
    let waiting = other.lock(held[0].1.name()).wait(LONG_LEASE);
    let waiting = tokio::spawn(async move { waiting.acquire().await.map(drop) });
    wait_until_subscribed(&old, held[0].1.name()).await;
    let start = Instant::now();
    let fixed = before.lock("fixed").lease(LONG_LEASE).acquire().await.unwrap();
    close_to_new_grants(&old);
    assert!(move_keys(&old, &cluster) > kinds(&before, "moved").len());
    let moved = Instant::now();
    for (kind, lock) in kinds(&after, "moved") {
        if kind != "read_lock" {
            assert!(lock.try_acquire().await.unwrap().is_none(), "{kind}");
        }
    }
    assert!(after.lock("fixed").try_acquire().await.unwrap().is_none());
    let after_fixed = spawn_waiter(after.lock("fixed"), SOON);
    assert!(
        start.elapsed() < LONG_LEASE / 2,
        "the machine is too slow: {:?}",
        start.elapsed()
    );
    assert!(fixed.is_valid());
    let mut tokens = Vec::new();
    for (kind, lease) in held {
        let reason = lost_within(&lease, (LONG_LEASE / 3 + NOTICE_DELAY).saturating_sub(moved.elapsed())).await;
        assert_eq!(reason, LostReason::Removed, "{kind}");
        tokens.push(lease.token());
    }
    for ((kind, lock), token) in kinds(&after, "moved").into_iter().zip(tokens) {
        let next = lock.wait(SOON).acquire().await.unwrap();
        assert!(
            token.is_none() || next.token() > token,
            "{kind}: {:?} after {token:?}",
            next.token()
        );
        check_released(next).await;
    }
    assert!(moved.elapsed() < LONG_LEASE + NOTICE_DELAY, "{:?}", moved.elapsed());
    let next = after_fixed.await.unwrap();
    assert!(!fixed.is_valid(), "two owners");
    assert_eq!(fixed.lost().await, LostReason::Expired);
    check_released(next).await;
    assert_eq!(refusal(waiting.await.unwrap()).kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_closed_to_new_grants_grants_moved_locks_again() {
    let (server, cluster) = (Redis::start(), Cluster::start());
    let before = connect(&server.url(), Duration::from_secs(30)).await;
    let held = before.lock("moved").acquire().await.unwrap();
    let port = cluster.owner("moved").expect("an owner").port.to_string();
    server.run(&["MIGRATE", "127.0.0.1", &port, "moved", "0", "5000"]);
    let after = connect(&cluster.url, LEASE).await;
    assert!(after.lock("moved").try_acquire().await.unwrap().is_none());
    let other = connect(&server.url(), LEASE).await;
    let second = other
        .lock("moved")
        .try_acquire()
        .await
        .unwrap()
        .expect("the lock is free at the cluster");
    assert!(held.is_valid(), "its holder has not noticed the loss yet");
    check_released(second).await;
}
