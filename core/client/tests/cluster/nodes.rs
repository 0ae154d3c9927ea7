//! Tests of the nodes to which a client connects, and of the node that receives each call.

use std::time::{Duration, Instant};

use crate::support::cluster::Cluster;
use crate::support::crowd::{connect_with_rare_polls, spawn_waiter, wait_until_subscribed};
use crate::support::eventually;
use crate::support::rig::Node;
use crate::{SOON, connect, has_sharded_channels};
use steadlock::{Client, ErrorKind, ReleaseOutcome};

/// Returns the number of connections of the client's user to a node.
fn connections(node: &Node) -> usize {
    let reply = node.text(&["CLIENT", "LIST"]);
    reply.lines().filter(|line| line.contains("user=app")).count()
}

#[tokio::test]
async fn a_node_is_connected_when_one_of_its_slots_is_needed() {
    let cluster = Cluster::start();
    for node in &cluster.nodes {
        node.run(&["ACL", "SETUSER", "app", "on", ">sesame", "~*", "&*", "+@all"]);
    }
    let primaries = cluster.primaries();
    // The URL names only the first primary.
    let url = format!("redis+cluster://app:sesame@127.0.0.1:{}", primaries[0].port);
    // The key of the client info would be in another slot, perhaps at another node.
    let client = Client::builder().url(url).without_client_info();
    let client = client.connect().await.unwrap();
    for needed in 1..=primaries.len() {
        let name = cluster.name_at(&primaries[needed - 1], "needed");
        let lease = client.lock(name).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        for (number, node) in primaries.iter().enumerate() {
            let count = connections(node);
            // The client also connects to the node of the URL, to ask it for the owners of slots.
            assert!((count > 0) == (number < needed), "{needed}: {number}: {count}");
        }
    }
}

#[tokio::test]
async fn the_members_of_a_multi_lock_may_be_on_several_nodes() {
    let cluster = Cluster::start();
    let (client, other) = (connect(&cluster).await, connect(&cluster).await);
    let primaries = cluster.primaries();
    let names: Vec<String> = primaries.iter().map(|node| cluster.name_at(node, "member")).collect();
    let all = |client: &Client| {
        let members: Vec<_> = names.iter().map(|name| client.lock(name)).collect();
        client.multi_lock(&members)
    };
    let held = all(&client).acquire().await.unwrap();
    for (node, name) in primaries.iter().zip(&names) {
        assert!(node.has_key(name));
        assert!(other.lock(name).try_acquire().await.unwrap().is_none());
    }
    let waiter = spawn_waiter(all(&other), SOON);
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
    let theirs = waiter.await.unwrap();
    assert_eq!(theirs.release().await.unwrap(), ReleaseOutcome::Released);
    for name in &names {
        let lease = client.lock(name).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

/// The client repeats a single attempt for the command timeout, and a waiter's attempt for as long as it waits.
#[tokio::test]
async fn a_call_that_a_migrating_slot_refuses_is_unavailable_after_the_command_timeout_and_names_tryagain() {
    const TIMEOUT: Duration = Duration::from_millis(700);
    let cluster = Cluster::start();
    let client = Client::builder()
        .url(&cluster.url)
        .command_timeout(TIMEOUT)
        .connect()
        .await
        .unwrap();
    let primaries = cluster.primaries();
    let (from, to) = (&primaries[0], &primaries[1]);
    let name = cluster.name_at(from, "migrating");
    let slot = cluster.slot(&name);
    cluster.begin_move(slot, from, to);
    let start = Instant::now();
    let error = client
        .lock(&name)
        .try_acquire()
        .await
        .map(drop)
        .expect_err("the slot migrates");
    assert!(start.elapsed() >= TIMEOUT, "{:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("TRYAGAIN"), "{error}");
    // A free semaphore can be acquired meanwhile, because its calls have only one key.
    let permit = client.semaphore(format!("{{{name}}}-permits"), 1).permits(1);
    assert_eq!(
        permit.acquire().await.unwrap().release().await.unwrap(),
        ReleaseOutcome::Released
    );
    let waiter = spawn_waiter(client.lock(&name), SOON);
    tokio::time::sleep(2 * TIMEOUT).await;
    assert!(!waiter.is_finished());
    while cluster.move_keys(slot, from, to) > 0 {}
    cluster.end_move(slot, from, to);
    let lease = waiter.await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

/// Releases a lock as Redisson does: deletes the record, and publishes on the channel with one of two commands.
fn release_by_redisson(node: &Node, command: &str, name: &str) {
    node.run(&["DEL", name]);
    node.run(&[command, &format!("redisson_lock__channel:{{{name}}}"), "0"]);
}

#[tokio::test]
async fn redissons_sharded_channel_wakes_a_waiter_and_its_plain_channel_leaves_it_to_the_poll() {
    let cluster = Cluster::start();
    let holder = connect(&cluster).await;
    let (polling, woken) = (connect(&cluster).await, connect_with_rare_polls(&cluster.url).await);
    let node = &cluster.primaries()[0];
    let (polled, notified) = (cluster.name_at(node, "polled"), cluster.name_at(node, "notified"));
    for name in [&polled, &notified] {
        let held = holder.lock(name).without_fencing().lease(6 * SOON);
        // Simulates a lock of Redisson: no client here releases it.
        tokio::spawn(async move { held.acquire().await.unwrap().lost().await });
        eventually("the lock is held", SOON, || node.has_key(name)).await;
    }
    let before = node.scripts_called();
    let notified_waiter = spawn_waiter(woken.lock(&notified), SOON);
    wait_until_subscribed(node, &notified).await;
    // After subscribing, a waiter makes another attempt, because the lock may have been released before.
    eventually("two attempts were made", SOON, || node.scripts_called() >= before + 2).await;
    let polling_waiter = spawn_waiter(polling.lock(&polled), SOON);
    wait_until_subscribed(node, &polled).await;
    for name in [&notified, &polled] {
        release_by_redisson(node, "PUBLISH", name);
    }
    let lease = polling_waiter.await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    if has_sharded_channels() {
        assert!(!notified_waiter.is_finished(), "the plain channel woke the waiter");
        release_by_redisson(node, "SPUBLISH", &notified);
    }
    let lease = notified_waiter.await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}
