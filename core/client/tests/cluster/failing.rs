//! Tests of nodes that are killed, replaced or hang.

use std::time::{Duration, Instant};

use crate::support::cluster::Cluster;
use crate::support::crowd::{
    Crowd, ResourceUse, Times, failover_count, failover_limit, wait_until_only_tokens, wait_until_replicated,
};
use crate::support::rig::Node;
use crate::support::{eventually, is_timed, on_time};
use crate::{LEASE, SOON};
use steadlock::{Client, ErrorKind, Lease, LostReason, ReleaseOutcome};

/// The longest time until a replica is promoted. A failover without a majority is repeated after some seconds.
const PROMOTED: Duration = Duration::from_secs(25);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_has_the_locks_of_its_primary() {
    let mut all = [
        Times::new("CLUSTER FAILOVER"),
        Times::new("a primary of a cluster is killed"),
    ];
    let used = ResourceUse::now();
    for _ in 0..failover_count() {
        replace_one_primary_and_kill_one(&mut all).await;
        used.wait_until_not_above().await;
    }
    all.into_iter().for_each(Times::check);
}

async fn replace_one_primary_and_kill_one(all: &mut [Times; 2]) {
    let cluster = Cluster::start_failing_over();
    let primaries = cluster.primaries();
    for is_killed in [false, true] {
        let crowd = Crowd::start(&cluster.url, LEASE, &cluster.primaries()).await;
        let primary = &primaries[usize::from(is_killed)];
        let replica = cluster.replica_of(primary).unwrap();
        let name = cluster.name_at(primary, "probe");
        wait_until_replicated(primary, &replica).await;
        if is_killed {
            primary.kill();
        } else {
            replica.run(&["CLUSTER", "FAILOVER"]);
        }
        eventually("the replica is the primary", PROMOTED, || replica.is_primary()).await;
        let promoted = Instant::now();
        let probe = crowd.clients[0].lock(&name).wait(SOON).acquire().await.unwrap();
        let took = promoted.elapsed();
        println!("killed: {is_killed}; a lock of its shard {took:?} after the promotion");
        all[usize::from(is_killed)].add(took);
        probe.release().await.unwrap();
        crowd.check().await;
        // On a busy machine the promoted replica may have been replaced too.
        if replica.is_primary() {
            wait_until_only_tokens(&replica).await;
        }
    }
}

/// The time by which a busy machine can slow down a round.
const TOLERANCE: Duration = Duration::from_millis(5);

/// A cluster of three shards, one of which is about to hang, and a client that holds a lock on each shard.
struct Hanging {
    cluster: Cluster,
    client: Client,
    /// The nodes that are about to hang.
    shard: [Node; 2],
    /// The lease of a lock on that shard.
    theirs: Lease,
    /// The leases of locks on the other shards.
    others: Vec<Lease>,
}

impl Hanging {
    const LEASE: Duration = Duration::from_secs(4);
    /// The time of [`Self::rounds`], longer than a lease.
    const ROUNDS: Duration = Duration::from_secs(6);

    async fn prepare(full_coverage: &str) -> Self {
        let cluster = Cluster::start_failing_over();
        for node in &cluster.nodes {
            node.run(&["CONFIG", "SET", "cluster-require-full-coverage", full_coverage]);
        }
        let client = Client::builder()
            .url(&cluster.url)
            .lease(Self::LEASE)
            .connect()
            .await
            .unwrap();
        let primaries = cluster.primaries();
        for node in &primaries[1..] {
            // A replica must not take over from a primary that a busy machine has delayed.
            let replica = cluster.replica_of(node).unwrap();
            replica.run(&["CONFIG", "SET", "cluster-replica-no-failover", "yes"]);
        }
        let mut held = Vec::new();
        for node in &primaries {
            held.push(client.lock(cluster.name_at(node, "held")).acquire().await.unwrap());
        }
        Self {
            shard: [primaries[0].clone(), cluster.replica_of(&primaries[0]).unwrap()],
            theirs: held.remove(0),
            others: held,
            cluster,
            client,
        }
    }

    /// Acquires and releases locks on the other shards for some seconds. Returns the sorted durations.
    async fn rounds(&self) -> Vec<Duration> {
        let names: Vec<_> = self
            .others
            .iter()
            .map(|lease| format!("{{{}}}-round", lease.name()))
            .collect();
        let (end, mut times) = (Instant::now() + Self::ROUNDS, Vec::new());
        while Instant::now() < end {
            for name in &names {
                let start = Instant::now();
                self.client.lock(name).acquire().await.unwrap().release().await.unwrap();
                times.push(start.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        times.sort_unstable();
        times
    }

    /// Resumes the shard, and checks that locks of all shards can be acquired again.
    async fn check(self) {
        assert_eq!(self.theirs.lost().await, LostReason::Expired);
        for node in &self.shard {
            node.resume();
        }
        // Otherwise a failover could happen between the grant and the release of a lock, and its record would be lost.
        eventually("no node takes another for failed", PROMOTED, || {
            // The comma leaves out the flag `nofailover`, which some nodes have.
            let sees_all = |node: &Node| !node.text(&["CLUSTER", "NODES"]).contains(",fail");
            self.cluster.nodes.iter().all(sees_all) && self.cluster.owner(self.theirs.name()).is_some()
        })
        .await;
        // Either node of the shard can have the slots now, as a failover may have happened.
        for lease in self.others.iter().chain([&self.theirs]) {
            let lock = self.client.lock(format!("{{{}}}-again", lease.name())).wait(SOON);
            assert_eq!(
                lock.acquire().await.unwrap().release().await.unwrap(),
                ReleaseOutcome::Released
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_shard_delays_no_other() {
    let hanging = Hanging::prepare("no").await;
    let before = if is_timed() { hanging.rounds().await } else { Vec::new() };
    for node in &hanging.shard {
        node.pause();
    }
    let times = hanging.rounds().await;
    let nearly_all = |times: &[Duration]| times[times.len() * 99 / 100];
    println!(
        "{} rounds at the others: 99 of 100 took {:?}, the slowest {:?}",
        times.len(),
        nearly_all(&times),
        times.last()
    );
    assert!(times.len() > 100, "{}", times.len());
    assert!(
        times.last() < Some(&on_time(Duration::from_secs(1))),
        "{:?}",
        times.last()
    );
    if is_timed() {
        assert!(
            nearly_all(&times) < TOLERANCE.max(2 * nearly_all(&before)),
            "{:?}, before {:?}",
            nearly_all(&times),
            nearly_all(&before)
        );
    }
    for lease in &hanging.others {
        assert!(lease.is_valid(), "{}: {:?}", lease.name(), lease.lost_reason());
    }
    hanging.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_requires_full_coverage_stops_with_one_shard() {
    let hanging = Hanging::prepare("yes").await;
    for node in &hanging.shard {
        node.pause();
    }
    for lease in &hanging.others {
        assert_eq!(lease.lost().await, LostReason::Expired);
    }
    let lock = hanging.client.lock(hanging.others[0].name()).wait(SOON / 5);
    let refused = lock.acquire().await.map(drop).expect_err("all slots are refused");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(
        refused.message().contains("CLUSTERDOWN") || refused.to_string().contains("CLUSTERDOWN"),
        "{refused}"
    );
    hanging.check().await;
}

/// A client that uses only one shard has no connection to another node, from which it could learn of a failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_one_node_uses_its_replica_when_the_node_dies_or_hangs() {
    for is_killed in [true, false] {
        let cluster = Cluster::start_failing_over();
        let primary = &cluster.primaries()[0];
        let replica = cluster.replica_of(primary).unwrap();
        let client = Client::builder()
            .url(&cluster.url)
            .lease(LEASE)
            .connect()
            .await
            .unwrap();
        let held = client.lock(cluster.name_at(primary, "held")).acquire().await.unwrap();
        let name = cluster.name_at(primary, "next");
        wait_until_replicated(primary, &replica).await;
        if is_killed {
            primary.kill();
        } else {
            primary.pause();
        }
        // One call is sent to the node and remains without a reply.
        let waiting = client.lock(&name).wait(3 * SOON);
        let start = Instant::now();
        let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap() });
        // Meanwhile a shard that was never used before works.
        let elsewhere = cluster.name_at(&cluster.primaries()[1], "elsewhere");
        let elsewhere = client.lock(elsewhere).try_acquire().await.unwrap().unwrap();
        elsewhere.release().await.unwrap();
        eventually("the replica is the primary", SOON, || replica.is_primary()).await;
        let promoted = Instant::now();
        let next = waiting.await.unwrap();
        println!(
            "killed: {is_killed}; after {:?}, {:?} after the promotion",
            start.elapsed(),
            promoted.elapsed()
        );
        assert!(promoted.elapsed() < failover_limit(), "{:?}", promoted.elapsed());
        assert_eq!(next.release().await.unwrap(), ReleaseOutcome::Released);
        assert!(held.is_valid(), "{:?}", held.lost_reason());
        assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
        if !is_killed {
            primary.resume();
        }
    }
}
