//! Tests that a client reports which program on which machine holds a lock.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use steadlock::{Client, ClientInfo, ErrorKind, Lock};
use steadlock_protocol::Reply;
use support::Redis;
use support::cluster::Cluster;

const SOON: Duration = Duration::from_secs(20);

/// Checks that the client info describes this test's process.
fn check_is_this_process(info: &ClientInfo) {
    assert_eq!(info.pid, std::process::id());
    assert_eq!(info.host, gethostname());
    assert!(info.program.starts_with("identities"), "{info:?}");
    assert_eq!((info.language.as_str(), info.label.as_str()), ("rust", "blue"));
}

fn gethostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap()
        .trim()
        .to_owned()
}

async fn labelled(url: &str) -> Client {
    let builder = Client::builder().url(url).key_prefix("shop:").client_label("blue");
    builder.connect().await.unwrap()
}

/// Returns the identity of the lock's holder. On a cluster the holder may have stored it a moment after its first grant.
async fn identity_of_holder(lock: &Lock) -> Arc<ClientInfo> {
    let start = Instant::now();
    loop {
        if let Some(client) = lock.holder().await.unwrap().unwrap().client {
            return client;
        }
        assert!(start.elapsed() < SOON, "the holder has no identity");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Checks that another client can query the holder of each kind of lock, and that the error of a waiter that times out
/// names the holder.
async fn check_holder_is_named(url: &str) {
    let (holder, other) = (labelled(url).await, labelled(url).await);
    let kinds = |client: &Client| {
        let both = client.read_write_lock("both");
        [
            client.lock("lock"),
            client.mutex("mutex"),
            client.fair_lock("fair"),
            both.write,
            client.semaphore("one", 1).permits(1),
        ]
    };
    for (held, requested) in kinds(&holder).into_iter().zip(kinds(&other)) {
        let lease = held.acquire().await.unwrap();
        let named = identity_of_holder(&requested).await;
        check_is_this_process(&named);
        let refusal = requested
            .wait(Duration::from_millis(400))
            .acquire()
            .await
            .map(drop)
            .unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::LockTimeout);
        check_is_this_process(refusal.holder().unwrap().client.as_ref().unwrap());
        let identity = format!("(blue), pid {} on {} for another ", std::process::id(), gethostname());
        assert!(refusal.to_string().contains(&identity), "{refusal}");
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn holders_have_names_on_one_server() {
    check_holder_is_named(&Redis::start().url()).await;
}

#[tokio::test]
async fn holders_have_names_on_a_cluster() {
    check_holder_is_named(&Cluster::start().url).await;
}

#[tokio::test]
async fn holders_have_names_in_the_embedded_store() {
    check_holder_is_named("memory://identities").await;
}

#[tokio::test]
async fn the_holder_of_a_redlock_has_a_name_too() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let connect = || {
        let builder = Client::builder().primaries(servers.iter().map(Redis::url));
        builder.client_label("blue").connect()
    };
    let (holder, other) = (connect().await.unwrap(), connect().await.unwrap());
    let lease = holder.mutex("a").acquire().await.unwrap();
    let lock = other.mutex("a");
    check_is_this_process(lock.holder().await.unwrap().unwrap().client.as_ref().unwrap());
    let refusal = lock.wait(Duration::from_millis(300)).acquire().await.map(drop);
    check_is_this_process(refusal.unwrap_err().holder().unwrap().client.as_ref().unwrap());
    lease.release().await.unwrap();
}

/// Checks that the first refusal of a new client names the holder, even if the call does not wait.
async fn check_first_refusal(connect: impl AsyncFn() -> Client) {
    let holder = connect().await;
    let mutex = holder.mutex("a").acquire().await.unwrap();
    for wait in [Duration::ZERO, Duration::from_nanos(1)] {
        let refusal = connect().await.mutex("a").wait(wait).acquire().await.map(drop);
        check_is_this_process(refusal.unwrap_err().holder().unwrap().client.as_ref().unwrap());
    }
    mutex.release().await.unwrap();
}

#[tokio::test]
async fn the_first_refusal_of_a_client_names_the_holder() {
    let server = Redis::start();
    check_first_refusal(async || labelled(&server.url()).await).await;
    check_first_refusal(async || labelled("memory://refusals").await).await;
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let redlock = async || {
        let builder = Client::builder().primaries(servers.iter().map(Redis::url));
        builder.client_label("blue").connect().await.unwrap()
    };
    check_first_refusal(redlock).await;
    let (holder, other) = (labelled(&server.url()).await, labelled(&server.url()).await);
    let lease = holder.lock("b").acquire().await.unwrap();
    let both = other.multi_lock([&other.lock("b"), &other.lock("c")]);
    let refusal = both.wait(Duration::ZERO).acquire().await.map(drop).unwrap_err();
    check_is_this_process(refusal.holder().unwrap().client.as_ref().unwrap());
    lease.release().await.unwrap();
}

#[tokio::test]
async fn the_published_name_has_a_ttl_and_can_be_switched_off() {
    let server = Redis::start();
    let key = |suffix: &str| match server.run(&["KEYS", "steadlock:*"]) {
        Reply::Array(keys) => keys.into_iter().find_map(|key| match key {
            Reply::Bytes(key) => String::from_utf8(key).ok().filter(|key| key.ends_with(suffix)),
            _ => None,
        }),
        other => panic!("{other:?}"),
    };
    let silent = Client::builder().url(server.url()).without_client_info();
    let silent = silent.connect().await.unwrap();
    let lease = silent.lock("a").acquire().await.unwrap();
    assert_eq!(key(":client"), None);
    let client = labelled(&server.url()).await;
    let held = client.lock("b").acquire().await.unwrap();
    let key = key(":client").expect("a record of the client");
    assert!(key.starts_with("steadlock:{shop:"), "{key}");
    let Reply::Int(left) = server.run(&["PTTL", &key]) else {
        panic!()
    };
    assert!((80_000..=90_000).contains(&left), "{left}");
    let Reply::Bytes(text) = server.run(&["GET", &key]) else {
        panic!()
    };
    check_is_this_process(&ClientInfo::parse(&text).unwrap());
    assert_eq!(silent.lock("a").holder().await.unwrap().unwrap().client, None);
    held.release().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_refuses_the_name_still_grants_locks() {
    let server = Redis::start();
    server.run(&[
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">sesame",
        "~*",
        "&*",
        "+@all",
        "resetkeys",
        "~a",
        "~steadlock:{a}*",
    ]);
    let url = server.url().replace("redis://", "redis://app:sesame@");
    let (holder, other) = (
        Client::connect(url.as_str()).await.unwrap(),
        Client::connect(url).await.unwrap(),
    );
    let lease = holder.lock("a").acquire().await.unwrap();
    let holder = other.lock("a").holder().await.unwrap().unwrap();
    assert_eq!(holder.client, None);
    let refusal = other.lock("a").wait(Duration::from_millis(400)).acquire().await;
    let refusal = refusal.map(drop).unwrap_err().to_string();
    assert!(refusal.contains(&format!("held by {}", holder.owner)), "{refusal}");
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_label_without_an_effect_is_refused() {
    for builder in [
        Client::builder().client_label("a\nb"),
        Client::builder().client_label("x".repeat(201)),
        Client::builder().client_label("x").without_client_info(),
    ] {
        let error = builder.url("memory://").connect().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}
