//! Locks in a cluster of three primaries with a replica each, and what its servers can do to them.

mod support;

use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind, Lease, Lock, ReleaseOutcome};
use leasehold_protocol::Reply;
use support::cluster::{Cluster, Node};
use support::{Redis, eventually, free_port};
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(10);

async fn connect(cluster: &Cluster) -> Client {
    Client::connect(cluster.url.as_str()).await.unwrap()
}

/// Every kind of lock on one name, or on several names of one slot.
fn kinds(client: &Client, name: &str) -> Vec<(&'static str, Lock)> {
    let of = |kind: &str| format!("{{{name}}}-{kind}");
    vec![
        ("lock", client.lock(of("lock"))),
        ("mutex", client.mutex(of("mutex"))),
        ("fair_lock", client.fair_lock(of("fair"))),
        ("read_lock", client.read_write_lock(of("read")).read),
        ("write_lock", client.read_write_lock(of("write")).write),
        ("semaphore", client.semaphore(of("semaphore"), 1).permits(1)),
    ]
}

fn waits(lock: Lock) -> JoinHandle<Lease> {
    tokio::spawn(async move { lock.wait(SOON).acquire().await.unwrap() })
}

/// Until somebody listens for a lock's release at the node that has its slot.
async fn is_listened_for(node: &Node, name: &str) {
    let pattern = format!("*{name}*");
    eventually("somebody listens", SOON, || {
        ["CHANNELS", "SHARDCHANNELS"].iter().any(|of| {
            let listeners = node.try_run(&["PUBSUB", of, &pattern]);
            matches!(listeners, Ok(Reply::Array(channels)) if !channels.is_empty())
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_has_its_locks_and_wakes_those_who_wait_for_them() {
    let cluster = Cluster::start();
    let (client, other) = (connect(&cluster).await, connect(&cluster).await);
    for node in cluster.primaries() {
        for number in 0..10 {
            let name = cluster.name_at(&node, &format!("shard-{number}"));
            for ((kind, lock), (_, theirs)) in kinds(&client, &name).into_iter().zip(kinds(&other, &name)) {
                let lease = lock.acquire().await.unwrap_or_else(|error| panic!("{kind}: {error}"));
                assert!(lease.is_valid(), "{kind}");
                let keys = node.run(&["KEYS", &format!("*{name}*{}*", kind.split('_').next().unwrap_or(kind))]);
                assert!(matches!(keys, Reply::Array(keys) if !keys.is_empty()), "{kind} {}", lease.name());
                if kind == "read_lock" {
                    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
                    continue;
                }
                assert!(theirs.try_acquire().await.unwrap().is_none(), "{kind}");
                let waiter = waits(theirs);
                is_listened_for(&node, &name).await;
                let released = Instant::now();
                assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
                let theirs = waiter.await.unwrap();
                // The lease is thirty seconds long: only a message tells them so early.
                assert!(released.elapsed() < Duration::from_secs(3), "{kind}: {:?}", released.elapsed());
                assert_eq!(theirs.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
            }
        }
    }
}

#[tokio::test]
async fn an_address_of_the_wrong_mode_is_refused_with_the_right_one() {
    let cluster = Cluster::start();
    let error = Client::connect(cluster.url.replace("+cluster", "")).await.map(drop);
    let error = error.expect_err("more than one address");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let node = &cluster.nodes[0];
    let error = Client::connect(format!("redis://127.0.0.1:{}", node.port)).await.map(drop);
    let error = error.expect_err("a cluster");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("redis+cluster://"), "{error}");
    let single = Redis::start();
    let error = Client::connect(format!("redis+cluster://127.0.0.1:{}", single.port)).await.map(drop);
    let error = error.expect_err("no cluster");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("redis://"), "{error}");
    let error = Client::connect(format!("redis+cluster://127.0.0.1:{}", free_port())).await.map(drop);
    let error = error.expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn every_node_is_got_into_with_the_credentials_of_the_url() {
    let cluster = Cluster::start();
    for node in &cluster.nodes {
        node.run(&["CONFIG", "SET", "requirepass", "sesame"]);
    }
    for password in ["", ":wrong@"] {
        let url = cluster.url.replace("://", &format!("://{password}"));
        let error = Client::connect(url).await.map(drop).expect_err("no credentials");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
    let client = Client::connect(cluster.url.replace("://", "://:sesame@")).await.unwrap();
    for number in 0..20 {
        let lease = client.lock(format!("behind-{number}")).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn one_node_that_answers_is_enough_to_find_the_others() {
    let cluster = Cluster::start();
    let replica = cluster.nodes.iter().find(|node| !node.is_primary()).unwrap();
    let url = format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", free_port(), replica.port);
    let client = Client::connect(url).await.unwrap();
    for number in 0..20 {
        let lease = client.lock(format!("found-{number}")).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

/// A slot is held migrating for some time: first with all keys where they were, then with all of them moved.
/// A server lets pass what names one key: every renewal, most releases, and a semaphore. Other calls it refuses
/// while some of their keys are missing, so they wait until the slot has moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_is_kept_while_its_slot_migrates_and_given_on_after_it() {
    const STAY: Duration = Duration::from_millis(2_500);
    const ONE_KEY: [&str; 4] = ["lock", "mutex", "write_lock", "semaphore"];
    let cluster = Cluster::start();
    let lease = Duration::from_millis(1_500);
    let connect = async || Client::builder().url(&cluster.url).lease(lease).connect().await.unwrap();
    let (client, other) = (connect().await, connect().await);
    let primaries = cluster.primaries();
    let (from, to) = (&primaries[0], &primaries[1]);
    let name = cluster.name_at(from, "moving");
    let slot = cluster.slot(&name);
    let mut held = Vec::new();
    let mut waiters = Vec::new();
    for ((kind, lock), (_, theirs)) in kinds(&client, &name).into_iter().zip(kinds(&other, &name)) {
        held.push((kind, lock.acquire().await.unwrap()));
        if kind != "read_lock" {
            waiters.push((kind, waits(theirs)));
        }
    }
    is_listened_for(from, &name).await;
    let fresh = kinds(&other, &format!("{name}}}-fresh"));
    cluster.begin_move(slot, from, to);
    let fresh: Vec<_> = fresh.into_iter().map(|(kind, lock)| (kind, waits(lock))).collect();
    for has_moved in [false, true] {
        if has_moved {
            assert!(cluster.move_keys(slot, from, to) >= held.len());
        }
        let end = Instant::now() + STAY;
        while Instant::now() < end {
            let permit = client.semaphore(format!("{{{name}}}-permits"), 1).permits(1);
            let lease = permit.acquire().await.unwrap();
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{has_moved}");
            for (kind, lease) in &held {
                assert!(lease.is_valid(), "{has_moved}: {kind}: {:?}", lease.lost_reason());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let (at_once, later): (Vec<_>, Vec<_>) = held.into_iter().partition(|(kind, _)| ONE_KEY.contains(kind));
    for (kind, lease) in at_once {
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
    }
    cluster.end_move(slot, from, to);
    for (kind, lease) in later {
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
    }
    for (kind, waiter) in waiters.into_iter().chain(fresh) {
        let lease = waiter.await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
    }
}
