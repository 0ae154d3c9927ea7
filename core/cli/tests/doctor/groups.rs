//! Clusters, sentinels and RedLock with one fault at a time.

use std::time::Duration;

use crate::liar::{Liar, Lie};
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
fn a_node_without_a_replica_that_wants_full_coverage_is_named() {
    let node = Redis::start_cluster(Version::chosen(), &[]);
    let report = Report::of(&[&cluster_url(&node)], &["--lease", "20"]);
    report.names("no-replica", "none can take over");
    report.names("full-coverage", "cluster-require-full-coverage no");
    report.names("min-replicas", "min-replicas-to-write 1");
    report.names("slow-failover", "cluster-node-timeout is 15000 ms");
    report.is_silent_about("slots-not-served");
    report.is_silent_about("missing-command");
    assert_eq!(report.tier(), "T1");
    Report::of(&[&cluster_url(&node)], &["--lease", "30"]).is_silent_about("slow-failover");
}

#[test]
fn slots_that_nobody_serves_are_counted() {
    let node = Redis::start_node(Version::chosen(), &["--cluster-require-full-coverage", "no"]);
    node.own_slots(0..16_000);
    node.wait_until_served();
    let report = Report::of(&[&cluster_url(&node)], &[]);
    report.names("slots-not-served", "384 of 16384");
    report.is_silent_about("full-coverage");
    report.is_silent_about("writes-refused");
    assert_eq!(report.tier(), "none");
}

#[test]
fn a_whole_cluster_is_looked_at_node_by_node() {
    let cluster = Cluster::start();
    let report = Report::of(&[&cluster.url], &[]);
    assert_eq!(report.said["servers"].as_array().unwrap().len(), 3);
    for id in [
        "unreachable",
        "writes-refused",
        "no-replica",
        "slots-not-served",
        "missing-command",
    ] {
        report.is_silent_about(id);
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
    report.names("unreachable", &format!("127.0.0.1:{}", paused.port));
}

#[test]
fn sentinels_are_counted_asked_and_compared() {
    let (one, other) = (Redis::start(), Redis::start());
    let alone = FakeSentinel::naming(one.port, 1);
    let report = Report::of(&[&SentinelRig::url_of(&[alone.port], SERVICE)], &[]);
    report.names("few-sentinels", "only one sentinel");
    report.names("no-replica", "none can take over");
    let second = FakeSentinel::naming(other.port, 1);
    let nobody = unused_port();
    let report = Report::of(
        &[&SentinelRig::url_of(&[alone.port, second.port, nobody], SERVICE)],
        &[],
    );
    report.names("sentinels-disagree", &format!("127.0.0.1:{}", other.port));
    report.names("sentinel-unreachable", &format!("127.0.0.1:{nobody}"));
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
        report.is_silent_about(id);
    }
    assert_eq!(report.tier(), "T1");
    for sentinel in &watched.sentinels()[1..] {
        sentinel.kill();
    }
    let report = Report::of(&[&watched.url], &[]);
    report.names("sentinels-without-quorum", "1 of 3 answer");
    report.names("sentinel-unreachable", "refused");
}

#[test]
fn redlock_of_an_even_number_or_of_one_server_twice_is_named() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let [a, b, c] = servers.each_ref().map(Redis::url);
    let report = Report::of(&[&a, &b], &[]);
    report.names("redlock-number", "2 primaries");
    assert_eq!(report.tier(), "none");
    let again = a.replace("127.0.0.1", "localhost");
    let report = Report::of(&[&a, &b, &again], &[]);
    report.names("redlock-same-server", &servers[0].port.to_string());
    let report = Report::of(&[&a, &b, &c], &[]);
    report.names("redlock-persistence", "appendfsync always");
    report.is_silent_about("redlock-same-server");
    report.is_silent_about("redlock-number");
    assert_eq!(report.tier(), "T3");
}

#[test]
fn redlock_goes_on_with_a_majority_and_says_who_is_gone() {
    let (a, b) = (Redis::start(), Redis::start());
    let nobody = format!("redis://127.0.0.1:{}", unused_port());
    let report = Report::of(&[&a.url(), &nobody, &b.url()], &[]);
    report.names("unreachable", "refused");
    assert_eq!((report.tier(), report.status), ("T3", 2));
}

#[test]
fn clocks_of_two_primaries_that_are_apart_are_named() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let ahead = Liar::before(servers[1].port, Lie::Ahead(5));
    let report = Report::of(&[&servers[0].url(), &ahead.url(), &servers[2].url()], &[]);
    report.names("clocks-apart", &ahead.port.to_string());
}

#[test]
fn a_slow_primary_of_redlock_is_named_by_its_share_of_a_round() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let slow = Liar::before(servers[0].port, Lie::LateOnce(Duration::from_millis(600)));
    let report = Report::of(&[&slow.url(), &servers[1].url(), &servers[2].url()], &[]);
    report.names("round-trip-slow", "in a RedLock round");
}
