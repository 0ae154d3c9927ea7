//! Tests that a client loses and restores each of its connections independently of the others, and that it loads
//! scripts when a server needs them.

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use steadlock::{Client, Lease, ReleaseOutcome};
use steadlock_protocol::Script;
use support::proxy::{ConnectionUse, Proxy};
use support::{Redis, eventually};

const SOON: Duration = Duration::from_secs(10);

async fn connect(url: String, lease: Duration) -> Client {
    Client::builder().url(url).lease(lease).connect().await.unwrap()
}

/// Acquires one lock of every kind, and a multi-lock.
async fn every_kind(client: &Client) -> Vec<Lease> {
    let several = client.multi_lock(&[client.lock("several-a"), client.mutex("several-b")]);
    let locks = [
        client.lock("lock"),
        client.mutex("mutex"),
        client.fair_lock("fair"),
        client.read_write_lock("read").read,
        client.read_write_lock("write").write,
        client.semaphore("semaphore", 3).permits(2),
        several,
    ];
    join_all(locks.iter().map(|lock| async { lock.acquire().await.unwrap() })).await
}

/// Cuts one of a client's connections and refuses a new one for the time of two leases. Checks that no lease is lost in
/// the meantime, and that everything works once the connection is restored. `set_refusing` begins and ends the refusal.
async fn check_one_connection_lost(usage: ConnectionUse, set_refusing: impl Fn(&Redis, &Proxy, bool)) {
    let server = Redis::start();
    let proxy = Proxy::to(server.port);
    let lease = Duration::from_secs(6);
    let (client, other) = (connect(proxy.url(), lease).await, connect(server.url(), lease).await);
    let theirs = other.lock("theirs").acquire().await.unwrap();
    let waiter = {
        // A wait without a limit would fail after the time of a lease without any reply.
        let lock = client.lock("theirs").wait(Duration::from_secs(600));
        tokio::spawn(async move { lock.acquire().await })
    };
    let held = every_kind(&client).await;
    eventually("the use of every connection is known", SOON, || {
        ConnectionUse::ALL.into_iter().all(|each| proxy.count(each) == 1)
    })
    .await;

    set_refusing(&server, &proxy, true);
    proxy.cut(usage);
    tokio::time::sleep(lease * 2).await;
    assert_eq!(proxy.count(usage), 0);
    for lease in &held {
        assert!(
            lease.is_valid(),
            "{usage:?}: {} {:?}",
            lease.name(),
            lease.lost_reason()
        );
    }
    set_refusing(&server, &proxy, false);

    theirs.release().await.unwrap();
    let theirs = tokio::time::timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    for lease in held.into_iter().chain([theirs]) {
        let name = lease.name().to_owned();
        assert_eq!(
            lease.release().await.unwrap(),
            ReleaseOutcome::Released,
            "{usage:?}: {name}"
        );
    }
}

#[tokio::test]
async fn a_connection_that_is_not_restored_costs_no_lock() {
    let block = |server: &Redis, proxy: &Proxy, is_refusing: bool| match is_refusing {
        true => proxy.refuse(),
        false => proxy.lead_to(server.port),
    };
    join_all(ConnectionUse::ALL.map(|usage| check_one_connection_lost(usage, block))).await;
}

#[tokio::test]
async fn a_changed_password_costs_no_lock() {
    let change_password = |server: &Redis, _: &Proxy, is_refusing: bool| {
        // This connection is new too, so it needs the password that is valid before the change.
        let password = if is_refusing { "another" } else { "" };
        let url = match is_refusing {
            true => server.url(),
            false => format!("redis://:another@127.0.0.1:{}", server.port),
        };
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let set = redis::cmd("CONFIG")
            .arg(&["SET", "requirepass", password])
            .query(&mut connection);
        let () = set.unwrap();
    };
    check_one_connection_lost(ConnectionUse::Commands, change_password).await;
}

#[tokio::test]
async fn a_lock_is_released_although_the_command_connection_is_not_restored() {
    let server = Redis::start();
    let proxy = Proxy::to(server.port);
    let client = connect(proxy.url(), Duration::from_secs(3)).await;
    let held = client.lock("a").acquire().await.unwrap();
    eventually("the lease was renewed", SOON, || {
        proxy.count(ConnectionUse::Renewals) == 1
    })
    .await;
    proxy.refuse();
    proxy.cut(ConnectionUse::Commands);
    eventually("the connection is cut", SOON, || {
        proxy.count(ConnectionUse::Commands) == 0
    })
    .await;
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn connecting_sends_only_the_scripts_that_are_used() {
    let server = Redis::start();
    let proxy = Proxy::to(server.port);
    let client = Client::builder().url(proxy.url()).lease(Duration::from_secs(3));
    let client = client.without_client_info().connect().await.unwrap();
    let to_connect = proxy.sent();
    let held = client.lock("a").acquire().await.unwrap();
    eventually("the lease was renewed", SOON, || {
        proxy.count(ConnectionUse::Renewals) == 1
    })
    .await;
    let to_lock = proxy.sent() - to_connect;
    // The proxy recognises the connections by the SHA-1 of the scripts that they call.
    let before = proxy.sent();
    proxy.cut(ConnectionUse::Commands);
    eventually("the connection is cut", SOON, || {
        proxy.count(ConnectionUse::Commands) == 0
    })
    .await;
    held.extend(None).await.unwrap();
    client.lock("b").acquire().await.unwrap().release().await.unwrap();
    let to_reconnect = proxy.sent() - before;
    let all: usize = Script::ALL.iter().map(|script| script.text().len()).sum();
    println!("bytes: {to_connect} to connect, {to_lock} to lock, {to_reconnect} for another lock on a new connection");
    println!("all scripts have {all}");
    assert!(to_connect < 3_000, "{to_connect}");
    assert!(to_reconnect < 12_000, "{to_reconnect}");
}

#[tokio::test]
async fn scripts_that_the_server_has_lost_are_loaded_again() {
    let server = Redis::start();
    let client = connect(server.url(), Duration::from_secs(3)).await;
    for _ in 0..3 {
        every_kind(&client).await;
        server.run(&["SCRIPT", "FLUSH"]);
        let held = other_locks(&client).await;
        server.run(&["SCRIPT", "FLUSH"]);
        for lease in held {
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        }
    }
}

/// Acquires locks under other names, since the releases of the first ones may not be finished.
async fn other_locks(client: &Client) -> Vec<Lease> {
    let locks = [
        client.lock("lock-2"),
        client.mutex("mutex-2"),
        client.fair_lock("fair-2"),
    ];
    join_all(locks.iter().map(|lock| async { lock.acquire().await.unwrap() })).await
}
