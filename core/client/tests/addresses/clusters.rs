//! Tests of clusters whose nodes announce addresses that are not reachable from here.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use steadlock::{AddressMap, Builder, Client, ErrorKind};

use super::support::cluster::Cluster;
use super::support::rig::Node;
use super::support::version::Version;
use super::support::{Redis, eventually, unused_port};
use super::{ELSEWHERE, SOON, check_lock};

/// Starts a cluster of one node that announces an unreachable address.
fn elsewhere() -> Redis {
    let announced = ["--cluster-announce-ip", ELSEWHERE, "--cluster-announce-port", "7000"];
    Redis::start_cluster(Version::chosen(), &announced)
}

fn builder(node: &Redis) -> Builder {
    Client::builder().url(format!("redis+cluster://127.0.0.1:{}", node.port))
}

#[tokio::test]
async fn a_node_that_announces_another_address_is_reached_only_through_the_map() {
    let node = elsewhere();
    let here = format!("127.0.0.1:{}", node.port);
    let client = builder(&node).connect().await.unwrap();
    // The wait is longer than the connect timeout.
    let error = client
        .lock("a")
        .wait(SOON)
        .acquire()
        .await
        .expect_err("the server is unreachable");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("10.255.0.1:7000"), "{error}");
    let whole = [("10.255.0.1:7000", here.as_str())];
    check_lock(
        &builder(&node).address_map(whole).connect().await.unwrap(),
        "by address",
    )
    .await;
    // The addresses in the user's URL are not mapped.
    let more = [whole[0], (here.as_str(), "10.255.0.1:7000")];
    check_lock(&builder(&node).address_map(more).connect().await.unwrap(), "once").await;
}

#[tokio::test]
async fn an_error_names_the_announced_and_the_mapped_address() {
    let node = elsewhere();
    let nobody = format!("127.0.0.1:{}", unused_port());
    let map = [("10.255.0.1:7000", nobody.as_str())];
    let client = builder(&node).address_map(map).connect().await.unwrap();
    let error = client
        .lock("a")
        .wait(SOON / 2)
        .acquire()
        .await
        .expect_err("the server is unreachable");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let both = format!("10.255.0.1:7000: mapped to {nobody}: ");
    assert!(error.message().contains(&both), "{error}");
}

#[tokio::test]
async fn a_function_maps_addresses_without_blocking_the_engine() {
    let node = elsewhere();
    let (port, calls) = (node.port, Arc::new(Mutex::new(Vec::new())));
    let recorder = Arc::clone(&calls);
    let map = AddressMap::by(move |announced| {
        let thread = thread::current().name().unwrap_or_default().to_owned();
        recorder.lock().unwrap().push((announced.to_owned(), thread));
        Some(format!("127.0.0.1:{port}"))
    });
    check_lock(&builder(&node).address_map(map).connect().await.unwrap(), "a").await;
    let calls = calls.lock().unwrap();
    assert!(!calls.is_empty());
    for (announced, thread) in calls.iter() {
        assert_eq!(announced, "10.255.0.1:7000");
        assert_ne!(thread, "steadlock-engine");
    }
}

#[tokio::test]
async fn a_failing_function_costs_one_attempt_and_nothing_else() {
    let node = elsewhere();
    let (port, calls) = (node.port, AtomicUsize::new(0));
    let map = AddressMap::by(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => panic!("a mistake of the program"),
        1 => Some("no address".into()),
        _ => Some(format!("127.0.0.1:{port}")),
    });
    check_lock(&builder(&node).address_map(map).connect().await.unwrap(), "a").await;
    let map = AddressMap::by_fallible(|_| Err("the table is gone".into()));
    let client = builder(&node).address_map(map).connect().await.unwrap();
    let error = client
        .lock("a")
        .wait(SOON / 2)
        .acquire()
        .await
        .expect_err("the server is unreachable");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("the table is gone"), "{error}");
}

#[tokio::test]
async fn a_slow_function_delays_connecting_and_nothing_else() {
    let node = elsewhere();
    let (port, calls) = (node.port, AtomicUsize::new(0));
    let (limit, is_over) = (SOON / 20, Arc::new(AtomicBool::new(false)));
    let end = Arc::clone(&is_over);
    let map = AddressMap::by(move |_| {
        // The first two calls of the map do not return before the end of the test.
        let is_slow = calls.fetch_add(1, Ordering::Relaxed) < 2;
        while is_slow && !end.load(Ordering::Relaxed) {
            thread::sleep(SOON / 100);
        }
        Some(format!("127.0.0.1:{port}"))
    });
    let builder = builder(&node).address_map(map).connect_timeout(limit);
    let client = builder.connect().await.unwrap();
    check_lock(&client, "a").await;
    is_over.store(true, Ordering::Relaxed);
}

/// Makes all nodes announce ports on which nothing listens. Returns the map from these to the real addresses.
async fn announce_other_ports(cluster: &Cluster) -> Vec<(String, String)> {
    let announced: Vec<u16> = cluster.nodes.iter().map(|_| unused_port()).collect();
    for (node, port) in cluster.nodes.iter().zip(&announced) {
        node.run(&["CONFIG", "SET", "cluster-announce-port", &port.to_string()]);
    }
    let knows_all = |node: &Node| {
        (0..16_384)
            .step_by(5_000)
            .all(|slot| node.owner(slot).is_some_and(|port| announced.contains(&port)))
    };
    eventually("all nodes announce the other ports", 3 * SOON, || {
        cluster.nodes.iter().all(knows_all)
    })
    .await;
    let pairs = cluster.nodes.iter().zip(&announced);
    pairs
        .map(|(node, port)| (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", node.port)))
        .collect()
}

#[tokio::test]
async fn a_moved_slot_is_followed_to_the_mapped_address_of_its_new_node() {
    if Version::chosen() == Version::Redis62 {
        return; // Redis 6.2 cannot change its announced port at run time.
    }
    let cluster = Cluster::start();
    let primaries = cluster.primaries();
    let slot = cluster.slot("{moved}");
    let is_owner = |node: &&Node| node.owner(slot) == Some(node.port);
    let from = primaries.iter().find(is_owner).expect("an owner").clone();
    let to = primaries.iter().find(|node| **node != from).expect("another").clone();
    let map = announce_other_ports(&cluster).await;
    let client = Client::builder()
        .url(&cluster.url)
        .address_map(map)
        .connect()
        .await
        .unwrap();
    for number in 0..20 {
        check_lock(&client, &format!("anywhere-{number}")).await;
    }
    check_lock(&client, "{moved}:before").await;
    let lease = client.lock("{moved}:held").acquire().await.unwrap();
    cluster.begin_move(slot, &from, &to);
    cluster.move_keys(slot, &from, &to);
    // The record is at the new node already, so the old one redirects the call with ASK.
    lease.extend(None).await.unwrap();
    cluster.end_move(slot, &from, &to);
    check_lock(&client, "{moved}:after").await;
    assert!(lease.is_valid());
    lease.release().await.unwrap();
    assert!(to.scripts_called() > 0);
}

/// As in Kubernetes, the nodes have names that only their own network can resolve.
#[tokio::test]
async fn nodes_that_announce_host_names_are_mapped_also_after_a_failover() {
    if Version::chosen() == Version::Redis62 {
        return; // Redis 6.2 announces no names.
    }
    let cluster = Cluster::start_failing_over();
    let name = |node: &Node| format!("node-{}.cache.invalid", node.port);
    for node in &cluster.nodes {
        node.run(&["CONFIG", "SET", "cluster-announce-hostname", &name(node)]);
        node.run(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"]);
    }
    let knows_all_names = |node: &Node| {
        let reply = node.text(&["CLUSTER", "NODES"]);
        cluster.nodes.iter().all(|other| reply.contains(&name(other)))
    };
    eventually("all nodes know the names", 3 * SOON, || {
        cluster.nodes.iter().all(knows_all_names)
    })
    .await;
    let map: Vec<(String, &str)> = cluster.nodes.iter().map(|node| (name(node), "127.0.0.1")).collect();
    let builder = || Client::builder().url(&cluster.url);
    let lost = builder().connect().await.unwrap();
    lost.lock("a").wait(SOON / 2).acquire().await.expect_err("no such name");
    let client = builder().address_map(map).connect().await.unwrap();
    for number in 0..20 {
        check_lock(&client, &format!("anywhere-{number}")).await;
    }
    let primary = cluster.primaries().remove(0);
    let lock = client.lock(cluster.name_at(&primary, "failing"));
    lock.acquire().await.unwrap().release().await.unwrap();
    let replica = cluster.replica_of(&primary).expect("a replica");
    primary.kill();
    lock.clone()
        .wait(3 * SOON)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(replica.is_primary());
}
