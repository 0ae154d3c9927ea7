//! Tests that waiters, Redisson's among them, learn of releases, and that observers learn of connections.

use std::sync::{Arc, Mutex};

use crate::support::cluster::Cluster;
use crate::support::crowd::{check_hand_over, connect_with_rare_polls, kinds};
use crate::support::eventually;
use crate::{SOON, connect, has_sharded_channels};
use steadlock::observe::{Observation, Observer};
use steadlock::{Client, ReleaseOutcome};
use steadlock_protocol::Reply;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_has_its_locks_and_wakes_their_waiters() {
    let cluster = Cluster::start();
    let (client, other) = (connect(&cluster).await, connect_with_rare_polls(&cluster.url).await);
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
                check_hand_over(kind, lease, theirs, &node, &name).await;
            }
        }
    }
}

/// Redisson's clients listen to a lock's channel in one of two ways. Clients of a cluster use the sharded channel, at
/// the lock's node. Older clients, and clients without sharded channels, listen to the plain channel at any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_on_any_of_redissons_channels_wakes_a_waiter() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let primaries = cluster.primaries();
    for node in &primaries {
        let name = cluster.name_at(node, "redisson");
        let channel = format!("redisson_lock__channel:{{{name}}}");
        let elsewhere = primaries.iter().find(|other| *other != node).unwrap();
        let mut listeners = vec![(elsewhere, "SUBSCRIBE")];
        if has_sharded_channels() {
            listeners.push((node, "SSUBSCRIBE"));
        }
        let listeners: Vec<_> = listeners
            .into_iter()
            .map(|(at, command)| {
                let mut connection = at.connection();
                redis::cmd(command).arg(&channel).exec(&mut connection).unwrap();
                (command, connection)
            })
            .collect();
        for lock in [client.lock(&name), client.fair_lock(&name)] {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        for (command, mut connection) in listeners {
            for _ in 0..2 {
                let message = connection.recv_response().unwrap();
                let redis::Value::Array(parts) = message else {
                    panic!("{command}: {message:?}")
                };
                assert_eq!(parts[2], redis::Value::BulkString(b"0".to_vec()), "{command}");
            }
        }
    }
}

/// An observer that records lost and restored connections.
#[derive(Clone, Debug, Default)]
struct ConnectionLog(Arc<Mutex<Vec<String>>>);

impl Observer for ConnectionLog {
    fn observe(&self, observation: &Observation) {
        let line = match observation {
            Observation::Disconnected { server, .. } => format!("lost {server}"),
            Observation::Connected {
                server,
                missing: Some(_),
                ..
            } => format!("back {server}"),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_learns_which_node_is_lost() {
    let (cluster, log) = (Cluster::start(), ConnectionLog::default());
    let client = Client::builder()
        .url(&cluster.url)
        .observer(log.clone())
        .connect()
        .await
        .unwrap();
    let primaries = cluster.primaries();
    for node in &primaries {
        let name = cluster.name_at(node, "observed");
        client.lock(name).acquire().await.unwrap().release().await.unwrap();
    }
    for (node, kind) in [(&primaries[0], "normal"), (&primaries[1], "pubsub")] {
        node.run(&["CLIENT", "KILL", "TYPE", kind]);
    }
    let server = format!("127.0.0.1:{}", primaries[0].port);
    eventually("the loss and the return are recorded", SOON, || {
        let lines = log.0.lock().unwrap();
        lines.contains(&format!("lost {server}")) && lines.contains(&format!("back {server}"))
    })
    .await;
    let lines = log.0.lock().unwrap().clone();
    assert!(lines.iter().all(|line| line.ends_with(&server)), "{lines:?}");
}
