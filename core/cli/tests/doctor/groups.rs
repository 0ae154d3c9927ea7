//! Clusters, sentinels and RedLock with one fault at a time.

use std::time::Duration;

use crate::faulty_proxy::{Fault, FaultyProxy};
use crate::report::Report;
use crate::support::cluster::Cluster;
use crate::support::fake_sentinel::FakeSentinel;
use crate::support::sentinel::{SERVICE, SentinelRig};
use crate::support::version::Version;
use crate::support::{Redis, unused_port};

fn cluster_url(node: &Redis) -> String {
    format!("redis+cluster://127.0.0.1:{}", node.port)
}

#[test]
fn a_node_that_needs_full_coverage_and_has_no_replica_is_named() {
    let node = Redis::start_cluster(Version::chosen(), &[]);
    let report = Report::of(&[&cluster_url(&node)], &["--lease", "20"]);
    report.has("no-replica", "none can take over");
    report.has("full-coverage", "cluster-require-full-coverage no");
    report.has("min-replicas", "min-replicas-to-write 1");
    report.has("slow-failover", "cluster-node-timeout is 15000 ms");
    report.lacks("slots-not-served");
    report.lacks("missing-command");
    assert_eq!(report.tier(), "T1");
    Report::of(&[&cluster_url(&node)], &["--lease", "30"]).lacks("slow-failover");
}

#[test]
fn slots_that_nobody_serves_are_counted() {
    let node = Redis::start_node(Version::chosen(), &["--cluster-require-full-coverage", "no"]);
    node.own_slots(0..16_000);
    node.wait_until_served();
    let report = Report::of(&[&cluster_url(&node)], &[]);
    report.has("slots-not-served", "384 of 16384");
    report.lacks("full-coverage");
    report.lacks("writes-refused");
    assert_eq!(report.tier(), "none");
}

#[test]
fn each_node_of_a_cluster_is_checked() {
    let cluster = Cluster::start();
    let report = Report::of(&[&cluster.url], &[]);
    assert_eq!(report.json["servers"].as_array().unwrap().len(), 3);
    for id in [
        "unreachable",
        "writes-refused",
        "no-replica",
        "slots-not-served",
        "missing-command",
    ] {
        report.lacks(id);
    }
    for node in cluster.primaries() {
        assert_eq!(
            node.run(&["DBSIZE"]),
            steadlock_protocol::Reply::Int(0),
            "nothing is left"
        );
    }
    let paused = cluster.primaries().remove(0);
    paused.pause();
    let report = Report::of(&[&cluster.url], &[]);
    paused.resume();
    report.has("unreachable", &format!("127.0.0.1:{}", paused.port));
}

#[test]
fn sentinels_are_counted_asked_and_compared() {
    let (one, other) = (Redis::start(), Redis::start());
    let alone = FakeSentinel::naming(one.port, 1);
    let report = Report::of(&[&SentinelRig::url_of(&[alone.port], SERVICE)], &[]);
    report.has("few-sentinels", "only one sentinel");
    report.has("no-replica", "none can take over");
    let second = FakeSentinel::naming(other.port, 1);
    let nobody = unused_port();
    let report = Report::of(
        &[&SentinelRig::url_of(&[alone.port, second.port, nobody], SERVICE)],
        &[],
    );
    report.has("sentinels-disagree", &format!("127.0.0.1:{}", other.port));
    report.has("sentinel-unreachable", &format!("127.0.0.1:{nobody}"));
    assert_eq!(report.tier(), "none");
}

#[test]
fn sentinels_without_a_quorum_are_named() {
    let watched = SentinelRig::start();
    let report = Report::of(&[&watched.url], &[]);
    for id in [
        "few-sentinels",
        "sentinels-disagree",
        "sentinels-without-quorum",
        "sentinel-unreachable",
        "no-replica",
    ] {
        report.lacks(id);
    }
    assert_eq!(report.tier(), "T1");
    for sentinel in &watched.sentinels()[1..] {
        sentinel.kill();
    }
    let report = Report::of(&[&watched.url], &[]);
    report.has("sentinels-without-quorum", "1 of 3 answer");
    report.has("sentinel-unreachable", "refused");
}

#[test]
fn redlock_of_an_even_number_or_of_one_server_twice_is_named() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let [a, b, c] = servers.each_ref().map(Redis::url);
    let report = Report::of(&[&a, &b], &[]);
    report.has("redlock-number", "2 primaries");
    assert_eq!(report.tier(), "none");
    let again = a.replace("127.0.0.1", "localhost");
    let report = Report::of(&[&a, &b, &again], &[]);
    report.has("redlock-same-server", &servers[0].port.to_string());
    let report = Report::of(&[&a, &b, &c], &[]);
    report.has("redlock-persistence", "appendfsync always");
    report.lacks("redlock-same-server");
    report.lacks("redlock-number");
    assert_eq!(report.tier(), "T3");
}

#[test]
fn redlock_with_a_majority_keeps_its_tier_and_names_the_unreachable_primary() {
    let (a, b) = (Redis::start(), Redis::start());
    let nobody = format!("redis://127.0.0.1:{}", unused_port());
    let report = Report::of(&[&a.url(), &nobody, &b.url()], &[]);
    report.has("unreachable", "refused");
    assert_eq!((report.tier(), report.status), ("T3", 2));
}

#[test]
fn differing_clocks_of_two_primaries_are_named() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let ahead = FaultyProxy::start(servers[1].port, Fault::Ahead(5));
    let report = Report::of(&[&servers[0].url(), &ahead.url(), &servers[2].url()], &[]);
    report.has("clocks-apart", &ahead.port.to_string());
}

#[test]
fn a_slow_primary_of_redlock_is_judged_by_the_response_timeout_of_a_round() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let slow = FaultyProxy::start(servers[0].port, Fault::DelayOnce(Duration::from_millis(600)));
    let report = Report::of(&[&slow.url(), &servers[1].url(), &servers[2].url()], &[]);
    report.has("round-trip-slow", "in a RedLock round");
}
