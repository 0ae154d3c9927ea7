//! Tests of the promises in docs/servers.md about servers and their settings that no other test file covers.

mod support;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, LostReason};
use steadlock_protocol::Reply;
use support::fake_sentinel::FakeSentinel;
use support::rig::Node;
use support::sentinel::{SERVICE, Sentinel, SentinelRig};
use support::version::Version;
use support::{Redis, check_released, eventually, lost_within, refusal};

const SOON: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(6);
/// The delay that a busy machine may add to the promised time.
const TOLERANCE: Duration = Duration::from_millis(1_500);

async fn connect(url: impl Into<String>) -> Client {
    Client::builder().url(url).lease(LEASE).connect().await.unwrap()
}

#[tokio::test]
async fn an_address_of_the_wrong_kind_is_misconfigured_and_the_message_has_the_right_scheme() {
    let (single, node) = (Redis::start(), Redis::start_cluster(Version::chosen(), &[]));
    let monitor = format!("sentinel monitor {SERVICE} 127.0.0.1 {} 1", single.port);
    let sentinel = Sentinel::start(Ipv4Addr::LOCALHOST.into(), &[monitor]);
    for (port, right) in [
        (single.port, "redis://"),
        (node.port, "redis+cluster://"),
        (sentinel.port, "redis+sentinel://"),
    ] {
        for (scheme, service) in [
            ("redis://", ""),
            ("redis+cluster://", ""),
            ("redis+sentinel://", "/mymaster"),
        ] {
            let connected = Client::connect(format!("{scheme}127.0.0.1:{port}{service}")).await;
            if scheme == right {
                assert!(connected.is_ok(), "{right}");
                continue;
            }
            let error = refusal(connected);
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{scheme} for {right}: {error}");
            assert!(
                error.message().contains(&format!("connect by {right}")),
                "{scheme} for {right}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn several_primaries_are_an_odd_number_from_3_to_15() {
    for count in 0..=17 {
        let urls = (0..count).map(|number| format!("redis://127.0.0.1:{}", 1 + number));
        let built = Client::builder().primaries(urls).lazy().connect().await;
        if (3..=15).contains(&count) && count % 2 == 1 {
            assert!(built.is_ok(), "{count}");
        } else {
            let error = refusal(built);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{count}: {error}");
        }
    }
}

#[tokio::test]
async fn a_client_of_one_server_has_three_connections() {
    let server = Redis::start();
    let client = connect(server.url()).await;
    check_released(client.lock("a").acquire().await.unwrap()).await;
    // Does not count the test's own connection.
    let clients = || Node::of(&server).text(&["CLIENT", "LIST"]).lines().count() - 1;
    eventually("three connections", SOON, || clients() == 3).await;
}

#[tokio::test]
async fn while_a_server_is_down_nothing_is_granted_and_leases_are_valid_until_their_deadlines() {
    let mut server = Redis::start();
    let client = connect(server.url()).await;
    let held = client.lock("held").acquire().await.unwrap();
    server.stop();
    let stopped = Instant::now();
    let refused = client.lock("new").wait(Duration::from_millis(200)).acquire().await;
    assert_eq!(refusal(refused).kind(), ErrorKind::Unavailable);
    let deadline = Instant::now() + held.remaining();
    while held.is_valid() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(Instant::now() >= deadline && stopped.elapsed() > LEASE / 2);
    assert_eq!(lost_within(&held, SOON).await, LostReason::Expired);
}

#[tokio::test]
async fn locks_are_lost_if_a_server_restarts_empty_and_kept_if_it_has_its_file() {
    for has_its_file in [true, false] {
        let mut server = Redis::start();
        let client = connect(server.url()).await;
        let held = client.lock("held").acquire().await.unwrap();
        if has_its_file {
            server.run(&["SAVE"]);
        }
        server.stop();
        server.start_again();
        if has_its_file {
            let other = connect(server.url()).await;
            assert!(other.lock("held").try_acquire().await.unwrap().is_none());
            check_released(held).await;
        } else {
            assert_eq!(lost_within(&held, LEASE / 3 + TOLERANCE).await, LostReason::Removed);
            let next = client.lock("held").wait(SOON).acquire().await.unwrap();
            check_released(next).await;
        }
    }
}

/// The promoted server never received the grant, because the client does not wait for replication.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failover_that_lost_a_grant_two_owners_hold_the_lock_until_the_firsts_next_renewal() {
    let (old, new) = (Redis::start(), Redis::start());
    let sentinel = FakeSentinel::naming(old.port, 1);
    let url = SentinelRig::url_of(&[sentinel.port], SERVICE);
    let (one, other) = (connect(&url).await, connect(&url).await);
    let first = one.lock("both").acquire().await.unwrap();
    sentinel.switch(new.port, 2);
    let start = Instant::now();
    // While `other` still uses the old primary, its attempts are refused: another owner holds the lock there.
    let second = loop {
        if let Ok(Some(lease)) = other.lock("both").try_acquire().await {
            break lease;
        }
        assert!(start.elapsed() < SOON, "not at the new primary");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let limit = LEASE / 3 + TOLERANCE;
    let reason = lost_within(&first, limit.saturating_sub(start.elapsed())).await;
    assert!(matches!(reason, LostReason::Stolen | LostReason::Removed), "{reason:?}");
    assert!(second.is_valid());
    assert!(second.token() > first.token(), "the late writer has the lower token");
    check_released(second).await;
}

#[tokio::test]
async fn a_primary_without_its_replicas_stops_granting_and_holders_learn_of_it() {
    let primary = Redis::start_with(
        &[
            "--min-replicas-to-write",
            "1",
            "--min-replicas-max-lag",
            "10",
            "--repl-diskless-sync-delay",
            "0",
        ],
        None,
    );
    let of_primary = ["--replicaof", "127.0.0.1", &primary.port.to_string()];
    let mut replica = Redis::start_with(&of_primary, None);
    let replication = || Node::of(&primary).text(&["INFO", "replication"]);
    eventually("the replica counts", SOON, || {
        replication().contains("min_slaves_good_slaves:1")
    })
    .await;
    let client = connect(primary.url()).await;
    let held = client.lock("held").acquire().await.unwrap();
    replica.stop();
    eventually("no replica counts", SOON, || {
        replication().contains("min_slaves_good_slaves:0")
    })
    .await;
    let refused = client.lock("new").wait(Duration::from_millis(200)).acquire().await;
    let error = refusal(refused);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
    assert_eq!(lost_within(&held, LEASE + TOLERANCE).await, LostReason::Expired);
    replica.start_again_with(&of_primary);
    check_released(client.lock("new").wait(3 * SOON).acquire().await.unwrap()).await;
}

/// Writes keys with a TTL, as a cache does, until the server's memory limit is exceeded.
fn fill(server: &Redis) {
    let value = "x".repeat(100_000);
    let mut connection = server.connection();
    for number in 0..200 {
        // With `noeviction` the server refuses some of these.
        let _ = redis::cmd("SET")
            .arg(&[&format!("cached-{number}"), &value, "EX", "1000"])
            .query::<()>(&mut connection);
    }
}

#[tokio::test]
async fn eviction_policies_other_than_noeviction_evict_locks() {
    for (policy, is_kept) in [("noeviction", true), ("volatile-ttl", false), ("allkeys-lru", false)] {
        let server = Redis::start_with(&["--maxmemory-policy", policy], None);
        let client = connect(server.url()).await;
        let held = client.lock("held").lease(LEASE).acquire().await.unwrap();
        server.run(&["CONFIG", "SET", "maxmemory", "3mb"]);
        for _ in 0..20 {
            fill(&server);
        }
        let is_there = server.run(&["EXISTS", "held"]) == Reply::Int(1);
        assert!(held.is_valid(), "the machine is too slow");
        assert_eq!(is_there, is_kept, "{policy}");
    }
}
