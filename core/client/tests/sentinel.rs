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
    Crowd, ResourceUse, Times, check_hand_over, connect_with_rare_polls, kinds, times, wait_until_only_tokens,
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
async fn fail_over(watched: &SentinelRig, begin: impl FnOnce(&Node)) -> Node {
    let (primary, replicas) = (watched.primary(), watched.replicas());
    for replica in &replicas {
        wait_until_replicated(&primary, replica).await;
    }
    begin(&primary);
    let promoted = || replicas.iter().find(|replica| replica.is_primary());
    eventually("a replica is the primary", PROMOTED, || promoted().is_some()).await;
    promoted().unwrap().clone()
}

/// Waits until a client acquires locks at this node.
async fn is_at(client: &Client, node: &Node, name: &str) {
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
async fn every_kind_of_lock_is_at_the_primary_and_wakes_those_who_wait() {
    let watched = SentinelRig::start();
    let (client, other) = (connect(&watched.url).await, connect_with_rare_polls(&watched.url).await);
    for ((kind, lock), (_, theirs)) in kinds(&client, "each").into_iter().zip(kinds(&other, "each")) {
        let lease = lock.acquire().await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(watched.primary().has_key("each"), "{kind}");
        if kind != "read_lock" {
            check_hand_over(kind, lease, theirs, &watched.primary(), "each").await;
        } else {
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
        }
    }
    let client = connect(&format!("{}/3", watched.url)).await;
    let lease = client.lock("in-three").acquire().await.unwrap();
    assert!(!watched.primary().has_key("in-three"));
    assert!(watched.primary().text(&["INFO", "keyspace"]).contains("db3:"));
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn one_sentinel_is_enough_and_the_others_are_learnt_from_it() {
    let watched = SentinelRig::start();
    let ports: Vec<u16> = watched.sentinels().iter().map(|node| node.port).collect();
    check_lock(
        &connect(&SentinelRig::url_of(&[unused_port(), ports[1]], SERVICE)).await,
        "first-is-dead",
    )
    .await;
    watched.sentinels()[2].pause();
    check_lock(
        &connect(&SentinelRig::url_of(&[ports[2], ports[1]], SERVICE)).await,
        "first-hangs",
    )
    .await;
    watched.sentinels()[2].resume();
    let client = connect(&SentinelRig::url_of(&ports[..1], SERVICE)).await;
    check_lock(&client, "only-one").await;
    let sentinels = watched.sentinels();
    let has_a_listener = |node: &Node| {
        node.text(&["CLIENT", "LIST"])
            .lines()
            .filter(|line| line.contains("sub=2"))
            .count()
            > 0
    };
    eventually("the others are listened to", SOON, || {
        sentinels[1..].iter().all(has_a_listener)
    })
    .await;
    sentinels[0].kill();
    let promoted = fail_over(&watched, |_| {
        sentinels[1].run(&["SENTINEL", "FAILOVER", SERVICE]);
    })
    .await;
    is_at(&client, &promoted, "learnt").await;
}

#[tokio::test]
async fn what_is_wrong_with_an_address_is_named() {
    let watched = SentinelRig::start();
    let ports: Vec<u16> = watched.sentinels().iter().map(|node| node.port).collect();
    let error = refusal(&SentinelRig::url_of(&ports, "nosuch")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("know no service 'nosuch'"), "{error}");
    let nobody = [unused_port(), unused_port()];
    let error = refusal(&SentinelRig::url_of(&nobody, SERVICE)).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for port in nobody {
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    }
    let error = refusal(&SentinelRig::url_of(&[watched.primary().port], SERVICE)).await;
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
        &connect(&SentinelRig::url_of(&[watched.primary().port, ports[0]], SERVICE)).await,
        "one-good",
    )
    .await;
}

#[tokio::test]
async fn sentinels_and_servers_have_their_own_credentials() {
    let watched = SentinelRig::start();
    for sentinel in watched.sentinels() {
        sentinel.run(&["ACL", "SETUSER", "watch", "on", ">sesame-2", "~*", "&*", "+@all"]);
        sentinel.run(&[
            "ACL",
            "SETUSER",
            "asks",
            "on",
            ">sesame-4",
            "+sentinel|get-master-addr-by-name",
        ]);
        sentinel.run(&["ACL", "SETUSER", "sesame-user", "on", ">sesame-5"]);
        sentinel.run(&["ACL", "SETUSER", "default", "resetpass", ">sesame-1"]);
    }
    let url = &watched.url;
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
        &connect(&format!("{url}?sentinel_user=asks&sentinel_password=sesame-4")).await,
        "with-few-rights",
    )
    .await;
    let error = refusal(&format!("{url}?sentinel_user=sesame-user&sentinel_password=sesame-5")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("permission"), "{error}");
    watched.primary().run(&["CONFIG", "SET", "requirepass", "sesame-3"]);
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
    let (watched, first, second) = (SentinelRig::start(), Redis::start(), Redis::start());
    let client = Client::builder()
        .primaries([watched.url.clone(), first.url(), second.url()])
        .connect()
        .await
        .unwrap();
    check_lock(&client, "majority").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_may_speak_tls_only() {
    let watched = SentinelRig::start_with_tls();
    let builder = || Client::builder().tls_ca_file(watched.authority.clone().unwrap());
    let client = builder().url(&watched.url).connect().await.unwrap();
    check_lock(&client, "before").await;
    // This test does not wait for replication, because no lock is held now.
    watched.primary().kill();
    let lease = client.lock("after").wait(PROMOTED).acquire().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    let error = refusal(&watched.url).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let plain = watched.url.replace("rediss", "redis");
    assert_eq!(refusal(&plain).await.kind(), ErrorKind::Unavailable);
}

/// Checks that many holders and waiters are served while another server becomes the primary.
async fn a_crowd_goes_on(what: &'static str, begin: impl Fn(&SentinelRig, &Node)) {
    let (mut all, mut spared) = (Times::of(what), times().div_ceil(10));
    let used = ResourceUse::now();
    while all.count() < times() {
        match a_crowd_goes_on_once(&begin).await {
            Some(took) => all.add(took),
            None => spared = spared.checked_sub(1).expect("few failovers that nobody asked for"),
        }
        used.wait_until_not_above().await;
    }
    all.check();
}

/// Returns the time from the promotion until all clients used the promoted server. Returns `None` if the sentinels have
/// replaced that server too, as happens on a busy machine: then the last releases may be lost.
async fn a_crowd_goes_on_once(begin: impl Fn(&SentinelRig, &Node)) -> Option<Duration> {
    let watched = SentinelRig::start();
    let old = watched.primary();
    let crowd = Crowd::start(&watched.url, LEASE, std::slice::from_ref(&old)).await;
    let promoted = fail_over(&watched, |primary| begin(&watched, primary)).await;
    let start = Instant::now();
    let naming = named(&watched, &promoted);
    for (number, client) in crowd.clients.iter().enumerate() {
        is_at(client, &promoted, &format!("probe-{number}")).await;
    }
    let took = start.elapsed();
    let named = naming.join().unwrap().duration_since(start);
    println!("all clients were there {took:?} after the promotion, which a sentinel named after {named:?}");
    let before = old.try_run(&["PING"]).ok().map(|_| old.scripts_called());
    let not_so = crowd.failures().await;
    if !promoted.is_primary() {
        println!("sentinels have replaced it, too, so this one does not count: {not_so:?}");
        return None;
    }
    assert!(not_so.is_empty(), "{not_so:#?}");
    if let Some(before) = before {
        assert_eq!(old.scripts_called(), before, "something was written to the old primary");
    }
    wait_until_only_tokens(&promoted).await;
    Some(took)
}

/// Waits in a thread until a sentinel names this server as the primary, and returns that time.
fn named(watched: &SentinelRig, server: &Node) -> JoinHandle<Instant> {
    let (sentinels, port) = (watched.sentinels(), server.port.to_string().into_bytes());
    std::thread::spawn(move || {
        let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        let names = |sentinel: &Node| match sentinel.try_run(&question) {
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
async fn a_primary_that_is_replaced_is_left_at_once() {
    a_crowd_goes_on("SENTINEL FAILOVER", |watched, _| {
        watched.sentinels()[0].run(&["SENTINEL", "FAILOVER", SERVICE]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_dies_is_followed_by_the_one_that_sentinels_promote() {
    a_crowd_goes_on("a primary that sentinels watch is killed", |_, primary| primary.kill()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_hangs_is_followed_by_the_one_that_sentinels_promote() {
    a_crowd_goes_on("a primary that sentinels watch hangs", |_, primary| primary.pause()).await;
}
