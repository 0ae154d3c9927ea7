//! Tests of slots that move from one node to another while callers hold, await and acquire their locks.

use std::time::Duration;

use crate::support::cluster::Cluster;
use crate::support::crowd::{kinds, spawn_waiter, wait_until_subscribed};
use crate::{SOON, connect};
use steadlock::{Client, ReleaseOutcome};

/// A slot stays in the migrating state for some time: first with all keys at the old node, then with all keys moved.
/// The node accepts calls with one key: every renewal, most releases, and all calls of a semaphore. The node refuses
/// other calls while some of their keys are missing, so these wait until the slot has moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_is_held_while_its_slot_migrates_and_handed_over_afterwards() {
    /// The number of renewals of each lease during each of these two states.
    const RENEWALS: u32 = 2;
    const ONE_KEY: [&str; 4] = ["lock", "mutex", "write_lock", "semaphore"];
    let cluster = Cluster::start();
    let lease = Duration::from_secs(4);
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
            waiters.push((kind, spawn_waiter(theirs, 3 * SOON)));
        }
    }
    wait_until_subscribed(from, &name).await;
    let fresh = kinds(&other, &format!("{name}}}-fresh"));
    cluster.begin_move(slot, from, to);
    let fresh: Vec<_> = fresh
        .into_iter()
        .map(|(kind, lock)| (kind, spawn_waiter(lock, 3 * SOON)))
        .collect();
    for has_moved in [false, true] {
        if has_moved {
            assert!(cluster.move_keys(slot, from, to) >= held.len());
        }
        let mut renewed: Vec<_> = held.iter().map(|(_, lease)| (lease.remaining(), 0)).collect();
        while renewed.iter().any(|(_, renewals)| *renewals < RENEWALS) {
            let permit = client.semaphore(format!("{{{name}}}-permits"), 1).permits(1);
            let lease = permit.acquire().await.unwrap();
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{has_moved}");
            for ((kind, lease), (before, renewals)) in held.iter().zip(&mut renewed) {
                assert!(lease.is_valid(), "{has_moved}: {kind}: {:?}", lease.lost_reason());
                let now = lease.remaining();
                // Only a renewal increases the remaining time.
                *renewals += u32::from(now > *before);
                *before = now;
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
async fn a_lock_is_released_at_the_node_that_its_slot_is_leaving() {
    let cluster = Cluster::start();
    let (client, other) = (connect(&cluster).await, connect(&cluster).await);
    let primaries = cluster.primaries();
    let (from, to) = (&primaries[0], &primaries[1]);
    let name = cluster.name_at(from, "leaving");
    let slot = cluster.slot(&name);
    let (mut held, mut waiters) = (Vec::new(), Vec::new());
    for ((kind, lock), (_, theirs)) in kinds(&client, &name).into_iter().zip(kinds(&other, &name)) {
        held.push((kind, lock.acquire().await.unwrap()));
        if kind != "read_lock" {
            waiters.push((kind, spawn_waiter(theirs, SOON)));
        }
    }
    wait_until_subscribed(from, &name).await;
    cluster.begin_move(slot, from, to);
    let mut releases = Vec::new();
    for (kind, lease) in held {
        releases.push((kind, tokio::spawn(lease.release())));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster.move_keys(slot, from, to);
    cluster.end_move(slot, from, to);
    for (kind, release) in releases {
        assert_eq!(release.await.unwrap().unwrap(), ReleaseOutcome::Released, "{kind}");
    }
    for (kind, waiter) in waiters {
        let lease = waiter.await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
    }
}
