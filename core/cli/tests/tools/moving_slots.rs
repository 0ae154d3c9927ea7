//! Slots that move between nodes, and servers that fail.

use std::time::Duration;

use serde_json::Value;
use steadlock::Client;
use steadlock_protocol::Reply;

use crate::support::{Node, Rig, command, eventually, json, listed, run, status};

const OURS: &str = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:4611686018427387904";

/// Returns the primary that serves the slot of this name, another primary, and the slot.
fn source_and_target<'a>(rig: &'a Rig, name: &str) -> (&'a Node, &'a Node, String) {
    let primaries: Vec<&Node> = rig.nodes.iter().filter(|node| node.is_primary()).collect();
    let Reply::Int(slot) = primaries[0].run(&["CLUSTER", "KEYSLOT", name]) else {
        panic!("no slot")
    };
    let has = |node: &&&Node| node.try_run(&["EXISTS", name]).is_ok();
    let source = primaries.iter().find(has).unwrap();
    let target = primaries.iter().find(|node| !has(node)).unwrap();
    (source, target, slot.to_string())
}

#[test]
fn a_lock_is_found_at_every_step_of_its_slots_move() {
    let rig = Rig::start("cluster");
    let (source, target, slot) = source_and_target(&rig, "a");
    source.run(&["HSET", "a", OURS, "1"]);
    source.run(&[
        "ZADD",
        "steadlock:{a}:semaphore",
        "99999999999999",
        &format!("{OURS}/1"),
        "3",
        "limit",
    ]);
    // The user has exactly the rights that SECURITY.md lists.
    let rule = run("", &["acl", "watcher", "--prefix", "a", "--tools", "--cluster"]);
    let rule = String::from_utf8(rule.stdout).unwrap().replace("PASSWORD", "sesame");
    for node in &rig.nodes {
        assert_eq!(node.text(&rule.split_whitespace().collect::<Vec<_>>()), "OK");
    }
    let url = rig.url.replace("://", "://watcher:sesame@");
    let check = |moment: &str| {
        let listing = json(&url, &["list"]);
        assert_eq!(listing["notes"], serde_json::json!([]), "{moment}");
        let expected = [("a", "lock"), ("a", "semaphore")].map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        assert_eq!(listed(&listing), expected, "{moment}");
        let inspected = json(&url, &["inspect", "a"]);
        assert_eq!(
            inspected["servers"][0]["holds"].as_array().unwrap().len(),
            2,
            "{moment}: {inspected}"
        );
    };
    let (from, to) = (source.text(&["CLUSTER", "MYID"]), target.text(&["CLUSTER", "MYID"]));
    check("before");
    target.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]);
    source.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to]);
    check("before its keys move");
    let port = target.port.to_string();
    source.run(&["MIGRATE", "127.0.0.1", &port, "a", "0", "5000"]);
    check("one key has moved");
    source.run(&["MIGRATE", "127.0.0.1", &port, "steadlock:{a}:semaphore", "0", "5000"]);
    check("all keys have moved");
    target.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &to]);
    source.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &to]);
    check("afterwards");
}

#[tokio::test]
async fn wait_continues_after_a_failover() {
    let server = Rig::start("sentinel");
    let client = Client::connect(&*server.url).await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let primary = server.nodes.iter().find(|node| node.role == "primary").unwrap();
    let mut waiting = command(&[&server.url], &["wait", "a", "--interval", "0.05"])
        .spawn()
        .unwrap();
    eventually("the command has looked, and the lock is replicated", || {
        let looks = primary.text(&["INFO", "commandstats"]).contains("cmdstat_hlen");
        let replicas = server.nodes.iter().filter(|node| node.role == "replica");
        let offset = primary.offset();
        looks && replicas.map(Node::offset).all(|of| of.is_some() && of == offset)
    })
    .await;
    primary.kill();
    let seen = || -> Option<Value> {
        let output = run(&server.url, &["inspect", "a", "--json"]);
        (status(&output) == 0).then(|| serde_json::from_slice(&output.stdout).unwrap())
    };
    eventually("another server is the primary", || {
        seen().is_some_and(|seen| seen["servers"][0]["server"] != format!("127.0.0.1:{}", primary.port))
    })
    .await;
    assert!(waiting.try_wait().unwrap().is_none(), "the lock is still held");
    tokio::time::timeout(Duration::from_secs(20), lease.release())
        .await
        .unwrap()
        .unwrap();
    eventually("the command ends", || waiting.try_wait().unwrap().is_some()).await;
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}
