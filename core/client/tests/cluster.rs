//! Locks in a cluster of three primaries with a replica each, and what its servers can do to them.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::observe::{Observation, Observer};
use leasehold::{Client, ErrorKind, Lease, Lock, LostReason, ReleaseOutcome};
use leasehold_protocol::Reply;
use support::cluster::{Cluster, Node};
use support::version::Version;
use support::{Redis, eventually, free_port};
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(10);

/// By when a client works at a node that was promoted; on a busy machine, [`SOON`].
fn at_most() -> Duration {
    if is_timed() { Duration::from_secs(2) } else { SOON }
}

/// Whether the test has the machine to itself.
fn is_timed() -> bool {
    std::env::var("LEASEHOLD_TIMED").is_ok()
}

async fn connect(cluster: &Cluster) -> Client {
    Client::connect(cluster.url.as_str()).await.unwrap()
}

/// Every kind of lock on one name, or on several names of one slot.
fn kinds(client: &Client, name: &str) -> Vec<(&'static str, Lock)> {
    let of = |kind: &str| format!("{{{name}}}-{kind}");
    vec![
        ("lock", client.lock(of("lock"))),
        ("mutex", client.mutex(of("mutex"))),
        ("fair_lock", client.fair_lock(of("fair"))),
        ("read_lock", client.read_write_lock(of("read")).read),
        ("write_lock", client.read_write_lock(of("write")).write),
        ("semaphore", client.semaphore(of("semaphore"), 1).permits(1)),
    ]
}

fn waits(lock: Lock) -> JoinHandle<Lease> {
    tokio::spawn(async move { lock.wait(SOON).acquire().await.unwrap() })
}

/// Until somebody listens for a lock's release at the node that has its slot: by a sharded channel, if it has those.
async fn is_listened_for(node: &Node, name: &str) {
    let (pattern, channels) = (
        format!("*{name}*"),
        if has_sharded_channels() {
            "SHARDCHANNELS"
        } else {
            "CHANNELS"
        },
    );
    eventually("somebody listens", SOON, || {
        let listeners = node.try_run(&["PUBSUB", channels, &pattern]);
        matches!(listeners, Ok(Reply::Array(channels)) if !channels.is_empty())
    })
    .await;
}

fn has_sharded_channels() -> bool {
    Version::chosen() != Version::Redis62
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_has_its_locks_and_wakes_those_who_wait_for_them() {
    let cluster = Cluster::start();
    let (client, other) = (connect(&cluster).await, connect(&cluster).await);
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
                let waiter = waits(theirs);
                is_listened_for(&node, &name).await;
                let released = Instant::now();
                assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
                let theirs = waiter.await.unwrap();
                // The lease is thirty seconds long: only a message tells them so early.
                assert!(
                    released.elapsed() < Duration::from_secs(3),
                    "{kind}: {:?}",
                    released.elapsed()
                );
                assert_eq!(theirs.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
            }
        }
    }
}

#[tokio::test]
async fn an_address_of_the_wrong_mode_is_refused_with_the_right_one() {
    let cluster = Cluster::start();
    let error = Client::connect(cluster.url.replace("+cluster", "")).await.map(drop);
    let error = error.expect_err("more than one address");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let node = &cluster.nodes[0];
    let error = Client::connect(format!("redis://127.0.0.1:{}", node.port))
        .await
        .map(drop);
    let error = error.expect_err("a cluster");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("redis+cluster://"), "{error}");
    let single = Redis::start();
    let error = Client::connect(format!("redis+cluster://127.0.0.1:{}", single.port))
        .await
        .map(drop);
    let error = error.expect_err("no cluster");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("redis://"), "{error}");
    let error = Client::connect(format!("redis+cluster://127.0.0.1:{}", free_port()))
        .await
        .map(drop);
    let error = error.expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn every_node_is_got_into_with_the_credentials_of_the_url() {
    let cluster = Cluster::start();
    for node in &cluster.nodes {
        node.run(&["CONFIG", "SET", "requirepass", "sesame"]);
    }
    for password in ["", ":wrong@"] {
        let url = cluster.url.replace("://", &format!("://{password}"));
        let error = Client::connect(url).await.map(drop).expect_err("no credentials");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
    let client = Client::connect(cluster.url.replace("://", "://:sesame@"))
        .await
        .unwrap();
    for number in 0..20 {
        let lease = client.lock(format!("behind-{number}")).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn one_node_that_answers_is_enough_to_find_the_others() {
    let cluster = Cluster::start();
    let replica = cluster.nodes.iter().find(|node| !node.is_primary()).unwrap();
    let url = format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", free_port(), replica.port);
    let client = Client::connect(url).await.unwrap();
    for number in 0..20 {
        let lease = client.lock(format!("found-{number}")).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

/// A slot is held migrating for some time: first with all keys where they were, then with all of them moved.
/// A server lets pass what names one key: every renewal, most releases, and a semaphore. Other calls it refuses
/// while some of their keys are missing, so they wait until the slot has moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_is_kept_while_its_slot_migrates_and_given_on_after_it() {
    const STAY: Duration = Duration::from_millis(2_500);
    const ONE_KEY: [&str; 4] = ["lock", "mutex", "write_lock", "semaphore"];
    let cluster = Cluster::start();
    let lease = Duration::from_millis(1_500);
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
            waiters.push((kind, waits(theirs)));
        }
    }
    is_listened_for(from, &name).await;
    let fresh = kinds(&other, &format!("{name}}}-fresh"));
    cluster.begin_move(slot, from, to);
    let fresh: Vec<_> = fresh.into_iter().map(|(kind, lock)| (kind, waits(lock))).collect();
    for has_moved in [false, true] {
        if has_moved {
            assert!(cluster.move_keys(slot, from, to) >= held.len());
        }
        let end = Instant::now() + STAY;
        while Instant::now() < end {
            let permit = client.semaphore(format!("{{{name}}}-permits"), 1).permits(1);
            let lease = permit.acquire().await.unwrap();
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{has_moved}");
            for (kind, lease) in &held {
                assert!(lease.is_valid(), "{has_moved}: {kind}: {:?}", lease.lost_reason());
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

/// Clients that hold locks on every shard, and some that wait for some of them.
struct Crowd {
    clients: Vec<Client>,
    held: Vec<Lease>,
    awaited: Vec<Lease>,
    waiters: Vec<JoinHandle<Lease>>,
}

impl Crowd {
    const HELD: usize = 200;
    const WAITERS: usize = 50;

    async fn gather(cluster: &Cluster) -> Self {
        let client = async || {
            let options = Client::builder().url(&cluster.url).lease(Duration::from_secs(12));
            options.connect().await.unwrap()
        };
        let clients = vec![client().await, client().await, client().await];
        let all = |prefix: &'static str, count: usize| {
            let locks = (0..count).map(|number| clients[number % 2].lock(format!("{prefix}-{number}")));
            join_all(locks.map(|lock| async move { lock.acquire().await.unwrap() }))
        };
        let (held, awaited) = (all("held", Self::HELD).await, all("awaited", Self::WAITERS).await);
        let waiters: Vec<_> = awaited
            .iter()
            .map(|lease| waits(clients[2].lock(lease.name())))
            .collect();
        for node in cluster.primaries() {
            is_listened_for(&node, "awaited").await;
        }
        Self {
            clients,
            held,
            awaited,
            waiters,
        }
    }

    /// All is as it was: the locks are held, those who wait get theirs, and new ones can be taken.
    async fn goes_on(self) {
        for lease in &self.held {
            assert!(lease.is_valid(), "{}: {:?}", lease.name(), lease.lost_reason());
        }
        for lease in self.awaited {
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        }
        for waiter in self.waiters {
            let lease = waiter.await.unwrap();
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        }
        for lease in self.held {
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        }
        for client in self.clients {
            client.close().await;
        }
    }
}

/// Until a replica has everything that its primary has.
async fn is_replicated(primary: &Node, replica: &Node) {
    eventually("the replica has everything", SOON, || {
        primary.offset() == replica.offset()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_has_its_primarys_locks() {
    let cluster = Cluster::start();
    let primaries = cluster.primaries();
    for is_killed in [false, true] {
        let crowd = Crowd::gather(&cluster).await;
        let primary = &primaries[usize::from(is_killed)];
        let replica = cluster.replica_of(primary).unwrap();
        let name = cluster.name_at(primary, "probe");
        is_replicated(primary, &replica).await;
        if is_killed {
            primary.kill();
        } else {
            replica.run(&["CLUSTER", "FAILOVER"]);
        }
        eventually("the replica is the primary", SOON, || replica.is_primary()).await;
        let promoted = Instant::now();
        let probe = crowd.clients[0].lock(&name).wait(SOON).acquire().await.unwrap();
        println!(
            "killed: {is_killed}; a lock of its shard {:?} after the promotion",
            promoted.elapsed()
        );
        assert!(promoted.elapsed() < at_most(), "{:?}", promoted.elapsed());
        probe.release().await.unwrap();
        crowd.goes_on().await;
    }
}

/// A cluster of whose three shards one is about to hang, and a client that holds a lock on each.
struct Hanging {
    cluster: Cluster,
    client: Client,
    /// The nodes that are about to hang.
    shard: [Node; 2],
    /// A lock of that shard.
    theirs: Lease,
    /// Locks of the others.
    others: Vec<Lease>,
}

impl Hanging {
    const LEASE: Duration = Duration::from_secs(2);

    async fn prepare(full_coverage: &str) -> Self {
        let cluster = Cluster::start();
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

    /// Rounds on the other shards for three leases. Gives how long each took, in order.
    async fn rounds(&self) -> Vec<Duration> {
        let names: Vec<_> = self
            .others
            .iter()
            .map(|lease| format!("{{{}}}-round", lease.name()))
            .collect();
        let (end, mut took) = (Instant::now() + 3 * Self::LEASE, Vec::new());
        while Instant::now() < end {
            for name in &names {
                let start = Instant::now();
                self.client.lock(name).acquire().await.unwrap().release().await.unwrap();
                took.push(start.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        took.sort_unstable();
        took
    }

    /// The shard goes on, and its locks can be taken again.
    async fn goes_on(self) {
        assert_eq!(self.theirs.lost().await, LostReason::Expired);
        for node in &self.shard {
            node.resume();
        }
        for node in self.cluster.primaries() {
            let lock = self.client.lock(self.cluster.name_at(&node, "again")).wait(SOON);
            assert_eq!(
                lock.acquire().await.unwrap().release().await.unwrap(),
                ReleaseOutcome::Released
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_hangs_delays_no_other() {
    let hanging = Hanging::prepare("no").await;
    let before = if is_timed() { hanging.rounds().await } else { Vec::new() };
    for node in &hanging.shard {
        node.pause();
    }
    let took = hanging.rounds().await;
    let nearly_all = |took: &[Duration]| took[took.len() * 99 / 100];
    println!(
        "{} rounds at the others: 99 of 100 took {:?}, the slowest {:?}",
        took.len(),
        nearly_all(&took),
        took.last()
    );
    assert!(took.len() > 100, "{}", took.len());
    assert!(took.last() < Some(&Duration::from_secs(1)), "{:?}", took.last());
    if is_timed() {
        assert!(
            nearly_all(&took) < 2 * nearly_all(&before),
            "{:?}, before {:?}",
            nearly_all(&took),
            nearly_all(&before)
        );
    }
    for lease in &hanging.others {
        assert!(lease.is_valid(), "{}: {:?}", lease.name(), lease.lost_reason());
    }
    hanging.goes_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_wants_all_its_slots_stands_still_with_one_shard() {
    let hanging = Hanging::prepare("yes").await;
    for node in &hanging.shard {
        node.pause();
    }
    for lease in &hanging.others {
        assert_eq!(lease.lost().await, LostReason::Expired);
    }
    let lock = hanging
        .client
        .lock(hanging.others[0].name())
        .wait(Duration::from_millis(100));
    let refused = lock.acquire().await.map(drop).expect_err("all slots are refused");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(
        refused.message().contains("CLUSTERDOWN") || refused.to_string().contains("CLUSTERDOWN"),
        "{refused}"
    );
    hanging.goes_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_under_load_and_nobody_hears_of_it() {
    let cluster = Cluster::start();
    let slots = std::env::var("LEASEHOLD_SLOTS").map_or(100, |slots| slots.parse().unwrap());
    let primaries = cluster.primaries();
    let crowd = Crowd::gather(&cluster).await;
    let is_over = Arc::<AtomicBool>::default();
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let (client, is_over) = (crowd.clients[number % 3].clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut rounds = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let lease = client.lock(format!("load-{}", rounds % 500)).acquire().await.unwrap();
                    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    // The slots of names that are held, and others.
    let names = (0..Crowd::HELD).map(|number| format!("held-{number}"));
    let used = names
        .map(|name| cluster.slot(&name))
        .filter(|slot| primaries[0].owner(*slot) == Some(primaries[0].port));
    for slot in used.chain(0..).take(slots) {
        if primaries[0].owner(slot) == Some(primaries[0].port) {
            cluster.begin_move(slot, &primaries[0], &primaries[1]);
            while cluster.move_keys(slot, &primaries[0], &primaries[1]) > 0 {}
            cluster.end_move(slot, &primaries[0], &primaries[1]);
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let mut rounds = 0;
    for task in tasks {
        rounds += task.await.unwrap();
    }
    println!("{rounds} rounds while {slots} slots moved");
    crowd.goes_on().await;
}

#[tokio::test]
async fn clusters_may_be_among_the_primaries_of_a_redlock_but_none_twice() {
    let (cluster, other, single) = (Cluster::start(), Cluster::start(), Redis::start());
    let client = Client::builder()
        .primaries([&cluster.url, &other.url, &single.url()])
        .connect()
        .await
        .unwrap();
    for number in 0..10 {
        let lease = client.lock(format!("redlock-{number}")).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
    let twice = [
        format!("redis+cluster://127.0.0.1:{}", cluster.nodes[4].port),
        single.url(),
    ];
    let primaries = [&cluster.url, &twice[0], &twice[1]];
    let error = Client::builder().primaries(primaries).connect().await.map(drop);
    let error = error.expect_err("one cluster by two addresses");
    assert!(error.message().contains("the same server"), "{error}");
}

/// Redisson's clients listen to a lock's channel in either way: those of a cluster to the sharded one, at the lock's
/// node; those that know of none, or came before there were any, to the plain one, at any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_heard_on_redissons_channel_in_every_way() {
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

/// The user of SECURITY.md's rule, with what the table there adds for clusters.
fn printed_rule() -> Vec<String> {
    let text = include_str!("../../../SECURITY.md");
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
    let known = |word: &String| has_sharded_channels() || !OF_SHARDED_CHANNELS.contains(&word.as_str());
    // As the rule says: what the names of the locks begin with.
    let rule = rule.replace("~orders:*", "~{orders:*");
    rule.split(' ').map(str::to_owned).chain(more.filter(known)).collect()
}

/// Rights that servers without sharded channels do not know.
const OF_SHARDED_CHANNELS: [&str; 3] = ["+ssubscribe", "+sunsubscribe", "+spublish"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_printed_rights_are_enough_for_a_cluster() {
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
            let waiter = (kind != "read_lock").then(|| waits(theirs));
            if waiter.is_some() {
                is_listened_for(node, &name).await;
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
        // What clients say of themselves.
        let unexpected: Vec<_> = objects.filter(|object| !object.starts_with("client")).collect();
        assert!(unexpected.is_empty(), "{unexpected:?}");
    }
}

/// Keeps what is told of connections.
#[derive(Clone, Debug, Default)]
struct Links(Arc<Mutex<Vec<String>>>);

impl Observer for Links {
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
async fn whoever_watches_hears_which_node_is_lost() {
    let (cluster, links) = (Cluster::start(), Links::default());
    let client = Client::builder()
        .url(&cluster.url)
        .observer(links.clone())
        .connect()
        .await
        .unwrap();
    let primaries = cluster.primaries();
    for node in &primaries {
        let name = cluster.name_at(node, "watched");
        client.lock(name).acquire().await.unwrap().release().await.unwrap();
    }
    for (node, command) in [(&primaries[0], "normal"), (&primaries[1], "pubsub")] {
        node.run(&["CLIENT", "KILL", "TYPE", command]);
    }
    let server = format!("127.0.0.1:{}", primaries[0].port);
    eventually("it is told", SOON, || {
        let told = links.0.lock().unwrap();
        told.contains(&format!("lost {server}")) && told.contains(&format!("back {server}"))
    })
    .await;
    let told = links.0.lock().unwrap().clone();
    assert!(told.iter().all(|line| line.ends_with(&server)), "{told:?}");
}
