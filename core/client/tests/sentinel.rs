//! Tests of locks on a primary with two replicas that three sentinels watch, also while another server becomes the
//! primary.
//!
//! With `STEADLOCK_TIMED` clients must use the new primary within 2 s. Only such runs are alone on the machine.

mod support;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, ReleaseOutcome};
use steadlock_protocol::Reply;
use support::crowd::{
    Crowd, ResourceUse, Times, check_hand_over, connect_with_rare_polls, failover_count, kinds, wait_until_only_tokens,
    wait_until_replicated,
};
use support::rig::Node;
use support::sentinel::{SERVICE, SentinelRig};
use support::{Redis, check_lock, eventually, unused_port};

const SOON: Duration = Duration::from_secs(10);
/// The longest time until a replica is promoted. Sentinels that do not agree at first need a second attempt.
const PROMOTED: Duration = Duration::from_secs(25);
const LEASE: Duration = Duration::from_secs(30);

async fn connect(url: &str) -> Client {
    Client::connect(url)
        .await
        .unwrap_or_else(|error| panic!("{url}: {error}"))
}

async fn refusal(url: &str) -> steadlock::Error {
    let error = Client::connect(url).await.map(drop).expect_err(url);
    assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    error
}

/// Waits until all replicas have all data, then begins a failover. Returns the promoted replica.
async fn fail_over(rig: &SentinelRig, begin: impl FnOnce(&Node)) -> Node {
    let (primary, replicas) = (rig.primary(), rig.replicas());
    for replica in &replicas {
        wait_until_replicated(&primary, replica).await;
    }
    begin(&primary);
    let promoted = || replicas.iter().find(|replica| replica.is_primary());
    eventually("a replica is the primary", PROMOTED, || promoted().is_some()).await;
    promoted().unwrap().clone()
}

/// Waits until a client acquires locks at this node.
async fn wait_until_used(client: &Client, node: &Node, name: &str) {
    let start = Instant::now();
    for number in 0.. {
        // Each attempt has a new name, because the counter of a name's tokens stays on the server for a while.
        let name = format!("{name}-{number}.");
        let lease = client.lock(&name).wait(SOON).acquire().await.unwrap();
        let is_there = node.has_key(&name);
        // The release can fail if the old primary granted the lock.
        let released = lease.release().await;
        if is_there {
            assert_eq!(released.unwrap(), ReleaseOutcome::Released);
            return;
        }
        assert!(start.elapsed() < SOON, "not at the new primary");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_lock_is_at_the_primary_and_wakes_its_waiters() {
    let rig = SentinelRig::start();
    let (client, other) = (connect(&rig.url).await, connect_with_rare_polls(&rig.url).await);
    for ((kind, lock), (_, theirs)) in kinds(&client, "each").into_iter().zip(kinds(&other, "each")) {
        let lease = lock.acquire().await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(rig.primary().has_key("each"), "{kind}");
        if kind != "read_lock" {
            check_hand_over(kind, lease, theirs, &rig.primary(), "each").await;
        } else {
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
        }
    }
    let client = connect(&format!("{}/3", rig.url)).await;
    let lease = client.lock("in-three").acquire().await.unwrap();
    assert!(!rig.primary().has_key("in-three"));
    assert!(rig.primary().text(&["INFO", "keyspace"]).contains("db3:"));
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn one_sentinel_is_enough_and_the_others_are_learnt_from_it() {
    let rig = SentinelRig::start();
    let ports: Vec<u16> = rig.sentinels().iter().map(|node| node.port).collect();
    check_lock(
        &connect(&SentinelRig::url_of(&[unused_port(), ports[1]], SERVICE)).await,
        "first-is-dead",
    )
    .await;
    rig.sentinels()[2].pause();
    check_lock(
        &connect(&SentinelRig::url_of(&[ports[2], ports[1]], SERVICE)).await,
        "first-hangs",
    )
    .await;
    rig.sentinels()[2].resume();
    let client = connect(&SentinelRig::url_of(&ports[..1], SERVICE)).await;
    check_lock(&client, "only-one").await;
    let sentinels = rig.sentinels();
    let has_a_listener = |node: &Node| {
        node.text(&["CLIENT", "LIST"])
            .lines()
            .filter(|line| line.contains("sub=2"))
            .count()
            > 0
    };
    eventually("the client listens to the others", SOON, || {
        sentinels[1..].iter().all(has_a_listener)
    })
    .await;
    sentinels[0].kill();
    let promoted = fail_over(&rig, |_| {
        sentinels[1].run(&["SENTINEL", "FAILOVER", SERVICE]);
    })
    .await;
    wait_until_used(&client, &promoted, "learnt").await;
}

#[tokio::test]
async fn an_error_says_what_is_wrong_with_an_address() {
    let rig = SentinelRig::start();
    let ports: Vec<u16> = rig.sentinels().iter().map(|node| node.port).collect();
    let error = refusal(&SentinelRig::url_of(&ports, "nosuch")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("know no service 'nosuch'"), "{error}");
    let nobody = [unused_port(), unused_port()];
    let error = refusal(&SentinelRig::url_of(&nobody, SERVICE)).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for port in nobody {
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    }
    let error = refusal(&SentinelRig::url_of(&[rig.primary().port], SERVICE)).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(
        error.message().contains("no sentinel") && error.message().contains("redis://"),
        "{error}"
    );
    let error = refusal(&format!("redis://127.0.0.1:{}", ports[0])).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("redis+sentinel://"), "{error}");
    // A wrong address does no harm if another one is right.
    check_lock(
        &connect(&SentinelRig::url_of(&[rig.primary().port, ports[0]], SERVICE)).await,
        "one-good",
    )
    .await;
}

#[tokio::test]
async fn sentinels_and_servers_have_their_own_credentials() {
    let rig = SentinelRig::start();
    for sentinel in rig.sentinels() {
        sentinel.run(&["ACL", "SETUSER", "watch", "on", ">sesame-2", "~*", "&*", "+@all"]);
        sentinel.run(&[
            "ACL",
            "SETUSER",
            "client",
            "on",
            ">sesame-4",
            "+sentinel|get-master-addr-by-name",
        ]);
        sentinel.run(&["ACL", "SETUSER", "sesame-user", "on", ">sesame-5"]);
        sentinel.run(&["ACL", "SETUSER", "default", "resetpass", ">sesame-1"]);
    }
    let url = &rig.url;
    for (query, text) in [
        ("", "wants a password"),
        ("?sentinel_password=sesame-2", "refused"),
        ("?sentinel_user=watch&sentinel_password=sesame-1", "refused"),
    ] {
        let error = refusal(&format!("{url}{query}")).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(
            error.message().contains("the sentinel") && error.message().contains(text),
            "{error}"
        );
        assert!(error.message().contains("sentinel_password"), "{error}");
    }
    for query in [
        "?sentinel_password=sesame-1",
        "?sentinel_user=watch&sentinel_password=sesame%2D2",
    ] {
        check_lock(&connect(&format!("{url}{query}")).await, "with-a-password").await;
    }
    // A client needs only the right to ask for the primary.
    check_lock(
        &connect(&format!("{url}?sentinel_user=client&sentinel_password=sesame-4")).await,
        "with-few-rights",
    )
    .await;
    let error = refusal(&format!("{url}?sentinel_user=sesame-user&sentinel_password=sesame-5")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("permission"), "{error}");
    rig.primary().run(&["CONFIG", "SET", "requirepass", "sesame-3"]);
    let query = "?sentinel_password=sesame-1";
    for user in ["", ":sesame-1@"] {
        let error = refusal(&format!("{}{query}", url.replace("://", &format!("://{user}")))).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.message().contains("the server"), "{error}");
    }
    check_lock(
        &connect(&format!("{}{query}", url.replace("://", "://:sesame-3@"))).await,
        "with-both",
    )
    .await;
}

#[tokio::test]
async fn a_service_may_be_one_of_several_primaries() {
    let (rig, first, second) = (SentinelRig::start(), Redis::start(), Redis::start());
    let client = Client::builder()
        .primaries([rig.url.clone(), first.url(), second.url()])
        .connect()
        .await
        .unwrap();
    check_lock(&client, "majority").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_may_speak_tls_only() {
    let rig = SentinelRig::start_with_tls();
    let builder = || Client::builder().tls_ca_file(rig.authority.clone().unwrap());
    let client = builder().url(&rig.url).connect().await.unwrap();
    check_lock(&client, "before").await;
    // This test does not wait for replication, because no lock is held now.
    rig.primary().kill();
    let lease = client.lock("after").wait(PROMOTED).acquire().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    let error = refusal(&rig.url).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let plain = rig.url.replace("rediss", "redis");
    assert_eq!(refusal(&plain).await.kind(), ErrorKind::Unavailable);
}

/// Checks that many holders and waiters are served while another server becomes the primary.
async fn check_crowds(what: &'static str, begin: impl Fn(&SentinelRig, &Node)) {
    let (mut all, mut allowed_repeats) = (Times::new(what), failover_count().div_ceil(10));
    let used = ResourceUse::now();
    while all.count() < failover_count() {
        match check_crowd(&begin).await {
            Some(took) => all.add(took),
            None => allowed_repeats = allowed_repeats.checked_sub(1).expect("few unrequested failovers"),
        }
        used.wait_until_not_above().await;
    }
    all.check();
}

/// Returns the time from the promotion until all clients used the promoted server. Returns `None` if the sentinels have
/// replaced that server too, as happens on a busy machine: then the last releases may be lost.
async fn check_crowd(begin: impl Fn(&SentinelRig, &Node)) -> Option<Duration> {
    let rig = SentinelRig::start();
    let old = rig.primary();
    let crowd = Crowd::start(&rig.url, LEASE, std::slice::from_ref(&old)).await;
    let promoted = fail_over(&rig, |primary| begin(&rig, primary)).await;
    let start = Instant::now();
    let named_at = spawn_wait_until_named(&rig, &promoted);
    for (number, client) in crowd.clients.iter().enumerate() {
        wait_until_used(client, &promoted, &format!("probe-{number}")).await;
    }
    let took = start.elapsed();
    let named = named_at.join().unwrap().duration_since(start);
    println!(
        "all clients used the promoted server {took:?} after the promotion, which a sentinel named after {named:?}"
    );
    let before = old.try_run(&["PING"]).ok().map(|_| old.scripts_called());
    let failures = crowd.failures().await;
    if !promoted.is_primary() {
        println!("the sentinels have replaced this server too, so this failover does not count: {failures:?}");
        return None;
    }
    assert!(failures.is_empty(), "{failures:#?}");
    if let Some(before) = before {
        assert_eq!(old.scripts_called(), before, "something was written to the old primary");
    }
    wait_until_only_tokens(&promoted).await;
    Some(took)
}

/// Waits in a thread until a sentinel names this server as the primary, and returns that time.
fn spawn_wait_until_named(rig: &SentinelRig, server: &Node) -> JoinHandle<Instant> {
    let (sentinels, port) = (rig.sentinels(), server.port.to_string().into_bytes());
    std::thread::spawn(move || {
        let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        let names = |sentinel: &Node| match sentinel.try_run(&command) {
            Ok(Reply::Array(address)) => address.get(1) == Some(&Reply::Bytes(port.clone())),
            _ => false,
        };
        while !sentinels.iter().any(names) {
            std::thread::sleep(Duration::from_millis(2));
        }
        Instant::now()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_leave_a_replaced_primary_at_once() {
    check_crowds("SENTINEL FAILOVER", |rig, _| {
        rig.sentinels()[0].run(&["SENTINEL", "FAILOVER", SERVICE]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_dead_primary_use_the_one_that_sentinels_promote() {
    check_crowds("a primary that sentinels watch is killed", |_, primary| primary.kill()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_hanging_primary_use_the_one_that_sentinels_promote() {
    check_crowds("a primary that sentinels watch hangs", |_, primary| primary.pause()).await;
}
