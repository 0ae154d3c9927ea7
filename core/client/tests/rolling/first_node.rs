//! A server becomes the first node of a cluster and keeps its data. The tests show the effect on clients with each kind
//! of URL, and on their leases.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use steadlock::{Client, ErrorKind, LostReason};
use steadlock_protocol::Reply;

use crate::support::cluster::move_slot;
use crate::support::crowd::{kinds, spawn_waiter, wait_until_replicated, wait_until_subscribed};
use crate::support::rig::Node;
use crate::support::sentinel::{SERVICE, Sentinel, SentinelRig};
use crate::support::version::Version;
use crate::support::{Redis, check_released, eventually, lost_within, refusal};
use crate::{LEASE, NOTICE_DELAY, SOON, connect};

/// Restarts a server with its data, as a cluster of one node.
async fn restart_as_cluster(server: &mut Redis, bus: TcpListener) {
    stop_with_data(server);
    start_as_cluster(server, bus).await;
}

fn stop_with_data(server: &mut Redis) {
    let _ = redis::cmd("SHUTDOWN").arg("SAVE").query::<()>(&mut server.connection());
    server.stop();
}

async fn start_as_cluster(server: &mut Redis, bus: TcpListener) {
    drop(bus);
    server.start_again_with(&["--cluster-enabled", "yes"]);
    let mut slots = redis::pipe();
    for slot in 0..16_384 {
        slots.cmd("CLUSTER").arg("ADDSLOTS").arg(slot);
    }
    // The server has assigned itself the slots of its keys already, and refuses the commands for these.
    let _ = slots.query::<()>(&mut server.connection());
    let state = || match server.run(&["CLUSTER", "INFO"]) {
        Reply::Bytes(text) => String::from_utf8(text).expect("text"),
        other => panic!("{other:?}"),
    };
    eventually("the node serves all slots", SOON, || {
        state().contains("cluster_state:ok")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_as_a_cluster_keeps_its_locks_and_clients_of_one_server_get_an_error() {
    let (mut server, bus) = Redis::start_with_reserved_bus_port();
    let before = connect(&server.url(), LEASE).await;
    // Both leases last longer than the restart: one is auto-renewed, and the other is fixed.
    let held = before.lock("held").acquire().await.unwrap();
    let fixed = before
        .lock("fixed")
        .lease(Duration::from_secs(10))
        .acquire()
        .await
        .unwrap();
    let token = fixed.token();
    restart_as_cluster(&mut server, bus).await;
    let url = server.url().replace("redis://", "redis+cluster://");
    let after = connect(&url, LEASE).await;
    assert!(fixed.is_valid(), "the machine is too slow");
    assert!(after.lock("fixed").try_acquire().await.unwrap().is_none());
    assert_eq!(lost_within(&held, LEASE + NOTICE_DELAY).await, LostReason::Expired);
    let error = refusal(before.lock("new").wait(Duration::from_millis(500)).acquire().await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
    let error = refusal(Client::connect(server.url()).await);
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert_eq!(lost_within(&fixed, SOON).await, LostReason::Expired);
    let next = after.lock("fixed").wait(SOON).acquire().await.unwrap();
    assert!(next.token() > token, "{:?} after {token:?}", next.token());
    check_released(next).await;
    let error = refusal(Client::connect(format!("{url}/1")).await);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

fn cluster_url(node: &Redis) -> String {
    node.url().replace("redis://", "redis+cluster://")
}

/// Starts a sentinel that watches a server and promotes none, as there is no replica. Returns it and its URL.
fn start_sentinel(server: &Redis) -> (Sentinel, String) {
    let monitor = format!("sentinel monitor {SERVICE} 127.0.0.1 {} 1", server.port);
    let sentinel = Sentinel::start(Ipv4Addr::LOCALHOST.into(), &[monitor]);
    let url = SentinelRig::url_of(&[sentinel.port], SERVICE);
    (sentinel, url)
}

/// The error messages differ if the sentinels have forgotten the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_by_sentinels_get_an_error_and_their_leases_end() {
    for is_forgotten in [false, true] {
        let (mut server, bus) = Redis::start_with_reserved_bus_port();
        let (sentinel, url) = start_sentinel(&server);
        let before = connect(&url, LEASE).await;
        if is_forgotten {
            sentinel.node().run(&["SENTINEL", "REMOVE", SERVICE]);
        }
        let held = before.lock("held").acquire().await.unwrap();
        let fixed = before.lock("fixed").lease(SOON / 2).acquire().await.unwrap();
        let token = fixed.token();
        restart_as_cluster(&mut server, bus).await;
        let after = connect(&cluster_url(&server), LEASE).await;
        assert!(fixed.is_valid(), "the machine is too slow");
        assert!(after.lock("fixed").try_acquire().await.unwrap().is_none());
        assert_eq!(lost_within(&held, LEASE + NOTICE_DELAY).await, LostReason::Expired);
        let error = refusal(before.lock("new").wait(Duration::from_millis(500)).acquire().await);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let words = if is_forgotten {
            "know no service"
        } else {
            "redis+cluster://"
        };
        assert!(error.to_string().contains(words), "{error}");
        let error = refusal(Client::connect(url.as_str()).await);
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(lost_within(&fixed, SOON).await, LostReason::Expired);
        let next = after.lock("fixed").wait(SOON).acquire().await.unwrap();
        assert!(next.token() > token, "{:?} after {token:?}", next.token());
        check_released(next).await;
    }
}

/// Whether a sentinel answers, and its reply about the primary contains `text`.
fn reports(sentinel: &Sentinel, text: &str) -> bool {
    let reply = sentinel.node().try_run(&["INFO", "sentinel"]);
    matches!(reply, Ok(Reply::Bytes(info)) if String::from_utf8_lossy(&info).contains(text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_still_monitor_the_server_promote_a_replica_that_grants_its_locks_again() {
    let (mut server, bus) = Redis::start_with_reserved_bus_port();
    server.run(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let of_primary = ["--replicaof", "127.0.0.1", &server.port.to_string()];
    let replica = Redis::start_with(&of_primary, None);
    let promoted = Node::of(&replica);
    wait_until_replicated(&Node::of(&server), &promoted).await;
    let lines = [
        format!("sentinel monitor {SERVICE} 127.0.0.1 {} 1", server.port),
        format!("sentinel down-after-milliseconds {SERVICE} 3000"),
        format!("sentinel failover-timeout {SERVICE} 5000"),
    ];
    let sentinel = Sentinel::start(Ipv4Addr::LOCALHOST.into(), &lines);
    eventually("the sentinel knows the replica", 2 * SOON, || {
        reports(&sentinel, "slaves=1")
    })
    .await;
    let before = connect(&SentinelRig::url_of(&[sentinel.port], SERVICE), LEASE).await;
    stop_with_data(&mut server);
    // A sentinel that got no processor for 2 s does nothing for the next 30 s. If the server were restarted in that
    // time, the sentinel would give up the failover.
    let address = format!("address=127.0.0.1:{}", replica.port);
    eventually("the sentinel names the replica", 3 * SOON, || {
        reports(&sentinel, &address)
    })
    .await;
    assert!(promoted.is_primary());
    start_as_cluster(&mut server, bus).await;
    let after = connect(&cluster_url(&server), LEASE).await;
    let one = before.lock("both").wait(SOON).acquire().await.unwrap();
    let other = after.lock("both").wait(SOON).acquire().await.unwrap();
    assert!(one.is_valid() && other.is_valid(), "there were two owners");
    assert!(promoted.has_key("both"));
    check_released(one).await;
    check_released(other).await;
}

/// Adds a node without slots to a cluster.
async fn join(node: &Redis, first: &Redis) {
    first.run(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string()]);
    let (one, other) = (Node::of(first), Node::of(node));
    eventually("both nodes know each other", SOON, || {
        let knows = |one: &Node, other: &Node| {
            let reply = one.text(&["CLUSTER", "NODES"]);
            let line = reply.lines().find(|line| line.starts_with(&other.id()));
            line.is_some_and(|line| line.contains(" connected") && !line.contains("handshake"))
        };
        knows(&one, &other) && knows(&other, &one)
    })
    .await;
    node.wait_until_served();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_was_one_server_gets_a_second_node_and_moved_slots_keep_their_locks() {
    let (mut first, bus) = Redis::start_with_reserved_bus_port();
    let before = connect(&first.url(), LEASE).await;
    // These leases are not released. Their records survive the restart, and expire.
    let mut from_before = Vec::new();
    for (_, lock) in kinds(&before, "grown") {
        from_before.push(lock.lease(LEASE).acquire().await.unwrap());
    }
    restart_as_cluster(&mut first, bus).await;
    let (client, other) = (
        connect(&cluster_url(&first), LEASE).await,
        connect(&cluster_url(&first), LEASE).await,
    );
    let mut held = Vec::new();
    for ((kind, lock), theirs) in kinds(&client, "grown").into_iter().zip(&from_before) {
        let (lease, token) = (lock.wait(SOON).acquire().await.unwrap(), theirs.token());
        assert!(token.is_none() || lease.token() > token, "{kind}: {:?}", lease.token());
        held.push((kind, lease));
    }
    let theirs = kinds(&other, "grown").into_iter();
    let waiters: Vec<_> = theirs
        .filter(|(kind, _)| *kind != "read_lock")
        .map(|(kind, lock)| (kind, spawn_waiter(lock, 3 * SOON)))
        .collect();
    let (from, added) = (Node::of(&first), Redis::start_node(Version::chosen(), &[]));
    wait_until_subscribed(&from, "grown").await;
    let mut scattered = Vec::new();
    for number in 0..20 {
        scattered.push(client.lock(format!("scattered-{number}")).acquire().await.unwrap());
    }
    join(&added, &first).await;
    let to = Node::of(&added);
    let nodes = [from.clone(), to.clone()];
    let names = scattered.iter().map(steadlock::Lease::name).chain(["grown"]);
    for name in names {
        move_slot(&nodes, from.slot(name), &from, &to).await;
    }
    assert_eq!(keys(&from), 0, "all keys of the first node are at the other");
    // All leases are renewed at the other node.
    tokio::time::sleep(2 * LEASE).await;
    for lease in held.iter().map(|(_, lease)| lease).chain(&scattered) {
        assert!(lease.is_valid(), "{}: {:?}", lease.name(), lease.lost_reason());
    }
    let mut tokens = Vec::new();
    for (kind, lease) in held {
        if kind != "read_lock" {
            tokens.push(lease.token());
        }
        check_released(lease).await;
    }
    for ((kind, waiter), token) in waiters.into_iter().zip(tokens) {
        let next = waiter.await.unwrap();
        assert!(
            token.is_none() || next.token() > token,
            "{kind}: {:?} after {token:?}",
            next.token()
        );
        check_released(next).await;
    }
    for lease in scattered {
        let (name, token) = (lease.name().to_owned(), lease.token());
        check_released(lease).await;
        let next = other.lock(&name).acquire().await.unwrap();
        assert!(next.token() > token, "{name}: {:?} after {token:?}", next.token());
        check_released(next).await;
    }
}

/// Returns the number of keys that a node has for locks.
fn keys(node: &Node) -> usize {
    let Reply::Array(keys) = node.run(&["KEYS", "*"]) else {
        panic!("no keys")
    };
    let is_of_client = |key: &&Reply| matches!(key, Reply::Bytes(key) if key.ends_with(b":client"));
    keys.len() - keys.iter().filter(is_of_client).count()
}
