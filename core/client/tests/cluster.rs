//! Locks in a cluster of three primaries with a replica each, and what its servers can do to them.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind, LostReason, ReleaseOutcome};
use leasehold_protocol::Reply;
use support::cluster::Cluster;
use support::crowd::{Crowd, at_most, is_listened_for, is_replicated, kinds, waits};
use support::{Redis, eventually, free_port};

const SOON: Duration = Duration::from_secs(10);
/// Of a crowd.
const LEASE: Duration = Duration::from_secs(12);

async fn connect(cluster: &Cluster) -> Client {
    Client::connect(cluster.url.as_str()).await.unwrap()
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
                assert!(
                    matches!(keys, Reply::Array(keys) if !keys.is_empty()),
                    "{kind} {}",
                    lease.name()
                );
                if kind == "read_lock" {
                    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
                    continue;
                }
                assert!(theirs.try_acquire().await.unwrap().is_none(), "{kind}");
                let waiter = waits(theirs, SOON);
                is_listened_for(&node, &name).await;
                let released = Instant::now();
                assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
                let theirs = waiter.await.unwrap();
                // The lease is thirty seconds long: only a message tells them so early.
                assert!(
                    released.elapsed() < Duration::from_secs(3),
                    "{kind}: {:?}",
                    released.elapsed()
                );
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
    let error = Client::connect(format!("redis+cluster://127.0.0.1:{}", free_port()))
        .await
        .map(drop);
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
    let client = Client::connect(cluster.url.replace("://", "://:sesame@"))
        .await
        .unwrap();
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
    let connect = async || {
        Client::builder()
            .url(&cluster.url)
            .lease(lease)
            .connect()
            .await
            .unwrap()
    };
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
            waiters.push((kind, waits(theirs, SOON)));
        }
    }
    is_listened_for(from, &name).await;
    let fresh = kinds(&other, &format!("{name}}}-fresh"));
    cluster.begin_move(slot, from, to);
    let fresh: Vec<_> = fresh
        .into_iter()
        .map(|(kind, lock)| (kind, waits(lock, SOON)))
        .collect();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_has_its_primarys_locks() {
    let cluster = Cluster::start();
    let primaries = cluster.primaries();
    for is_killed in [false, true] {
        let crowd = Crowd::gather(&cluster.url, LEASE, &cluster.primaries()).await;
        let primary = &primaries[usize::from(is_killed)];
        let replica = cluster.replica_of(primary).unwrap();
        let name = cluster.name_at(primary, "probe");
        is_replicated(primary, &replica).await;
        if is_killed {
            primary.kill();
        } else {
            replica.run(&["CLUSTER", "FAILOVER"]);
        }
        eventually("the replica is the primary", SOON, || replica.is_primary()).await;
        let promoted = Instant::now();
        let probe = crowd.clients[0].lock(&name).wait(SOON).acquire().await.unwrap();
        println!(
            "killed: {is_killed}; a lock of its shard {:?} after the promotion",
            promoted.elapsed()
        );
        assert!(promoted.elapsed() < at_most(), "{:?}", promoted.elapsed());
        probe.release().await.unwrap();
        crowd.goes_on().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_hangs_delays_no_other() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let primaries = cluster.primaries();
    let replica = cluster.replica_of(&primaries[0]).unwrap();
    let hung = cluster.name_at(&primaries[0], "hung");
    let others = [&primaries[1], &primaries[2]].map(|node| cluster.name_at(node, "other"));
    let lease = Duration::from_secs(2);
    let mut held = Vec::new();
    for name in &others {
        held.push(
            client
                .lock(format!("{{{name}}}-held"))
                .lease(lease)
                .renewed()
                .acquire()
                .await
                .unwrap(),
        );
    }
    let lost = client.lock(&hung).lease(lease).renewed().acquire().await.unwrap();
    for node in &cluster.nodes {
        // The others go on though a shard is missing.
        node.run(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    replica.pause();
    primaries[0].pause();
    let (end, mut slowest, mut rounds) = (Instant::now() + 3 * lease, Duration::ZERO, 0);
    while Instant::now() < end {
        for name in &others {
            let start = Instant::now();
            let lease = client.lock(name).acquire().await.unwrap();
            lease.release().await.unwrap();
            slowest = slowest.max(start.elapsed());
            rounds += 1;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{rounds} rounds at the others, the slowest took {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(rounds > 100, "{rounds}");
    for lease in &held {
        assert!(lease.is_valid(), "{}: {:?}", lease.name(), lease.lost_reason());
    }
    assert_eq!(lost.lost().await, LostReason::Expired);
    primaries[0].resume();
    replica.resume();
    let again = client.lock(&hung).wait(SOON).acquire().await.unwrap();
    assert_eq!(again.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_under_load_and_nobody_hears_of_it() {
    let cluster = Cluster::start();
    let slots = std::env::var("LEASEHOLD_SLOTS").map_or(100, |slots| slots.parse().unwrap());
    let primaries = cluster.primaries();
    let crowd = Crowd::gather(&cluster.url, LEASE, &cluster.primaries()).await;
    let is_over = Arc::<AtomicBool>::default();
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let (client, is_over) = (crowd.clients[number % 3].clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut rounds = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let lease = client.lock(format!("load-{}", rounds % 500)).acquire().await.unwrap();
                    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    // The slots of names that are held, and others.
    let names = (0..Crowd::HELD).map(|number| format!("held-{number}"));
    let used = names
        .map(|name| cluster.slot(&name))
        .filter(|slot| primaries[0].owner(*slot) == Some(primaries[0].port));
    for slot in used.chain(0..).take(slots) {
        if primaries[0].owner(slot) == Some(primaries[0].port) {
            cluster.begin_move(slot, &primaries[0], &primaries[1]);
            while cluster.move_keys(slot, &primaries[0], &primaries[1]) > 0 {}
            cluster.end_move(slot, &primaries[0], &primaries[1]);
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let mut rounds = 0;
    for task in tasks {
        rounds += task.await.unwrap();
    }
    println!("{rounds} rounds while {slots} slots moved");
    crowd.goes_on().await;
}
