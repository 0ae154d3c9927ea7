//! Tests of clients that connect at their first use.

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use steadlock::{Client, ErrorKind, blocking};
use support::{Redis, unused_port};

const SOON: Duration = Duration::from_secs(20);
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);

async fn lazy(url: impl Into<String>) -> Client {
    Client::builder().url(url).lazy().connect().await.unwrap()
}

#[tokio::test]
async fn a_lazy_client_waits_for_its_server_at_its_first_use() {
    let mut server = Redis::start();
    server.stop();
    let client = lazy(server.url()).await;
    let refused = client.lock("a").try_acquire().await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    let port = server.port.to_string();
    assert!(refused.node().is_some_and(|node| node.contains(&port)), "{refused}");
    let lock = client.lock("a").wait(SOON);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    server.start_again();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn an_unused_client_sends_nothing_not_even_when_it_closes() {
    let server = Redis::start();
    let clients = || {
        let mut connection = server.connection();
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
        // Does not count the connection of this command.
        list.lines().count() - 1
    };
    let (used, unused) = (lazy(server.url()).await, lazy(server.url()).await);
    unused.close().await;
    let refused = unused.lock("a").try_acquire().await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    assert_eq!(clients(), 0);
    assert!(!used.lock("a").is_locked().await.unwrap());
    assert!(clients() > 0);
}

#[tokio::test]
async fn a_permanent_connect_error_is_reported_at_once_at_each_use() {
    let server = Redis::start_with(&[], Some("right"));
    let client = lazy(format!("redis://:wrong@127.0.0.1:{}", server.port)).await;
    for _ in 0..3 {
        let lock = client.lock("a");
        let refused = tokio::time::timeout(REFUSAL_LIMIT, lock.acquire())
            .await
            .expect("at once");
        let refused = refused.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
        assert!(refused.message().contains("password"), "{refused}");
    }
}

#[tokio::test]
async fn an_invalid_url_is_refused_before_any_use() {
    let refused = Client::builder().url("redis//host").lazy().connect().await.map(drop);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn blocking_clients_can_be_lazy_too() {
    let server = Redis::start();
    let client = blocking::Client::builder().url(server.url()).lazy();
    let client = client.connect_blocking().unwrap();
    client.lock("a").acquire().unwrap().release().unwrap();
    // A client that is never used needs no server.
    let nowhere = format!("redis://127.0.0.1:{}", unused_port());
    drop(
        blocking::Client::builder()
            .url(nowhere)
            .lazy()
            .connect_blocking()
            .unwrap(),
    );
}

#[tokio::test]
async fn a_majority_of_primaries_may_start_later() {
    let mut primaries: Vec<Redis> = (0..3).map(|_| Redis::start()).collect();
    primaries.iter_mut().for_each(Redis::stop);
    let urls = primaries.iter().map(Redis::url);
    let client = Client::builder().primaries(urls).lazy().connect().await.unwrap();
    let refused = client.lock("a").try_acquire().await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    let waiters = (0..3).map(|_| {
        let lock = client.lock("a").wait(SOON);
        async move { lock.acquire().await?.release().await }
    });
    let waiters = tokio::spawn(join_all(waiters));
    primaries[1..].iter_mut().for_each(Redis::start_again);
    for released in waiters.await.unwrap() {
        released.unwrap();
    }
}

/// Lets eight callers attempt to acquire one lock at once, and checks that exactly one is granted it. The client must
/// not have been used before.
async fn check_one_of_eight_is_granted(client: &Client) {
    let attempts = join_all((0..8).map(|_| {
        let lock = client.lock("a");
        async move { lock.try_acquire().await }
    }));
    let results: Result<Vec<_>, _> = attempts.await.into_iter().collect();
    let leases: Vec<_> = results.unwrap().into_iter().flatten().collect();
    assert_eq!(leases.len(), 1);
    for lease in leases {
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn callers_at_its_first_use_wait_for_the_connection() {
    let server = Redis::start();
    for _ in 0..20 {
        let client = lazy(server.url()).await;
        check_one_of_eight_is_granted(&client).await;
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_of_several_threads_at_its_first_use_wait_for_the_connection() {
    let server = Redis::start();
    for _ in 0..20 {
        let client = lazy(server.url()).await;
        let attempts = (0..8).map(|turn: u64| {
            // Some of the callers do not wait, and the others wait for at most 3 ms.
            let lock = client.lock("a").wait(Duration::from_millis(turn / 2));
            tokio::spawn(async move { lock.acquire().await })
        });
        for result in join_all(attempts).await {
            match result.unwrap() {
                Ok(lease) => drop(lease.release().await.unwrap()),
                Err(refused) => assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}"),
            }
        }
        client.close().await;
    }
}
