//! Tests of a client outside of a Kubernetes cluster, as docs/servers.md describes it. The pods announce names that
//! only their own network can resolve, and all have the same port there.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use steadlock::observe::{Observation, Observer};
use steadlock::{AddressMap, Builder, Client, ErrorKind};

use super::support::crowd::wait_until_replicated;
use super::support::proxy::Proxy;
use super::support::rig::Node;
use super::support::sentinel::{SERVICE, Sentinel, SentinelRig};
use super::support::version::Version;
use super::support::{Redis, eventually, unused_port};
use super::{SOON, check_lock, check_lock_until};

/// Starts three nodes with a third of the slots each, which announce `cache-0.cache:6379` and so on.
async fn pods() -> Vec<Redis> {
    let pods: Vec<Redis> = (0..3).map(|_| Redis::start_node(Version::chosen(), &[])).collect();
    let name = |number: usize| format!("cache-{number}.cache");
    for (number, (pod, slots)) in pods.iter().zip([0..5_000, 5_000..10_000, 10_000..16_384]).enumerate() {
        pod.own_slots(slots);
        for (option, value) in [
            ("cluster-announce-hostname", name(number).as_str()),
            ("cluster-preferred-endpoint-type", "hostname"),
            ("cluster-announce-port", "6379"),
        ] {
            pod.run(&["CONFIG", "SET", option, value]);
        }
        pods[0].run(&["CLUSTER", "MEET", "127.0.0.1", &pod.port.to_string()]);
    }
    let knows_all = |pod: &Redis| {
        let reply = Node::of(pod).text(&["CLUSTER", "NODES"]);
        (0..3).all(|number| {
            let line = reply.lines().find(|line| line.contains(&name(number)));
            line.is_some_and(|line| line.contains(":6379@"))
        })
    };
    eventually("all pods know the names", 3 * SOON, || pods.iter().all(knows_all)).await;
    pods.iter().for_each(Redis::wait_until_served);
    pods
}

fn is_too_old() -> bool {
    Version::chosen() == Version::Redis62 // Redis 6.2 announces no names.
}

/// Builds a client whose URL has only the first pod, like `redis+cluster://localhost:7000`.
fn builder(pods: &[Redis]) -> Builder {
    Client::builder().url(format!("redis+cluster://localhost:{}", pods[0].port))
}

async fn check_all_reached(client: &Client, pods: &[Redis]) {
    for number in 0..20 {
        check_lock(client, &format!("anywhere-{number}")).await;
    }
    for pod in pods {
        assert!(Node::of(pod).scripts_called() > 0);
    }
}

#[tokio::test]
async fn cluster_pods_are_reached_through_a_table_of_their_names() {
    if is_too_old() {
        return;
    }
    let pods = pods().await;
    let entry = |(number, pod): (usize, &Redis)| {
        let name = format!("cache-{number}.cache:6379");
        (name, format!("localhost:{}", pod.port))
    };
    let map: Vec<(String, String)> = pods.iter().enumerate().map(entry).collect();
    let client = builder(&pods).address_map(map).connect().await.unwrap();
    check_all_reached(&client, &pods).await;
}

#[tokio::test]
async fn cluster_pods_are_reached_through_a_function_of_their_names() {
    if is_too_old() {
        return;
    }
    let pods = pods().await;
    let ports: Vec<u16> = pods.iter().map(|pod| pod.port).collect();
    let forwarded = move |announced: &str| {
        let pod = announced.strip_prefix("cache-")?.strip_suffix(".cache:6379")?;
        let pod: usize = pod.parse().ok()?;
        Some(format!("localhost:{}", ports[pod]))
    };
    let map = AddressMap::by(forwarded);
    let client = builder(&pods).address_map(map).connect().await.unwrap();
    check_all_reached(&client, &pods).await;
}

/// An observer that records failed connection attempts, each with its server and its cause.
#[derive(Clone, Default)]
struct ConnectFailures(Arc<Mutex<Vec<(String, String)>>>);

impl Observer for ConnectFailures {
    fn observe(&self, observation: &Observation) {
        if let Observation::ConnectFailing { server, cause, .. } = observation {
            self.0.lock().unwrap().push((server.to_string(), cause.clone()));
        }
    }
}

#[tokio::test]
async fn messages_and_the_log_show_the_names_of_pods_and_of_one_that_is_not_mapped() {
    if is_too_old() {
        return;
    }
    let pods = pods().await;
    let (failures, nobody) = (ConnectFailures::default(), unused_port());
    let map = [
        ("cache-0.cache:6379".to_owned(), format!("localhost:{}", pods[0].port)),
        ("cache-1.cache:6379".to_owned(), format!("localhost:{nobody}")),
    ];
    let client = builder(&pods)
        .address_map(map)
        .observer(failures.clone())
        .connect()
        .await
        .unwrap();
    let name_at = |pod: usize| {
        let slots = [0..5_000, 5_000..10_000, 10_000..16_384];
        let mut names = (0..).map(|number| format!("at-{pod}-{number}"));
        let slot = |name: &str| Node::of(&pods[0]).slot(name);
        names.find(|name| slots[pod].contains(&slot(name))).unwrap()
    };
    check_lock(&client, &name_at(0)).await;
    let mapped = format!("cache-1.cache:6379: mapped to localhost:{nobody}: Connection refused");
    for (pod, words) in [(1, mapped.as_str()), (2, "cache-2.cache:6379")] {
        let lock = client.lock(name_at(pod)).wait(SOON / 2);
        let error = lock.acquire().await.map(drop).expect_err("no such pod");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.message().contains(words), "{error}");
    }
    let is_recorded = || {
        let failures = failures.0.lock().unwrap();
        failures.iter().any(|(server, cause)| {
            server.contains("cache-1.cache:6379") && cause.contains("mapped to") && !server.contains("localhost")
        })
    };
    eventually("the log has the name of the pod", SOON, is_recorded).await;
}

/// Sentinels must reach the addresses that they announce, so these names work for the client here as well. The test
/// shows that the client uses the mapped addresses instead.
#[tokio::test]
async fn servers_that_announce_names_to_sentinels_are_mapped_also_after_a_failover() {
    let named = ["--replica-announce-ip", "localhost", "--repl-diskless-sync-delay", "0"];
    let primary = Redis::start_with(&named, None);
    let of_primary = ["--replicaof", "localhost", &primary.port.to_string()];
    let replica = Redis::start_with(&[&named[..], &of_primary].concat(), None);
    let lines = [
        "sentinel resolve-hostnames yes".to_owned(),
        "sentinel announce-hostnames yes".to_owned(),
        format!("sentinel monitor {SERVICE} localhost {} 1", primary.port),
        format!("sentinel failover-timeout {SERVICE} 5000"),
    ];
    let servers = [Node::of(&primary), Node::of(&replica)];
    wait_until_replicated(&servers[0], &servers[1]).await;
    let sentinel = Sentinel::start(Ipv4Addr::LOCALHOST.into(), &lines);
    let is_known = || {
        let reply = sentinel.node().text(&["INFO", "sentinel"]);
        reply.contains("slaves=1")
    };
    eventually("the sentinel knows the replica", 2 * SOON, is_known).await;
    for server in &servers {
        server.run(&["ACL", "SETUSER", "app", "on", ">sesame", "~*", "&*", "+@all"]);
    }
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::to(server.port)).collect();
    let pairs = servers.iter().zip(&proxies);
    let entry = |(server, proxy): (&Node, &Proxy)| {
        let name = format!("localhost:{}", server.port);
        (name, format!("127.0.0.1:{}", proxy.port))
    };
    let map: Vec<(String, String)> = pairs.map(entry).collect();
    let url = SentinelRig::url_of(&[sentinel.port], SERVICE).replace("://", "://app:sesame@");
    let client = Client::builder().url(url).address_map(map).connect().await.unwrap();
    let kept = client.lock("kept").acquire().await.unwrap();
    assert!(
        proxies[0].connections_to(servers[0].port) >= 2,
        "the client uses the map"
    );
    wait_until_replicated(&servers[0], &servers[1]).await;
    eventually("the replica is promoted", 3 * SOON, || {
        servers[1].is_primary() || {
            let _ = sentinel.node().try_run(&["SENTINEL", "FAILOVER", SERVICE]);
            false
        }
    })
    .await;
    check_lock_until(&client, "b", "not at the promoted server", || {
        proxies[1].connections_to(servers[1].port) >= 2
    })
    .await;
    kept.extend(None).await.unwrap();
    kept.release().await.unwrap();
    for (server, proxy) in servers.iter().zip(&proxies) {
        eventually("all connections use the map", SOON, || {
            let reply = server.text(&["CLIENT", "LIST"]);
            let client_connections = reply.lines().filter(|line| line.contains("user=app")).count();
            client_connections == proxy.connections_to(server.port)
        })
        .await;
    }
}
