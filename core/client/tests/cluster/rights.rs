//! Tests of the rights that SECURITY.md prints, on a cluster.

use crate::support::cluster::Cluster;
use crate::support::crowd::{kinds, spawn_waiter, wait_until_subscribed};
use crate::{SOON, has_sharded_channels};
use steadlock::{Client, ReleaseOutcome};
use steadlock_protocol::Reply;

/// Returns the rule of SECURITY.md for the user `locks`, with the rights that the table there adds for clusters.
fn printed_rule() -> Vec<String> {
    let text = include_str!("../../../../SECURITY.md");
    let rule = text
        .lines()
        .find_map(|line| line.strip_prefix("ACL SETUSER locks "))
        .unwrap();
    let row = text
        .lines()
        .find(|line| line.contains("| a cluster,"))
        .unwrap()
        .split(" | ")
        .next()
        .unwrap();
    let more = row
        .split('`')
        .filter(|word| word.starts_with('+'))
        .map(|word| word.replace('\\', ""));
    let known = |word: &String| has_sharded_channels() || !RIGHTS_FOR_SHARDED_CHANNELS.contains(&word.as_str());
    // SECURITY.md tells readers to replace this pattern by the beginning of their lock names.
    let rule = rule.replace("~orders:*", "~{orders:*");
    rule.split(' ').map(str::to_owned).chain(more.filter(known)).collect()
}

/// Rights that are unknown to servers without sharded channels.
const RIGHTS_FOR_SHARDED_CHANNELS: [&str; 3] = ["+ssubscribe", "+sunsubscribe", "+spublish"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_printed_rights_suffice_for_a_cluster() {
    let cluster = Cluster::start();
    let rule = printed_rule();
    for node in &cluster.nodes {
        let words: Vec<&str> = ["ACL", "SETUSER", "locks"]
            .into_iter()
            .chain(rule.iter().map(String::as_str))
            .collect();
        node.run(&words);
    }
    let client = Client::connect(cluster.url.replace("://", "://locks:PASSWORD@"))
        .await
        .unwrap();
    let other = Client::connect(cluster.url.replace("://", "://locks:PASSWORD@"))
        .await
        .unwrap();
    let primaries = cluster.primaries();
    for node in &primaries {
        let name = cluster.name_at(node, "orders:1");
        for ((kind, lock), (_, theirs)) in kinds(&client, &name).into_iter().zip(kinds(&other, &name)) {
            let lease = lock.acquire().await.unwrap_or_else(|error| panic!("{kind}: {error}"));
            let waiter = (kind != "read_lock").then(|| spawn_waiter(theirs, SOON));
            if waiter.is_some() {
                wait_until_subscribed(node, &name).await;
            }
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
            if let Some(waiter) = waiter {
                waiter.await.unwrap().release().await.unwrap();
            }
        }
    }
    let name = cluster.name_at(&primaries[0], "orders:2");
    let permit = client.semaphore(&name, 1).permits(1);
    cluster.begin_move(cluster.slot(&name), &primaries[0], &primaries[1]);
    permit.acquire().await.unwrap().release().await.unwrap();
    for node in &primaries {
        let Reply::Array(refused) = node.run(&["ACL", "LOG"]) else {
            panic!("no log")
        };
        let objects = refused.iter().map(|entry| {
            let Reply::Array(fields) = entry else {
                panic!("{entry:?}")
            };
            let object = fields
                .iter()
                .position(|field| *field == Reply::Bytes(b"object".to_vec()))
                .unwrap();
            let Reply::Bytes(object) = &fields[object + 1] else {
                panic!("{entry:?}")
            };
            String::from_utf8(object.clone()).unwrap()
        });
        // The server may refuse CLIENT commands and INFO: clients work without these.
        let unexpected: Vec<_> = objects
            .filter(|object| !object.starts_with("client") && object != "info")
            .collect();
        assert!(unexpected.is_empty(), "{unexpected:?}");
    }
}
